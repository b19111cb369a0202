// SPDX-License-Identifier: Apache-2.0
//
// The host codec: lossless frames for bf16, fp16 and fp32 tensors, as docs/format.md (version 1)
// defines them. Everything here works on host memory, is reentrant, and keeps no state between
// calls. The widest vector instructions that the machine has do the work, and all of them give the
// same bytes; ZIPCCL_HOST_CODEC=scalar|avx2|avx512 chooses others. A call works in its caller's
// thread alone, unless it is given CodecThreads. Functions that are not noexcept throw
// zipccl::Error (zipccl/error.hpp).

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "zipccl/error.hpp"

namespace zipccl::codec {

/// Datatypes that have a frame format. Values are those of the header (docs/format.md section 3).
enum class Datatype : std::uint8_t { kBfloat16 = 1, kFloat16 = 2, kFloat32 = 3 };

/// Where the low halves of fp32 elements travel: narrow in extra space and only for tiles that have
/// any, wide in every tile's record. 16-bit datatypes are always narrow.
enum class Layout : std::uint8_t { kNarrow = 0, kWide = 1 };

/// What sender and receiver agree on before a byte is sent; it fixes the size of the static part.
struct FrameSpec {
  Datatype datatype = Datatype::kBfloat16;
  Layout layout = Layout::kNarrow;
  std::uint64_t elementCount = 0;  ///< 0 to 2^40
  std::uint64_t poolBytes = 0;     ///< a multiple of 128, at most maxPoolBytes
  bool checksum = false;           ///< written by encode; a decoder goes by the frame's own flag

  friend bool operator==(const FrameSpec&, const FrameSpec&) = default;
};

/// Four words that a frame carries for its sender and that the codec does not read.
using ApplicationWords = std::array<std::uint64_t, 4>;

/// Why a byte string was rejected: docs/format.md section 9, in the order of its table.
enum class DecodeStatus : std::uint8_t {
  kOk = 0,
  kTruncated,
  kBadMagic,
  kUnsupportedVersion,
  kUnsupportedCodec,
  kBadDatatype,
  kBadLayout,
  kBadTileSize,
  kBadReserved,
  kBadElementCount,
  kBadPoolBytes,
  kBadExtraBytes,
  kSpecMismatch,
  kOutputTooSmall,
  kBadDescriptor,
  kBadGroupOffset,
  kBadEscapeCount,
  kChecksumMismatch,
};

/// One English sentence for `status`; never null, static lifetime.
[[nodiscard]] const char* describe(DecodeStatus status) noexcept;

/// Bytes of one element: 2 or 4.
[[nodiscard]] std::uint64_t elementBytes(Datatype datatype) noexcept;

/// Bytes that suffice for a frame of `elementCount` elements whatever their values, the layout and
/// the pool size: at most the input plus 1 % plus 512. Throws Error(kInvalidArgument) above 2^40.
[[nodiscard]] std::uint64_t maxFrameBytes(Datatype datatype, std::uint64_t elementCount);

/// The largest pool that a frame may have.
[[nodiscard]] std::uint64_t maxPoolBytes(Datatype datatype, Layout layout,
                                         std::uint64_t elementCount);

/// The pool to agree on when nothing is known of the data: 36 bytes a tile.
[[nodiscard]] std::uint64_t defaultPoolBytes(Datatype datatype, Layout layout,
                                             std::uint64_t elementCount);

/// The pool to agree on when earlier frames of `elementCount` elements used up to `extraBytes` of
/// extra space: that, a margin of 1/64, rounded up to 128, within maxPoolBytes.
[[nodiscard]] std::uint64_t steadyPoolBytes(Datatype datatype, Layout layout,
                                            std::uint64_t elementCount, std::uint64_t extraBytes);

/// Size of the static part: a pure function of `spec`. Throws Error(kInvalidArgument) when `spec`
/// is not a valid one.
[[nodiscard]] std::uint64_t staticBytes(const FrameSpec& spec);

/// Threads that share the work of one call: large buffers are encoded and decoded by all of them at
/// once, with the same bytes and the same status as by one.
///
/// One call at a time has the threads; a call that finds them taken works in its caller's thread
/// alone. Threads without work sleep. A process that was forked from the one that made them has
/// none: there they must be neither used nor destroyed.
class CodecThreads {
 public:
  static constexpr unsigned kMost = 1024;

  /// `count` threads, 1 to kMost, of which the caller's is one: starts `count` - 1 and allocates
  /// what they need to encode (344 KB each), so that no call allocates. Throws
  /// Error(kInvalidArgument), Error(kSystemError) when there are no more threads, std::bad_alloc.
  explicit CodecThreads(unsigned count);
  CodecThreads(const CodecThreads&) = delete;
  CodecThreads& operator=(const CodecThreads&) = delete;
  /// Ends them; no call may be using them.
  ~CodecThreads();

  [[nodiscard]] unsigned count() const noexcept;

