// SPDX-License-Identifier: Apache-2.0
//
// Where the buffers of a rank's calls are, and what times the calls: the host's memory and clock,
// or a GPU's.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "support/host_buffer.hpp"

namespace zipccl::tools::perf {

/// One rank's, used by its thread. Everything but the calls is done when a function returns. Throws
/// Failure.
class RankDevice {
 public:
  RankDevice() = default;
  RankDevice(const RankDevice&) = delete;
  RankDevice& operator=(const RankDevice&) = delete;
  virtual ~RankDevice() = default;

  [[nodiscard]] virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory) noexcept = 0;

  virtual void fill(std::span<std::byte> to, std::byte value) = 0;
  /// From one buffer of calls to another.
  virtual void copy(std::span<std::byte> to, std::span<const std::byte> from) = 0;

  /// Memory of the host that stands for `memory`: that itself where the host can reach it, else the
  /// beginning of `staging`, which grows as needed.
  [[nodiscard]] virtual std::span<std::byte> hostSpan(std::span<std::byte> memory,
                                                      HostBuffer& staging) = 0;
  /// Brings a hostSpan(), or any memory of the host, to where calls find it, and back.
  virtual void copyIn(std::span<std::byte> to, std::span<const std::byte> from) = 0;
  virtual void copyOut(std::span<std::byte> to, std::span<const std::byte> from) = 0;

  /// Makes a call. Nanoseconds from its start until it is done, on the device.
  [[nodiscard]] virtual std::int64_t timeNs(const std::function<void()>& call) = 0;

  /// What a program may do at any time while calls are under way.
  virtual void disturb() {}
};

/// A buffer of calls.
class RankBuffer {
 public:
  RankBuffer(RankDevice& device, std::size_t bytes)
      : memory_(bytes == 0 ? nullptr : device.allocate(bytes), Release{&device}), bytes_(bytes) {}

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return {memory_.get(), bytes_}; }

 private:
  struct Release {
    RankDevice* device;
    void operator()(std::byte* memory) const noexcept { device->release(memory); }
  };

  std::unique_ptr<std::byte, Release> memory_;
  std::size_t bytes_;
};

/// The host: calls return when they are done.
[[nodiscard]] std::unique_ptr<RankDevice> makeHostDevice();

}  // namespace zipccl::tools::perf
