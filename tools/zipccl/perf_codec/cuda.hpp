// SPDX-License-Identifier: Apache-2.0
//
// CUDA as this tool uses it: what fails is a Failure, what is made is owned. The library's own
// owners are behind its public headers, which are all that a tool sees.

#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "support/failure.hpp"

namespace zipccl::tools::perf_codec {

/// Throws Failure that names `what` and CUDA's text unless `status` is success.
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw Failure(std::string(what) + ": " + cudaGetErrorString(status) + " (" +
                cudaGetErrorName(status) + ")");
}

namespace detail {

/// Ends a handle, whatever CUDA says: a destructor can do nothing about it.
template <auto kEnd>
struct End {
  template <typename T>
  void operator()(T* handle) const noexcept {
    static_cast<void>(kEnd(handle));
  }
};

template <typename Handle, auto kEnd>
using Unique = std::unique_ptr<std::remove_pointer_t<Handle>, End<kEnd>>;

}  // namespace detail

/// Memory of the current device, aligned to 256 bytes, not initialised.
class DeviceBuffer {
 public:
  DeviceBuffer() noexcept = default;
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status != cudaSuccess) {
      static_cast<void>(cudaGetLastError());  // else the next launch would be blamed
      check(status, ("allocating " + std::to_string(bytes) + " bytes of device memory").c_str());
    }
    memory_.reset(memory);
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
  Stream() {
    cudaStream_t stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
    stream_.reset(stream);
  }

  [[nodiscard]] cudaStream_t get() const noexcept { return stream_.get(); }
  void synchronize() const { check(cudaStreamSynchronize(stream_.get()), "waiting for a stream"); }

 private:
  detail::Unique<cudaStream_t, cudaStreamDestroy> stream_;
};

/// A point in a stream's work, with its time.
class Event {
 public:
  Event() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "creating an event");
    event_.reset(event);
  }

  void record(cudaStream_t stream) const {
    check(cudaEventRecord(event_.get(), stream), "recording an event");
  }
  void synchronize() const { check(cudaEventSynchronize(event_.get()), "waiting for an event"); }

  /// Whether what was recorded is done.
  [[nodiscard]] bool isReached() const {
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) return false;
    check(status, "asking for an event");
    return true;
  }

  /// Microseconds from `start` to this event, both recorded and reached.
  [[nodiscard]] double elapsedUsSince(const Event& start) const {
    float elapsedMs = 0.0F;
    check(cudaEventElapsedTime(&elapsedMs, start.event_.get(), event_.get()), "reading events");
    return 1000.0 * static_cast<double>(elapsedMs);
  }

 private:
  detail::Unique<cudaEvent_t, cudaEventDestroy> event_;
};

/// Work that was captured from a stream, to be launched again and again.
class Graph {
 public:
  /// Captures what `record()` puts on `stream`; nothing of it is done yet.
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
      static_cast<void>(cudaGetLastError());
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

  void launch(cudaStream_t stream) const {
    check(cudaGraphLaunch(executable_.get(), stream), "launching a graph");
  }

 private:
  using Captured = detail::Unique<cudaGraph_t, cudaGraphDestroy>;

  detail::Unique<cudaGraphExec_t, cudaGraphExecDestroy> executable_;
};

}  // namespace zipccl::tools::perf_codec
