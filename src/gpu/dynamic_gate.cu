// SPDX-License-Identifier: Apache-2.0
//
// Gates: one block of 512 threads. First each thread copies 16 bytes of a header, so that 64
// headers pass at once; where no frame has a dynamic part, which all threads learn at the one
// barrier, that is all. Expected latency then: about 3 us from kernel to kernel, of which 1 us is
// the launch, 0.6 us a load, and 1 us the fence before the number, which waits for the headers to
// reach the host's memory.
//
// Else pieces follow one another. For each, thread 0 waits for the host, with a pause between two
// looks, and tells the block at a barrier whether to go on; all threads copy, 16 bytes at a time
// where addresses allow, all loads of a piece before its stores; behind another barrier thread 0
// counts the piece. Barrier and release together make the copies of all threads visible to the host
// before the count; acquire and barrier keep their loads behind what thread 0 saw.

#include <algorithm>
#include <cuda/atomic>

#include "base/error.hpp"
#include "gpu/cuda_check.hpp"
#include "gpu/dynamic_gate.hpp"

namespace zipccl::gpu {
namespace {

constexpr unsigned kThreads = 512;
constexpr unsigned kQuadBytes = 16;
constexpr unsigned kHeaderQuads = codec::kHeaderBytes / kQuadBytes;
static_assert(kThreads == codec::kMostGateFrames * kHeaderQuads);
constexpr unsigned kPieceQuadsAThread = codec::kPieceBytes / kQuadBytes / kThreads;
static_assert(kPieceQuadsAThread * kThreads * kQuadBytes == codec::kPieceBytes);

/// Quads of a header whose second, or first, half is the size that the name says.
constexpr unsigned kPoolQuad = 1;
constexpr unsigned kExtraQuad = 2;
static_assert(offsetof(codec::HeaderBytes, poolBytes) == kPoolQuad * kQuadBytes + 8);
static_assert(offsetof(codec::HeaderBytes, extraBytes) == kExtraQuad * kQuadBytes);

constexpr unsigned kPauseNs = 200;

struct GateWork {
  codec::DynamicPart parts[codec::kMostGateFrames];
  codec::Gate gate;
  unsigned partCount;
};

enum class Direction { kExport, kImport };

/// A word that the host reads or writes at the same time.
using SharedWord = cuda::atomic_ref<std::uint64_t, cuda::thread_scope_system>;

/// Copies up to a piece; all threads of the block take part.
__device__ void copyPiece(std::byte* to, const std::byte* from, unsigned bytes) {
  const bool isAligned =
      (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) %
          kQuadBytes ==
      0;
  const unsigned quads = isAligned ? bytes / kQuadBytes : 0;
  uint4 values[kPieceQuadsAThread];
#pragma unroll
  for (unsigned i = 0; i < kPieceQuadsAThread; ++i) {
    const unsigned at = i * kThreads + threadIdx.x;
    if (at < quads) values[i] = reinterpret_cast<const uint4*>(from)[at];
  }
#pragma unroll
  for (unsigned i = 0; i < kPieceQuadsAThread; ++i) {
    const unsigned at = i * kThreads + threadIdx.x;
    if (at < quads) reinterpret_cast<uint4*>(to)[at] = values[i];
  }
  for (unsigned at = quads * kQuadBytes + threadIdx.x; at < bytes; at += kThreads) {
    to[at] = from[at];
  }
}

/// The block's way through the pieces of one direction.
template <Direction kDirection>
class Pieces {
 public:
  __device__ explicit Pieces(codec::DynamicWindow& window)
      : window_(window), piece_(own().load(cuda::std::memory_order_relaxed)) {}

  /// Moves a part; all threads of the block call it and get the same answer: false once the window
  /// is aborted.
  __device__ bool move(std::byte* part, std::uint64_t bytes) {
    for (std::uint64_t done = 0; done < bytes; done += codec::kPieceBytes) {
      const bool isOver = threadIdx.x == 0 && !waitForHost();
      if (__syncthreads_or(isOver ? 1 : 0) != 0) return false;
      const auto now = static_cast<unsigned>(codec::pieceBytesAt(bytes, done));
      std::byte* const place =
          (kIsExport ? window_.out : window_.in)[piece_ % codec::kWindowPieces];
      copyPiece(kIsExport ? place : part + done, kIsExport ? part + done : place, now);
      ++piece_;
      __syncthreads();
      if (threadIdx.x == 0) own().store(piece_, cuda::std::memory_order_release);
    }
    return true;
  }

