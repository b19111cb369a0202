// SPDX-License-Identifier: Apache-2.0
//
// The format's sizes in the form in which the policy takes them.

#pragma once

#include <cstdint>

#include "policy/facts.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::collectives {

/// What the slots of frames that lie beside each other in scratch memory are rounded to.
constexpr std::uint64_t kSlotAlignment = 128;

/// Sizes of `datatype`'s frames. For every count, layout and pool the policy's bounds hold:
/// frameBoundBytes() >= codec::maxFrameBytes() rounded up to kSlotAlignment,
/// staticBoundBytes() >= codec::staticBytes().
[[nodiscard]] policy::FrameGeometry frameGeometry(codec::Datatype datatype) noexcept;

}  // namespace zipccl::collectives
