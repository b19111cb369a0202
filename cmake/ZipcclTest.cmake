# SPDX-License-Identifier: Apache-2.0
#
# Helpers for the folders under tests/.

if(NOT ZIPCCL_TESTS)
  return()
endif()

find_package(GTest REQUIRED)
find_package(Python3 3.9 REQUIRED COMPONENTS Interpreter)
include(GoogleTest)

# Most of a test's compile time goes into GoogleTest's header, so it is compiled once for all of them; by a
# program, since libraries are compiled for position independence of another kind.
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/test_header.cpp" CONTENT "int main() {}\n")
add_executable(zipccl_test_header "${PROJECT_BINARY_DIR}/test_header.cpp")
target_link_libraries(zipccl_test_header PRIVATE zipccl_build_options GTest::gtest)
target_compile_options(zipccl_test_header PRIVATE ${ZIPCCL_TEST_COMPILE_OPTIONS})
target_precompile_headers(zipccl_test_header PRIVATE <gtest/gtest.h>)

# The programs of tests that the thread sanitizer watches: those with the label threads.
add_custom_target(zipccl_threads_tests)
# Those that the address sanitizer of .ci/run watches: with the label memory.
add_custom_target(zipccl_memory_tests)

# zipccl_add_test(NAME <name> SOURCES <file>... LABELS <label>...
#                 [LIBS <target>...] [TIMEOUT <seconds>] [ARGUMENTS <argument>...])
#
# Adds a GoogleTest program and one ctest test for each of its cases, so that ctest counts what was skipped.
# Every test carries the labels, of which docs/architecture.md has the list.
#
# The sources may be compiled as one, so names in their unnamed namespaces must differ; a source whose names do not has
# the property SKIP_UNITY_BUILD_INCLUSION.
function(zipccl_add_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;TIMEOUT" "SOURCES;LABELS;LIBS;ARGUMENTS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES OR NOT arg_LABELS)
    message(FATAL_ERROR "zipccl_add_test: bad arguments: ${ARGV}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()

  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE zipccl_build_options ${arg_LIBS} GTest::gtest GTest::gtest_main)
  target_compile_options(${arg_NAME} PRIVATE ${ZIPCCL_TEST_COMPILE_OPTIONS})
  target_precompile_headers(${arg_NAME} REUSE_FROM zipccl_test_header)
  if(ZIPCCL_UNITY_PROGRAMS)
    set_target_properties(${arg_NAME} PROPERTIES UNITY_BUILD ON)
  endif()
  if("threads" IN_LIST arg_LABELS)
    add_dependencies(zipccl_threads_tests ${arg_NAME})
  endif()
  if("memory" IN_LIST arg_LABELS)
    add_dependencies(zipccl_memory_tests ${arg_NAME})
  endif()
  list(FILTER arg_SOURCES INCLUDE REGEX "\\.c$")
  set_source_files_properties(${arg_SOURCES} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  gtest_discover_tests(
    ${arg_NAME}
    DISCOVERY_MODE PRE_TEST
    DISCOVERY_TIMEOUT 60
    TEST_PREFIX "${arg_NAME}."
    EXTRA_ARGS ${arg_ARGUMENTS}
    PROPERTIES TIMEOUT ${arg_TIMEOUT})

  # A list of labels does not survive gtest_discover_tests, so ctest sets it once it knows the cases.
  set(script "${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}_labels.cmake")
  file(
    WRITE "${script}"
    "if(${arg_NAME}_TESTS)\n"
    "  set_tests_properties(\${${arg_NAME}_TESTS} PROPERTIES LABELS \"${arg_LABELS}\")\n"
    "endif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${script}")
endfunction()

# zipccl_add_python_test(NAME <name> SCRIPT <file> LABELS <label>...
#                        [ARGUMENTS <argument>...] [TIMEOUT <seconds>])
#
# Adds a Python program (standard library only) as one ctest test; its exit status judges.
function(zipccl_add_python_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;SCRIPT;TIMEOUT" "LABELS;ARGUMENTS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SCRIPT OR NOT arg_LABELS)
    message(FATAL_ERROR "zipccl_add_python_test: bad arguments: ${ARGV}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)
  endif()
  cmake_path(ABSOLUTE_PATH arg_SCRIPT BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
  # -B: no __pycache__ in the source tree.
  add_test(NAME ${arg_NAME} COMMAND Python3::Interpreter -B "${arg_SCRIPT}" ${arg_ARGUMENTS}
           COMMAND_EXPAND_LISTS)
  set_tests_properties(${arg_NAME} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()
