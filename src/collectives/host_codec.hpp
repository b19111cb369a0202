// SPDX-License-Identifier: Apache-2.0
//
// The host codec behind the collectives' interface: everything is done when a call returns.

#pragma once

#include <memory>

#include "collectives/frame_codec.hpp"

namespace zipccl::collectives {

/// A codec for host memory. It keeps no state but serves one communicator at a time.
[[nodiscard]] std::unique_ptr<FrameCodec> makeHostCodec();

}  // namespace zipccl::collectives
