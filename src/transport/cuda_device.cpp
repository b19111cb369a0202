// SPDX-License-Identifier: Apache-2.0
//
// The CUDA device. Handles are made and ended one by one here, since the interface gives them out;
// the owners in transport/device.hpp hold them.

#include "transport/cuda_device.hpp"

#include <cuda_runtime_api.h>

#include <cstring>

#include "base/error.hpp"
#include "gpu/cuda_check.hpp"

namespace zipccl::transport {
namespace {

using gpu::check;

cudaStream_t cudaStream(StreamHandle stream) { return static_cast<cudaStream_t>(stream.native); }
cudaEvent_t cudaEvent(EventHandle event) { return static_cast<cudaEvent_t>(event.native); }

/// Throws as check() does, and clears the error, for which the next launch would be blamed.
void checkMemory(cudaError_t status, const char* what, std::uint64_t bytes) {
  if (status == cudaSuccess) return;
  static_cast<void>(cudaGetLastError());
  check(status, concat("allocating ", bytes, " bytes of ", what).c_str());
}

/// While a graph is being captured by another thread, what waits for the device would fail that
/// capture in its strictest mode, unless this thread says that it is no part of it.
class RelaxedCapture {
 public:
  RelaxedCapture() { check(cudaThreadExchangeStreamCaptureMode(&mode_), "entering a mode"); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;
  ~RelaxedCapture() { static_cast<void>(cudaThreadExchangeStreamCaptureMode(&mode_)); }

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int number) : number_(number) {
    int count = 0;
    check(cudaGetDeviceCount(&count), "counting devices");
    expects(number >= 0 && number < count, ErrorCode::kUnhandledCudaError, "there is no device ",
            number, " among ", count);
  }

  [[nodiscard]] int enter() const override {
    int previous = 0;
    check(cudaGetDevice(&previous), "asking for the current device");
    if (previous != number_) check(cudaSetDevice(number_), "changing the device");
    return previous;
  }

  void leave(int previous) const noexcept override {
    if (previous != number_) static_cast<void>(cudaSetDevice(previous));
  }

  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) override {
    const RelaxedCapture relaxed;
    void* memory = nullptr;
    checkMemory(cudaMalloc(&memory, bytes), "device memory", bytes);
    return static_cast<std::byte*>(memory);
  }

  void release(std::byte* memory) noexcept override { static_cast<void>(cudaFree(memory)); }

  [[nodiscard]] std::byte* allocateShared(std::uint64_t bytes) override {
    const RelaxedCapture relaxed;
    void* memory = nullptr;
    checkMemory(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
                "host memory", bytes);
    std::memset(memory, 0, bytes);
    return static_cast<std::byte*>(memory);
  }

  void releaseShared(std::byte* memory) noexcept override {
    static_cast<void>(cudaFreeHost(memory));
  }

  [[nodiscard]] StreamHandle createStream() override {
    const RelaxedCapture relaxed;
    int least = 0;
    int greatest = 0;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities");
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest),
          "creating a stream");
    return {stream};
  }

  void destroyStream(StreamHandle stream) noexcept override {
    static_cast<void>(cudaStreamDestroy(cudaStream(stream)));
  }

  [[nodiscard]] EventHandle createEvent() override {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
    return {event};
  }

  void destroyEvent(EventHandle event) noexcept override {
    static_cast<void>(cudaEventDestroy(cudaEvent(event)));
  }

  void record(EventHandle event, StreamHandle stream) override {
    check(cudaEventRecord(cudaEvent(event), cudaStream(stream)), "recording an event");
  }

  void wait(StreamHandle stream, EventHandle event) override {
    check(cudaStreamWaitEvent(cudaStream(stream), cudaEvent(event), 0), "waiting for an event");
  }

  [[nodiscard]] bool isReached(EventHandle event) override {
    const RelaxedCapture relaxed;
    const cudaError_t status = cudaEventQuery(cudaEvent(event));
    if (status == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    check(status, "asking for an event");
    return true;
  }

  void copy(void* to, const void* from, std::uint64_t bytes, StreamHandle stream) override {
    if (bytes == 0) return;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, cudaStream(stream)), "copying");
  }

  [[nodiscard]] bool isCapturing(StreamHandle stream) override {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(cudaStream(stream), &status) != cudaSuccess) {
      // The legacy stream while another one is captured: what comes next would fail too.
      static_cast<void>(cudaGetLastError());
      return true;
    }
    return status != cudaStreamCaptureStatusNone;
  }

 private:
  int number_;
};

}  // namespace

std::unique_ptr<Device> openCudaDevice(int number) { return std::make_unique<CudaDevice>(number); }

}  // namespace zipccl::transport
