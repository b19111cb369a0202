// SPDX-License-Identifier: Apache-2.0
//
// What must hold of gates and their window, on any device: checks that tests of each device call.

#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/random.hpp"
#include "codec/dynamic_window.hpp"
#include "collectives/stream_codec.hpp"
#include "collectives/window_end.hpp"
#include "transport/device.hpp"

namespace zipccl::collectives::testing {

using Bytes = std::vector<std::byte>;

/// A codec on a device that is current, with one stream and the window of its gates.
class GateRig {
 public:
  GateRig(transport::Device& device, StreamCodec& codec);
  GateRig(const GateRig&) = delete;
  GateRig& operator=(const GateRig&) = delete;
  ~GateRig();

  [[nodiscard]] transport::Device& device() const { return device_; }
  [[nodiscard]] StreamCodec& codec() const { return codec_; }
  [[nodiscard]] transport::StreamHandle stream() const { return stream_.get(); }
  [[nodiscard]] WindowEnd& end() { return end_; }
  [[nodiscard]] const codec::DynamicWindow& window() const { return *window_; }

  /// A gate with a number that is new. Every kSlots-th one has the same slot.
  [[nodiscard]] Gate nextGate();
  static constexpr std::size_t kSlots = 24;

  /// Device memory that holds `content`. Waits.
  [[nodiscard]] transport::DeviceMemory upload(std::span<const std::byte> content);
  /// What is in the memory when the stream has come to its end. Waits.
  [[nodiscard]] Bytes download(const transport::DeviceMemory& memory);

  /// Looks again and again until `isTrue()`. False when the window has been aborted, and after a
  /// minute, which adds a failure and aborts it.
  [[nodiscard]] bool waitFor(const char* what, const std::function<bool()>& isTrue);
  /// The same for what has been put on the stream so far, whether aborted or not.
  void waitForStream(const char* what);
  /// Whether the stream comes to its end at once. For one thread at a time.
  [[nodiscard]] bool isStreamDone();

  /// What a program does with a gate that exports: takes the parts that are wanted and whose
  /// headers, those in the slot, tell of bytes. The others are empty.
  [[nodiscard]] std::vector<Bytes> takeParts(std::span<const DynamicPart> parts, const Gate& gate);
  /// And with one that imports. `contents` are those of takeParts().
  void giveParts(std::span<const DynamicPart> parts, const Gate& gate,
                 std::span<const Bytes> contents);

 private:
  transport::Device& device_;
  StreamCodec& codec_;
  transport::OwnedStream stream_;
  transport::OwnedEvent reached_;
  transport::SharedMemory shared_;
  codec::GateSlot* slots_;
  codec::DynamicWindow* window_;
  WindowEnd end_;
  std::uint64_t number_ = 0;
};

/// Several gates in a row, with headers that tell of parts of every size, of none, of some that
/// nobody wants, and of some that there is no room for; `mostBytes` in all parts of a gate at most.
void checkParts(GateRig& rig, Random& random, std::uint64_t mostBytes);

/// Frames of the codec whose pools are too small for many of them: what passes through two gates is
/// decoded to what was encoded.
void checkFrames(GateRig& rig, Random& random, std::uint64_t mostElements);

/// A header that claims more than there is room for, by itself: nothing waits and nothing moves.
void checkPartsWithoutRoom(GateRig& rig, Random& random);

/// Gates that wait for a host that does not come go on when the window is aborted. Each of them
/// ends the use of its rig.
void checkAbortOfExport(GateRig& rig, Random& random);
void checkAbortOfImport(GateRig& rig, Random& random);

/// A gate behind an abort shows its headers, and does not wait.
void checkGatesAfterAbort(GateRig& rig, Random& random);

/// No frames, and too many.
void checkNumbersOfFrames(GateRig& rig);

}  // namespace zipccl::collectives::testing
