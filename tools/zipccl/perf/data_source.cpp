// SPDX-License-Identifier: Apache-2.0
//
// Generated data, and the choice of a source.

#include "perf/data_source.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "perf/datatype.hpp"
#include "perf/element_writer.hpp"
#include "perf/random_bits.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf {
namespace {

/// Elements of one random stream, so that threads share the work and the result stays the same.
constexpr std::uint64_t kBlockElements = 1U << 16;

/// `0.02` of 0.02, `1e-05` of 1e-5.
std::string numberText(double number) {
  std::array<char, 32> text{};
  const int length = std::snprintf(text.data(), text.size(), "%.6g", number);
  return {text.data(), static_cast<std::size_t>(length)};
}

void fillWithBits(RandomBits& random, std::span<std::byte> block) {
  for (std::size_t done = 0; done < block.size(); done += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random();
    std::memcpy(block.data() + done, &bits, std::min(sizeof(bits), block.size() - done));
  }
}

/// Fills `block` with numbers of `datatype`, a floating-point one.
template <class Next>
void fillWithNumbers(zipcclDataType_t datatype, std::span<std::byte> block, const Next& next) {
  const std::size_t step = elementBytes(datatype);
  for (std::size_t done = 0; done < block.size(); done += step) {
    writeElement(datatype, next(), block.data() + done);
  }
}

// How a spec fills a block.

void fillBlock(const GaussianSpec& spec, zipcclDataType_t datatype, RandomBits& random,
               std::span<std::byte> block) {
  if (!isFloatingPoint(datatype)) return fillWithBits(random, block);
  fillWithNumbers(datatype, block, [&] { return spec.sigma * standardNormal(random); });
}

void fillBlock(const WidenedSpec& spec, zipcclDataType_t, RandomBits& random,
               std::span<std::byte> block) {
  // Little-endian: a bf16 in the upper half of each fp32.
  for (std::size_t done = 0; done < block.size(); done += sizeof(float)) {
    std::fill_n(block.begin() + static_cast<std::ptrdiff_t>(done), 2, std::byte{0});
    writeElement(zipcclBfloat16, spec.sigma * standardNormal(random), block.data() + done + 2);
  }
}

void fillBlock(const ZerosSpec& spec, zipcclDataType_t datatype, RandomBits& random,
               std::span<std::byte> block) {
  fillWithNumbers(datatype, block, [&] {
    return random.uniform() <= spec.share ? 0.0 : spec.sigma * standardNormal(random);
  });
}

void fillBlock(const RandomBitsSpec&, zipcclDataType_t, RandomBits& random,
               std::span<std::byte> block) {
  fillWithBits(random, block);
}

void fillBlock(const UniformExponentSpec& spec, zipcclDataType_t datatype, RandomBits& random,
               std::span<std::byte> block) {
  fillWithNumbers(datatype, block, [&] {
    const std::uint64_t bits = random();
    const auto octave = static_cast<int>((bits >> 32) % static_cast<unsigned>(spec.octaves));
    // Not up to 2: rounding must not reach the octave above.
    const double mantissa = 1.0 + 0.99 * random.uniform();
    return std::ldexp((bits & 1) != 0 ? -mantissa : mantissa, -1 - octave);
  });
}

void fillBlock(const FileSpec&, zipcclDataType_t, RandomBits&, std::span<std::byte>) {
  throw std::logic_error("a file is not generated");
}

std::string descriptionOf(const GaussianSpec& spec, zipcclDataType_t datatype) {
  if (!isFloatingPoint(datatype)) return "random bits";
  return "Gaussian, sigma " + numberText(spec.sigma);
}
std::string descriptionOf(const WidenedSpec& spec, zipcclDataType_t) {
  return "Gaussian bfloat16 widened to float, sigma " + numberText(spec.sigma);
}
std::string descriptionOf(const ZerosSpec& spec, zipcclDataType_t) {
  return "Gaussian, sigma " + numberText(spec.sigma) + ", a share of " + numberText(spec.share) +
         " zero";
}
std::string descriptionOf(const RandomBitsSpec&, zipcclDataType_t) { return "random bits"; }
std::string descriptionOf(const UniformExponentSpec& spec, zipcclDataType_t) {
  return "exponents uniform over " + std::to_string(spec.octaves) + " octaves";
}
std::string descriptionOf(const FileSpec&, zipcclDataType_t) { return ""; }

/// The datatype that `spec` is of where nobody says, and whether it can be of one.
zipcclDataType_t defaultDatatype(const DataSpec& spec) {
  return std::holds_alternative<WidenedSpec>(spec) ? zipcclFloat32 : zipcclBfloat16;
}

bool canBe(const DataSpec& spec, zipcclDataType_t datatype) {
  if (std::holds_alternative<WidenedSpec>(spec)) return datatype == zipcclFloat32;
  if (std::holds_alternative<ZerosSpec>(spec)) return isFloatingPoint(datatype);
  if (std::holds_alternative<UniformExponentSpec>(spec)) {
    return datatype == zipcclBfloat16 || datatype == zipcclFloat32 || datatype == zipcclFloat64;
  }
  return true;
}

class GeneratedSource : public DataSource {
 public:
  GeneratedSource(DataSpec spec, zipcclDataType_t datatype)
      : DataSource(datatype), spec_(std::move(spec)) {}

  [[nodiscard]] bool usesSeed() const noexcept override { return true; }

  [[nodiscard]] std::string describe() const override {
    return std::visit([this](const auto& spec) { return descriptionOf(spec, datatype()); }, spec_);
  }

  void fill(std::uint64_t seed, int rank, int, int threads,
            std::span<std::byte> elements) const override {
    const std::size_t blockBytes = kBlockElements * elementBytes(datatype());
    const std::size_t blocks = (elements.size() + blockBytes - 1) / blockBytes;
    const auto work = [&](std::size_t first) {
      for (std::size_t block = first; block < blocks; block += static_cast<std::size_t>(threads)) {
        RandomBits random(seed, static_cast<std::uint64_t>(rank), block);
        const std::size_t begin = block * blockBytes;
        const std::span<std::byte> place =
            elements.subspan(begin, std::min(blockBytes, elements.size() - begin));
        std::visit([&](const auto& spec) { fillBlock(spec, datatype(), random, place); }, spec_);
      }
    };
    std::vector<std::jthread> helpers;
    for (int thread = 1; thread < threads && static_cast<std::size_t>(thread) < blocks; ++thread) {
      helpers.emplace_back(work, static_cast<std::size_t>(thread));
    }
    work(0);
  }

 private:
  DataSpec spec_;
};

}  // namespace

std::unique_ptr<DataSource> makeGeneratedSource(const DataSpec& spec,
                                                std::optional<zipcclDataType_t> datatype) {
  const zipcclDataType_t chosen = datatype.value_or(defaultDatatype(spec));
  if (!canBe(spec, chosen)) {
    throw UsageError(std::string("--datatype ") + datatypeName(chosen) +
                     " does not fit this --data");
  }
  return std::make_unique<GeneratedSource>(spec, chosen);
}

std::unique_ptr<DataSource> openDataSource(const DataSpec& spec,
                                           std::optional<zipcclDataType_t> datatype) {
  if (const auto* file = std::get_if<FileSpec>(&spec)) return openFileSource(*file, datatype);
  return makeGeneratedSource(spec, datatype);
}

}  // namespace zipccl::tools::perf
