// SPDX-License-Identifier: Apache-2.0
//
// What is known of values once they were looked at: what the codec made of them, and how they are
// distributed. Statistics of pieces add up to those of the tensor.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <zipccl/codec.hpp>

namespace zipccl::tools::inspect {

/// docs/format.md section 1.
inline constexpr std::size_t kTileElements = 1024;

/// How an element of a datatype is made up: a sign, then these.
struct ElementFormat {
  unsigned elementBits;
  unsigned exponentBits;
  unsigned mantissaBits;

  [[nodiscard]] constexpr unsigned fields() const noexcept { return 1U << exponentBits; }
  /// What an exponent field of 1 stands for: 2 to this power.
  [[nodiscard]] constexpr int leastExponent() const noexcept {
    return 2 - (1 << (exponentBits - 1));
  }
};

[[nodiscard]] constexpr ElementFormat elementFormat(codec::Datatype datatype) noexcept {
  switch (datatype) {
    case codec::Datatype::kFloat16:
      return {16, 5, 10};
    case codec::Datatype::kFloat32:
      return {32, 8, 23};
    case codec::Datatype::kBfloat16:
      break;
  }
  return {16, 8, 7};
}

/// Of values that are finite.
struct Moments {
  std::uint64_t count = 0;
  double mean = 0.0;
  double squares = 0.0;     ///< sum of the squared distances from the mean
  double magnitudes = 0.0;  ///< sum of the absolute values

  void add(const Moments& other) noexcept;
  /// The standard deviation, of the population.
  [[nodiscard]] double sigma() const noexcept;
  [[nodiscard]] double meanMagnitude() const noexcept;
  /// sigma of the centred Gaussian that has this mean magnitude (docs/theory.md section 4).
  [[nodiscard]] double gaussianSigma() const noexcept;
};

struct Statistics {
  static constexpr std::size_t kFields = 256;
  /// Where in `relative` the field stands that is the window base of its tile.
  static constexpr std::size_t kRelativeBase = 256;
  /// Of `tileScales`: in an octave, and in all.
  static constexpr std::size_t kScaleSteps = 16;
  static constexpr std::size_t kScales = 12 * kScaleSteps;

  std::uint64_t elementCount = 0;
  std::uint64_t zeros = 0;        ///< +0 and -0
  std::uint64_t nonFinite = 0;    ///< infinities and NaNs
  std::uint64_t lowElements = 0;  ///< fp32: in tiles, the tail among them, with low halves in use
  Moments moments;

  // What the encoder said; static and dynamic bytes are left 0.
  codec::EncodeResult encoded;

  /// Elements of each exponent field: all of them, those in tiles with a window, and those of them
  /// that a code names.
  std::array<std::uint64_t, kFields> exponents{};
  std::array<std::uint64_t, kFields> windowed{};
  std::array<std::uint64_t, kFields> coded{};
  /// Tiles of each window base, of kind seven and of kind six + zero.
  std::array<std::uint64_t, kFields> sevenTiles{};
  std::array<std::uint64_t, kFields> sixTiles{};
  /// Elements of tiles of kind seven by their exponent field less the base of their tile. Those of
  /// field 0 stand apart: zeros and subnormal numbers have no exponent.
  std::array<std::uint64_t, 2 * kFields> relative{};
  std::uint64_t relativeZeroField = 0;
  /// These tiles by where their sigma is, in steps above the lowest exponent of their window: that
  /// of a Gaussian of the tile's mean magnitude.
  std::array<std::uint64_t, kScales> tileScales{};

  std::uint64_t zstdBytes = 0;  ///< where zstd was asked

  void add(const Statistics& other) noexcept;
};

/// Looks at `bytes`, which hold whole elements of `datatype`, and at `frame`, what the host codec
/// made of them. Adds to everything in `statistics` but zstdBytes and what an EncodeResult has.
void measureElements(codec::Datatype datatype, std::span<const std::byte> bytes,
                     std::span<const std::byte> frame, Statistics& statistics);

/// The entropy of `counts`, in bits.
[[nodiscard]] double entropyBits(std::span<const std::uint64_t> counts) noexcept;

}  // namespace zipccl::tools::inspect
