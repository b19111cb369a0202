// SPDX-License-Identifier: Apache-2.0
//
// Memory that host and device share, through which headers, and dynamic parts where there are any,
// leave the device and come to it while its work goes on: no call to the device is needed of the
// host. Plain data and the arithmetic of both ends.
//
//   GateSlot       number | header 0 | header 1 | ...                 of one gate
//   DynamicWindow  exported | imported | taken | given | isAborted    of all gates of a stream
//                  out: piece 0 | 1 | 2 | 3     device to host
//                  in:  piece 0 | 1 | 2 | 3     host to device
//
// A part of n bytes is ceil(n / kPieceBytes) pieces, all of them full but the last. Pieces are
// counted through all parts since the window was zeroed, in each direction by itself; piece p
// stands at place p % kWindowPieces. Whoever writes a piece counts it after its bytes (release),
// and whoever reads it looks at the count first (acquire); the same holds the other way round for
// the place that a piece leaves free, and for the number of a slot.

#pragma once

#include <cstddef>
#include <cstdint>

#include "base/host_device.hpp"
#include "codec/layout.hpp"

namespace zipccl::codec {

inline constexpr std::size_t kMostGateFrames = 64;
inline constexpr std::uint64_t kWindowPieces = 4;
inline constexpr std::uint64_t kPieceBytes = 64 * 1024;
/// Words that different sides write stand so far apart.
inline constexpr std::size_t kSharedLineBytes = 128;

/// What a gate tells the host. Zeroed at first.
struct GateSlot {
  alignas(kSharedLineBytes) std::uint64_t number;  ///< of the last gate whose headers stand here
  alignas(kSharedLineBytes) std::byte headers[kMostGateFrames][kHeaderBytes];
};
static_assert(sizeof(GateSlot) == kSharedLineBytes + kMostGateFrames * kHeaderBytes);

/// Zeroed at first.
struct DynamicWindow {
  // Written by the device.
  alignas(kSharedLineBytes) std::uint64_t exported;  ///< pieces that it has put into `out`
  alignas(kSharedLineBytes) std::uint64_t imported;  ///< pieces that it has copied from `in`
  // Written by the host.
  alignas(kSharedLineBytes) std::uint64_t taken;      ///< pieces that it has copied from `out`
  alignas(kSharedLineBytes) std::uint64_t given;      ///< pieces that it has put into `in`
  alignas(kSharedLineBytes) std::uint64_t isAborted;  ///< not 0: the device waits no more
  alignas(kSharedLineBytes) std::byte out[kWindowPieces][kPieceBytes];
  std::byte in[kWindowPieces][kPieceBytes];
};
static_assert(offsetof(DynamicWindow, out) == 5 * kSharedLineBytes);
static_assert(sizeof(DynamicWindow) == 5 * kSharedLineBytes + 2 * kWindowPieces * kPieceBytes);

/// A frame at a gate, all in device memory.
struct DynamicPart {
  const std::byte* header = nullptr;  ///< kHeaderBytes bytes, 16-byte aligned
  std::byte* part = nullptr;          ///< its dynamic part; null where only the header is wanted
  std::uint64_t capacity = 0;         ///< bytes that there is room for at `part`
};

/// Where a gate stands: memory that host and device share.
struct Gate {
  GateSlot* slot = nullptr;
  std::uint64_t number = 0;  ///< from 1 on; larger than that of the slot's last gate
  DynamicWindow* window = nullptr;
};

/// Bytes that a gate moves for a frame of whose sizes the header says this. A part that claims more
/// than there is room for stays where it is: such a header is damaged.
ZIPCCL_HOST_DEVICE constexpr std::uint64_t movedBytesOf(std::uint64_t poolBytes,
                                                        std::uint64_t extraBytes,
                                                        std::uint64_t capacity) {
  const std::uint64_t bytes = dynamicBytesOf(poolBytes, extraBytes);
  return bytes <= capacity ? bytes : 0;
}

/// Bytes of the piece of a part of `bytes` bytes that comes when `doneBytes` < `bytes` are done.
ZIPCCL_HOST_DEVICE constexpr std::uint64_t pieceBytesAt(std::uint64_t bytes,
                                                        std::uint64_t doneBytes) {
  return bytes - doneBytes < kPieceBytes ? bytes - doneBytes : kPieceBytes;
}

/// Whether there is a place for piece `piece` when `left` pieces have left theirs.
ZIPCCL_HOST_DEVICE constexpr bool hasPlace(std::uint64_t piece, std::uint64_t left) {
  return piece < left + kWindowPieces;
}

}  // namespace zipccl::codec