 private:
  static constexpr bool kIsExport = kDirection == Direction::kExport;

  [[nodiscard]] __device__ SharedWord own() {
    return SharedWord(kIsExport ? window_.exported : window_.imported);
  }

  [[nodiscard]] __device__ bool mayMove() const {
    return kIsExport ? codec::hasPlace(piece_, host_) : piece_ < host_;
  }

  /// Whether the host has come so far that the next piece may be moved; else the window is aborted.
  [[nodiscard]] __device__ bool waitForHost() {
    while (!mayMove()) {
      host_ = SharedWord(kIsExport ? window_.taken : window_.given)
                  .load(cuda::std::memory_order_acquire);
      if (mayMove()) break;
      if (SharedWord(window_.isAborted).load(cuda::std::memory_order_relaxed) != 0) return false;
      __nanosleep(kPauseNs);
    }
    return true;
  }

  codec::DynamicWindow& window_;
  std::uint64_t piece_;     ///< the next one
  std::uint64_t host_ = 0;  ///< the host's count when thread 0 looked last
};

template <Direction kDirection>
__global__ __launch_bounds__(kThreads) void gateKernel(const __grid_constant__ GateWork work) {
  __shared__ std::uint64_t movedBytes[codec::kMostGateFrames];
  const unsigned frame = threadIdx.x / kHeaderQuads;
  const unsigned quad = threadIdx.x % kHeaderQuads;
  const bool isHere = frame < work.partCount;
  ulonglong2 words{};
  if (isHere) {
    words = reinterpret_cast<const ulonglong2*>(work.parts[frame].header)[quad];
    reinterpret_cast<ulonglong2*>(work.gate.slot->headers[frame])[quad] = words;
  }
  const std::uint64_t poolBytes =
      __shfl_sync(0xFFFFFFFFU, words.y, kPoolQuad, static_cast<int>(kHeaderQuads));
  std::uint64_t bytes = 0;
  if (isHere && quad == kExtraQuad) {
    const codec::DynamicPart& part = work.parts[frame];
    if (part.part != nullptr) bytes = codec::movedBytesOf(poolBytes, words.x, part.capacity);
    movedBytes[frame] = bytes;
  }
  const bool movesParts = __syncthreads_or(bytes != 0 ? 1 : 0) != 0;
  if (threadIdx.x == 0) {
    SharedWord(work.gate.slot->number).store(work.gate.number, cuda::std::memory_order_release);
  }
  if (!movesParts) return;
  Pieces<kDirection> pieces(*work.gate.window);
  for (unsigned i = 0; i < work.partCount; ++i) {
    if (!pieces.move(work.parts[i].part, movedBytes[i])) return;
  }
}

template <Direction kDirection>
void launchGate(std::span<const codec::DynamicPart> parts, const codec::Gate& gate,
                StreamHandle stream) {
  expects(parts.size() <= codec::kMostGateFrames, "a gate takes no ", parts.size(), " frames");
  GateWork work{};
  std::copy(parts.begin(), parts.end(), work.parts);
  work.gate = gate;
  work.partCount = static_cast<unsigned>(parts.size());
  gateKernel<kDirection><<<1, kThreads, 0, stream>>>(work);
  check(cudaGetLastError(), "launching the kernel of a gate");
}

}  // namespace

void exportDynamic(std::span<const codec::DynamicPart> parts, const codec::Gate& gate,
                   StreamHandle stream) {
  launchGate<Direction::kExport>(parts, gate, stream);
}

void importDynamic(std::span<const codec::DynamicPart> parts, const codec::Gate& gate,
                   StreamHandle stream) {
  launchGate<Direction::kImport>(parts, gate, stream);
}

}  // namespace zipccl::gpu
