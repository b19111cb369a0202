// SPDX-License-Identifier: Apache-2.0
//
// Element arithmetic, written to be read.

#include "arithmetic.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "support/small_floats.hpp"

namespace zipccl::testing {
namespace {

struct Bfloat16 {
  std::uint16_t bits;
  static Bfloat16 from(float value) { return {bfloat16Bits(value)}; }
  [[nodiscard]] float value() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
};

struct Float16 {
  std::uint16_t bits;
  static Float16 from(float value) { return {float16Bits(value)}; }
  [[nodiscard]] float value() const {
    const int field = (bits >> 10) & 31;
    const int fraction = bits & 1023;
    const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
    if (field == 31) return fraction != 0 ? std::nanf("") : sign * INFINITY;
    if (field == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
    return sign * std::ldexp(static_cast<float>(1024 + fraction), field - 25);
  }
};

template <class T>
inline constexpr bool kIsSmall = std::is_same_v<T, Bfloat16> || std::is_same_v<T, Float16>;

template <class T>
auto load(const void* from, std::size_t at) {
  T element;
  std::memcpy(&element, static_cast<const std::byte*>(from) + at * sizeof(T), sizeof(T));
  if constexpr (kIsSmall<T>) {
    return element.value();
  } else {
    return element;
  }
}

template <class T, class V>
void store(void* to, std::size_t at, V value) {
  T element;
  if constexpr (kIsSmall<T>) {
    element = T::from(value);
  } else {
    element = static_cast<T>(value);
  }
  std::memcpy(static_cast<std::byte*>(to) + at * sizeof(T), &element, sizeof(T));
}

/// The one NaN that additions of a GPU give.
template <class T>
void storeNan(void* to, std::size_t at) {
  std::byte* const element = static_cast<std::byte*>(to) + at * sizeof(T);
  std::memset(element, 0xFF, sizeof(T));
  element[sizeof(T) - 1] = std::byte{0x7F};
}

template <class T, class V>
V rounded(V value) {
  if constexpr (kIsSmall<T>) {
    return T::from(value).value();
  } else {
    return value;
  }
}

template <class V>
V combine(V a, V b, int kind) {
  using Plain = std::conditional_t<std::is_integral_v<V>, std::uint64_t, V>;
  switch (kind) {
    case kNcclProd:
      return static_cast<V>(static_cast<Plain>(a) * static_cast<Plain>(b));
    case kNcclMax:
      return std::max(a, b);
    case kNcclMin:
      return std::min(a, b);
    default:
      return static_cast<V>(static_cast<Plain>(a) + static_cast<Plain>(b));
  }
}

template <class T>
void reduceAs(std::span<const void* const> parts, std::size_t first, std::size_t count,
              const Operation& operation, void* out) {
  using V = decltype(load<T>(nullptr, 0));
  for (std::size_t at = 0; at < count; ++at) {
    V sum = {};
    for (std::size_t step = 0; step < parts.size(); ++step) {
      V addend = load<T>(parts[(first + step) % parts.size()], at);
      if constexpr (std::is_integral_v<V>) {
        if (operation.isPremultiplied) {
          addend = static_cast<V>(static_cast<std::uint64_t>(addend) *
                                  static_cast<std::uint64_t>(operation.scalar));
        }
      } else if (operation.isPremultiplied) {
        addend = rounded<T>(static_cast<V>(addend * static_cast<V>(operation.scalar)));
      } else if (operation.kind == kNcclAvg) {
        const V factor = rounded<T>(V{1} / static_cast<V>(parts.size()));
        addend = rounded<T>(static_cast<V>(addend * factor));
      }
      sum = step == 0 ? addend : rounded<T>(combine(sum, addend, operation.kind));
    }
    if constexpr (std::is_integral_v<V>) {
      if (operation.kind == kNcclAvg && !operation.isPremultiplied) {
        sum = static_cast<V>(sum / static_cast<V>(parts.size()));
      }
    }
    if constexpr (std::is_floating_point_v<V>) {
      if (std::isnan(sum) && parts.size() > 1) {
        storeNan<T>(out, at);
        continue;
      }
    }
    store<T>(out, at, sum);
  }
}

/// Calls `work` with a null pointer to the type of `datatype`; false where there is none here.
template <class Work>
bool withType(int datatype, Work work) {
  switch (datatype) {
    case kNcclInt8:
      return work(static_cast<std::int8_t*>(nullptr));
    case kNcclUint8:
      return work(static_cast<std::uint8_t*>(nullptr));
    case kNcclInt32:
      return work(static_cast<std::int32_t*>(nullptr));
    case kNcclUint32:
      return work(static_cast<std::uint32_t*>(nullptr));
    case kNcclInt64:
      return work(static_cast<std::int64_t*>(nullptr));
    case kNcclUint64:
      return work(static_cast<std::uint64_t*>(nullptr));
    case kNcclFloat16:
      return work(static_cast<Float16*>(nullptr));
    case kNcclFloat32:
      return work(static_cast<float*>(nullptr));
    case kNcclFloat64:
      return work(static_cast<double*>(nullptr));
    case kNcclBfloat16:
      return work(static_cast<Bfloat16*>(nullptr));
    default:
      return false;
  }
}

}  // namespace

std::size_t elementBytes(int datatype) noexcept {
  switch (datatype) {
    case kNcclInt8:
    case kNcclUint8:
    case kNcclFloat8e4m3:
    case kNcclFloat8e5m2:
      return 1;
    case kNcclFloat16:
    case kNcclBfloat16:
      return 2;
    case kNcclInt32:
    case kNcclUint32:
    case kNcclFloat32:
      return 4;
    case kNcclInt64:
    case kNcclUint64:
    case kNcclFloat64:
      return 8;
    default:
      return 0;
  }
}

double readScalar(const void* scalar, int datatype) {
  double value = 1.0;
  withType(datatype, [&]<class T>(T*) {
    value = static_cast<double>(load<T>(scalar, 0));
    return true;
  });
  return value;
}

bool reduce(std::span<const void* const> parts, std::size_t first, std::size_t count, int datatype,
            const Operation& operation, void* out) {
  return withType(datatype, [&]<class T>(T*) {
    reduceAs<T>(parts, first, count, operation, out);
    return true;
  });
}

}  // namespace zipccl::testing
