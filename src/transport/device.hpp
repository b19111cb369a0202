// SPDX-License-Identifier: Apache-2.0
//
// What a transport over device memory, and the collectives on it, need of the device: memory,
// streams, events. One implementation is CUDA's; another puts its work on streams of a program's
// own threads, so that all that stands above can be tested, bit for bit, without a GPU.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "transport/transport.hpp"

namespace zipccl::transport {

/// An event as its device knows it (a cudaEvent_t), not owned.
struct EventHandle {
  void* native = nullptr;
};

/// One device. Functions throw Error when the device's library fails, unless they are noexcept; any
/// thread may call them. What works on memory, streams and events needs the device to be current on
/// the calling thread (CurrentDevice).
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// Makes this device current on this thread; the result is for leave().
  [[nodiscard]] virtual int enter() const = 0;
  virtual void leave(int previous) const noexcept = 0;

  /// `bytes` (not zero) of device memory, aligned to 128, for long: this may wait for the device.
  [[nodiscard]] virtual std::byte* allocate(std::uint64_t bytes) = 0;
  virtual void release(std::byte* memory) noexcept = 0;

  /// Host memory that work on the device reads and writes by the same address, zeroed.
  [[nodiscard]] virtual std::byte* allocateShared(std::uint64_t bytes) = 0;
  virtual void releaseShared(std::byte* memory) noexcept = 0;

  /// A stream that does not wait for the default stream, of the highest priority there is.
  [[nodiscard]] virtual StreamHandle createStream() = 0;
  virtual void destroyStream(StreamHandle stream) noexcept = 0;
  [[nodiscard]] virtual EventHandle createEvent() = 0;
  virtual void destroyEvent(EventHandle event) noexcept = 0;

  /// `event` is the point of `stream` that the work queued so far leads to.
  virtual void record(EventHandle event, StreamHandle stream) = 0;
  /// What is queued on `stream` from now on waits for the point that `event` is now.
  virtual void wait(StreamHandle stream, EventHandle event) = 0;
  /// Whether the event's point has been reached.
  [[nodiscard]] virtual bool isReached(EventHandle event) = 0;

  /// Copies between buffers of any kind that do not overlap, ordered on `stream`.
  virtual void copy(void* to, const void* from, std::uint64_t bytes, StreamHandle stream) = 0;

  /// Whether what is put on `stream` is being captured into a graph instead of run.
  [[nodiscard]] virtual bool isCapturing(StreamHandle stream) = 0;
};

/// Makes a device current on this thread for as long as it lives.
class CurrentDevice {
 public:
  explicit CurrentDevice(const Device& device) : device_(device), previous_(device.enter()) {}
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;
  ~CurrentDevice() { device_.leave(previous_); }

 private:
  const Device& device_;
  int previous_;
};

/// Owner of a stream. The device must outlive it and be current at its end, here and below.
class OwnedStream {
 public:
  explicit OwnedStream(Device& device) : device_(device), stream_(device.createStream()) {}
  OwnedStream(const OwnedStream&) = delete;
  OwnedStream& operator=(const OwnedStream&) = delete;
  ~OwnedStream() { device_.destroyStream(stream_); }

  [[nodiscard]] StreamHandle get() const noexcept { return stream_; }

 private:
  Device& device_;
  StreamHandle stream_;
};

class OwnedEvent {
 public:
  explicit OwnedEvent(Device& device) : device_(device), event_(device.createEvent()) {}
  OwnedEvent(const OwnedEvent&) = delete;
  OwnedEvent& operator=(const OwnedEvent&) = delete;
  ~OwnedEvent() { device_.destroyEvent(event_); }

  [[nodiscard]] EventHandle get() const noexcept { return event_; }

 private:
  Device& device_;
  EventHandle event_;
};

/// Owner of memory that host and device share.
class SharedMemory {
 public:
  SharedMemory(Device& device, std::uint64_t bytes)
      : device_(device), memory_(device.allocateShared(bytes)) {}
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() { device_.releaseShared(memory_); }

  [[nodiscard]] std::byte* data() const noexcept { return memory_; }

 private:
  Device& device_;
  std::byte* memory_;
};

/// Owner of device memory.
class DeviceMemory {
 public:
  DeviceMemory(Device& device, std::uint64_t bytes)
      : device_(&device), memory_(device.allocate(bytes)), bytes_(bytes) {}
  DeviceMemory(DeviceMemory&& other) noexcept
      : device_(other.device_),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  DeviceMemory& operator=(DeviceMemory&&) = delete;
  ~DeviceMemory() {
    if (memory_ != nullptr) device_->release(memory_);
  }

  [[nodiscard]] std::byte* data() const noexcept { return memory_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  Device* device_;
  std::byte* memory_;
  std::uint64_t bytes_;
};

}  // namespace zipccl::transport
