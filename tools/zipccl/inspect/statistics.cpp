// SPDX-License-Identifier: Apache-2.0
//
// Looks at every value once, a tile at a time.

#include "inspect/statistics.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>

namespace zipccl::tools::inspect {
namespace {

// docs/format.md sections 1 to 5.
constexpr std::size_t kDescriptorsAt = 128;
enum class TileKind : std::uint32_t { kSeven = 0, kSixZero = 1, kEmpty = 2, kRaw = 3 };

struct Tile {
  TileKind kind;
  std::uint32_t base;
};

Tile tileOf(std::span<const std::byte> frame, std::size_t index) {
  std::uint32_t descriptor = 0;
  std::memcpy(&descriptor, frame.data() + kDescriptorsAt + 4 * index, sizeof descriptor);
  return {static_cast<TileKind>(descriptor >> 8 & 3U), descriptor & 0xFFU};
}

template <codec::Datatype kDatatype>
struct Traits;

template <>
struct Traits<codec::Datatype::kBfloat16> {
  using Word = std::uint16_t;
  static float number(Word word) { return std::bit_cast<float>(std::uint32_t{word} << 16); }
};

template <>
struct Traits<codec::Datatype::kFloat16> {
  using Word = std::uint16_t;
  /// For finite ones. The exponent field of fp32 is 112 higher; a product makes up for that, and
  /// gives subnormal numbers their value.
  static float number(Word word) {
    const std::uint32_t magnitude = (word & 0x7FFFU) << 13;
    const std::uint32_t sign = (word & 0x8000U) << 16;
    return std::bit_cast<float>(
        sign | std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1.0p112F));
  }
};

template <>
struct Traits<codec::Datatype::kFloat32> {
  using Word = std::uint32_t;
  static float number(Word word) { return std::bit_cast<float>(word); }
};

Moments momentsOf(std::span<const float> numbers) {
  Moments moments;
  moments.count = numbers.size();
  if (numbers.empty()) return moments;
  // Distances from one of the values: where all are equal no rounding blurs that.
  const double origin = numbers.front();
  constexpr std::size_t kLanes = 8;
  std::array<double, kLanes> sums{};
  std::array<double, kLanes> squares{};
  std::array<double, kLanes> magnitudes{};
  const auto take = [&](std::size_t lane, double number) {
    const double distance = number - origin;
    sums[lane] += distance;
    squares[lane] += distance * distance;
    magnitudes[lane] += std::abs(number);
  };
  std::size_t n = 0;
  for (; n + kLanes <= numbers.size(); n += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) take(lane, numbers[n + lane]);
  }
  for (; n < numbers.size(); ++n) take(n % kLanes, numbers[n]);
  double sum = 0.0;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sum += sums[lane];
    moments.squares += squares[lane];
    moments.magnitudes += magnitudes[lane];
  }
  const auto count = static_cast<double>(numbers.size());
  moments.mean = origin + sum / count;
  moments.squares = std::max(0.0, moments.squares - sum * sum / count);
  return moments;
}

/// Up to a tile of elements, copied to where they are aligned.
template <codec::Datatype kDatatype>
class TileElements {
 public:
  using Word = typename Traits<kDatatype>::Word;

  explicit TileElements(std::span<const std::byte> bytes) : count_(bytes.size() / sizeof(Word)) {
    std::memcpy(words_.data(), bytes.data(), bytes.size());
  }

  /// Counts exponent fields, into four tables by turns: equal neighbours would wait for each other.
  [[nodiscard]] std::array<std::uint32_t, Statistics::kFields> fields() const {
    std::array<std::array<std::uint32_t, Statistics::kFields>, 4> counts{};
    std::size_t n = 0;
    for (; n + 4 <= count_; n += 4) {
      ++counts[0][fieldOf(words_[n])];
      ++counts[1][fieldOf(words_[n + 1])];
      ++counts[2][fieldOf(words_[n + 2])];
      ++counts[3][fieldOf(words_[n + 3])];
    }
    for (; n < count_; ++n) ++counts[0][fieldOf(words_[n])];
    for (std::size_t field = 0; field < Statistics::kFields; ++field) {
      counts[0][field] += counts[1][field] + counts[2][field] + counts[3][field];
    }
    return counts[0];
  }

