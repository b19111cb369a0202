# SPDX-License-Identifier: Apache-2.0
#
# Tests whose ranks are processes.

# zipccl_add_mpi_test(NAME <name> SOURCES <file>... [RANKS <count>] [LIBS <target>...] [LABELS <label>...]
#                     [TIMEOUT <seconds>] [ENVIRONMENT <variable>=<value>...] [ARGUMENTS <argument>...])
#
# Adds a GoogleTest program with the main() of the target zipccl_mpi_test_main, and one ctest test that runs
# it by mpirun on RANKS ranks, 4 unless said otherwise, with the label mpi. Where the build has no MPI, or
# no mpirun is found, that test is there all the same and counts as skipped.
function(zipccl_add_mpi_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;RANKS;TIMEOUT" "SOURCES;LIBS;LABELS;ENVIRONMENT;ARGUMENTS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME OR NOT arg_SOURCES)
    message(FATAL_ERROR "zipccl_add_mpi_test: bad arguments: ${ARGV}")
  endif()
  if(NOT arg_RANKS)
    set(arg_RANKS 4)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 180)
  endif()

  add_executable(${arg_NAME} ${arg_SOURCES})
  target_link_libraries(${arg_NAME} PRIVATE zipccl_build_options zipccl_mpi_test_main ${arg_LIBS})
  if(NOT ZIPCCL_HAS_MPI)
    set_target_properties(${arg_NAME} PROPERTIES EXCLUDE_FROM_ALL ON)
  endif()
  zipccl_add_mpirun_test(
    NAME ${arg_NAME}
    RANKS ${arg_RANKS}
    COMMAND $<TARGET_FILE:${arg_NAME}> ${arg_ARGUMENTS}
    LABELS ${arg_LABELS}
    TIMEOUT ${arg_TIMEOUT}
    ENVIRONMENT ${arg_ENVIRONMENT})
endfunction()

# zipccl_mpirun_command(<variable> <rank count>): the start of a command line that runs a program on so
# many ranks of this machine, for any user and any number of cores. Empty where there is no mpirun.
function(zipccl_mpirun_command variable rankCount)
  set(${variable} "" PARENT_SCOPE)
  if(ZIPCCL_HAS_MPI AND MPIEXEC_EXECUTABLE)
    set(${variable}
        "${MPIEXEC_EXECUTABLE}" --allow-run-as-root --oversubscribe --mca btl self,vader
        --mca mpi_yield_when_idle 1 -np ${rankCount}
        PARENT_SCOPE)
  endif()
endfunction()

# zipccl_add_mpirun_test(NAME <name> RANKS <count> COMMAND <program> [<argument>...] [LABELS <label>...]
#                        [TIMEOUT <seconds>] [ENVIRONMENT <variable>=<value>...])
#
# As above for any program.
function(zipccl_add_mpirun_test)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;RANKS;TIMEOUT" "COMMAND;LABELS;ENVIRONMENT")
  zipccl_mpirun_command(mpirun ${arg_RANKS})
  if(mpirun)
    add_test(NAME ${arg_NAME} COMMAND ${mpirun} ${arg_COMMAND})
  else()
    add_test(NAME ${arg_NAME} COMMAND "${CMAKE_COMMAND}" -E echo "skipped: this build has no mpirun")
    set_tests_properties(${arg_NAME} PROPERTIES SKIP_REGULAR_EXPRESSION "skipped: this build has no mpirun")
  endif()
  set_tests_properties(
    ${arg_NAME}
    PROPERTIES LABELS "mpi;${arg_LABELS}"
               TIMEOUT ${arg_TIMEOUT}
               PROCESSORS 2 # ranks that wait give their cores away
               ENVIRONMENT "ZIPCCL_PLUGIN_DIR=${CMAKE_LIBRARY_OUTPUT_DIRECTORY};${arg_ENVIRONMENT}")
endfunction()
