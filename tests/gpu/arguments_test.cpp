// SPDX-License-Identifier: Apache-2.0
//
// What the GPU codec refuses before it asks the device for anything: these tests need none.

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "gpu/gpu_testing.hpp"

namespace zipccl::gpu::testing {
namespace {

/// Never used as memory.
std::byte* pointerAt(std::uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

std::byte* const kSource = pointerAt(0x100000);
std::byte* const kFrame = pointerAt(0x200000);
std::byte* const kOutput = pointerAt(0x300000);
std::byte* const kWorkspace = pointerAt(0x400000);
std::uint32_t* const kStatus = reinterpret_cast<std::uint32_t*>(pointerAt(0x500000));

void expectRefused(const std::function<void()>& call, const std::vector<std::string>& words) {
  try {
    call();
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << error.what();
    for (const std::string& word : words) {
      EXPECT_NE(error.message().find(word), std::string::npos)
          << "'" << word << "' is not in: " << error.message();
    }
  }
}

struct EncodeCall {
  FrameSpec spec = codec::testing::specOf(kGpuFormats[0], 5000);
  const std::byte* source = kSource;
  std::byte* frame = kFrame;
  std::uint64_t frameCapacity = codec::maxFrameBytes(codec::Datatype::kBfloat16, 5000);
  std::byte* workspace = kWorkspace;

  void operator()() const {
    encode(spec, source, frame, frameCapacity, nullptr, workspace, nullptr);
  }
};

struct DecodeCall {
  FrameSpec spec = codec::testing::specOf(kGpuFormats[0], 5000);
  const std::byte* staticPart = kFrame;
  const std::byte* dynamicPart = pointerAt(0x280000);
  std::uint64_t dynamicCapacity = 1600;
  std::byte* output = kOutput;
  std::uint32_t* status = kStatus;

  void operator()() const {
    decode(spec, staticPart, dynamicPart, dynamicCapacity, output, status, nullptr);
  }
};

TEST(Arguments, EncodeRefusesNullPointers) {
  EncodeCall call;
  call.source = nullptr;
  expectRefused(call, {"source", "null"});
  call = {};
  call.frame = nullptr;
  expectRefused(call, {"frame", "null"});
  call = {};
  call.workspace = nullptr;
  expectRefused(call, {"workspace", "null"});
}

TEST(Arguments, EncodeRefusesAFrameThatMayNotFit) {
  EncodeCall call;
  const std::uint64_t needed = call.frameCapacity;
  call.frameCapacity = needed - 1;
  expectRefused(call, {"5000", std::to_string(needed), std::to_string(needed - 1)});
  call.frameCapacity = 0;
  expectRefused(call, {std::to_string(needed)});
}

TEST(Arguments, ElementsNeedTheAlignmentOfElements) {
  for (const Format& format : kGpuFormats) {
    const auto bytes = static_cast<std::ptrdiff_t>(codec::elementBytes(format.datatype));
    EncodeCall encodeCall;
    encodeCall.spec = codec::testing::specOf(format, 5000);
    encodeCall.frameCapacity = UINT64_MAX;
    DecodeCall decodeCall;
    decodeCall.spec = encodeCall.spec;
    for (std::ptrdiff_t past = 1; past < bytes; ++past) {
      const std::vector<std::string> words = {std::to_string(bytes) + " bytes",
                                              std::to_string(past) + " bytes past"};
      encodeCall.source = kSource + 4 * bytes + past;
      expectRefused(encodeCall, words);
      decodeCall.output = kOutput + 4 * bytes + past;
      expectRefused(decodeCall, words);
    }
  }
}

TEST(Arguments, EncodeRefusesToWriteAChecksum) {
  EncodeCall call;
  call.spec.checksum = true;
  expectRefused(call, {"checksum"});
}

TEST(Arguments, EncodeRefusesFrameAndWorkspaceThatAreNotAligned) {
  EncodeCall call;
  call.frame = kFrame + 8;
  expectRefused(call, {"frame", "16", "8 bytes"});
  call = {};
  call.workspace = kWorkspace + 4;
  expectRefused(call, {"workspace", "16", "4 bytes"});
}

TEST(Arguments, DecodeRefusesNullPointers) {
  DecodeCall call;
  call.staticPart = nullptr;
  expectRefused(call, {"staticPart", "null"});
  call = {};
  call.dynamicPart = nullptr;
  expectRefused(call, {"dynamicPart", "null"});
  call = {};
  call.output = nullptr;
  expectRefused(call, {"output", "null"});
  call = {};
  call.status = nullptr;
  expectRefused(call, {"status", "null"});
}

TEST(Arguments, DecodeRefusesPartsThatAreNotAligned) {
  DecodeCall call;
  call.staticPart = kFrame + 1;
  expectRefused(call, {"staticPart", "16", "1 bytes"});
  call = {};
  call.dynamicPart += 12;
  expectRefused(call, {"dynamicPart", "16", "12 bytes"});
}

TEST(Arguments, BothRefuseASpecThatIsNone) {
  const auto expectBothRefuse = [](const FrameSpec& spec, const std::vector<std::string>& words) {
    EncodeCall encodeCall;
    encodeCall.spec = spec;
    encodeCall.frameCapacity = UINT64_MAX;
    expectRefused(encodeCall, words);
    DecodeCall decodeCall;
    decodeCall.spec = spec;
    expectRefused(decodeCall, words);
  };
  FrameSpec spec = codec::testing::specOf(kGpuFormats[0], 5000);
  spec.poolBytes += 64;
  expectBothRefuse(spec, {std::to_string(spec.poolBytes)});
  spec.poolBytes = codec::maxPoolBytes(spec.datatype, spec.layout, spec.elementCount) + 128;
  expectBothRefuse(spec, {std::to_string(spec.poolBytes)});
  spec.poolBytes = 0;
  for (const std::uint64_t most : {std::uint64_t{1} << 40, kGpuMaxElementCount}) {
    spec.elementCount = most + 1;
    expectBothRefuse(spec, {std::to_string(spec.elementCount)});
  }
  spec.elementCount = 5000;
  spec.layout = codec::Layout::kWide;
  expectBothRefuse(spec, {});
}

TEST(Arguments, TheWorkspaceIsCheckedBeforeItIsCleared) {
  expectRefused([] { initEncodeWorkspace(nullptr, nullptr); }, {"workspace", "null"});
  expectRefused([] { initEncodeWorkspace(kWorkspace + 2, nullptr); }, {"workspace", "2 bytes"});
  expectRefused([] { initEncodeWorkspace(kWorkspace, nullptr, kMaxBatchFrames + 1); }, {"513"});
}

TEST(Arguments, OneBadItemOfABatchIsRefused) {
  const codec::Datatype datatype = codec::Datatype::kBfloat16;
  const std::uint64_t capacity = codec::maxFrameBytes(datatype, 5000);
  const EncodeItem toEncode{5000, 0, kSource, kFrame, capacity, nullptr};
  const auto encodeWith = [&](auto change, std::size_t count = 3) {
    std::vector<EncodeItem> items(count, toEncode);
    change(items.back());
    encodeBatch(datatype, codec::Layout::kNarrow, items, kWorkspace, nullptr);
  };
  expectRefused([&] { encodeWith([](EncodeItem& item) { item.source = nullptr; }); },
                {"source", "null"});
  expectRefused([&] { encodeWith([](EncodeItem& item) { item.frame = kFrame + 8; }); },
                {"frame", "8 bytes"});
  expectRefused([&] { encodeWith([](EncodeItem& item) { --item.frameCapacity; }); },
                {std::to_string(capacity)});
  expectRefused([&] { encodeWith([](EncodeItem& item) { item.poolBytes = 64; }); }, {"64"});
  expectRefused([&] { encodeWith([](EncodeItem&) {}, kMaxBatchFrames + 1); }, {"512", "513"});
  expectRefused(
      [&] {
        encodeBatch(datatype, codec::Layout::kNarrow, std::span(&toEncode, 1), nullptr, nullptr);
      },
      {"workspace", "null"});

  const DecodeItem toDecode{5000, 0, kFrame, pointerAt(0x280000), 1600, kOutput, kStatus};
  const auto decodeWith = [&](auto change, std::size_t count = 3) {
    std::vector<DecodeItem> items(count, toDecode);
    change(items.back());
    decodeBatch(datatype, codec::Layout::kNarrow, items, nullptr);
  };
  expectRefused([&] { decodeWith([](DecodeItem& item) { item.staticPart = nullptr; }); },
                {"staticPart", "null"});
  expectRefused([&] { decodeWith([](DecodeItem& item) { item.dynamicPart = nullptr; }); },
                {"dynamicPart", "null"});
  expectRefused([&] { decodeWith([](DecodeItem& item) { item.output = kOutput + 1; }); },
                {"output", "1 bytes"});
  expectRefused([&] { decodeWith([](DecodeItem& item) { item.status = nullptr; }); },
                {"status", "null"});
  expectRefused([&] { decodeWith([](DecodeItem&) {}, kMaxBatchFrames + 1); }, {"512", "513"});
}

TEST(Arguments, TheFactorIsANumberOfTheDatatype) {
  const FrameParts parts{kFrame, nullptr, 0};
  const auto reduceBy = [&](const Format& format, float factor) {
    decodeReduce(codec::testing::specOf(format, 5000), std::span(&parts, 1), factor, nullptr,
                 nullptr, nullptr);
  };
  for (const float factor : {1.0F / 3.0F, 0x1p-25F, 0x1.8p-24F, 65536.0F, 1.0F + 0x1p-11F}) {
    expectRefused([&] { reduceBy(codec::testing::kFloat16Format, factor); }, {"fp16"});
  }
  expectRefused([&] { reduceBy(codec::testing::kBfloat16Format, 1.0F + 0x1p-8F); }, {"bf16"});
  // What is one is not what these calls are refused for.
  for (const float factor : {0x1p-24F, 0x1.8p-23F, 65504.0F, 1.0F + 0x1p-10F, -0.0F, 0.125F}) {
    expectRefused([&] { reduceBy(codec::testing::kFloat16Format, factor); }, {"output"});
  }
}

TEST(Arguments, StatusWordsAreReadInTheOrderOfTheFormat) {
  using codec::DecodeStatus;
  EXPECT_EQ(statusOf(0), DecodeStatus::kOk);
  const auto bitOf = [](DecodeStatus status) { return 1U << static_cast<unsigned>(status); };
  EXPECT_EQ(statusOf(bitOf(DecodeStatus::kBadEscapeCount)), DecodeStatus::kBadEscapeCount);
  EXPECT_EQ(statusOf(bitOf(DecodeStatus::kBadGroupOffset) | bitOf(DecodeStatus::kBadMagic)),
            DecodeStatus::kBadMagic);
  EXPECT_EQ(statusOf(bitOf(DecodeStatus::kTruncated) | bitOf(DecodeStatus::kBadEscapeCount)),
            DecodeStatus::kTruncated);
}

}  // namespace
}  // namespace zipccl::gpu::testing
