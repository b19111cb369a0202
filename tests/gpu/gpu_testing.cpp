// SPDX-License-Identifier: Apache-2.0
//
// What the tests of the GPU codec share.

#include "gpu/gpu_testing.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "codec/bytes.hpp"
#include "codec/layout.hpp"

namespace zipccl::gpu::testing {

using codec::DecodeStatus;
using codec::FrameHeader;
using codec::FrameLayout;

namespace {

constexpr std::size_t kGuardBytes = 512;
constexpr std::size_t kAlignment = 256;
static_assert(kGuardBytes % kAlignment == 0);

/// Differs from byte to byte, so that a guard copied over another place shows too.
Bytes guardBytes(std::size_t count) {
  Bytes guard(count);
  for (std::size_t i = 0; i < count; ++i) guard[i] = static_cast<std::byte>((0x5B + 37 * i) & 0xFF);
  return guard;
}

FrameLayout layoutOf(const FrameSpec& spec) {
  return codec::frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
}

/// Bytes of a frame without the part of its pool that holds nothing.
std::uint64_t usedBytes(const FrameSpec& spec, std::span<const std::byte> frame) {
  FrameHeader header;
  EXPECT_EQ(codec::readHeader(frame, header), DecodeStatus::kOk);
  return layoutOf(spec).poolAt + header.extraBytes;
}

}  // namespace

bool usesExactBuffers() {
  static const bool exact = [] {
    const char* const mode = std::getenv("ZIPCCL_TEST_GPU_BUFFERS");
    return mode != nullptr && std::strcmp(mode, "exact") == 0;
  }();
  return exact;
}

GuardedDeviceBuffer::GuardedDeviceBuffer(const Stream& stream, std::size_t bytes,
                                         std::size_t misalignment)
    : stream_(stream.get()),
      begin_(usesExactBuffers() ? misalignment : kGuardBytes + misalignment),
      bytes_(bytes),
      memory_(usesExactBuffers() ? (bytes == 0 ? 0 : begin_ + bytes)
                                 : begin_ + bytes + kGuardBytes) {
  if (usesExactBuffers()) return;
  writeGuards();
  poison();
}

GuardedDeviceBuffer::GuardedDeviceBuffer(const Stream& stream, std::span<const std::byte> content,
                                         std::size_t misalignment)
    : GuardedDeviceBuffer(stream, content.size(), misalignment) {
  upload(content);
}

std::byte* GuardedDeviceBuffer::data() const noexcept {
  return memory_.data() == nullptr ? nullptr : memory_.data() + begin_;
}

void GuardedDeviceBuffer::writeGuards() {
  const Bytes front = guardBytes(begin_);
  const Bytes back = guardBytes(kGuardBytes);
  check(
      cudaMemcpyAsync(memory_.data(), front.data(), front.size(), cudaMemcpyHostToDevice, stream_),
      "writing a guard");
  check(cudaMemcpyAsync(data() + bytes_, back.data(), back.size(), cudaMemcpyHostToDevice, stream_),
        "writing a guard");
}

void GuardedDeviceBuffer::poison() {
  if (bytes_ == 0) return;
  check(cudaMemsetAsync(data(), static_cast<int>(kPoison), bytes_, stream_), "poisoning a buffer");
}

void GuardedDeviceBuffer::upload(std::span<const std::byte> content, std::size_t offset) {
  expects(offset + content.size() <= bytes_, content.size(), " bytes at ", offset,
          " do not fit a buffer of ", bytes_);
  if (content.empty()) return;
  check(cudaMemcpyAsync(data() + offset, content.data(), content.size(), cudaMemcpyHostToDevice,
                        stream_),
        "filling a buffer");
  // The host's bytes may be gone when the caller returns.
  check(cudaStreamSynchronize(stream_), "filling a buffer");
}

void GuardedDeviceBuffer::download(std::size_t offset, std::span<std::byte> into) const {
  if (!into.empty()) {
    check(
        cudaMemcpyAsync(into.data(), data() + offset, into.size(), cudaMemcpyDeviceToHost, stream_),
        "reading a buffer");
  }
  check(cudaStreamSynchronize(stream_), "reading a buffer");
}

Bytes GuardedDeviceBuffer::download(std::size_t offset, std::size_t count) const {
  expects(offset + count <= bytes_, count, " bytes at ", offset, " are not in a buffer of ",
          bytes_);
  Bytes content(count);
  download(offset, content);
  return content;
}

bool GuardedDeviceBuffer::isIntact() const {
  if (usesExactBuffers()) return true;
  Bytes front(begin_);
  Bytes back(kGuardBytes);
  check(
      cudaMemcpyAsync(front.data(), memory_.data(), front.size(), cudaMemcpyDeviceToHost, stream_),
      "reading a guard");
  check(cudaMemcpyAsync(back.data(), data() + bytes_, back.size(), cudaMemcpyDeviceToHost, stream_),
        "reading a guard");
  check(cudaStreamSynchronize(stream_), "reading a guard");
  return front == guardBytes(front.size()) && back == guardBytes(back.size());
}

::testing::AssertionResult equalBytes(std::span<const std::byte> actual,
                                      std::span<const std::byte> expected) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure()
           << actual.size() << " bytes instead of " << expected.size();
  }
  if (actual.empty() || std::memcmp(actual.data(), expected.data(), actual.size()) == 0) {
    return ::testing::AssertionSuccess();
  }
  const auto [a, e] = std::mismatch(actual.begin(), actual.end(), expected.begin());
  std::size_t differing = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) differing += actual[i] != expected[i] ? 1U : 0U;
  return ::testing::AssertionFailure()
         << differing << " of " << actual.size() << " bytes differ, the first at "
         << a - actual.begin() << ": " << static_cast<int>(*a) << " instead of "
         << static_cast<int>(*e);
}

