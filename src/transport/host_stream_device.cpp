// SPDX-License-Identifier: Apache-2.0
//
// Host memory as a device.

#include "transport/host_stream_device.hpp"

#include <dlfcn.h>

#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/error.hpp"

namespace zipccl::transport {
namespace {

constexpr std::align_val_t kAlignment{128};

}  // namespace

HostStreamFunctions findHostStreams(void* image) noexcept {
  HostStreamFunctions functions;
  if (image == nullptr) return functions;
  bool isComplete = true;
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(image, name));
    isComplete = isComplete && function != nullptr;
  };
  find(functions.setDevice, "fakeSetDevice");
  find(functions.getDevice, "fakeGetDevice");
  find(functions.createStream, "fakeStreamCreate");
  find(functions.destroyStream, "fakeStreamDestroy");
  find(functions.enqueue, "fakeStreamEnqueue");
  find(functions.isCapturing, "fakeStreamIsCapturing");
  find(functions.createEvent, "fakeEventCreate");
  find(functions.destroyEvent, "fakeEventDestroy");
  find(functions.record, "fakeEventRecord");
  find(functions.wait, "fakeStreamWaitEvent");
  find(functions.isReached, "fakeEventIsDone");
  return isComplete ? functions : HostStreamFunctions{};
}

void HostStreamDevice::enqueue(StreamHandle stream, std::function<void()> work) {
  auto owned = std::make_unique<std::function<void()>>(std::move(work));
  functions_.enqueue(
      stream.native,
      [](void* argument) {
        const std::unique_ptr<std::function<void()>> queued(
            static_cast<std::function<void()>*>(argument));
        (*queued)();
      },
      owned.release());
}

int HostStreamDevice::enter() const {
  const int previous = functions_.getDevice();
  functions_.setDevice(number_);
  return previous;
}

void HostStreamDevice::leave(int previous) const noexcept { functions_.setDevice(previous); }

std::byte* HostStreamDevice::allocate(std::uint64_t bytes) {
  void* memory = ::operator new(bytes, kAlignment, std::nothrow);
  expects(memory != nullptr, ErrorCode::kSystemError, "no memory for ", bytes, " bytes");
  return static_cast<std::byte*>(memory);
}

void HostStreamDevice::release(std::byte* memory) noexcept {
  ::operator delete(memory, kAlignment);
}

std::byte* HostStreamDevice::allocateShared(std::uint64_t bytes) {
  std::byte* const memory = allocate(bytes);
  std::memset(memory, 0, bytes);
  return memory;
}

void HostStreamDevice::destroyStream(StreamHandle stream) noexcept {
  functions_.destroyStream(stream.native);
}

void HostStreamDevice::destroyEvent(EventHandle event) noexcept {
  functions_.destroyEvent(event.native);
}

void HostStreamDevice::record(EventHandle event, StreamHandle stream) {
  functions_.record(event.native, stream.native);
}

void HostStreamDevice::wait(StreamHandle stream, EventHandle event) {
  functions_.wait(stream.native, event.native);
}

bool HostStreamDevice::isReached(EventHandle event) {
  return functions_.isReached(event.native) != 0;
}

void HostStreamDevice::copy(void* to, const void* from, std::uint64_t bytes, StreamHandle stream) {
  if (bytes == 0) return;
  enqueue(stream, [to, from, bytes] { std::memcpy(to, from, bytes); });
}

bool HostStreamDevice::isCapturing(StreamHandle stream) {
  return functions_.isCapturing(stream.native) != 0;
}

}  // namespace zipccl::transport
