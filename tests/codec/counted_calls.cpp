// SPDX-License-Identifier: Apache-2.0
//
// Calls whose instructions instructions_test.py has callgrind count, one after the other: it counts
// inside countedCall() alone. Prints a line of JSON for each.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/random.hpp"
#include "codec/frame.hpp"
#include "support/small_floats.hpp"

/// A name that callgrind can be told, and a call that no compiler takes apart.
extern "C" __attribute__((noinline, visibility("default"))) void countedCall(
    const std::function<void()>& call) {
  call();
}

namespace zipccl::codec {
namespace {

/// Whole groups, and enough of them that what a call does once hardly shows.
constexpr std::uint64_t kValues = 16 * 8 * 1024;

struct Case {
  const char* name;
  Datatype datatype;
  Layout layout;
  bool isWidened;  ///< fp32 with low halves of zero
};
constexpr Case kCases[] = {{"bf16", Datatype::kBfloat16, Layout::kNarrow, false},
                           {"fp16", Datatype::kFloat16, Layout::kNarrow, false},
                           {"fp32 widened", Datatype::kFloat32, Layout::kNarrow, true},
                           {"fp32 wide", Datatype::kFloat32, Layout::kWide, false}};

/// N(0, 0.02), the same in every run.
std::vector<std::byte> elementsOf(const Case& c) {
  Random random(1);
  const std::uint64_t width = elementBytes(c.datatype);
  std::vector<std::byte> elements(kValues * width);
  for (std::uint64_t i = 0; i < kValues; ++i) {
    const auto value = static_cast<float>(0.02 * random.normal());
    auto word = std::bit_cast<std::uint32_t>(value);
    if (c.isWidened) word = std::uint32_t{zipccl::testing::bfloat16Bits(value)} << 16;
    if (c.datatype == Datatype::kBfloat16) word = zipccl::testing::bfloat16Bits(value);
    if (c.datatype == Datatype::kFloat16) word = zipccl::testing::float16Bits(value);
    std::memcpy(elements.data() + width * i, &word, width);
  }
  return elements;
}

void count(const TileCodec& codec, const Case& c, const char* operation,
           const std::function<void()>& call) {
  countedCall(call);
  std::printf("{\"codec\":\"%s\",\"data\":\"%s\",\"operation\":\"%s\",\"values\":%llu}\n",
              codec.name(), c.name, operation, static_cast<unsigned long long>(kValues));
}

bool countAll(const TileCodec& codec, const Case& c) {
  const std::vector<std::byte> elements = elementsOf(c);
  FrameSpec spec{.datatype = c.datatype, .layout = c.layout, .elementCount = kValues};
  spec.poolBytes = defaultPoolBytes(spec.datatype, spec.layout, kValues);
  std::vector<std::byte> frame(maxFrameBytes(spec.datatype, kValues));
  std::vector<std::byte> output(elements.size());
  std::uint64_t frameBytes = 0;
  count(codec, c, "encode",
        [&] { frameBytes = encodeWith(codec, spec, elements.data(), frame, {}).frameBytes(); });
  frame.resize(frameBytes);
  bool isRight = true;
  count(codec, c, "decode",
        [&] { isRight = decodeFrameWith(codec, frame, output) == DecodeStatus::kOk; });
  isRight = isRight && output == elements;
  // Of one frame: an addend of a reduction, and its share of the rounding.
  const std::uint64_t split = staticBytes(spec);
  const std::span<const std::byte> bytes(frame);
  const Addend addend = {{bytes.first(split), bytes.subspan(split)}, spec, nullptr};
  count(codec, c, "reduce", [&] {
    isRight = isRight &&
              decodeReduceWith(codec, spec.datatype, kValues, {&addend, 1}, 1.0F, output).status ==
                  DecodeStatus::kOk;
  });
  return isRight;
}

}  // namespace
}  // namespace zipccl::codec

int main() {
  bool isRight = true;
  for (const zipccl::codec::TileCodec* codec : zipccl::codec::tileCodecs()) {
    for (const zipccl::codec::Case& c : zipccl::codec::kCases) {
      isRight = zipccl::codec::countAll(*codec, c) && isRight;
    }
  }
  return isRight ? 0 : 1;
}
