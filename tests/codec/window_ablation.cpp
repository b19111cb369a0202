// SPDX-License-Identifier: Apache-2.0
//
// Counts what tensors take with other windows than the encoder's.

#include "codec/window_ablation.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <limits>

#include "base/random.hpp"
#include "codec/bytes.hpp"
#include "codec/layout.hpp"
#include "codec/window.hpp"
#include "support/safetensors.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::codec::testing {
namespace {

constexpr std::uint32_t kBases = kMaxWindowBase + 1;
constexpr std::uint32_t kRecordBytes = 1408;
constexpr std::uint32_t kRawRest = kUpperBytes - kRecordBytes;
constexpr std::uint32_t kTileMetadataBytes = 4;
constexpr std::uint32_t kGroupMetadataBytes = 8;

/// Extra bytes of a tile for every window: escapes, or the raw rest where that is less.
struct TileCosts {
  std::array<std::uint16_t, kBases> seven{};
  std::array<std::uint16_t, kBases> sixAndZero{};  ///< no base 0
  bool isEmpty = true;

  explicit TileCosts(std::span<const std::uint16_t> halves) {
    std::array<std::uint32_t, 256> count{};
    for (const std::uint16_t half : halves) {
      ++count[(half >> 7) & 0xFF];
      isEmpty = isEmpty && half == 0;
    }
    for (std::uint32_t base = 0; base < kBases; ++base) {
      std::uint32_t covered = 0;
      for (std::uint32_t field = base; field < base + 6; ++field) covered += count[field];
      const auto cost = [](std::uint32_t inside) {
        return static_cast<std::uint16_t>(std::min(kTileElements - inside, kRawRest));
      };
      sixAndZero[base] = base == 0 ? kRawRest : cost(covered + count[0]);
      seven[base] = cost(covered + count[base + 6]);
    }
  }

  /// With one window for each kind; the smaller kind counts.
  [[nodiscard]] std::uint32_t with(std::uint32_t base7, std::uint32_t base6) const {
    return isEmpty ? 0 : std::min(seven[base7], sixAndZero[base6]);
  }
  [[nodiscard]] std::uint32_t sevenOnly(std::uint32_t base7) const {
    return isEmpty ? 0 : seven[base7];
  }
  [[nodiscard]] std::uint32_t best() const {
    if (isEmpty) return 0;
    return std::min(*std::min_element(seven.begin(), seven.end()),
                    *std::min_element(sixAndZero.begin(), sixAndZero.end()));
  }
};

/// The extra bytes of all groups, each rounded up as the format wants it.
template <class CostOf>
std::uint64_t extraBytes(const std::vector<TileCosts>& tiles, const CostOf& costOf) {
  std::uint64_t bytes = 0;
  for (std::size_t first = 0; first < tiles.size(); first += kGroupTiles) {
    std::uint32_t ofGroup = 0;
    const std::size_t end = std::min<std::size_t>(first + kGroupTiles, tiles.size());
    for (std::size_t tile = first; tile < end; ++tile) ofGroup += costOf(tiles[tile]);
    bytes += alignUp(ofGroup, kExtraAlignment);
  }
  return bytes;
}

double bitsOf(std::size_t tiles, std::uint64_t extra) {
  const std::size_t groups = (tiles + kGroupTiles - 1) / kGroupTiles;
  const std::uint64_t bytes =
      tiles * (kRecordBytes + kTileMetadataBytes) + groups * kGroupMetadataBytes + extra;
  return 8.0 * static_cast<double>(bytes) / static_cast<double>(tiles * kTileElements);
}

/// Of the values that are finite; of those that are not zero where `withoutZeros`.
double standardDeviation(std::span<const std::uint16_t> halves, bool withoutZeros) {
  double squares = 0.0;
  std::size_t count = 0;
  for (const std::uint16_t half : halves) {
    const double value = std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
    if (!std::isfinite(value) || (withoutZeros && value == 0.0)) continue;
    squares += value * value;
    ++count;
  }
  return count == 0 ? 0.0 : std::sqrt(squares / static_cast<double>(count));
}

std::uint64_t encodedExtraBytes(std::span<const std::uint16_t> halves) {
  FrameSpec spec;
  spec.elementCount = halves.size();
  std::vector<std::byte> frame(maxFrameBytes(spec.datatype, spec.elementCount));
  return encode(spec, halves.data(), frame).extraBytes;
}

std::vector<std::uint16_t> upperHalves(const zipccl::testing::Tensor& tensor) {
  const bool isFloat = tensor.dtype == "F32";
  std::vector<std::uint16_t> halves(tensor.elementCount);
  for (std::size_t n = 0; n < halves.size(); ++n) {
    halves[n] = loadWord<std::uint16_t>(tensor.bytes.data() + (isFloat ? 4 * n + 2 : 2 * n));
  }
  return halves;
}

std::uint16_t bfloat16Of(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// `sigmaOf(random, n)` is the standard deviation of value n.
AblationRow generated(const char* name,
                      const std::function<double(Random&, std::size_t)>& sigmaOf) {
  constexpr std::size_t kCount = std::size_t{512} * kTileElements;
  Random random(2);
  std::vector<std::uint16_t> halves(kCount);
  for (std::size_t n = 0; n < kCount; ++n) {
    halves[n] = bfloat16Of(sigmaOf(random, n) * random.normal());
  }
  return {name, ablate(halves)};
}

}  // namespace

WindowAblation ablate(std::span<const std::uint16_t> upperHalves) {
  const std::size_t tileCount = upperHalves.size() / kTileElements;
  upperHalves = upperHalves.first(tileCount * kTileElements);
  std::vector<TileCosts> tiles;
  for (std::size_t tile = 0; tile < tileCount; ++tile) {
    tiles.emplace_back(upperHalves.subspan(tile * kTileElements, kTileElements));
  }
  const std::uint32_t sigma7 = windowBaseForSigma(standardDeviation(upperHalves, false), 7);
  const std::uint32_t sigma6 = windowBaseForSigma(standardDeviation(upperHalves, true), 6);
  std::uint64_t frameBest = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t base7 = 0; base7 < kBases; ++base7) {
    for (std::uint32_t base6 = 1; base6 < kBases; ++base6) {
      frameBest = std::min(frameBest, extraBytes(tiles, [=](const TileCosts& tile) {
                             return tile.with(base7, base6);
                           }));
    }
  }
  return {
      bitsOf(tileCount, encodedExtraBytes(upperHalves)),
      bitsOf(tileCount, extraBytes(tiles, [](const TileCosts& tile) { return tile.best(); })),
      bitsOf(tileCount,
             extraBytes(tiles, [=](const TileCosts& tile) { return tile.with(sigma7, sigma6); })),
      bitsOf(tileCount, frameBest), bitsOf(tileCount, extraBytes(tiles, [=](const TileCosts& tile) {
                                             return tile.sevenOnly(sigma7);
                                           }))};
}

