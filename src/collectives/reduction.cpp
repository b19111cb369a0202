// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions. Compiled without contraction of products and sums, which would
// leave out a rounding.

#include "collectives/reduction.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace zipccl::collectives {
namespace {

/// Elements of a block that is reduced at once.
constexpr std::size_t kBlock = 512;

template <class T>
T load(const void* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

template <class T>
void store(void* to, T value) noexcept {
  std::memcpy(to, &value, sizeof(value));
}

/// How elements of a floating-point datatype are read, rounded and written.
struct Bfloat16 {
  using Bits = std::uint16_t;
  using Value = float;
  static Value widen(Bits bits) noexcept {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  static Bits round(Value value) noexcept {
    if (std::isnan(value)) return 0x7FFF;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return static_cast<Bits>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
  }
};

struct Float16 {
  using Bits = std::uint16_t;
  using Value = float;
  static Value widen(Bits bits) noexcept {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t magnitude = bits & 0x7FFFU;
    if (magnitude >= 0x7C00U) {
      return std::bit_cast<float>(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
    }
    if (magnitude < 0x0400U) {
      const float value = static_cast<float>(magnitude) * 0x1.0p-24F;
      return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
    }
    return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
  }
  static Bits round(Value value) noexcept {
    if (std::isnan(value)) return 0x7FFF;
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint32_t>(bits >> 16 & 0x8000U);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude >= 0x477FF000U) return static_cast<Bits>(sign | 0x7C00U);
    if (magnitude < 0x38800000U) {
      // Adding 1/2 of the smallest subnormal's place puts the rounded fraction into the low bits.
      const float rounded = std::bit_cast<float>(magnitude) + 0.5F;
      return static_cast<Bits>(sign | (std::bit_cast<std::uint32_t>(rounded) - 0x3F000000U));
    }
    const std::uint32_t odd = magnitude >> 13 & 1U;
    return static_cast<Bits>(sign | ((magnitude - 0x38000000U + 0xFFFU + odd) >> 13));
  }
};

struct Float32 {
  using Bits = std::uint32_t;
  using Value = float;
  static Value widen(Bits bits) noexcept { return std::bit_cast<float>(bits); }
  static Bits round(Value value) noexcept {
    return std::isnan(value) ? 0x7FFFFFFFU : std::bit_cast<Bits>(value);
  }
};

struct Float64 {
  using Bits = std::uint64_t;
  using Value = double;
  static Value widen(Bits bits) noexcept { return std::bit_cast<double>(bits); }
  static Bits round(Value value) noexcept {
    return std::isnan(value) ? 0x7FFFFFFFFFFFFFFFU : std::bit_cast<Bits>(value);
  }
};

template <class Element>
typename Element::Value scaled(typename Element::Value value,
                               typename Element::Value factor) noexcept {
  return Element::widen(Element::round(value * factor));
}

template <class Element>
void addScaled(const std::byte* elements, float factor, std::span<float> sums,
               bool isFirst) noexcept {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float value =
        Element::widen(load<typename Element::Bits>(elements + i * sizeof(typename Element::Bits)));
    if (factor != 1.0F) value = scaled<Element>(value, factor);
    sums[i] = isFirst ? value : sums[i] + value;
  }
}

template <class Element>
void roundAll(std::span<const float> sums, std::byte* output) noexcept {
  for (std::size_t i = 0; i < sums.size(); ++i) {
    store(output + i * sizeof(typename Element::Bits), Element::round(sums[i]));
  }
}

template <class Element>
typename Element::Value factorAs(const Reduction& reduction, std::size_t addendCount) noexcept {
  using Value = typename Element::Value;
  switch (reduction.op) {
    case ReduceOp::kAvg:
      return Element::widen(Element::round(Value{1} / static_cast<Value>(addendCount)));
    case ReduceOp::kPreMulSum:
      return Element::widen(load<typename Element::Bits>(reduction.scalar.data()));
    case ReduceOp::kSum:
    case ReduceOp::kProd:
    case ReduceOp::kMax:
    case ReduceOp::kMin:
      return Value{1};
  }
  return Value{1};
}

template <class Value>
bool isNan(Value value) noexcept {
  if constexpr (std::is_floating_point_v<Value>) return std::isnan(value);
  return false;
}

template <class Value>
Value combined(ReduceOp op, Value a, Value b) noexcept {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg:
    case ReduceOp::kPreMulSum:
      return static_cast<Value>(a + b);
    case ReduceOp::kProd:
      return static_cast<Value>(a * b);
    case ReduceOp::kMax:
      return b > a || isNan(a) ? b : a;
    case ReduceOp::kMin:
      return b < a || isNan(a) ? b : a;
  }
  return a;
}

/// Calls `element(i)` for each element, a block at a time, so that an output that is an addend too
/// is read before it is written.
template <class Value, class AddBlock, class WriteBlock>
void inBlocks(std::uint64_t elementCount, std::size_t addendCount, const AddBlock& add,
              const WriteBlock& write) noexcept {
  std::array<Value, kBlock> block;
  for (std::uint64_t first = 0; first < elementCount; first += kBlock) {
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(kBlock, elementCount - first));
    for (std::size_t addend = 0; addend < addendCount; ++addend) {
      for (std::size_t i = 0; i < count; ++i) add(addend, first + i, block[i]);
    }
    for (std::size_t i = 0; i < count; ++i) write(first + i, block[i]);
  }
}

