// SPDX-License-Identifier: Apache-2.0
//
// A plugin whose MPI is not installed.

#include "transport/mpi/mpi_functions.hpp"

extern "C" int zipcclAbsentMpi();

extern "C" __attribute__((visibility("default"))) const ZipcclMpiFunctions* zipcclMpiFunctions() {
  zipcclAbsentMpi();
  return nullptr;
}
