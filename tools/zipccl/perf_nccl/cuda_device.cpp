// SPDX-License-Identifier: Apache-2.0
//
// GPUs: memory of the device, and events on the stream of the calls.

#include <chrono>
#include <optional>
#include <thread>

#include "perf_codec/cuda.hpp"
#include "perf_codec/gpu_machine.hpp"
#include "perf_nccl/nccl_device.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf_nccl {
namespace {

using perf_codec::check;

class CudaDevice final : public NcclDevice {
 public:
  /// The device must be current.
  explicit CudaDevice(int number) : number_(number) {}

  [[nodiscard]] void* stream() const noexcept override { return stream_.get(); }

  [[nodiscard]] std::byte* allocate(std::size_t bytes) override {
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status != cudaSuccess) static_cast<void>(cudaGetLastError());
    check(status, ("allocating " + std::to_string(bytes) + " bytes of device memory").c_str());
    return static_cast<std::byte*>(memory);
  }
  void release(std::byte* memory) noexcept override {
    static_cast<void>(cudaSetDevice(number_));
    static_cast<void>(cudaFree(memory));
  }

  void fill(std::span<std::byte> to, std::byte value) override {
    check(cudaMemsetAsync(to.data(), static_cast<int>(value), to.size(), stream_.get()),
          "filling device memory");
    stream_.synchronize();
  }
  void copy(std::span<std::byte> to, std::span<const std::byte> from) override {
    copyAs(to, from, cudaMemcpyDeviceToDevice);
  }
  void copyIn(std::span<std::byte> to, std::span<const std::byte> from) override {
    copyAs(to, from, cudaMemcpyHostToDevice);
  }
  void copyOut(std::span<std::byte> to, std::span<const std::byte> from) override {
    copyAs(to, from, cudaMemcpyDeviceToHost);
  }

  [[nodiscard]] std::int64_t timeNs(const std::function<void()>& call) override {
    start_.record(stream_.get());
    call();
    end_.record(stream_.get());
    await();
    return static_cast<std::int64_t>(1000.0 * end_.elapsedUsSince(start_));
  }

  /// As a program's allocator does: this waits for the device.
  void disturb() override {
    constexpr std::size_t kBytes = std::size_t{1} << 20;
    release(allocate(kBytes));
  }

 private:
  void copyAs(std::span<std::byte> to, std::span<const std::byte> from, cudaMemcpyKind kind) {
    if (from.empty()) return;
    check(cudaMemcpyAsync(to.data(), from.data(), from.size(), kind, stream_.get()),
          "copying to, from or in device memory");
    stream_.synchronize();
  }

  /// Until the end of the call, which never comes where another rank has left.
  void await() const {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point start = Clock::now();
    Clock::time_point watched = start;
    for (;;) {
      if (end_.isReached()) return;
      const Clock::time_point now = Clock::now();
      // The time is the device's own: this thread need not be quick.
      if (now - start > std::chrono::milliseconds(1)) {
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      }
      if (now - watched < std::chrono::milliseconds(100)) continue;
      watched = now;
      watch();
    }
  }

  int number_;
  perf_codec::Stream stream_;
  perf_codec::Event start_;
  perf_codec::Event end_;
};

}  // namespace

NcclDevices findCudaDevices() {
  const perf_codec::GpuSearch search = perf_codec::findGpu();
  if (!search.machine) throw Failure("no GPU: " + search.whyNot);
  int count = 0;
  check(cudaGetDeviceCount(&count), "counting devices");
  return {count, search.machine->name};
}

std::unique_ptr<NcclDevice> openCudaDevice(int number) {
  check(cudaSetDevice(number), ("choosing device " + std::to_string(number)).c_str());
  return std::make_unique<CudaDevice>(number);
}

}  // namespace zipccl::tools::perf_nccl
