// SPDX-License-Identifier: Apache-2.0
//
// A seal for headers, for host and device: a hash of the header's bytes that stands in its last
// application word. Who makes frames for others to rely on writes it; the codec does not read it.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "base/random.hpp"
#include "codec/layout.hpp"

namespace zipccl::codec {

inline constexpr std::size_t kHeaderWords = kHeaderBytes / sizeof(std::uint64_t);
/// The first of the application words, and the one with the seal.
inline constexpr std::size_t kApplicationWord =
    offsetof(HeaderBytes, application) / sizeof(std::uint64_t);
inline constexpr std::size_t kSealWord = kApplicationWord + 3;

/// The seal of a header of these words, whatever its seal is.
ZIPCCL_HOST_DEVICE constexpr std::uint64_t sealOf(const std::uint64_t* headerWords) noexcept {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < kHeaderWords; ++i) {
    std::uint64_t state = hash ^ (i == kSealWord ? 0 : headerWords[i]);
    hash = splitMix64(state);
  }
  return hash;
}

}  // namespace zipccl::codec
