// SPDX-License-Identifier: Apache-2.0
//
// Scaled sums: the scalar reference, and sums of elements that are no frames. Compiled without
// contraction of products and sums, which would leave out a rounding.

#include "codec/scaled_sum.hpp"

#include <algorithm>
#include <array>

#include "codec/bytes.hpp"
#include "codec/layout.hpp"
#include "codec/number.hpp"
#include "codec/tile_codec.hpp"

namespace zipccl::codec {
namespace scalar {
namespace {

template <Datatype kDatatype>
void add(const ScaledAddend& addend, const std::byte* elements, std::span<float> sums) noexcept {
  using Element = Number<kDatatype>;
  using Bits = typename Element::Bits;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    float value = Element::widen(loadWord<Bits>(elements + i * sizeof(Bits)));
    if (addend.factor != 1.0F) value = Element::widen(Element::round(value * addend.factor));
    sums[i] = addend.isFirst ? value : sums[i] + value;
  }
}

template <Datatype kDatatype>
void round(std::span<const float> sums, std::byte* elements) noexcept {
  using Element = Number<kDatatype>;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    storeWord(elements + i * sizeof(typename Element::Bits), Element::round(sums[i]));
  }
}

}  // namespace

void addScaled(const ScaledAddend& addend, const std::byte* elements,
               std::span<float> sums) noexcept {
  switch (addend.datatype) {
    case Datatype::kBfloat16:
      return add<Datatype::kBfloat16>(addend, elements, sums);
    case Datatype::kFloat16:
      return add<Datatype::kFloat16>(addend, elements, sums);
    case Datatype::kFloat32:
      return add<Datatype::kFloat32>(addend, elements, sums);
  }
}

void roundSums(Datatype datatype, std::span<const float> sums, std::byte* elements) noexcept {
  switch (datatype) {
    case Datatype::kBfloat16:
      return round<Datatype::kBfloat16>(sums, elements);
    case Datatype::kFloat16:
      return round<Datatype::kFloat16>(sums, elements);
    case Datatype::kFloat32:
      return round<Datatype::kFloat32>(sums, elements);
  }
}

}  // namespace scalar

void addUp(Datatype datatype, float factor, std::span<const void* const> addends,
           std::uint64_t elementCount, void* output) noexcept {
  if (addends.empty()) return;
  // Each block of an output that is an addend too is read before it is written.
  alignas(64) std::array<float, 2 * kTileElements> sums;
  const TileCodec& codec = defaultTileCodec();
  const std::uint64_t elementBytes = bytesPerElement(datatype);
  for (std::uint64_t first = 0; first < elementCount; first += sums.size()) {
    const std::span block =
        std::span(sums).first(std::min<std::uint64_t>(sums.size(), elementCount - first));
    for (std::size_t i = 0; i < addends.size(); ++i) {
      const auto* const elements = static_cast<const std::byte*>(addends[i]);
      codec.addScaled({datatype, factor, i == 0}, elements + first * elementBytes, block);
    }
    codec.roundSums(datatype, block, static_cast<std::byte*>(output) + first * elementBytes);
  }
}

}  // namespace zipccl::codec
