// SPDX-License-Identifier: Apache-2.0
//
// The ziggurat: 256 layers of equal area under the density exp(-x^2 / 2), the lowest with the tail.

#include "perf/random_bits.hpp"

#include <array>
#include <cmath>
#include <cstddef>
#include <random>

namespace zipccl::tools::perf {
namespace {

constexpr std::size_t kLayers = 256;
constexpr double kTailBegin = 3.6541528853610088;
constexpr double kLayerArea = 0.00492867323399;

double density(double x) noexcept { return std::exp(-0.5 * x * x); }

struct Layers {
  std::array<double, kLayers + 1> edge{};  ///< layer i reaches from 0 to edge[i]
  std::array<double, kLayers> safe{};      ///< the part of it that lies under the density for sure

  Layers() noexcept {
    edge[0] = kLayerArea / density(kTailBegin);
    edge[1] = kTailBegin;
    for (std::size_t layer = 2; layer < kLayers; ++layer) {
      const double below = edge[layer - 1];
      edge[layer] = std::sqrt(-2.0 * std::log(kLayerArea / below + density(below)));
    }
    edge[kLayers] = 0.0;
    for (std::size_t layer = 0; layer < kLayers; ++layer)
      safe[layer] = edge[layer + 1] / edge[layer];
  }
};

double fromTail(RandomBits& random) noexcept {
  for (;;) {
    const double beyond = -std::log(random.uniform()) / kTailBegin;
    const double height = -std::log(random.uniform());
    if (2.0 * height >= beyond * beyond) return kTailBegin + beyond;
  }
}

}  // namespace

std::uint64_t freshSeed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) ^ device();
}

double standardNormal(RandomBits& random) noexcept {
  static const Layers kTable;
  for (;;) {
    const std::uint64_t bits = random();
    const std::size_t layer = bits % kLayers;
    // The upper 53 bits, signed: in [-1, 1).
    const double place = static_cast<double>(static_cast<std::int64_t>(bits) >> 11) * 0x1.0p-52;
    const double x = place * kTable.edge[layer];
    if (std::fabs(place) < kTable.safe[layer]) return x;
    if (layer == 0) return std::copysign(fromTail(random), place);
    const double lower = density(kTable.edge[layer]);
    const double upper = density(kTable.edge[layer + 1]);
    if (lower + random.uniform() * (upper - lower) < density(x)) return x;
  }
}

}  // namespace zipccl::tools::perf
