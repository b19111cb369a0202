// SPDX-License-Identifier: Apache-2.0
//
// The calls of the C API that concern the library itself: its version and the names of its values.

#include <zipccl/zipccl.h>

#include "base/error.hpp"
#include "capi/comm.hpp"

zipcclResult_t zipcclGetVersion(int* version) {
  return zipccl::capi::guarded(__func__, nullptr, [&] {
    zipccl::expects(version != nullptr, "version is NULL");
    *version = ZIPCCL_VERSION_CODE;
  });
}

const char* zipcclGetErrorString(zipcclResult_t result) {
  switch (result) {
    case zipcclSuccess:
      return "no error";
    case zipcclUnhandledCudaError:
      return "unhandled cuda error";
    case zipcclSystemError:
      return "unhandled system error";
    case zipcclInternalError:
      return "internal error";
    case zipcclInvalidArgument:
      return "invalid argument";
    case zipcclInvalidUsage:
      return "invalid usage";
    case zipcclRemoteError:
      return "remote process exited or there was a network error";
    case zipcclInProgress:
      return "operation in progress";
    case zipcclNumResults:
      break;
  }
  return "unknown result code";
}

const char* zipcclGetStrategyName(zipcclStrategy_t strategy) {
  switch (strategy) {
    case zipcclStrategyAuto:
      return "auto";
    case zipcclStrategyNative:
      return "native";
    case zipcclStrategyStaged:
      return "staged";
    case zipcclNumStrategies:
      break;
  }
  return "unknown";
}
