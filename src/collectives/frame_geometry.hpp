// SPDX-License-Identifier: Apache-2.0
//
// The format's sizes in the form in which the policy takes them.

#pragma once

#include "policy/facts.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::collectives {

/// Sizes of `datatype`'s frames. For every count, layout and pool the policy's bounds hold:
/// frameBoundBytes() >= codec::maxFrameBytes() rounded up to 128, staticBoundBytes() >=
/// codec::staticBytes().
[[nodiscard]] policy::FrameGeometry frameGeometry(codec::Datatype datatype) noexcept;

}  // namespace zipccl::collectives
