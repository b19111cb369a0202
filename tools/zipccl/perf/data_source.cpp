// SPDX-License-Identifier: Apache-2.0
//
// Generated data, and the choice of a source.

#include "perf/data_source.hpp"

#include <algorithm>
#include <cstring>
#include <thread>
#include <vector>

#include "perf/datatype.hpp"
#include "perf/element_writer.hpp"
#include "perf/random_bits.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {
namespace {

/// Elements of one random stream, so that threads share the work and the result stays the same.
constexpr std::uint64_t kBlockElements = 1U << 16;

class GaussianSource : public DataSource {
 public:
  GaussianSource(const GaussianSpec& spec, zipcclDataType_t datatype)
      : DataSource(datatype), sigma_(spec.sigma) {}

  [[nodiscard]] bool usesSeed() const noexcept override { return true; }

  [[nodiscard]] std::string describe() const override {
    if (!isFloatingPoint(datatype())) return "random bits";
    std::string sigma = fixed(sigma_, 6);
    sigma.erase(std::max(sigma.find_last_not_of('0') + 1, sigma.find('.') + 2));
    return "Gaussian, sigma " + (sigma_ < 1e-4 || sigma_ > 1e6 ? std::to_string(sigma_) : sigma);
  }

  void fill(std::uint64_t seed, int rank, int, int threads,
            std::span<std::byte> elements) const override {
    const std::size_t blockBytes = kBlockElements * elementBytes(datatype());
    const std::size_t blocks = (elements.size() + blockBytes - 1) / blockBytes;
    const auto work = [&](std::size_t first) {
      for (std::size_t block = first; block < blocks; block += static_cast<std::size_t>(threads)) {
        RandomBits random(seed, static_cast<std::uint64_t>(rank), block);
        const std::size_t begin = block * blockBytes;
        fillBlock(random, elements.subspan(begin, std::min(blockBytes, elements.size() - begin)));
      }
    };
    std::vector<std::jthread> helpers;
    for (int thread = 1; thread < threads && static_cast<std::size_t>(thread) < blocks; ++thread) {
      helpers.emplace_back(work, static_cast<std::size_t>(thread));
    }
    work(0);
  }

 private:
  void fillBlock(RandomBits& random, std::span<std::byte> block) const {
    if (!isFloatingPoint(datatype())) {
      for (std::size_t done = 0; done < block.size(); done += sizeof(std::uint64_t)) {
        const std::uint64_t bits = random();
        std::memcpy(block.data() + done, &bits, std::min(sizeof(bits), block.size() - done));
      }
      return;
    }
    const std::size_t step = elementBytes(datatype());
    for (std::size_t done = 0; done < block.size(); done += step) {
      writeElement(datatype(), sigma_ * standardNormal(random), block.data() + done);
    }
  }

  double sigma_;
};

}  // namespace

std::unique_ptr<DataSource> makeGaussianSource(const GaussianSpec& spec,
                                               zipcclDataType_t datatype) {
  return std::make_unique<GaussianSource>(spec, datatype);
}

std::unique_ptr<DataSource> openDataSource(const DataSpec& spec,
                                           std::optional<zipcclDataType_t> datatype) {
  if (const auto* gaussian = std::get_if<GaussianSpec>(&spec)) {
    return makeGaussianSource(*gaussian, datatype.value_or(zipcclBfloat16));
  }
  return openFileSource(std::get<FileSpec>(spec), datatype);
}

}  // namespace zipccl::tools::perf
