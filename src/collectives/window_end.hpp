// SPDX-License-Identifier: Apache-2.0
//
// The host's end of a dynamic window (codec/dynamic_window.hpp). Nothing here waits.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/dynamic_window.hpp"

namespace zipccl::collectives {

/// Parts are taken and given whole, in the order in which the device's gates move them. One thread
/// at a time may take, one may give; any may abort.
class WindowEnd {
 public:
  /// The only end of `window`, which must outlive it.
  explicit WindowEnd(codec::DynamicWindow& window) noexcept
      : window_(window), taken_(window.taken), given_(window.given) {}
  WindowEnd(const WindowEnd&) = delete;
  WindowEnd& operator=(const WindowEnd&) = delete;

  /// Adds to `into` what is there of the exported part of `bytes` bytes whose beginning it holds,
  /// up to its end. Returns whether it holds all of it. Throws std::bad_alloc; then nothing was
  /// taken.
  [[nodiscard]] bool take(std::vector<std::byte>& into, std::uint64_t bytes);

  /// Gives as much as there is room for of `part`, of which `givenBytes` have been given, and adds
  /// to that. Returns whether all have been given.
  [[nodiscard]] bool give(std::span<const std::byte> part, std::uint64_t& givenBytes) noexcept;

  /// Ends each wait of the device, now and later. What it does not get then is never written, and
  /// nothing can be taken or given any more.
  void abort() noexcept;

  /// Whether the device has written the headers of gate `number`, or of a later one, to `slot`.
  /// They may be read then, and until a later gate of the slot is queued.
  [[nodiscard]] static bool hasPassed(const codec::GateSlot& slot, std::uint64_t number) noexcept;

 private:
  codec::DynamicWindow& window_;
  // What the window's words of these names say: only this end writes them.
  std::uint64_t taken_;
  std::uint64_t given_;
};

}  // namespace zipccl::collectives
