// SPDX-License-Identifier: Apache-2.0
//
// The GPU codec on CUDA's streams. Only in builds with CUDA.

#pragma once

#include <memory>

#include "collectives/stream_codec.hpp"
#include "transport/device.hpp"

namespace zipccl::collectives {

/// A codec on `device`, a CUDA device, which must outlive it and be current here and at its end.
[[nodiscard]] std::unique_ptr<StreamCodec> makeGpuStreamCodec(transport::Device& device);

}  // namespace zipccl::collectives
