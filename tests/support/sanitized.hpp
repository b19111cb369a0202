// SPDX-License-Identifier: Apache-2.0
//
// Whether this is a build with a sanitizer, in which sweeps take several times as long: those that
// would take a minute then visit a fresh random part of their places instead of all.

#pragma once

#include <cstdint>
#include <vector>

#include "base/random.hpp"

namespace zipccl::testing {

// GCC defines names, Clang has features.
#if defined(__has_feature)
inline constexpr bool kIsThreadSanitized = __has_feature(thread_sanitizer);
inline constexpr bool kIsAddressSanitized = __has_feature(address_sanitizer);
#else
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kIsThreadSanitized = true;
#else
inline constexpr bool kIsThreadSanitized = false;
#endif
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kIsAddressSanitized = true;
#else
inline constexpr bool kIsAddressSanitized = false;
#endif
#endif
inline constexpr bool kIsSanitized = kIsThreadSanitized || kIsAddressSanitized;

/// The distance to the next place of a sweep over all: 1, or with a sanitizer on average `skip`.
[[nodiscard]] inline std::uint64_t sweepStep(Random& random, std::uint64_t skip) {
  return kIsSanitized ? 1 + random.below(2 * skip - 1) : 1;
}

/// Whether to visit a place of a short sweep whose places take long: always, or with a sanitizer
/// one time in `skip`.
[[nodiscard]] inline bool isVisited(Random& random, std::uint64_t skip) {
  return !kIsSanitized || random.below(skip) == 0;
}

/// The numbers of ranks that a test is made for: 1 to 8, or with a sanitizer some of them.
[[nodiscard]] inline std::vector<int> sweptRanks() {
  return kIsSanitized ? std::vector{1, 2, 3, 5} : std::vector{1, 2, 3, 4, 5, 6, 7, 8};
}

}  // namespace zipccl::testing
