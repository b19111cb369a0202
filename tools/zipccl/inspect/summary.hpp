// SPDX-License-Identifier: Apache-2.0
//
// What is said of a tensor, and of all tensors of a datatype.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "inspect/inputs.hpp"
#include "inspect/statistics.hpp"

namespace zipccl::tools::inspect {

/// Of what was encoded: sizes, and what the encoder said.
struct Sizes {
  std::uint64_t elementCount = 0;
  std::uint64_t valueBytes = 0;
  std::uint64_t frameBytes = 0;       ///< with the pool of the steady state
  std::uint64_t firstFrameBytes = 0;  ///< with the pool of a first call
  std::uint64_t tiles = 0;
  std::uint64_t rawTiles = 0;
  std::uint64_t emptyTiles = 0;
  std::uint64_t zeroCodeTiles = 0;
  std::uint64_t lowTiles = 0;
  std::uint64_t escapes = 0;
  double limitBits = 0.0;  ///< entropyLimit of all elements together

  void add(const Sizes& other) noexcept;

  [[nodiscard]] double bitsPerValue() const noexcept;
  [[nodiscard]] double firstCallBitsPerValue() const noexcept;
  [[nodiscard]] double ratio() const noexcept;
  [[nodiscard]] double limitPerValue() const noexcept;
  /// Of the values of tiles with a window, how many a code names; nothing where there is none.
  [[nodiscard]] std::optional<double> insideShare() const noexcept;
};

struct TensorSummary {
  std::string name;
  std::size_t file = 0;
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::optional<std::uint64_t> elementCount;
  std::uint64_t bytes = 0;
  std::optional<codec::Datatype> datatype;  ///< absent: not encoded
  codec::Layout layout = codec::Layout::kNarrow;
  Sizes sizes;
  double mean = 0.0;
  double sigma = 0.0;  ///< the standard deviation
  double meanMagnitude = 0.0;
  std::uint64_t zeros = 0;
  std::uint64_t nonFinite = 0;
  std::uint64_t zstdBytes = 0;  ///< 0 where zstd was not asked

  /// Encoded, and not empty.
  [[nodiscard]] bool hasFrame() const noexcept { return datatype && sizes.elementCount != 0; }
};

/// Bits a value that an ideal coder of exponents would need, with one table for all of them: the
/// entropy of the exponent fields, and the other bits as they are. Low halves count where the
/// tile has any that is not zero.
[[nodiscard]] double entropyLimit(codec::Datatype datatype, const Statistics& statistics) noexcept;

/// Bytes of one frame of `layout` that holds everything of which `encoded` tells, which narrow
/// frames of its pieces told; with the default pool where `isFirstCall`, else with that of the
/// steady state.
[[nodiscard]] std::uint64_t wholeFrameBytes(codec::Datatype datatype, codec::Layout layout,
                                            std::uint64_t elementCount,
                                            const codec::EncodeResult& encoded, bool isFirstCall);

[[nodiscard]] TensorSummary summarize(const InputTensor& tensor, const Statistics& statistics);

/// All tensors of a dtype.
struct DtypeTotal {
  std::string dtype;
  std::optional<codec::Datatype> datatype;
  std::uint64_t tensors = 0;
  std::uint64_t elementCount = 0;  ///< of those whose number is known
  std::uint64_t bytes = 0;
  std::uint64_t zstdBytes = 0;
  Sizes sizes;

  /// What travels: frames, and what has no frame as it is.
  [[nodiscard]] std::uint64_t wireBytes() const noexcept {
    return bytes - sizes.valueBytes + sizes.frameBytes;
  }
};

/// Those of the most bytes first.
[[nodiscard]] std::vector<DtypeTotal> totalsOf(const std::vector<TensorSummary>& tensors);

/// The places of `tensors` in the order that is asked for. What has no such value comes last.
[[nodiscard]] std::vector<std::size_t> sortedPlaces(const std::vector<TensorSummary>& tensors,
                                                    SortKey key, bool isReversed);

}  // namespace zipccl::tools::inspect
