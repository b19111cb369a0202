// SPDX-License-Identifier: Apache-2.0
//
// Whether a received frame is the one that was agreed on: the checks that every staged collective
// makes, and their messages.

#pragma once

#include <cstddef>
#include <span>

#include "collectives/frame_codec.hpp"

namespace zipccl::collectives {

/// What the header in the first bytes of a frame says.
[[nodiscard]] FrameReport readReport(std::span<const std::byte> headerBytes) noexcept;

/// Which frame is meant: a call, or a message of an ordered pair of ranks, and a chunk of it.
struct FramePlace {
  std::uint64_t call = 0;
  std::uint64_t chunk = 0;
  const char* unit = "call";  ///< what `call` counts, for messages: `call` or `message`
};

/// Throws unless the header that `peer` sent to `rank` is sound, agrees with `expected`, and is of
/// this call and chunk: Error(kRemoteError) for damage, Error(kInvalidUsage) when the peer is in
/// another call or called with other arguments.
void checkReport(const FrameReport& report, const codec::FrameSpec& expected,
                 const FramePlace& place, int rank, int peer);

/// Throws Error(kRemoteError) unless `status`, of decoding the frame of `peer`, is kOk.
void checkStatus(codec::DecodeStatus status, const FramePlace& place, int peer);

}  // namespace zipccl::collectives
