// SPDX-License-Identifier: Apache-2.0
//
// What a comparison found, in one word that is zero at first, so that many may write to it: the
// largest is of the first byte that differs.

#pragma once

#include <cstdint>

#include "base/host_device.hpp"

namespace zipccl {

ZIPCCL_HOST_DEVICE constexpr std::uint64_t verdictOf(std::uint64_t wrongByte) noexcept {
  return ~wrongByte;
}

/// Of a verdict that is not zero.
ZIPCCL_HOST_DEVICE constexpr std::uint64_t wrongByteOf(std::uint64_t verdict) noexcept {
  return ~verdict;
}

}  // namespace zipccl
