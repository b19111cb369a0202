// SPDX-License-Identifier: Apache-2.0
//
// Whether what arrived is what was sent, bit for bit.

#include "perf/check.hpp"

#include <algorithm>
#include <cstring>

namespace zipccl::tools::perf {

void poison(std::span<std::byte> output, std::span<const std::byte> expected) noexcept {
  std::transform(expected.begin(), expected.end(), output.begin(),
                 [](std::byte byte) { return ~byte; });
}

std::uint64_t wrongElements(std::span<const std::byte> actual, std::span<const std::byte> expected,
                            std::size_t elementBytes) noexcept {
  if (actual.empty() || std::memcmp(actual.data(), expected.data(), actual.size()) == 0) return 0;
  std::uint64_t wrong = 0;
  for (std::size_t begin = 0; begin < actual.size(); begin += elementBytes) {
    const bool isEqual =
        std::memcmp(actual.data() + begin, expected.data() + begin, elementBytes) == 0;
    wrong += isEqual ? 0 : 1;
  }
  return wrong;
}

}  // namespace zipccl::tools::perf