template <class Element>
void reduceFloating(const Reduction& reduction, std::span<const void* const> addends,
                    std::uint64_t elementCount, void* output) noexcept {
  using Bits = typename Element::Bits;
  using Value = typename Element::Value;
  const Value factor = factorAs<Element>(reduction, addends.size());
  inBlocks<Value>(
      elementCount, addends.size(),
      [&](std::size_t addend, std::uint64_t i, Value& sum) {
        Value value = Element::widen(
            load<Bits>(static_cast<const std::byte*>(addends[addend]) + i * sizeof(Bits)));
        if (factor != Value{1}) value = scaled<Element>(value, factor);
        sum = addend == 0 ? value : combined(reduction.op, sum, value);
      },
      [&](std::uint64_t i, Value sum) {
        store(static_cast<std::byte*>(output) + i * sizeof(Bits), Element::round(sum));
      });
}

template <class Integer>
void reduceInteger(const Reduction& reduction, std::span<const void* const> addends,
                   std::uint64_t elementCount, void* output) noexcept {
  // Sums and products wrap around, which signed arithmetic must not.
  using Wrapping = std::make_unsigned_t<Integer>;
  const bool isOrdered = reduction.op == ReduceOp::kMax || reduction.op == ReduceOp::kMin;
  const auto factor =
      reduction.op == ReduceOp::kPreMulSum ? load<Wrapping>(reduction.scalar.data()) : Wrapping{1};
  inBlocks<Integer>(
      elementCount, addends.size(),
      [&](std::size_t addend, std::uint64_t i, Integer& sum) {
        const auto value = static_cast<Integer>(
            std::uint64_t{factor} *
            load<Wrapping>(static_cast<const std::byte*>(addends[addend]) + i * sizeof(Integer)));
        if (addend == 0) {
          sum = value;
        } else if (isOrdered) {
          sum = combined(reduction.op, sum, value);
        } else {
          sum = static_cast<Integer>(combined<std::uint64_t>(
              reduction.op, static_cast<Wrapping>(sum), static_cast<Wrapping>(value)));
        }
      },
      [&](std::uint64_t i, Integer sum) {
        if (reduction.op == ReduceOp::kAvg) {
          // In 64 bits of the same sign, where neither operand overflows.
          using Wide = std::conditional_t<std::is_signed_v<Integer>, std::int64_t, std::uint64_t>;
          sum = static_cast<Integer>(static_cast<Wide>(sum) / static_cast<Wide>(addends.size()));
        }
        store(static_cast<std::byte*>(output) + i * sizeof(Integer), sum);
      });
}

}  // namespace

