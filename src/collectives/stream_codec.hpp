// SPDX-License-Identifier: Apache-2.0
//
// What collectives over device memory need of a codec: work that is put on a stream and never
// waited for. Headers are sealed where the frames are made; what a reader has to know of a header
// is brought to host memory by the stream, and so is what was wrong with a frame.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/verdict.hpp"
#include "codec/dynamic_window.hpp"
#include "collectives/frame_codec.hpp"
#include "collectives/frame_note.hpp"
#include "transport/transport.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::collectives {

using codec::DynamicPart;
using codec::Gate;

/// A frame to be made, contiguous, in `frame`, which holds maxFrameBytes bytes, 128-byte aligned.
struct EncodeJob {
  codec::FrameSpec spec;
  const void* source = nullptr;
  std::span<std::byte> frame;
  FrameNote note;  ///< lowTiles is counted by the encoder
};

/// A frame to be read. `status` collects a bit, 1 << DecodeStatus, for each kind of fault.
struct DecodeJob {
  codec::FrameSpec spec;
  FrameParts frame;
  void* output = nullptr;
  std::uint32_t* status = nullptr;
};

/// A frame of those that are added up: pools may differ.
struct AddendFrame {
  std::uint64_t poolBytes = 0;
  FrameParts frame;
};

/// Frames of one datatype, layout and element count, one of each rank in rank order, whose sum goes
/// to `output`, by the arithmetic of reduction.hpp.
struct ReduceJob {
  codec::FrameSpec spec;  ///< but for the pool
  std::span<const AddendFrame> addends;
  float factor = 1.0F;
  void* output = nullptr;
  std::uint32_t* status = nullptr;
};

/// Two results that should be equal. `verdict`, 0 before, gets verdictOf() of the first byte that
/// differs.
struct CompareJob {
  const void* expected = nullptr;
  const void* found = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t* verdict = nullptr;
};

/// All frames, sources and outputs are device memory; statuses, verdicts and headers memory that
/// host and device share. Work is queued on the stream in the order of the calls. Spans of jobs are
/// not needed once a call returns.
class StreamCodec {
 public:
  StreamCodec() = default;
  StreamCodec(const StreamCodec&) = delete;
  StreamCodec& operator=(const StreamCodec&) = delete;
  virtual ~StreamCodec() = default;

  /// Encodes and seals. One stream at a time may be used for this.
  virtual void encode(std::span<const EncodeJob> jobs, transport::StreamHandle stream) = 0;
  virtual void decode(std::span<const DecodeJob> jobs, transport::StreamHandle stream) = 0;
  virtual void decodeReduce(const ReduceJob& job, transport::StreamHandle stream) = 0;
  virtual void compare(const CompareJob& job, transport::StreamHandle stream) = 0;

  /// Writes the headers of `parts`, at most codec::kMostGateFrames, to the gate's slot, then its
  /// number; then, of each frame in their order that has a dynamic part and a place for it
  /// (codec::movedBytesOf), puts the part into the gate's window, as the host takes pieces out (see
  /// WindowEnd). The stream goes on when the last piece has been put there; where there is none, at
  /// once. An abort of the window ends the wait.
  ///
  /// Gates of one window are put on one stream. A slot may be used again once the host has read it.
  virtual void exportDynamic(std::span<const DynamicPart> parts, const Gate& gate,
                             transport::StreamHandle stream) = 0;

  /// The same headers and number; then each of these parts comes from the host, through the window,
  /// to its place, where work that is queued later finds it.
  virtual void importDynamic(std::span<const DynamicPart> parts, const Gate& gate,
                             transport::StreamHandle stream) = 0;
};

}  // namespace zipccl::collectives
