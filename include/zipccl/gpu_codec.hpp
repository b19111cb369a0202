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

/// Makes `workspace` (device memory, kEncodeWorkspaceBytes, 16-byte aligned) ready, ordered on
/// `stream`. Once is enough: each encode() leaves it ready for the next. Calls that may run at the
/// same time need workspaces of their own. Throws Error(kUnhandledCudaError).
void initEncodeWorkspace(void* workspace, StreamHandle stream);

/// Encodes `spec.elementCount` elements of `source` into one contiguous frame at `frame`, ordered
/// on `stream`; returns before the work is done.
///
/// `spec` must be of bf16 and without checksum. `source` and `frame` are device memory, 16-byte
/// aligned, and must not overlap; `frame` holds at least maxFrameBytes(datatype, elementCount)
/// bytes, `frameCapacity` says how many. Bytes that docs/format.md calls ignored are not written.
/// The frame's header, once the stream reaches this point, tells the extra space in use;
/// `frameBytes` (device memory, or null) receives the bytes of the whole frame.
///
/// Throws Error(kInvalidArgument) on a bad argument, Error(kUnhandledCudaError) when the launch
/// fails.
void encode(const codec::FrameSpec& spec, const void* source, void* frame,
            std::uint64_t frameCapacity, std::uint64_t* frameBytes, void* workspace,
            StreamHandle stream, const LaunchOptions& options = {});

/// Decodes a frame whose parts may lie in different buffers into `output`, ordered on `stream`;
/// returns before the work is done.
///
/// `spec` is what was agreed: bf16 (`spec.checksum` is not compared, and a checksum is not
/// verified). `staticPart` holds staticBytes(spec) bytes; `dynamicPart` holds `dynamicCapacity`
/// bytes, at least what the frame's header claims, and may be null when that is 0. All are device
/// memory, 16-byte aligned, and do not overlap `output`. Whatever the bytes of the frame, nothing
/// else is read, and nothing but `output` and `*status` is written.
///
/// `*status` (device memory, set to 0 by the caller before) collects one bit, 1 << DecodeStatus,
/// for each kind of fault found; statusOf() turns it into one status. It stays 0 on success.
///
/// Throws as encode() does.
void decode(const codec::FrameSpec& spec, const void* staticPart, const void* dynamicPart,
            std::uint64_t dynamicCapacity, void* output, std::uint32_t* status, StreamHandle stream,
            const LaunchOptions& options = {});

/// One frame of several: device memory, as decode() takes it.
struct FrameParts {
  const std::byte* staticPart = nullptr;
  const std::byte* dynamicPart = nullptr;  ///< may be null when dynamicCapacity is 0
  std::uint64_t dynamicCapacity = 0;
};

/// The most frames that one decodeReduce() adds up.
inline constexpr unsigned kMaxReduceFrames = 512;

/// Decodes `frames`, all of `spec`, and adds them up into `output`, ordered on `stream`; returns
/// before the work is done, and `frames` itself, host memory, may go then.
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