  [[nodiscard]] std::uint64_t zeros() const {
    std::uint32_t count = 0;
    for (std::size_t n = 0; n < count_; ++n) {
      count += static_cast<Word>(words_[n] << 1) == 0 ? 1U : 0U;
    }
    return count;
  }

  [[nodiscard]] bool hasLowHalves() const {
    if constexpr (sizeof(Word) == 2) {
      return false;
    } else {
      Word all = 0;
      for (std::size_t n = 0; n < count_; ++n) all |= words_[n];
      return (all & 0xFFFFU) != 0;
    }
  }

  /// Of those that are finite, of which `nonFinite` are not.
  [[nodiscard]] Moments moments(std::uint64_t nonFinite) const {
    // First all numbers, then all sums: so the compiler makes vectors of both.
    std::array<float, kTileElements> numbers;
    std::size_t count = 0;
    if (nonFinite == 0) {
      for (; count < count_; ++count) numbers[count] = Traits<kDatatype>::number(words_[count]);
    } else {
      for (std::size_t n = 0; n < count_; ++n) {
        if (isFinite(words_[n])) numbers[count++] = Traits<kDatatype>::number(words_[n]);
      }
    }
    return momentsOf(std::span(numbers).first(count));
  }

 private:
  static constexpr ElementFormat kFormat = elementFormat(kDatatype);

  static std::size_t fieldOf(Word word) {
    return static_cast<std::size_t>(word >> kFormat.mantissaBits) & (kFormat.fields() - 1);
  }
  static bool isFinite(Word word) { return fieldOf(word) != kFormat.fields() - 1; }

  std::size_t count_;
  std::array<Word, kTileElements> words_;
};

template <class To, class From>
void addEach(To& to, const From& from) {
  std::transform(to.begin(), to.end(), from.begin(), to.begin(), std::plus<>());
}

/// `lowest` is the least exponent of the tile's window.
void addScale(double sigma, int lowest, Statistics& statistics) {
  constexpr double kMost = Statistics::kScales - 1;
  const double octaves = std::log2(sigma) - lowest;
  const double step = std::clamp(octaves * Statistics::kScaleSteps, 0.0, kMost);
  ++statistics.tileScales[static_cast<std::size_t>(step)];
}

void addTile(const Tile& tile, const ElementFormat& format, const Moments& moments,
             const std::array<std::uint32_t, Statistics::kFields>& fields, Statistics& statistics) {
  const bool isSix = tile.kind == TileKind::kSixZero;
  if (tile.kind != TileKind::kSeven && !isSix) return;
  addEach(statistics.windowed, fields);
  const std::uint32_t end = tile.base + (isSix ? 6 : 7);
  for (std::uint32_t field = tile.base; field < end; ++field) {
    statistics.coded[field] += fields[field];
  }
  if (isSix) {
    ++statistics.sixTiles[tile.base];
    if (tile.base != 0) statistics.coded[0] += fields[0];
    return;
  }
  ++statistics.sevenTiles[tile.base];
  const int lowest = format.leastExponent() + static_cast<int>(tile.base) - 1;
  addScale(moments.gaussianSigma(), lowest, statistics);
  statistics.relativeZeroField += fields[0];
  std::uint64_t* const relative =
      statistics.relative.data() + Statistics::kRelativeBase - tile.base;
  for (std::size_t field = 1; field < Statistics::kFields; ++field) {
    relative[field] += fields[field];
  }
}

