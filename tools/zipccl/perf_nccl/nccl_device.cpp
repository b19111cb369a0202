// SPDX-License-Identifier: Apache-2.0
//
// Which devices, and those that are none: the host's memory.

#include "perf_nccl/nccl_device.hpp"

#include <chrono>
#include <thread>

#include "perf/host_memory.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf_nccl {
namespace {

/// Functions of an NCCL whose streams take work of the host.
struct HostStreams {
  explicit HostStreams(const NcclLibrary& library) {
    const auto take = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.find(name));
    };
    take(setDevice, "fakeSetDevice");
    take(deviceCount, "fakeDeviceCount");
    take(create, "fakeStreamCreate");
    take(destroy, "fakeStreamDestroy");
    take(isIdle, "fakeStreamIsIdle");
  }

  [[nodiscard]] bool arePresent() const noexcept {
    return setDevice != nullptr && create != nullptr && destroy != nullptr && isIdle != nullptr;
  }

  void (*setDevice)(int device) = nullptr;
  int (*deviceCount)() = nullptr;  ///< 0: as many as are wanted, each for any number of ranks
  void* (*create)() = nullptr;
  void (*destroy)(void* stream) = nullptr;
  int (*isIdle)(void* stream) = nullptr;
};

class HostStreamDevice final : public perf::InHostMemory<NcclDevice> {
 public:
  HostStreamDevice(const HostStreams& streams, int number) : streams_(streams) {
    streams_.setDevice(number);
    stream_ = streams_.create();
  }
  ~HostStreamDevice() override { streams_.destroy(stream_); }

  [[nodiscard]] void* stream() const noexcept override { return stream_; }

  [[nodiscard]] std::int64_t timeNs(const std::function<void()>& call) override {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    call();
    Clock::time_point watched = start;
    while (streams_.isIdle(stream_) == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      if (Clock::now() - watched < std::chrono::milliseconds(100)) continue;
      watched = Clock::now();
      watch();
    }
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count();
  }

 private:
  HostStreams streams_;
  void* stream_ = nullptr;
};

}  // namespace

NcclDevices findDevices(const NcclLibrary& library) {
  constexpr int kOfTests = 2;
  if (const HostStreams streams(library); streams.arePresent()) {
    const int fixed = streams.deviceCount == nullptr ? 0 : streams.deviceCount();
    const bool isShared = fixed == 0;
    return {isShared ? kOfTests : fixed, "host memory, for tests", isShared};
  }
  return findCudaDevices();
}

std::unique_ptr<NcclDevice> openDevice(const NcclLibrary& library, int number) {
  const HostStreams streams(library);
  if (streams.arePresent()) return std::make_unique<HostStreamDevice>(streams, number);
  return openCudaDevice(number);
}

}  // namespace zipccl::tools::perf_nccl
