// SPDX-License-Identifier: Apache-2.0
//
// Memory and clock of the host.

#include <algorithm>
#include <chrono>
#include <new>

#include "perf/rank_device.hpp"

namespace zipccl::tools::perf {
namespace {

constexpr std::align_val_t kAlignment{HostBuffer::kAlignment};

class HostDevice final : public RankDevice {
 public:
  [[nodiscard]] std::byte* allocate(std::size_t bytes) override {
    return static_cast<std::byte*>(::operator new(bytes, kAlignment));
  }
  void release(std::byte* memory) noexcept override { ::operator delete(memory, kAlignment); }

  void fill(std::span<std::byte> to, std::byte value) override {
    std::fill(to.begin(), to.end(), value);
  }
  void copy(std::span<std::byte> to, std::span<const std::byte> from) override {
    if (to.data() != from.data()) std::copy(from.begin(), from.end(), to.begin());
  }
  [[nodiscard]] std::span<std::byte> hostSpan(std::span<std::byte> memory,
                                              HostBuffer& /*staging*/) override {
    return memory;
  }
  void copyIn(std::span<std::byte> to, std::span<const std::byte> from) override { copy(to, from); }
  void copyOut(std::span<std::byte> to, std::span<const std::byte> from) override {
    copy(to, from);
  }

  [[nodiscard]] std::int64_t timeNs(const std::function<void()>& call) override {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    call();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  }
};

}  // namespace

std::unique_ptr<RankDevice> makeHostDevice() { return std::make_unique<HostDevice>(); }

}  // namespace zipccl::tools::perf
