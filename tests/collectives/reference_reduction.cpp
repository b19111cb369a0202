// SPDX-License-Identifier: Apache-2.0
//
// The reference of reductions.

#include "reference_reduction.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace zipccl::collectives::testing {
namespace {

struct Format {
  int fractionBits;
  int exponentBits;
  [[nodiscard]] int bias() const { return (1 << (exponentBits - 1)) - 1; }
  [[nodiscard]] std::uint32_t infinity() const {
    return ((1U << exponentBits) - 1U) << fractionBits;
  }
};

Format formatOf(Datatype datatype) {
  return datatype == Datatype::kFloat16 ? Format{10, 5} : Format{7, 8};
}

/// The value of a magnitude; that of infinity is where the next number would be.
double magnitudeValue(const Format& format, std::uint32_t bits) {
  const std::uint32_t exponent = bits >> format.fractionBits;
  const std::uint32_t fraction = bits & ((1U << format.fractionBits) - 1U);
  if (exponent == 0) return std::ldexp(fraction, 1 - format.bias() - format.fractionBits);
  return std::ldexp(fraction + (1U << format.fractionBits),
                    static_cast<int>(exponent) - format.bias() - format.fractionBits);
}

/// One step of arithmetic in the precision in which the library adds.
template <class Value>
Value apply(ReduceOp op, Value a, Value b) {
  if (op == ReduceOp::kProd) return a * b;
  if (op == ReduceOp::kMax || op == ReduceOp::kMin) {
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    const bool isSecond = op == ReduceOp::kMax ? a < b : a > b;
    return isSecond ? b : a;
  }
  return a + b;
}

template <class Value, class Widen, class Round>
void reduceOne(const Reduction& reduction, const std::vector<std::vector<std::byte>>& addends,
               std::size_t at, std::size_t bytesEach, const Widen& widen, const Round& round,
               std::byte* to) {
  volatile Value factor = 1;
  if (reduction.op == ReduceOp::kAvg) {
    std::byte rounded[8];
    round(Value{1} / static_cast<Value>(addends.size()), rounded);
    factor = widen(rounded);
  } else if (reduction.op == ReduceOp::kPreMulSum) {
    factor = widen(reduction.scalar.data());
  }
  volatile Value sum = 0;
  for (std::size_t rank = 0; rank < addends.size(); ++rank) {
    volatile Value addend = widen(addends[rank].data() + at * bytesEach);
    if (factor != Value{1}) {
      std::byte rounded[8];
      const volatile Value product = addend * factor;
      round(product, rounded);
      addend = widen(rounded);
    }
    sum = rank == 0 ? addend : apply<Value>(reduction.op, sum, addend);
  }
  round(sum, to);
}

template <class Integer>
void reduceIntegers(const Reduction& reduction, const std::vector<std::vector<std::byte>>& addends,
                    std::vector<std::byte>& out) {
  for (std::size_t at = 0; at < out.size(); at += sizeof(Integer)) {
    Integer result = 0;
    for (std::size_t rank = 0; rank < addends.size(); ++rank) {
      Integer value;
      std::memcpy(&value, addends[rank].data() + at, sizeof(value));
      if (reduction.op == ReduceOp::kPreMulSum) {
        Integer factor;
        std::memcpy(&factor, reduction.scalar.data(), sizeof(factor));
        Integer product;
        static_cast<void>(__builtin_mul_overflow(value, factor, &product));
        value = product;
      }
      if (rank == 0) {
        result = value;
      } else if (reduction.op == ReduceOp::kMax) {
        result = result > value ? result : value;
      } else if (reduction.op == ReduceOp::kMin) {
        result = result < value ? result : value;
      } else {
        Integer next;
        if (reduction.op == ReduceOp::kProd) {
          static_cast<void>(__builtin_mul_overflow(result, value, &next));
        } else {
          static_cast<void>(__builtin_add_overflow(result, value, &next));
        }
        result = next;
      }
    }
    if (reduction.op == ReduceOp::kAvg) {
      result = static_cast<Integer>(result / static_cast<Integer>(addends.size()));
    }
    std::memcpy(out.data() + at, &result, sizeof(result));
  }
}

template <class Float, class Bits>
void reduceFloats(const Reduction& reduction, const std::vector<std::vector<std::byte>>& addends,
                  std::vector<std::byte>& out) {
  const auto widen = [](const std::byte* from) {
    Float value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  const auto round = [](Float value, std::byte* to) {
    const Bits canonical = std::numeric_limits<Bits>::max() >> 1;
    if (std::isnan(value)) {
      std::memcpy(to, &canonical, sizeof(canonical));
    } else {
      std::memcpy(to, &value, sizeof(value));
    }
  };
  for (std::size_t i = 0; i < out.size() / sizeof(Float); ++i) {
    reduceOne<Float>(reduction, addends, i, sizeof(Float), widen, round,
                     out.data() + i * sizeof(Float));
  }
}

void reduceHalves(Datatype datatype, const Reduction& reduction,
                  const std::vector<std::vector<std::byte>>& addends, std::vector<std::byte>& out) {
  const auto widen = [datatype](const std::byte* from) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof(bits));
    return static_cast<float>(valueOf(datatype, bits));
  };
  const auto round = [datatype](float value, std::byte* to) {
    const std::uint16_t bits = nearestNumber(datatype, value);
    std::memcpy(to, &bits, sizeof(bits));
  };
  for (std::size_t i = 0; i < out.size() / 2; ++i) {
    reduceOne<float>(reduction, addends, i, 2, widen, round, out.data() + 2 * i);
  }
}

}  // namespace