std::vector<AblationRow> ablationOfFile(const std::string& path) {
  std::vector<AblationRow> rows;
  const std::string stem = std::filesystem::path(path).stem().string();
  const zipccl::testing::SafetensorsFile file(path);
  for (const zipccl::testing::Tensor& tensor : file.tensors()) {
    const bool isCoded = tensor.dtype == "BF16" || tensor.dtype == "F32";
    if (!isCoded || tensor.elementCount < kTileElements) continue;
    rows.push_back({stem + " " + tensor.name, ablate(upperHalves(tensor))});
  }
  return rows;
}

std::vector<AblationRow> ablationTable(const std::string& folder) {
  std::vector<AblationRow> rows;
  rows.push_back(generated("Gaussian", [](Random&, std::size_t) { return 0.02; }));
  rows.push_back(generated("Gaussian, sigma at the tie",
                           [](Random&, std::size_t) { return kSigmaTie7 / 64; }));
  rows.push_back(generated("Gaussian, 39 % zeros", [](Random& random, std::size_t) {
    return random.chance(0.39) ? 0.0 : 0.02;
  }));
  double sigma = 0.0;
  rows.push_back(generated("sigma by 16 tiles", [&sigma](Random& random, std::size_t n) {
    if (n % (16 * kTileElements) == 0) sigma = std::exp2(-12.0 * random.uniform());
    return sigma;
  }));
  rows.push_back(generated("sigma by value", [](Random& random, std::size_t) {
    return std::exp2(-8.0 * random.uniform());
  }));
  for (const char* const name : {"bf16.safetensors", "fp32.safetensors"}) {
    for (AblationRow& row : ablationOfFile(folder + "/" + name)) rows.push_back(std::move(row));
  }
  return rows;
}

std::string toMarkdown(const AblationRow& row) {
  std::string line = "| " + row.data;
  for (const double bits : {row.bits.tileRule, row.bits.tileBest, row.bits.frameSigma,
                            row.bits.frameBest, row.bits.frameSevenOnly}) {
    char cell[32];
    std::snprintf(cell, sizeof(cell), " | %.3f", bits);
    line += cell;
  }
  return line + " |";
}

}  // namespace zipccl::codec::testing
