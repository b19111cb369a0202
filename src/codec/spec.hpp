// SPDX-License-Identifier: Apache-2.0
//
// What makes a FrameSpec a valid one, for the functions that throw when it is not.

#pragma once

#include "codec/layout.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::codec {

/// Whether frames of this datatype may have this layout, both being named by the format.
[[nodiscard]] bool isValidLayout(Datatype datatype, Layout layout) noexcept;

/// Whether `poolBytes` may be the pool size of a frame with this layout.
[[nodiscard]] bool isValidPool(const FrameLayout& layout, std::uint64_t poolBytes) noexcept;

/// The layout of a frame that `spec` describes. Throws Error(kInvalidArgument) when `spec` is not
/// valid.
[[nodiscard]] FrameLayout checkedLayout(const FrameSpec& spec);

}  // namespace zipccl::codec
