// SPDX-License-Identifier: Apache-2.0
//
// A GPU as the transports see it. Only in builds with CUDA.

#pragma once

#include <memory>

#include "transport/device.hpp"

namespace zipccl::transport {

/// The CUDA device of that number. Throws Error(kUnhandledCudaError) where there is none.
[[nodiscard]] std::unique_ptr<Device> openCudaDevice(int number);

}  // namespace zipccl::transport