std::string_view reduceOpName(ReduceOp op) noexcept {
  switch (op) {
    case ReduceOp::kSum:
      return "Sum";
    case ReduceOp::kProd:
      return "Prod";
    case ReduceOp::kMax:
      return "Max";
    case ReduceOp::kMin:
      return "Min";
    case ReduceOp::kAvg:
      return "Avg";
    case ReduceOp::kPreMulSum:
      return "PreMulSum";
  }
  return "unknown";
}

bool canReduce(Datatype datatype) noexcept {
  return datatype != Datatype::kFloat8e4m3 && datatype != Datatype::kFloat8e5m2;
}

bool isScaledSum(const Reduction& reduction) noexcept {
  return reduction.op == ReduceOp::kSum || reduction.op == ReduceOp::kAvg ||
         reduction.op == ReduceOp::kPreMulSum;
}

float factorOf(const Reduction& reduction, Datatype datatype, int rankCount) noexcept {
  const auto ranks = static_cast<std::size_t>(rankCount);
  if (datatype == Datatype::kBfloat16) return factorAs<Bfloat16>(reduction, ranks);
  if (datatype == Datatype::kFloat16) return factorAs<Float16>(reduction, ranks);
  return factorAs<Float32>(reduction, ranks);
}

void ScaledSum::add(const void* elements) noexcept {
  const auto* from = static_cast<const std::byte*>(elements);
  if (datatype_ == Datatype::kBfloat16) {
    addScaled<Bfloat16>(from, factor_, sums_, isFirst_);
  } else if (datatype_ == Datatype::kFloat16) {
    addScaled<Float16>(from, factor_, sums_, isFirst_);
  } else {
    addScaled<Float32>(from, factor_, sums_, isFirst_);
  }
  isFirst_ = false;
}

void ScaledSum::finish(void* output) const noexcept {
  auto* const to = static_cast<std::byte*>(output);
  if (datatype_ == Datatype::kBfloat16) {
    roundAll<Bfloat16>(sums_, to);
  } else if (datatype_ == Datatype::kFloat16) {
    roundAll<Float16>(sums_, to);
  } else {
    roundAll<Float32>(sums_, to);
  }
}

void reduceElements(Datatype datatype, const Reduction& reduction,
                    std::span<const void* const> addends, std::uint64_t elementCount,
                    void* output) noexcept {
  switch (datatype) {
    case Datatype::kInt8:
      return reduceInteger<std::int8_t>(reduction, addends, elementCount, output);
    case Datatype::kUint8:
      return reduceInteger<std::uint8_t>(reduction, addends, elementCount, output);
    case Datatype::kInt32:
      return reduceInteger<std::int32_t>(reduction, addends, elementCount, output);
    case Datatype::kUint32:
      return reduceInteger<std::uint32_t>(reduction, addends, elementCount, output);
    case Datatype::kInt64:
      return reduceInteger<std::int64_t>(reduction, addends, elementCount, output);
    case Datatype::kUint64:
      return reduceInteger<std::uint64_t>(reduction, addends, elementCount, output);
    case Datatype::kFloat16:
      return reduceFloating<Float16>(reduction, addends, elementCount, output);
    case Datatype::kFloat32:
      return reduceFloating<Float32>(reduction, addends, elementCount, output);
    case Datatype::kFloat64:
      return reduceFloating<Float64>(reduction, addends, elementCount, output);
    case Datatype::kBfloat16:
      return reduceFloating<Bfloat16>(reduction, addends, elementCount, output);
    case Datatype::kFloat8e4m3:
    case Datatype::kFloat8e5m2:
      return;
  }
}

}  // namespace zipccl::collectives
