// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the GPU codec share: a fixture that skips where there is no device, device
// buffers between guards, inputs, and round trips in which host and device check each other.

#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "codec/codec_testing.hpp"
#include "gpu/owners.hpp"
#include "support/seeded_test.hpp"
#include "zipccl/codec.hpp"
#include "zipccl/gpu_codec.hpp"

namespace zipccl::gpu::testing {

using codec::FrameSpec;
using codec::testing::Bytes;
using codec::testing::Format;
using codec::testing::Words;

/// The formats that the GPU codec has: all.
inline constexpr std::span<const Format> kGpuFormats = codec::testing::kFormats;

/// Whether ZIPCCL_TEST_GPU_BUFFERS=exact: buffers end where their allocations end and are not
/// poisoned, so that compute-sanitizer sees each read outside them and of what nothing wrote. Else
/// they stand between guards, which show each write outside them.
[[nodiscard]] bool usesExactBuffers();

/// Device memory whose copies are ordered on one stream.
class GuardedDeviceBuffer {
 public:
  /// Poisoned. The first byte stands `misalignment` bytes above a multiple of 256.
  GuardedDeviceBuffer(const Stream& stream, std::size_t bytes, std::size_t misalignment = 0);

  /// Holding `content`.
  GuardedDeviceBuffer(const Stream& stream, std::span<const std::byte> content,
                      std::size_t misalignment = 0);

  /// Null when exact and of no bytes.
  [[nodiscard]] std::byte* data() const noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  void poison();
  void upload(std::span<const std::byte> content, std::size_t offset = 0);

  /// After all that the stream has been given. Waits.
  void download(std::size_t offset, std::span<std::byte> into) const;
  [[nodiscard]] Bytes download(std::size_t offset, std::size_t count) const;
  [[nodiscard]] Bytes download() const { return download(0, bytes_); }

  /// Whether nothing was written outside the buffer. Waits; always true when exact.
  [[nodiscard]] bool isIntact() const;

  static constexpr std::byte kPoison{0xA5};

 private:
  void writeGuards();

  cudaStream_t stream_;
  std::size_t begin_;
  std::size_t bytes_;
  DeviceBuffer memory_;
};

/// One 32- or 64-bit word in device memory.
template <typename Word>
class DeviceWord {
 public:
  DeviceWord(const Stream& stream, Word value) : buffer_(stream, sizeof(Word)) { set(value); }

  [[nodiscard]] Word* get() const noexcept { return reinterpret_cast<Word*>(buffer_.data()); }
  void set(Word value) { buffer_.upload(std::as_bytes(std::span(&value, 1))); }
  [[nodiscard]] Word value() const {
    Word word{};
    buffer_.download(0, std::as_writable_bytes(std::span(&word, 1)));
    return word;
  }
  [[nodiscard]] bool isIntact() const { return buffer_.isIntact(); }

 private:
  GuardedDeviceBuffer buffer_;
};

/// Says where two byte strings differ first.
[[nodiscard]] ::testing::AssertionResult equalBytes(std::span<const std::byte> actual,
                                                    std::span<const std::byte> expected);

/// `status` when the word says nothing else than that, for messages.
[[nodiscard]] std::string describeWord(std::uint32_t statusWord);

/// How a frame's size is held against the host encoder's.
enum class SizeCheck {
  kNear,       ///< within 0.2 % and a few bytes
  kNotLarger,  ///< the same, but it may be smaller
  kBoundOnly   ///< within the bound of docs/format.md section 10
};

/// How a call is made.
struct Manner {
  LaunchOptions options{};
  std::size_t misalignmentBytes = 0;  ///< of the elements, above a multiple of 256
};

class DeviceTest : public zipccl::testing::SeededTest {
 protected:
  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] const Stream& stream() const { return *stream_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }
  [[nodiscard]] void* workspace() const { return workspace_->data(); }

  /// Encodes on the device and checks the frame by itself and against the host: its size, its
  /// header, that the host decodes it, that nothing outside it was written.
  Bytes encodeOnDevice(const FrameSpec& spec, std::span<const std::byte> elements,
                       SizeCheck sizeCheck = SizeCheck::kBoundOnly, const Manner& manner = {});

  /// Decodes `frame` on the device, in one piece and with its dynamic part elsewhere, and checks
  /// that `elements` come back and nothing else was written.
  void expectDecodesOnDevice(const FrameSpec& spec, std::span<const std::byte> frame,
                             std::span<const std::byte> elements, const Manner& manner = {});

  /// Device to host and device to device.
  Bytes deviceRoundTrip(const FrameSpec& spec, std::span<const std::byte> elements,
                        SizeCheck sizeCheck = SizeCheck::kBoundOnly, const Manner& manner = {});

  /// And host to device.
  Bytes roundTrip(const FrameSpec& spec, std::span<const std::byte> elements,
                  SizeCheck sizeCheck = SizeCheck::kBoundOnly, const Manner& manner = {});

 private:
  void checkSize(const FrameSpec& spec, std::span<const std::byte> frame,
                 std::span<const std::byte> elements, SizeCheck sizeCheck);
  void expectDecodesParts(const FrameSpec& spec, std::span<const std::byte> staticPart,
                          std::span<const std::byte> dynamicPart, bool inOnePiece,
                          std::span<const std::byte> elements, const Manner& manner);

  std::optional<Stream> stream_;
  std::optional<GuardedDeviceBuffer> workspace_;
  int multiprocessors_ = 0;
};

/// The host encoder's frame.
[[nodiscard]] Bytes encodeOnHost(const FrameSpec& spec, std::span<const std::byte> elements);

// ---------------------------------------------------------------------------------------------------
// Inputs

[[nodiscard]] Words gaussianWords(codec::Datatype datatype, Random& random, double sigma,
                                  std::uint64_t count);

/// Gaussian, of which a share are zeros, and of these a share negative ones.
[[nodiscard]] Words wordsWithZeros(codec::Datatype datatype, Random& random, double share,
                                   double negativeShare, std::uint64_t count);

/// A tile with exactly `escapes` escapes where it is coded, with every window of seven that an
/// encoder may derive from its mean: the others have one exponent, and no lane has many more
/// escapes than another.
[[nodiscard]] Words tileWithEscapes(Random& random, codec::Datatype datatype,
                                    std::uint32_t escapes);

void append(Words& words, const Words& more);

}  // namespace zipccl::gpu::testing
