// SPDX-License-Identifier: Apache-2.0
//
// What makes a FrameSpec a valid one, for the functions that throw when it is not.

#pragma once

#include "codec/layout.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::codec {

/// The layout of a frame that `spec` describes. Throws Error(kInvalidArgument) when `spec` is not
/// valid.
[[nodiscard]] FrameLayout checkedLayout(const FrameSpec& spec);

}  // namespace zipccl::codec
