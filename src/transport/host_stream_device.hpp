// SPDX-License-Identifier: Apache-2.0
//
// Host memory as a device: streams and events are those of an NCCL image made for tests, whose work
// is done by threads, in the order of each stream. What runs on it is what runs on a GPU but for
// the kernels.

#pragma once

#include <functional>
#include <memory>

#include "transport/device.hpp"

namespace zipccl::transport {

/// Functions of an image whose streams take work of the host.
struct HostStreamFunctions {
  void (*setDevice)(int device) = nullptr;
  int (*getDevice)() = nullptr;
  void* (*createStream)() = nullptr;
  void (*destroyStream)(void* stream) = nullptr;
  /// Calls work(argument) once the stream has come to it. `stream` may be null, a stream too.
  void (*enqueue)(void* stream, void (*work)(void*), void* argument) = nullptr;
  int (*isCapturing)(void* stream) = nullptr;
  void* (*createEvent)() = nullptr;
  void (*destroyEvent)(void* event) = nullptr;
  void (*record)(void* event, void* stream) = nullptr;
  void (*wait)(void* stream, void* event) = nullptr;
  int (*isReached)(void* event) = nullptr;

  [[nodiscard]] bool isPresent() const noexcept { return enqueue != nullptr; }
};

/// The functions of `image`, a handle of dlopen, if it is one made for tests.
[[nodiscard]] HostStreamFunctions findHostStreams(void* image) noexcept;

class HostStreamDevice final : public Device {
 public:
  HostStreamDevice(const HostStreamFunctions& functions, int number) noexcept
      : functions_(functions), number_(number) {}

  /// Puts `work`, which must not throw, on the stream.
  void enqueue(StreamHandle stream, std::function<void()> work);

  [[nodiscard]] int enter() const override;
  void leave(int previous) const noexcept override;
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) override;
  void release(std::byte* memory) noexcept override;
  [[nodiscard]] std::byte* allocateShared(std::uint64_t bytes) override;
  void releaseShared(std::byte* memory) noexcept override { release(memory); }
  [[nodiscard]] StreamHandle createStream() override { return {functions_.createStream()}; }
  void destroyStream(StreamHandle stream) noexcept override;
  [[nodiscard]] EventHandle createEvent() override { return {functions_.createEvent()}; }
  void destroyEvent(EventHandle event) noexcept override;
  void record(EventHandle event, StreamHandle stream) override;
  void wait(StreamHandle stream, EventHandle event) override;
  [[nodiscard]] bool isReached(EventHandle event) override;
  void copy(void* to, const void* from, std::uint64_t bytes, StreamHandle stream) override;
  [[nodiscard]] bool isCapturing(StreamHandle stream) override;

 private:
  HostStreamFunctions functions_;
  int number_;
};

}  // namespace zipccl::transport