std::string describeWord(std::uint32_t statusWord) {
  std::string text;
  for (std::uint32_t bit = 0; bit < 32; ++bit) {
    if ((statusWord >> bit & 1U) == 0) continue;
    if (!text.empty()) text += ", ";
    text += codec::describe(static_cast<DecodeStatus>(bit));
  }
  return text.empty() ? "ok" : text;
}

Bytes encodeOnHost(const FrameSpec& spec, std::span<const std::byte> elements) {
  Bytes frame(codec::maxFrameBytes(spec.datatype, spec.elementCount));
  frame.resize(codec::encode(spec, elements.data(), frame).frameBytes());
  return frame;
}

void DeviceTest::SetUp() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    GTEST_SKIP() << "no CUDA device: "
                 << (status != cudaSuccess ? cudaGetErrorString(status) : "there are none");
  }
  check(cudaDeviceGetAttribute(&multiprocessors_, cudaDevAttrMultiProcessorCount, 0),
        "asking for the number of multiprocessors");
  stream_.emplace();
  workspace_.emplace(*stream_, kEncodeWorkspaceBytes);
  initEncodeWorkspace(workspace_->data(), stream_->get());
}

void DeviceTest::TearDown() {
  if (!stream_) return;
  EXPECT_TRUE(workspace_->isIntact());
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

Bytes DeviceTest::encodeOnDevice(const FrameSpec& spec, std::span<const std::byte> elements,
                                 SizeCheck sizeCheck, const Manner& manner) {
  const GuardedDeviceBuffer source(*stream_, elements, manner.misalignmentBytes);
  GuardedDeviceBuffer frame(*stream_, codec::maxFrameBytes(spec.datatype, spec.elementCount));
  frame.poison();
  const DeviceWord<std::uint64_t> frameBytes(*stream_, 0);
  encode(spec, source.data(), frame.data(), frame.bytes(), frameBytes.get(), workspace(),
         stream_->get(), manner.options);

  Bytes whole = frame.download();
  EXPECT_TRUE(frame.isIntact()) << "encode wrote outside the frame's buffer";
  EXPECT_TRUE(source.isIntact());
  EXPECT_TRUE(frameBytes.isIntact());
  EXPECT_TRUE(equalBytes(source.download(), elements)) << "encode changed its input";

  FrameHeader header;
  EXPECT_EQ(codec::readHeader(whole, header), DecodeStatus::kOk);
  EXPECT_EQ(header.spec, spec);
  EXPECT_EQ(header.application, codec::ApplicationWords{});
  EXPECT_EQ(frameBytes.value(), header.staticBytes + header.dynamicBytes);
  if (HasFailure()) return {};
  const std::span<const std::byte> rest =
      std::span(whole).subspan(header.staticBytes + header.dynamicBytes);
  EXPECT_TRUE(std::all_of(rest.begin(), rest.end(), [](std::byte byte) {
    return byte == GuardedDeviceBuffer::kPoison;
  })) << "encode wrote behind its frame";
  whole.resize(header.staticBytes + header.dynamicBytes);

  checkSize(spec, whole, elements, sizeCheck);
  Bytes decoded(elements.size(), GuardedDeviceBuffer::kPoison);
  const std::span<const std::byte> bytes(whole);
  EXPECT_EQ(codec::decode(spec, bytes.first(header.staticBytes), bytes.subspan(header.staticBytes),
                          decoded),
            DecodeStatus::kOk);
  EXPECT_TRUE(equalBytes(decoded, elements)) << "the host's decoder on the device's frame";
  return whole;
}

void DeviceTest::checkSize(const FrameSpec& spec, std::span<const std::byte> frame,
                           std::span<const std::byte> elements, SizeCheck sizeCheck) {
  EXPECT_LE(frame.size(), codec::maxFrameBytes(spec.datatype, spec.elementCount));
  EXPECT_LE(frame.size(), elements.size() + elements.size() / 100 + 512);
  if (sizeCheck == SizeCheck::kBoundOnly) return;
  const auto actual = static_cast<double>(usedBytes(spec, frame));
  const auto expected = static_cast<double>(usedBytes(spec, encodeOnHost(spec, elements)));
  // A tile whose window is near a tie may take some bytes more or less.
  constexpr double kShare = 0.002;
  constexpr double kFewBytes = 64;
  const double tolerance = kShare * expected + kFewBytes;
  EXPECT_LE(actual, expected + tolerance);
  if (sizeCheck == SizeCheck::kNear) {
    EXPECT_GE(actual, expected - tolerance);
  }
}

void DeviceTest::expectDecodesParts(const FrameSpec& spec, std::span<const std::byte> staticPart,
                                    std::span<const std::byte> dynamicPart, bool inOnePiece,
                                    std::span<const std::byte> elements, const Manner& manner) {
  const std::string place = inOnePiece ? "the frame in one piece" : "the frame in two parts";
  Bytes first(staticPart.begin(), staticPart.end());
  if (inOnePiece) first.insert(first.end(), dynamicPart.begin(), dynamicPart.end());
  const GuardedDeviceBuffer firstBuffer(*stream_, first);
  const GuardedDeviceBuffer secondBuffer(*stream_, inOnePiece ? dynamicPart.first(0) : dynamicPart);
  const std::byte* const dynamic =
      inOnePiece ? firstBuffer.data() + staticPart.size() : secondBuffer.data();
  const GuardedDeviceBuffer output(*stream_, elements.size(), manner.misalignmentBytes);
  const DeviceWord<std::uint32_t> status(*stream_, 0);
  decode(spec, firstBuffer.data(), dynamicPart.empty() ? nullptr : dynamic, dynamicPart.size(),
         output.data(), status.get(), stream_->get(), manner.options);
  EXPECT_EQ(status.value(), 0U) << place << ": " << describeWord(status.value());
  EXPECT_TRUE(equalBytes(output.download(), elements)) << place;
  EXPECT_TRUE(output.isIntact()) << place;
  EXPECT_TRUE(status.isIntact()) << place;
  EXPECT_TRUE(firstBuffer.isIntact() && secondBuffer.isIntact()) << place;
  EXPECT_TRUE(equalBytes(firstBuffer.download(), first)) << "decode changed the frame";
}

void DeviceTest::expectDecodesOnDevice(const FrameSpec& spec, std::span<const std::byte> frame,
                                       std::span<const std::byte> elements, const Manner& manner) {
  const std::uint64_t split = codec::staticBytes(spec);
  for (const bool inOnePiece : {true, false}) {
    expectDecodesParts(spec, frame.first(split), frame.subspan(split), inOnePiece, elements,
                       manner);
  }
}

Bytes DeviceTest::deviceRoundTrip(const FrameSpec& spec, std::span<const std::byte> elements,
                                  SizeCheck sizeCheck, const Manner& manner) {
  Bytes frame = encodeOnDevice(spec, elements, sizeCheck, manner);
  if (HasFailure()) return frame;
  SCOPED_TRACE("the device's frame on the device");
  expectDecodesOnDevice(spec, frame, elements, manner);
  return frame;
}

Bytes DeviceTest::roundTrip(const FrameSpec& spec, std::span<const std::byte> elements,
                            SizeCheck sizeCheck, const Manner& manner) {
  Bytes frame = deviceRoundTrip(spec, elements, sizeCheck, manner);
  if (HasFailure()) return frame;
  SCOPED_TRACE("the host's frame on the device");
  expectDecodesOnDevice(spec, encodeOnHost(spec, elements), elements, manner);
  return frame;
}

Words gaussianWords(codec::Datatype datatype, Random& random, double sigma, std::uint64_t count) {
  Words words(count);
  for (std::uint32_t& word : words) {
    word = codec::testing::wordOfNumber(datatype, static_cast<float>(sigma * random.normal()));
  }
  return words;
}

Words wordsWithZeros(codec::Datatype datatype, Random& random, double share, double negativeShare,
                     std::uint64_t count) {
  Words words = gaussianWords(datatype, random, 0.02, count);
  for (std::uint32_t& word : words) {
    if (random.chance(share)) word = random.chance(negativeShare) ? 0x80000000U : 0U;
  }
  return words;
}

Words tileWithEscapes(Random& random, codec::Datatype datatype, std::uint32_t escapes) {
  const codec::ElementFormat element = codec::elementFormat(datatype);
  // The exponent of all the others, and how many lie far below it.
  const std::uint32_t common = element.exponentBits == 8 ? 127 : 25;
  const std::uint32_t farBelow = element.exponentBits == 8 ? 60 : 10;
  const auto wordOf = [&](std::uint32_t exponent) {
    const auto bits = static_cast<std::uint32_t>(random.below(65536)) << 16;
    const std::uint32_t fields = element.maxExponent() << (31 - element.exponentBits);
    return (bits & ~fields) | exponent << (31 - element.exponentBits);
  };
  Words words(codec::kTileElements);
  // Escapes are dealt to the lanes in turn, in each to odd and even slots in turn.
  for (std::uint32_t lane = 0; lane < codec::kLanes; ++lane) {
    const std::uint32_t first = static_cast<std::uint32_t>(random.below(codec::kSlots));
    for (std::uint32_t i = 0; i < codec::kSlots; ++i) {
      const bool isEscape = i * codec::kLanes + lane < escapes;
      const std::uint32_t exponent = 1 + static_cast<std::uint32_t>(random.below(farBelow));
      words[codec::elementOfSlot(datatype, lane, (first + i) % codec::kSlots)] =
          wordOf(isEscape ? exponent : common);
    }
  }
  return words;
}

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

}  // namespace zipccl::gpu::testing
