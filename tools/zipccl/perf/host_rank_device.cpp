// SPDX-License-Identifier: Apache-2.0
//
// Memory and clock of the host.

#include <chrono>

#include "perf/host_memory.hpp"

namespace zipccl::tools::perf {
namespace {

class HostDevice final : public InHostMemory<RankDevice> {
 public:
  [[nodiscard]] std::span<std::byte> hostSpan(std::span<std::byte> memory,
                                              HostBuffer& /*staging*/) override {
    return memory;
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
