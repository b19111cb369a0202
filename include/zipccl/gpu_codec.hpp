// SPDX-License-Identifier: Apache-2.0
//
// The codec on the GPU: frames of docs/format.md (version 1), made and read by kernels on the
// caller's stream, each readable by host and GPU alike. Nothing here allocates, waits for the
// device or copies back; sizes and status stay in device memory. Every call can be captured into a
// CUDA graph and replayed with new data in the same buffers.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "zipccl/codec.hpp"

struct CUstream_st;

namespace zipccl::gpu {

/// CUDA's cudaStream_t, without its headers.
using StreamHandle = CUstream_st*;

/// How much of the GPU a launch may take.
struct LaunchOptions {
  /// At most this many thread blocks, so that other kernels keep some multiprocessors; 0: as many
  /// as the device runs at once.
  unsigned maxBlocks = 0;
};

/// The GPU codec takes frames of up to this many elements.
inline constexpr std::uint64_t kGpuMaxElementCount = std::uint64_t{1} << 38;

/// Bytes of device memory that encode() needs as its workspace, whatever the frame.
inline constexpr std::size_t kEncodeWorkspaceBytes = 16;

/// Bytes of device memory that encodeBatch() of `frameCount` frames needs as its workspace.
[[nodiscard]] constexpr std::size_t encodeWorkspaceBytes(std::size_t frameCount) noexcept {
  return frameCount * kEncodeWorkspaceBytes;
}

/// Makes `workspace` (device memory, encodeWorkspaceBytes(frameCount), 16-byte aligned) ready,
/// ordered on `stream`. Once is enough: each encode() and encodeBatch() leaves it ready for the
/// next of as many frames or fewer. Calls that may run at the same time need workspaces of their
/// own. Throws Error(kInvalidArgument) on a bad argument, Error(kUnhandledCudaError).
void initEncodeWorkspace(void* workspace, StreamHandle stream, std::size_t frameCount = 1);

/// Encodes `spec.elementCount` elements of `source` into one contiguous frame at `frame`, ordered
/// on `stream`; returns before the work is done.
///
/// `spec` must be without checksum: a frame that is to have one is made on the host. `source` and
/// `frame` are device memory and must not overlap; `source` is aligned to its elements (at
/// multiples of 16 bytes it is read faster), `frame` to 16 bytes. `frame` holds at least
/// maxFrameBytes(datatype, elementCount) bytes, `frameCapacity` says how many. Bytes that
/// docs/format.md calls ignored are not written. The frame's header, once the stream reaches this
/// point, tells the extra space in use; `frameBytes` (device memory, or null) receives the bytes of
/// the whole frame. `application` goes into the header.
///
/// Throws Error(kInvalidArgument) on a bad argument, Error(kUnhandledCudaError) when the launch
/// fails.
void encode(const codec::FrameSpec& spec, const void* source, void* frame,
            std::uint64_t frameCapacity, std::uint64_t* frameBytes, void* workspace,
            StreamHandle stream, const LaunchOptions& options = {},
            const codec::ApplicationWords& application = {});

/// The most frames of one encodeBatch() or decodeBatch().
inline constexpr std::size_t kMaxBatchFrames = 512;

/// One frame of a batch to be encoded: arguments as encode() takes them.
struct EncodeItem {
  std::uint64_t elementCount = 0;  ///< may be 0: then the frame is a header
  std::uint64_t poolBytes = 0;
  const void* source = nullptr;  ///< may be null when elementCount is 0
  void* frame = nullptr;
  std::uint64_t frameCapacity = 0;
  std::uint64_t* frameBytes = nullptr;  ///< may be null
};

/// Encodes frames of one datatype and layout, of different sizes, sources and places, in one
/// launch, as encode() does each; for an uneven all-to-all. `items`, host memory, may go when the
/// call returns: they travel with the launch, into a captured graph too. `workspace` is of as many
/// frames. `application` goes into every header.
///
/// Throws as encode() does, and Error(kInvalidArgument) for more than kMaxBatchFrames items; then
/// nothing was launched. No items are no work.
void encodeBatch(codec::Datatype datatype, codec::Layout layout, std::span<const EncodeItem> items,
                 void* workspace, StreamHandle stream, const LaunchOptions& options = {},
                 const codec::ApplicationWords& application = {});

/// Decodes a frame whose parts may lie in different buffers into `output`, ordered on `stream`;
/// returns before the work is done.
///
/// `spec` is what was agreed (`spec.checksum` is not compared, and a checksum is not verified).
/// `staticPart` holds staticBytes(spec) bytes; `dynamicPart` holds `dynamicCapacity`
/// bytes, at least what the frame's header claims, and may be null when that is 0. Both are device
/// memory, 16-byte aligned, and do not overlap `output`, which is aligned to its elements (at
/// multiples of 16 bytes it is written faster). Whatever the bytes of the frame, nothing
/// else is read, and nothing but `output` and `*status` is written.
///
/// `*status` (device memory, set to 0 by the caller before) collects one bit, 1 << DecodeStatus,
/// for each kind of fault found; statusOf() turns it into one status. It stays 0 on success.
///
/// Throws as encode() does.
void decode(const codec::FrameSpec& spec, const void* staticPart, const void* dynamicPart,
            std::uint64_t dynamicCapacity, void* output, std::uint32_t* status, StreamHandle stream,
            const LaunchOptions& options = {});

/// One frame of a batch to be decoded: arguments as decode() takes them. Several items may share a
/// status word.
struct DecodeItem {
  std::uint64_t elementCount = 0;
  std::uint64_t poolBytes = 0;
  const void* staticPart = nullptr;
  const void* dynamicPart = nullptr;  ///< may be null when dynamicCapacity is 0
  std::uint64_t dynamicCapacity = 0;
  void* output = nullptr;  ///< may be null when elementCount is 0
  std::uint32_t* status = nullptr;
};

/// Decodes frames of one datatype and layout, of different sizes and places, in one launch, as
/// decode() does each; a bad frame does not disturb the others. `items` as with encodeBatch().
/// Throws as encodeBatch() does.
void decodeBatch(codec::Datatype datatype, codec::Layout layout, std::span<const DecodeItem> items,
                 StreamHandle stream, const LaunchOptions& options = {});

/// The pool of a frame that has the one of the spec.
inline constexpr std::uint64_t kPoolOfSpec = ~std::uint64_t{0};

/// One frame of several: device memory, as decode() takes it.
struct FrameParts {
  const std::byte* staticPart = nullptr;
  const std::byte* dynamicPart = nullptr;  ///< may be null when dynamicCapacity is 0
  std::uint64_t dynamicCapacity = 0;
  std::uint64_t poolBytes = kPoolOfSpec;  ///< the only part of the spec in which frames may differ
};

/// The most frames that one decodeReduce() adds up.
inline constexpr unsigned kMaxReduceFrames = 512;

/// Decodes `frames`, all of `spec` but for their pools, and adds them up into `output`, ordered on
/// `stream`; returns before the work is done, and `frames` itself, host memory, may go then.
///
/// Each addend is multiplied by `factor` and rounded to the datatype, unless `factor` is 1; addends
/// are added in fp32 in the order of `frames`; the sum is rounded once. `factor` must be a number
/// of the datatype, as NCCL's scalar of a PreMulSum is. On two frames with factor 1 these are the
/// bits of a sum in the datatype. NaNs come out canonical (0x7FFF, 0x7FFFFFFF).
///
/// Buffers, `*status` and errors as with decode(); 1 to kMaxReduceFrames frames. When a frame is
/// bad the output holds no sum.
void decodeReduce(const codec::FrameSpec& spec, std::span<const FrameParts> frames, float factor,
                  void* output, std::uint32_t* status, StreamHandle stream,
                  const LaunchOptions& options = {});

/// The first status, in the order of docs/format.md section 9, that a status word of decode()
/// holds.
[[nodiscard]] codec::DecodeStatus statusOf(std::uint32_t statusWord) noexcept;

}  // namespace zipccl::gpu
