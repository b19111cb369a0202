// SPDX-License-Identifier: Apache-2.0
//
// The devices that calls over NCCL work on: GPUs, or the host's memory with the streams of an NCCL
// that was made for tests.

#pragma once

#include <functional>
#include <memory>
#include <string>

#include "perf/rank_device.hpp"
#include "perf_nccl/nccl_library.hpp"

namespace zipccl::tools::perf_nccl {

/// The device of one rank, current in the thread that made it, with the stream of its calls.
class NcclDevice : public perf::RankDevice {
 public:
  /// A cudaStream_t, or what the NCCL for tests has in its place.
  [[nodiscard]] virtual void* stream() const noexcept = 0;

  /// Nothing is looked at where it is, host memory for tests neither.
  [[nodiscard]] std::span<std::byte> hostSpan(std::span<std::byte> memory,
                                              HostBuffer& staging) final {
    if (staging.bytes().size() < memory.size()) staging = HostBuffer(memory.size());
    return staging.bytes().first(memory.size());
  }

  /// Called now and then while a call is waited for; throws to end that.
  void setWatch(std::function<void()> watch) { watch_ = std::move(watch); }

 protected:
  void watch() const {
    if (watch_) watch_();
  }

 private:
  std::function<void()> watch_;
};

/// How many devices there are, and what they are, such as `NVIDIA H200`. Throws Failure where there
/// is none, or this build has no CUDA.
struct NcclDevices {
  int count = 0;
  std::string name;
  bool isShared = false;  ///< one device may serve several ranks
};
[[nodiscard]] NcclDevices findDevices(const NcclLibrary& library);

/// Makes a device current and opens it. Throws Failure.
[[nodiscard]] std::unique_ptr<NcclDevice> openDevice(const NcclLibrary& library, int number);

/// The parts that need CUDA; without it they throw.
[[nodiscard]] NcclDevices findCudaDevices();
[[nodiscard]] std::unique_ptr<NcclDevice> openCudaDevice(int number);

}  // namespace zipccl::tools::perf_nccl
