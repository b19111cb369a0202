// SPDX-License-Identifier: Apache-2.0
//
// Bits a value of real tensors, against the goals that the format was designed for.

#pragma once

#include <optional>
#include <string>

#include "support/safetensors.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::codec::testing {

/// Bits of a whole frame, header and idle pool included, for each element.
struct BitsPerValue {
  double firstCall = 0;  ///< with the default pool
  double steady = 0;     ///< with the pool that follows from `learnt`
};

/// Of `elements`, where an earlier frame of as many elements used `learntExtraBytes` of extra
/// space. Throws std::runtime_error when they do not come back.
[[nodiscard]] BitsPerValue bitsPerValue(const FrameSpec& spec, std::span<const std::byte> elements,
                                        std::uint64_t learntExtraBytes);

/// What kind of tensor this is, and how many bits a value it may take in the steady state.
struct TensorGoal {
  const char* kind;
  std::optional<double> maxBits;
};

struct TensorReport {
  std::string name;
  Datatype datatype;
  Layout layout;  ///< the one that takes fewer bits in the steady state
  std::uint64_t elementCount;
  double zeroShare;  ///< of elements that are +0 or -0
  BitsPerValue bits;
  EncodeResult result;
  TensorGoal goal;

  [[nodiscard]] bool meetsGoal() const { return !goal.maxBits || bits.steady <= *goal.maxBits; }
};

/// Nothing for a tensor of a datatype that has no frame format.
[[nodiscard]] std::optional<TensorReport> reportOf(const zipccl::testing::Tensor& tensor);

/// One JSON object without line breaks.
[[nodiscard]] std::string toJson(const TensorReport& report);

}  // namespace zipccl::codec::testing
