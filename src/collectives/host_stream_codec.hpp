// SPDX-License-Identifier: Apache-2.0
//
// The host codec on the streams of transport/host_stream_device.hpp.

#pragma once

#include <memory>

#include "collectives/stream_codec.hpp"
#include "transport/host_stream_device.hpp"

namespace zipccl::collectives {

/// `device` must outlive what is queued on its streams.
[[nodiscard]] std::unique_ptr<StreamCodec> makeHostStreamCodec(transport::HostStreamDevice& device);

}  // namespace zipccl::collectives
