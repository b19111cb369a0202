// SPDX-License-Identifier: Apache-2.0
//
// Buffers of calls in the memory of the host.

#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>

#include "perf/rank_device.hpp"

namespace zipccl::tools::perf {

/// The part of a RankDevice, or of a class derived from it, that has to do with its memory.
template <class Device>
class InHostMemory : public Device {
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
  void copyIn(std::span<std::byte> to, std::span<const std::byte> from) override { copy(to, from); }
  void copyOut(std::span<std::byte> to, std::span<const std::byte> from) override {
    copy(to, from);
  }

 private:
  static constexpr std::align_val_t kAlignment{HostBuffer::kAlignment};
};

}  // namespace zipccl::tools::perf