template <codec::Datatype kDatatype>
void measure(std::span<const std::byte> bytes, std::span<const std::byte> frame,
             Statistics& statistics) {
  constexpr std::size_t kTileBytes = kTileElements * elementFormat(kDatatype).elementBits / 8;
  constexpr std::size_t kInfinityField = elementFormat(kDatatype).fields() - 1;
  for (std::size_t at = 0; at < bytes.size(); at += kTileBytes) {
    const std::size_t sizeBytes = std::min(kTileBytes, bytes.size() - at);
    const TileElements<kDatatype> elements(bytes.subspan(at, sizeBytes));
    const std::uint64_t count = sizeBytes * 8 / elementFormat(kDatatype).elementBits;
    const auto fields = elements.fields();
    addEach(statistics.exponents, fields);
    statistics.elementCount += count;
    statistics.zeros += fields[0] == 0 ? 0 : elements.zeros();
    statistics.nonFinite += fields[kInfinityField];
    if (elements.hasLowHalves()) statistics.lowElements += count;
    const Moments moments = elements.moments(fields[kInfinityField]);
    statistics.moments.add(moments);
    if (sizeBytes == kTileBytes) {
      addTile(tileOf(frame, at / kTileBytes), elementFormat(kDatatype), moments, fields,
              statistics);
    }
  }
}

}  // namespace

void Moments::add(const Moments& other) noexcept {
  if (other.count == 0) return;
  const auto own = static_cast<double>(count);
  const auto others = static_cast<double>(other.count);
  const double distance = other.mean - mean;
  count += other.count;
  const auto all = static_cast<double>(count);
  mean += distance * (others / all);
  squares += other.squares + distance * distance * (own / all * others);
  magnitudes += other.magnitudes;
}

double Moments::sigma() const noexcept {
  return count == 0 ? 0.0 : std::sqrt(squares / static_cast<double>(count));
}

double Moments::meanMagnitude() const noexcept {
  return count == 0 ? 0.0 : magnitudes / static_cast<double>(count);
}

double Moments::gaussianSigma() const noexcept {
  return meanMagnitude() * std::sqrt(std::numbers::pi / 2.0);
}

void Statistics::add(const Statistics& other) noexcept {
  elementCount += other.elementCount;
  zeros += other.zeros;
  nonFinite += other.nonFinite;
  lowElements += other.lowElements;
  moments.add(other.moments);
  encoded.extraBytes += other.encoded.extraBytes;
  encoded.tiles += other.encoded.tiles;
  encoded.rawTiles += other.encoded.rawTiles;
  encoded.emptyTiles += other.encoded.emptyTiles;
  encoded.zeroCodeTiles += other.encoded.zeroCodeTiles;
  encoded.lowTiles += other.encoded.lowTiles;
  encoded.escapes += other.encoded.escapes;
  addEach(exponents, other.exponents);
  addEach(windowed, other.windowed);
  addEach(coded, other.coded);
  addEach(sevenTiles, other.sevenTiles);
  addEach(sixTiles, other.sixTiles);
  addEach(relative, other.relative);
  addEach(tileScales, other.tileScales);
  relativeZeroField += other.relativeZeroField;
  zstdBytes += other.zstdBytes;
}

void measureElements(codec::Datatype datatype, std::span<const std::byte> bytes,
                     std::span<const std::byte> frame, Statistics& statistics) {
  switch (datatype) {
    case codec::Datatype::kBfloat16:
      return measure<codec::Datatype::kBfloat16>(bytes, frame, statistics);
    case codec::Datatype::kFloat16:
      return measure<codec::Datatype::kFloat16>(bytes, frame, statistics);
    case codec::Datatype::kFloat32:
      return measure<codec::Datatype::kFloat32>(bytes, frame, statistics);
  }
}

double entropyBits(std::span<const std::uint64_t> counts) noexcept {
  double total = 0.0;
  double sum = 0.0;
  for (const std::uint64_t count : counts) {
    if (count == 0) continue;
    const auto number = static_cast<double>(count);
    total += number;
    sum += number * std::log2(number);
  }
  return total == 0.0 ? 0.0 : std::max(0.0, std::log2(total) - sum / total);
}

}  // namespace zipccl::tools::inspect
