// SPDX-License-Identifier: Apache-2.0
//
// A plugin as another version of ZipCCL would bring it: only its version can be read.

#include "transport/mpi/mpi_functions.hpp"

extern "C" __attribute__((visibility("default"))) const ZipcclMpiFunctions* zipcclMpiFunctions() {
  static const ZipcclMpiFunctions functions = [] {
    ZipcclMpiFunctions wrong = {};
    wrong.version = 999;
    wrong.structBytes = 8;
    return wrong;
  }();
  return &functions;
}
