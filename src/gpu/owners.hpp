// SPDX-License-Identifier: Apache-2.0
//
// Move-only owners of what CUDA hands out: device memory, streams, events, graphs. A raw handle by
// value is the view. An object whose content was moved away, and a default-constructed buffer, own
// nothing.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "gpu/cuda_check.hpp"

namespace zipccl::gpu {

namespace detail {

/// Ends a handle, whatever CUDA says: at the end of a process the driver may be gone already
/// (cudaErrorCudartUnloading), and the fault of an earlier kernel is reported here once more. No
/// destructor can do anything about either.
template <auto kEnd>
struct EndHandle {
  template <typename T>
  void operator()(T* handle) const noexcept {
    static_cast<void>(kEnd(handle));
  }
};

template <typename Handle, auto kEnd>
using UniqueHandle = std::unique_ptr<std::remove_pointer_t<Handle>, EndHandle<kEnd>>;

}  // namespace detail

/// Memory of the current device, aligned to 256 bytes, not initialised. By cudaMalloc, so that it
/// can be mapped by other processes; allocating and freeing may wait for the device, so it is for
/// buffers that live long.
class DeviceBuffer {
 public:
  DeviceBuffer() noexcept = default;

  /// Throws Error(kUnhandledCudaError), with the number of bytes, when there is not enough memory.
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* memory = nullptr;
    if (const cudaError_t status = cudaMalloc(&memory, bytes); status != cudaSuccess) {
      static_cast<void>(cudaGetLastError());  // else the next launch would be blamed
      check(status, concat("allocating ", bytes, " bytes of device memory").c_str());
    }
    memory_.reset(memory);
  }

  DeviceBuffer(DeviceBuffer&& other) noexcept
      : memory_(std::move(other.memory_)), bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  /// Null when there are no bytes.
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(memory_.get()); }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

 private:
  struct Free {
    void operator()(void* memory) const noexcept { static_cast<void>(cudaFree(memory)); }
  };

  std::unique_ptr<void, Free> memory_;
  std::size_t bytes_ = 0;
};

/// A stream of the current device that does not wait for the default stream.
class Stream {
 public:
  /// Throws Error(kUnhandledCudaError).
  Stream() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    stream_.reset(stream);
  }

  [[nodiscard]] cudaStream_t get() const noexcept { return stream_.get(); }

  /// Waits for all work put on it so far. Throws Error(kUnhandledCudaError) when that failed.
  void synchronize() const { check(cudaStreamSynchronize(stream_.get()), "waiting for a stream"); }

 private:
  detail::UniqueHandle<cudaStream_t, cudaStreamDestroy> stream_;
};

/// A point in a stream's work.
class Event {
 public:
  enum class Timing { kOff, kOn };

  /// Throws Error(kUnhandledCudaError).
  explicit Event(Timing timing = Timing::kOff) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(
              &event, timing == Timing::kOn ? cudaEventDefault : cudaEventDisableTiming),
          "creating an event");
    event_.reset(event);
  }

  [[nodiscard]] cudaEvent_t get() const noexcept { return event_.get(); }

  void record(cudaStream_t stream) const {
    check(cudaEventRecord(event_.get(), stream), "recording an event");
  }

  /// Waits until the stream has reached the event.
  void synchronize() const { check(cudaEventSynchronize(event_.get()), "waiting for an event"); }

  /// Microseconds from `start` to this event; both with timing, recorded and reached.
  [[nodiscard]] double elapsedUsSince(const Event& start) const {
    float elapsedMs = 0.0F;
    check(cudaEventElapsedTime(&elapsedMs, start.event_.get(), event_.get()), "reading events");
    return 1000.0 * static_cast<double>(elapsedMs);
  }

 private:
  detail::UniqueHandle<cudaEvent_t, cudaEventDestroy> event_;
};

/// Work that was captured from a stream, to be launched again and again.
class Graph {
 public:
  /// Captures what `record()` puts on `stream`; nothing of it is done yet. Throws what `record`
  /// throws, and Error(kUnhandledCudaError) when it did what cannot be captured.
  template <typename Record>
  Graph(const Stream& stream, Record&& record) {
    check(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal),
          "beginning a capture");
    try {
      std::forward<Record>(record)();
    } catch (...) {
      cudaGraph_t unfinished = nullptr;
      static_cast<void>(cudaStreamEndCapture(stream.get(), &unfinished));
      const Captured dropped(unfinished);
      static_cast<void>(cudaGetLastError());  // else the next launch would be blamed
      throw;
    }
    cudaGraph_t graph = nullptr;
    const cudaError_t status = cudaStreamEndCapture(stream.get(), &graph);
    const Captured captured(graph);
    check(status, "ending a capture");
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, graph, 0), "instantiating a graph");
    executable_.reset(executable);
  }

  /// Puts the captured work on `stream`. Launches of one graph run one after the other.
  void launch(cudaStream_t stream) const {
    check(cudaGraphLaunch(executable_.get(), stream), "launching a graph");
  }

 private:
  using Captured = detail::UniqueHandle<cudaGraph_t, cudaGraphDestroy>;

  detail::UniqueHandle<cudaGraphExec_t, cudaGraphExecDestroy> executable_;
};

}  // namespace zipccl::gpu
