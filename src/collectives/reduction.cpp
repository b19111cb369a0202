// SPDX-License-Identifier: Apache-2.0
//
// The arithmetic of reductions. Compiled without contraction of products and sums, which would
// leave out a rounding.

#include "collectives/reduction.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

#include "codec/number.hpp"
#include "codec/scaled_sum.hpp"

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

// How elements of a floating-point datatype are read, rounded and written.
using Bfloat16 = codec::Number<codec::Datatype::kBfloat16>;
using Float16 = codec::Number<codec::Datatype::kFloat16>;
using Float32 = codec::Number<codec::Datatype::kFloat32>;

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

void reduceElements(Datatype datatype, const Reduction& reduction,
                    std::span<const void* const> addends, std::uint64_t elementCount,
                    void* output) noexcept {
  const std::optional<codec::Datatype> coded = codedDatatype(datatype);
  if (coded && isScaledSum(reduction)) {
    const float factor = factorOf(reduction, datatype, static_cast<int>(addends.size()));
    return codec::addUp(*coded, factor, addends, elementCount, output);
  }
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
