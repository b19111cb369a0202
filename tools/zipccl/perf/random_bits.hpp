// SPDX-License-Identifier: Apache-2.0
//
// Random bits and Gaussian numbers for generated data: fast, and the same for the same seed on
// every rank.

#pragma once

#include <cstdint>

namespace zipccl::tools::perf {

/// splitmix64, the public-domain generator of Vigna, with a stream for each purpose. Not for
/// secrets.
class RandomBits {
 public:
  RandomBits(std::uint64_t seed, std::uint64_t stream, std::uint64_t block) noexcept
      : state_(mixed(mixed(mixed(seed) ^ stream) ^ block)) {}

  std::uint64_t operator()() noexcept {
    state_ += kStep;
    return mixed(state_);
  }

  /// In (0, 1].
  double uniform() noexcept { return static_cast<double>(((*this)() >> 11) + 1) * 0x1.0p-53; }

 private:
  static constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15U;

  static constexpr std::uint64_t mixed(std::uint64_t z) noexcept {
    z += kStep;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  std::uint64_t state_;
};

/// A seed that nobody has used.
[[nodiscard]] std::uint64_t freshSeed();

/// A number of the standard normal distribution, by the ziggurat method (Marsaglia and Tsang, 2000;
/// the layers of Doornik, 2005).
[[nodiscard]] double standardNormal(RandomBits& random) noexcept;

}  // namespace zipccl::tools::perf
