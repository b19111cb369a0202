// SPDX-License-Identifier: Apache-2.0
//
// Sizes, specs and headers: the functions of zipccl/codec.hpp that look at no element.

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "base/error.hpp"
#include "codec/codec_testing.hpp"
#include "codec/header.hpp"
#include "codec/layout.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

constexpr auto kBf16 = Datatype::kBfloat16;
constexpr auto kFp16 = Datatype::kFloat16;
constexpr auto kFp32 = Datatype::kFloat32;

template <typename Function>
void expectInvalidArgument(Function function, const std::string& text) {
  try {
    function();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(Sizes, OfFramesFollowTheTableOfSections) {
  // By hand from docs/format.md section 2.
  EXPECT_EQ(staticBytes({kBf16, Layout::kNarrow, 0, 0, false}), 128U);
  EXPECT_EQ(staticBytes({kBf16, Layout::kNarrow, 1, 0, false}), 256U);
  EXPECT_EQ(staticBytes({kBf16, Layout::kNarrow, 64, 0, false}), 256U);
  EXPECT_EQ(staticBytes({kBf16, Layout::kNarrow, 65, 0, false}), 384U);
  EXPECT_EQ(staticBytes({kBf16, Layout::kNarrow, 1024, 0, false}), 256U + 1408U);
  EXPECT_EQ(staticBytes({kBf16, Layout::kNarrow, 1027, 128, false}), 256U + 1408U + 128U + 128U);
  EXPECT_EQ(staticBytes({kFp16, Layout::kNarrow, 1, 0, false}), 256U);
  EXPECT_EQ(staticBytes({kFp16, Layout::kNarrow, 1027, 128, false}), 256U + 1792U + 128U + 128U);
  EXPECT_EQ(staticBytes({kFp32, Layout::kWide, 1024, 0, false}), 256U + 3456U);
  // 32 tiles: 128 bytes of descriptors, 32 of group offsets, rounded up to 128.
  EXPECT_EQ(staticBytes({kFp32, Layout::kNarrow, 32768, 256, false}), 384U + 32U * 1408U + 256U);
  // 2^40 elements are 2^30 tiles in 2^27 groups.
  EXPECT_EQ(staticBytes({kBf16, Layout::kNarrow, 1ULL << 40, 0, false}),
            128U + (1ULL << 32) + (1ULL << 30) + 1408ULL * (1ULL << 30));
}

TEST(Sizes, OfPoolsFollowTheirRules) {
  EXPECT_EQ(maxPoolBytes(kBf16, Layout::kNarrow, 2047), 640U);
  EXPECT_EQ(maxPoolBytes(kFp16, Layout::kNarrow, 2047), 256U);
  EXPECT_EQ(maxPoolBytes(kFp32, Layout::kNarrow, 2048), 2U * 2688U);
  EXPECT_EQ(maxPoolBytes(kFp32, Layout::kWide, 2048), 2U * 640U);
  EXPECT_EQ(defaultPoolBytes(kBf16, Layout::kNarrow, 1023), 0U);
  EXPECT_EQ(defaultPoolBytes(kBf16, Layout::kNarrow, 1024), 128U);
  EXPECT_EQ(defaultPoolBytes(kBf16, Layout::kNarrow, 64 * 1024), 2304U);
  EXPECT_EQ(defaultPoolBytes(kFp16, Layout::kNarrow, 64 * 1024), 2304U);
  EXPECT_EQ(steadyPoolBytes(kBf16, Layout::kNarrow, 1 << 20, 0), 0U);
  EXPECT_EQ(steadyPoolBytes(kBf16, Layout::kNarrow, 1 << 20, 16), 128U);
  EXPECT_EQ(steadyPoolBytes(kBf16, Layout::kNarrow, 1 << 20, 64000), 65024U);
  EXPECT_EQ(steadyPoolBytes(kBf16, Layout::kNarrow, 2048, 1280), 1280U);
  EXPECT_EQ(steadyPoolBytes(kBf16, Layout::kNarrow, 2048, ~0ULL), 1280U);
}

TEST(Sizes, BoundCoversEveryLayoutAndPool) {
  for (const std::uint64_t count : {0ULL, 1ULL, 1023ULL, 1024ULL, 5000ULL, 1ULL << 40}) {
    for (const Format& format : kFormats) {
      SCOPED_TRACE(::testing::Message() << format << " " << count);
      const std::uint64_t bound = maxFrameBytes(format.datatype, count);
      const std::uint64_t inputBytes = count * elementBytes(format.datatype);
      EXPECT_LE(bound, inputBytes + inputBytes / 100 + 512);
      FrameSpec spec = specOf(format, count);
      spec.poolBytes = maxPoolBytes(format.datatype, format.layout, count);
      EXPECT_EQ(staticBytes(spec), bound);
    }
  }
}

TEST(Sizes, RejectsWhatIsNoSpec) {
  const std::uint64_t tooMany = (1ULL << 40) + 1;
  expectInvalidArgument([&] { (void)maxFrameBytes(kBf16, tooMany); }, "2^40");
  expectInvalidArgument([&] { (void)maxPoolBytes(kBf16, Layout::kNarrow, ~0ULL); }, "2^40");
  expectInvalidArgument(
      [&] {
        (void)staticBytes({kBf16, Layout::kNarrow, tooMany, 0, false});
      },
      "2^40");
  expectInvalidArgument([&] { (void)staticBytes({kBf16, Layout::kWide, 1, 0, false}); }, "layout");
  expectInvalidArgument([&] { (void)staticBytes({kFp16, Layout::kWide, 1, 0, false}); }, "layout");
  expectInvalidArgument(
      [&] {
        (void)staticBytes({kFp32, static_cast<Layout>(2), 1, 0, false});
      },
      "layout");
  expectInvalidArgument(
      [&] {
        (void)staticBytes({static_cast<Datatype>(4), Layout::kNarrow, 1, 0, false});
      },
      "datatype");
  expectInvalidArgument(
      [&] {
        (void)staticBytes({kBf16, Layout::kNarrow, 1024, 64, false});
      },
      "64 bytes");
  expectInvalidArgument(
      [&] {
        (void)staticBytes({kBf16, Layout::kNarrow, 1024, 768, false});
      },
      "up to 640");
  expectInvalidArgument([&] { (void)defaultPoolBytes(kBf16, Layout::kWide, 1); }, "layout");
  expectInvalidArgument([&] { (void)steadyPoolBytes(kBf16, Layout::kNarrow, tooMany, 0); }, "2^40");
}

TEST(Sizes, EncodeRejectsBadArgumentsWithBothSizes) {
  const FrameSpec spec = {kBf16, Layout::kNarrow, 1024, 0, false};
  Bytes source(2048, std::byte{0x11});
  Bytes frame(staticBytes(spec) - 1);
  expectInvalidArgument([&] { (void)encode(spec, nullptr, frame); }, "null");
  expectInvalidArgument([&] { (void)encode(spec, source.data(), frame); },
                        "needs 1664 bytes, but the buffer has 1663");
}

TEST(Describe, HasASentenceOfItsOwnForEveryStatus) {
  std::set<std::string> sentences;
  const auto last = static_cast<int>(DecodeStatus::kChecksumMismatch);
  for (int status = 0; status <= last; ++status) {
    const std::string sentence = describe(static_cast<DecodeStatus>(status));
    EXPECT_EQ(sentence.back(), '.');
    EXPECT_TRUE(sentences.insert(sentence).second) << sentence;
  }
  EXPECT_NE(describe(static_cast<DecodeStatus>(255)), nullptr);
  EXPECT_EQ(sentences.count(describe(static_cast<DecodeStatus>(255))), 0U);
}

class Header : public zipccl::testing::SeededTest {};

TEST_F(Header, ComesBackAsWritten) {
  const ApplicationWords application = {random_(), random_(), random_(), random_()};
  for (const Format& format : kFormats) {
    for (const bool checksum : {false, true}) {
      FrameSpec spec = specOf(format, random_.below(1ULL << 40));
      spec.checksum = checksum;
      const std::uint64_t most = maxPoolBytes(format.datatype, format.layout, spec.elementCount);
      const std::uint64_t extraBytes = random_.below(most / 16 + 1) * 16;
      Bytes frame(kHeaderBytes);
      writeHeader(spec, extraBytes, checksum ? 7 : 0, application, frame.data());

      FrameHeader header;
      ASSERT_EQ(readHeader(frame, header), DecodeStatus::kOk);
      EXPECT_EQ(header.spec, spec);
      EXPECT_EQ(header.extraBytes, extraBytes);
      EXPECT_EQ(header.dynamicBytes, extraBytes - std::min(extraBytes, spec.poolBytes));
      EXPECT_EQ(header.staticBytes, staticBytes(spec));
      EXPECT_EQ(header.checksum, checksum ? 7U : 0U);
      EXPECT_EQ(header.application, application);
    }
  }
}

TEST_F(Header, IsLeftAloneWhenRejected) {
  FrameHeader header;
  header.extraBytes = 77;
  const Bytes zeros(kHeaderBytes);
  EXPECT_EQ(readHeader(zeros, header), DecodeStatus::kBadMagic);
  EXPECT_EQ(readHeader(std::span(zeros).first(127), header), DecodeStatus::kTruncated);
  EXPECT_EQ(header.extraBytes, 77U);
}

}  // namespace
}  // namespace zipccl::codec::testing
