// SPDX-License-Identifier: Apache-2.0
//
// A user's C++ program, with the installed headers and libraries only: asks the shared library for
// its version, sends a tensor through the codec, and catches what the codec throws.

#include <zipccl/zipccl.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <random>
#include <span>
#include <string>
#include <vector>
#include <zipccl/codec.hpp>
#include <zipccl/error.hpp>

namespace {

namespace codec = zipccl::codec;

/// bf16 from the upper halves of Gaussian floats.
std::vector<std::uint16_t> makeGaussian(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  std::vector<std::uint16_t> values(count);
  for (std::uint16_t& value : values) {
    const float wide = normal(engine);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &wide, sizeof(bits));
    value = static_cast<std::uint16_t>(bits >> 16U);
  }
  return values;
}

bool survivesCodec(unsigned seed) {
  const std::vector<std::uint16_t> sent = makeGaussian(20'001, seed);
  codec::FrameSpec spec;
  spec.elementCount = sent.size();
  spec.poolBytes = codec::defaultPoolBytes(spec.datatype, spec.layout, spec.elementCount);

  std::vector<std::byte> frame(codec::maxFrameBytes(spec.datatype, spec.elementCount));
  const codec::EncodeResult result = codec::encode(spec, sent.data(), frame);
  frame.resize(result.frameBytes());

  std::vector<std::uint16_t> received(sent.size(), 0xA5A5);
  const codec::DecodeStatus status =
      codec::decodeFrame(frame, std::as_writable_bytes(std::span(received)));
  if (status != codec::DecodeStatus::kOk || received != sent) {
    return false;
  }
  frame.pop_back();
  return frame.size() < sent.size() * 2 * 3 / 4 &&
         codec::decodeFrame(frame, std::as_writable_bytes(std::span(received))) ==
             codec::DecodeStatus::kTruncated;
}

/// A bad argument is told from other exceptions by its code, and names what was wrong.
bool throwsForABadArgument() {
  try {
    static_cast<void>(codec::maxFrameBytes(codec::Datatype::kFloat16, (1ULL << 40) + 1));
  } catch (const zipccl::Error& error) {
    return error.code() == zipccl::ErrorCode::kInvalidArgument &&
           error.message().find("1099511627777") != std::string::npos &&
           std::strstr(error.what(), zipccl::errorCodeText(error.code())) != nullptr;
  }
  return false;
}

}  // namespace

int main() {
  int version = 0;
  if (zipcclGetVersion(&version) != zipcclSuccess || version != ZIPCCL_VERSION_CODE) {
    std::fprintf(stderr, "compiled against %d, runs with %d\n", ZIPCCL_VERSION_CODE, version);
    return 1;
  }
  const unsigned seed = std::random_device{}();
  try {
    if (!survivesCodec(seed)) {
      std::fprintf(stderr, "the codec changed a tensor, seed %u\n", seed);
      return 1;
    }
    if (!throwsForABadArgument()) {
      std::fprintf(stderr, "the codec took a bad argument\n");
      return 1;
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s, seed %u\n", error.what(), seed);
    return 1;
  }
  std::printf("zipccl %s\n", ZIPCCL_VERSION_STRING);
  return 0;
}
