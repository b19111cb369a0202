// SPDX-License-Identifier: Apache-2.0
//
// What a collective needs of a codec, on one kind of memory. The collectives are written once
// against this interface and the transport's; a codec on a GPU fits in by the stream argument: its
// operations are queued on the stream, and the two that give the host a result wait for it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "collectives/datatype.hpp"
#include "collectives/frame_note.hpp"
#include "collectives/reduction.hpp"
#include "transport/transport.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::collectives {

/// What the header of a received frame says.
struct FrameReport {
  codec::DecodeStatus status = codec::DecodeStatus::kOk;  ///< of the header; all else only if kOk
  bool isSealIntact = false;
  codec::FrameSpec spec;
  std::uint64_t extraBytes = 0;
  std::uint64_t dynamicBytes = 0;
  FrameNote note;
};

using codec::Addend;
using codec::FrameParts;

/// All pointers are to memory of memoryKind() unless the text says host. Errors of the machine are
/// thrown; bad bytes are a DecodeStatus.
class FrameCodec {
 public:
  FrameCodec() = default;
  FrameCodec(const FrameCodec&) = delete;
  FrameCodec& operator=(const FrameCodec&) = delete;
  virtual ~FrameCodec() = default;

  [[nodiscard]] virtual transport::MemoryKind memoryKind() const noexcept = 0;

  /// `bytes` (not zero) of memory aligned to 128, contents undefined; to be given back by
  /// release(). Throws Error(kSystemError) when there is none.
  [[nodiscard]] virtual std::byte* allocate(std::uint64_t bytes) = 0;
  virtual void release(std::byte* memory, std::uint64_t bytes) noexcept = 0;

  /// Encodes into a contiguous frame at the start of `frame`, which holds maxFrameBytes bytes, and
  /// seals its header with `note`, whose lowTiles the encoder fills in.
  virtual void encode(const codec::FrameSpec& spec, const void* source, std::span<std::byte> frame,
                      FrameNote note, transport::StreamHandle stream) = 0;

  /// Reads the headers of the frames at frames, frames + strideBytes, ... into `reports` (host), as
  /// many as it has room for. Waits for what was queued on `stream`.
  virtual void readReports(const std::byte* frames, std::uint64_t strideBytes,
                           std::span<FrameReport> reports, transport::StreamHandle stream) = 0;

  /// Decodes one frame as codec::decode does. `*status` (host) is written, at the latest, when
  /// finish(stream) returns.
  virtual void decode(const codec::FrameSpec& expected, const FrameParts& frame,
                      std::span<std::byte> output, codec::DecodeStatus* status,
                      transport::StreamHandle stream) = 0;

  /// Decodes the frames among `addends`, all of `elementCount` elements of `datatype`, which has
  /// frames, and writes the scaled sum of all addends by `factor`, in their order, by the
  /// arithmetic of reduction.hpp, to `output`; this may be one of the addends' elements. `statuses`
  /// (host, one an addend) are written as those of decode(); where one is not kOk the output holds
  /// no sum.
  virtual void decodeReduce(Datatype datatype, std::uint64_t elementCount,
                            std::span<const Addend> addends, float factor, void* output,
                            std::span<codec::DecodeStatus> statuses,
                            transport::StreamHandle stream) = 0;

  /// reduceElements() of reduction.hpp, for transports that do not reduce themselves.
  virtual void reduce(Datatype datatype, const Reduction& reduction,
                      std::span<const void* const> addends, std::uint64_t elementCount,
                      void* output, transport::StreamHandle stream) = 0;

  /// Waits until every status of earlier decodes on `stream` is written.
  virtual void finish(transport::StreamHandle stream) = 0;

  /// Copies between buffers that do not overlap; sets bytes to zero. `bytes` may be zero.
  virtual void copy(void* to, const void* from, std::uint64_t bytes,
                    transport::StreamHandle stream) = 0;
  virtual void clear(std::byte* memory, std::uint64_t bytes, transport::StreamHandle stream) = 0;
};

}  // namespace zipccl::collectives
