// SPDX-License-Identifier: Apache-2.0
//
// Random numbers for tests, tools and benchmarks: the same seed gives the same numbers on every
// machine and with every compiler, which the standard library's distributions do not promise.
// splitmix64 and xoshiro256** are the public-domain generators of Blackman and Vigna.

#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>

namespace zipccl {

/// One step of splitmix64: advances `state` and returns 64 random bits.
constexpr std::uint64_t splitMix64(std::uint64_t& state) noexcept {
  state += 0x9E3779B97F4A7C15u;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// xoshiro256**, a uniform random bit generator in the sense of <random>. Not for secrets.
///
/// What tests call for each value is inlined even where a caller is compiled without optimisation:
/// the linker keeps one copy of an inline function for a whole program, and sanitized tests spent
/// two thirds of their time in one of theirs.
class Random {
 public:
  using result_type = std::uint64_t;

  /// Every seed is good, zero too. `stream` separates generators of one seed, such as ranks.
  explicit constexpr Random(std::uint64_t seed, std::uint64_t stream = 0) noexcept {
    std::uint64_t mixed = stream;
    std::uint64_t state = seed ^ splitMix64(mixed);
    for (std::uint64_t& word : state_) word = splitMix64(state);
  }

  static constexpr result_type min() noexcept { return 0; }
  static constexpr result_type max() noexcept { return std::numeric_limits<result_type>::max(); }

  /// 64 random bits.
  [[gnu::always_inline]] constexpr result_type operator()() noexcept {
    const std::uint64_t result = rotated(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotated(state_[3], 45);
    return result;
  }

  /// A number in [0, bound), without bias; `bound` must not be zero.
  [[gnu::always_inline]] constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    const std::uint64_t unfair = (0 - bound) % bound;
    std::uint64_t bits = (*this)();
    while (bits < unfair) bits = (*this)();
    return bits % bound;
  }

  /// A number in [low, high], both included; needs low <= high and a range below 2^64 values.
  constexpr std::uint64_t between(std::uint64_t low, std::uint64_t high) noexcept {
    return low + below(high - low + 1);
  }

  /// True with the given probability.
  constexpr bool chance(double probability) noexcept { return uniform() < probability; }

  /// A number in [0, 1) with 53 random bits.
  [[gnu::always_inline]] constexpr double uniform() noexcept {
    return static_cast<double>((*this)() >> 11) * 0x1.0p-53;
  }

  /// A number of the standard normal distribution (Box and Muller's method).
  [[gnu::always_inline]] double normal() noexcept {
    if (hasSpare_) {
      hasSpare_ = false;
      return spare_;
    }
    const double radius = std::sqrt(-2.0 * std::log(1.0 - uniform()));
    const double angle = 2.0 * std::numbers::pi * uniform();
    spare_ = radius * std::sin(angle);
    hasSpare_ = true;
    return radius * std::cos(angle);
  }

  /// Fills `bytes` with random bits.
  void fill(std::span<std::byte> bytes) noexcept;

 private:
  [[gnu::always_inline]] static constexpr std::uint64_t rotated(std::uint64_t bits,
                                                                int count) noexcept {
    return bits << count | bits >> (64 - count);
  }

  std::uint64_t state_[4] = {};
  double spare_ = 0.0;
  bool hasSpare_ = false;
};

/// A seed nobody has used before, from the system's entropy; for tests, which print it on failure.
[[nodiscard]] std::uint64_t freshSeed();

}  // namespace zipccl
