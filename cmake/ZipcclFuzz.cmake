# SPDX-License-Identifier: Apache-2.0
#
# Fuzz targets: programs with LLVMFuzzerTestOneInput.

# zipccl_add_fuzz_target(NAME <name> SOURCES <file>... CORPUS <folder>... [LIBS <target>...])
#
# In a build with -fsanitize=fuzzer-no-link (the fuzz preset) a program with libFuzzer. In every other build
# one that reads files instead, and a ctest test that hands it each file of the corpus, so that what the
# fuzzer once found stays found wherever the tests run. The folders stand in <build>/fuzz_targets/<name>, for
# scripts/fuzz.sh; the target zipccl_fuzz_targets builds all programs.
add_custom_target(zipccl_fuzz_targets)

function(zipccl_add_fuzz_target)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME" "SOURCES;CORPUS;LIBS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES OR NOT arg_CORPUS)
    message(FATAL_ERROR "zipccl_add_fuzz_target: bad arguments: ${ARGV}")
  endif()
  list(TRANSFORM arg_CORPUS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")

  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE zipccl_build_options ${arg_LIBS})
  if(ZIPCCL_SANITIZE MATCHES "fuzzer-no-link")
    target_link_options(${arg_NAME} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${arg_NAME} PROPERTIES ZIPCCL_FUZZER ON)
    set(replay -runs=0)
  else()
    target_link_libraries(${arg_NAME} PRIVATE zipccl_fuzz_replay)
    set(replay "")
  endif()
  add_dependencies(zipccl_fuzz_targets ${arg_NAME})
  list(JOIN arg_CORPUS "\n" folders)
  file(WRITE "${PROJECT_BINARY_DIR}/fuzz_targets/${arg_NAME}" "${folders}\n")
  add_test(NAME ${arg_NAME}.corpus COMMAND ${arg_NAME} ${replay} ${arg_CORPUS})
  set_tests_properties(${arg_NAME}.corpus PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()