  class Pool;
  /// For the codec itself.
  [[nodiscard]] Pool& pool() const noexcept { return *pool_; }

 private:
  std::unique_ptr<Pool> pool_;
};

/// What an encoder made of its input.
struct EncodeResult {
  std::uint64_t staticBytes = 0;   ///< as staticBytes(spec)
  std::uint64_t dynamicBytes = 0;  ///< extra space beyond the pool
  std::uint64_t extraBytes = 0;    ///< extra space in use, pool and dynamic part together
  std::uint64_t tiles = 0;         ///< whole tiles, of which:
  std::uint64_t rawTiles = 0;
  std::uint64_t emptyTiles = 0;
  std::uint64_t zeroCodeTiles = 0;  ///< tiles of kind six + zero
  std::uint64_t lowTiles = 0;       ///< fp32 tiles whose low halves are stored
  std::uint64_t escapes = 0;

  /// Bytes of the whole frame: static and dynamic part.
  [[nodiscard]] std::uint64_t frameBytes() const noexcept { return staticBytes + dynamicBytes; }
};

/// Encodes `spec.elementCount` elements from `source` into one contiguous frame at the start of
/// `frame`: the static part, directly followed by the dynamic part.
///
/// `frame` needs maxFrameBytes bytes (fewer do when the frame turns out smaller: Error
/// (kInvalidArgument) otherwise, with both sizes) and no particular alignment; neither does
/// `source`. The buffers must not overlap. Every byte of the frame is written, so equal inputs give
/// equal frames, whatever the number of `threads` (null: the caller's alone). After an Error the
/// buffer may hold any part of a frame.
EncodeResult encode(const FrameSpec& spec, const void* source, std::span<std::byte> frame,
                    const ApplicationWords& application = {}, CodecThreads* threads = nullptr);

/// A header that passed every check of docs/format.md section 9 down to kBadExtraBytes.
struct FrameHeader {
  FrameSpec spec;
  std::uint64_t extraBytes = 0;
  std::uint64_t dynamicBytes = 0;
  std::uint64_t staticBytes = 0;
  std::uint64_t checksum = 0;
  ApplicationWords application{};
};

/// Reads and checks the first 128 bytes of `frame`. `header` is written on kOk only.
[[nodiscard]] DecodeStatus readHeader(std::span<const std::byte> frame,
                                      FrameHeader& header) noexcept;

/// Decodes a frame whose parts may lie in different buffers. `expected` is what was agreed; a frame
/// that says otherwise gives kSpecMismatch (`expected.checksum` is not compared). `output` must
/// hold elementCount elements, with any alignment, and must not overlap the frame. Reads and writes
/// nothing out of bounds, whatever the bytes. `threads` as with encode().
[[nodiscard]] DecodeStatus decode(const FrameSpec& expected, std::span<const std::byte> staticPart,
                                  std::span<const std::byte> dynamicPart,
                                  std::span<std::byte> output,
                                  CodecThreads* threads = nullptr) noexcept;

/// Decodes a contiguous frame by its own header; `output` may be larger than needed.
[[nodiscard]] DecodeStatus decodeFrame(std::span<const std::byte> frame,
                                       std::span<std::byte> output,
                                       CodecThreads* threads = nullptr) noexcept;

/// The two parts of a frame, which may lie in different buffers.
struct FrameParts {
  std::span<const std::byte> staticPart;
  std::span<const std::byte> dynamicPart;
};

/// What decodeReduce() adds up: a frame, or elements as they are.
struct Addend {
  FrameParts frame;                ///< where `elements` is null
  FrameSpec spec;                  ///< of the frame: pools and layouts may differ
  const void* elements = nullptr;  ///< any alignment; not null, even where there are none
};

/// What became of a decodeReduce().
struct ReduceResult {
  DecodeStatus status = DecodeStatus::kOk;
  std::size_t addend = 0;  ///< unless kOk: whose status this is
};

/// Decodes the frames among `addends`, each of `elementCount` elements of `datatype`, and writes
/// the sum of all addends to `output`.
///
/// Each addend is multiplied by `factor` and rounded to the datatype, unless `factor` is 1; addends
/// are added in fp32 in their order; the sum is rounded once. `factor` must be a number of the
/// datatype. NaNs come out canonical (0x7FFF, 0x7FFFFFFF). These are the bits of
/// gpu::decodeReduce(). Without addends nothing is written.
///
/// `output` may be the elements of one of the addends; other buffers must not overlap it. Nothing
/// is allocated: elements are decoded a tile at a time. Checks, and checksums, as with decode();
/// when a frame is bad the output holds no sum. `threads` as with encode().
[[nodiscard]] ReduceResult decodeReduce(Datatype datatype, std::uint64_t elementCount,
                                        std::span<const Addend> addends, float factor,
                                        std::span<std::byte> output,
                                        CodecThreads* threads = nullptr) noexcept;

}  // namespace zipccl::codec
