// SPDX-License-Identifier: Apache-2.0
//
// The comparison on the GPU: wherever buffers stand and however long they are, the first byte that
// differs is the one that is told.

#include "gpu/compare.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/verdict.hpp"
#include "gpu/gpu_testing.hpp"

namespace zipccl::gpu::testing {
namespace {

class GpuComparison : public DeviceTest {
 protected:
  /// The first byte that differs, as the GPU finds it in buffers that stand so far off.
  std::optional<std::uint64_t> compare(const Bytes& expected, std::size_t expectedOff,
                                       const Bytes& found, std::size_t foundOff) {
    const GuardedDeviceBuffer a(stream(), expected, expectedOff);
    const GuardedDeviceBuffer b(stream(), found, foundOff);
    const DeviceWord<std::uint64_t> verdict(stream(), 0);
    compareBytes(a.data(), b.data(), expected.size(), verdict.get(), stream().get());
    const std::uint64_t word = verdict.value();
    EXPECT_TRUE(a.isIntact() && b.isIntact() && verdict.isIntact());
    if (word == 0) return std::nullopt;
    return wrongByteOf(word);
  }

  Bytes randomBytes(std::size_t bytes) {
    Bytes content(bytes);
    for (std::byte& each : content) each = static_cast<std::byte>(random_());
    return content;
  }
};

TEST_F(GpuComparison, TellsTheFirstByteThatDiffers) {
  const int repeats = usesExactBuffers() ? 20 : 300;
  for (int repeat = 0; repeat < repeats && !HasFailure(); ++repeat) {
    const std::size_t most = repeat % 10 == 9 ? 9'000'000 : 5000;
    const std::size_t bytes = repeat < 40 ? static_cast<std::size_t>(repeat)
                                          : static_cast<std::size_t>(random_.below(most));
    const auto expectedOff = static_cast<std::size_t>(random_.below(32));
    const auto foundOff =
        random_.below(2) == 0 ? expectedOff : static_cast<std::size_t>(random_.below(32));
    SCOPED_TRACE(::testing::Message()
                 << bytes << " bytes, off by " << expectedOff << " and " << foundOff);
    const Bytes expected = randomBytes(bytes);
    Bytes found = expected;
    EXPECT_EQ(compare(expected, expectedOff, found, foundOff), std::nullopt);
    if (bytes == 0) continue;
    std::uint64_t first = bytes;
    const std::uint64_t faults = 1 + random_.below(3);
    for (std::uint64_t i = 0; i < faults; ++i) {
      const std::uint64_t at = i == 0 && repeat % 3 == 0 ? bytes - 1 : random_.below(bytes);
      found[at] = expected[at] ^ static_cast<std::byte>(1U << random_.below(8));
      first = std::min(first, at);
    }
    EXPECT_EQ(compare(expected, expectedOff, found, foundOff), first);
  }
}

}  // namespace
}  // namespace zipccl::gpu::testing