double valueOf(Datatype datatype, std::uint16_t bits) {
  const Format format = formatOf(datatype);
  const std::uint32_t magnitude = bits & 0x7FFFU;
  double value = magnitudeValue(format, magnitude);
  if (magnitude == format.infinity()) value = std::numeric_limits<double>::infinity();
  if (magnitude > format.infinity()) return std::numeric_limits<double>::quiet_NaN();
  return (bits & 0x8000U) != 0 ? -value : value;
}

std::uint16_t nearestNumber(Datatype datatype, double value) {
  if (std::isnan(value)) return 0x7FFF;
  const Format format = formatOf(datatype);
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000U : 0U);
  const double magnitude = std::fabs(value);
  // The largest number that is not above it.
  std::uint32_t low = 0;
  std::uint32_t high = format.infinity();
  if (magnitude >= magnitudeValue(format, high)) return static_cast<std::uint16_t>(sign | high);
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (magnitudeValue(format, middle) <= magnitude ? low : high) = middle;
  }
  const double below = magnitude - magnitudeValue(format, low);
  const double above = magnitudeValue(format, high) - magnitude;
  const bool isUp = above < below || (above == below && low % 2 == 1);
  return static_cast<std::uint16_t>(sign | (isUp ? high : low));
}

std::vector<std::byte> referenceReduction(Datatype datatype, const Reduction& reduction,
                                          const std::vector<std::vector<std::byte>>& addends) {
  std::vector<std::byte> out(addends.front().size());
  switch (datatype) {
    case Datatype::kInt8:
      reduceIntegers<std::int8_t>(reduction, addends, out);
      break;
    case Datatype::kUint8:
      reduceIntegers<std::uint8_t>(reduction, addends, out);
      break;
    case Datatype::kInt32:
      reduceIntegers<std::int32_t>(reduction, addends, out);
      break;
    case Datatype::kUint32:
      reduceIntegers<std::uint32_t>(reduction, addends, out);
      break;
    case Datatype::kInt64:
      reduceIntegers<std::int64_t>(reduction, addends, out);
      break;
    case Datatype::kUint64:
      reduceIntegers<std::uint64_t>(reduction, addends, out);
      break;
    case Datatype::kFloat32:
      reduceFloats<float, std::uint32_t>(reduction, addends, out);
      break;
    case Datatype::kFloat64:
      reduceFloats<double, std::uint64_t>(reduction, addends, out);
      break;
    case Datatype::kBfloat16:
    case Datatype::kFloat16:
      reduceHalves(datatype, reduction, addends, out);
      break;
    case Datatype::kFloat8e4m3:
    case Datatype::kFloat8e5m2:
      break;
  }
  return out;
}

Reduction preMulSum(Datatype datatype, double factor) {
  Reduction reduction{.op = ReduceOp::kPreMulSum};
  const auto put = [&](const auto& value) {
    std::memcpy(reduction.scalar.data(), &value, sizeof(value));
  };
  switch (datatype) {
    case Datatype::kBfloat16:
    case Datatype::kFloat16:
      put(nearestNumber(datatype, factor));
      break;
    case Datatype::kFloat32:
      put(static_cast<float>(factor));
      break;
    case Datatype::kFloat64:
      put(factor);
      break;
    case Datatype::kInt8:
    case Datatype::kUint8:
    case Datatype::kInt32:
    case Datatype::kUint32:
    case Datatype::kInt64:
    case Datatype::kUint64:
    case Datatype::kFloat8e4m3:
    case Datatype::kFloat8e5m2:
      put(static_cast<std::int64_t>(factor));
      break;
  }
  return reduction;
}

}  // namespace zipccl::collectives::testing
