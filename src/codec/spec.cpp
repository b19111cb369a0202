// SPDX-License-Identifier: Apache-2.0
//
// Sizes that follow from what was agreed, and the check that it may be agreed (docs/format.md
// sections 2, 3 and 10).

#include "codec/spec.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "codec/header_check.hpp"

namespace zipccl::codec {
namespace {

FrameLayout checkedLayoutWithoutPool(Datatype datatype, Layout layout, std::uint64_t elementCount) {
  expects(isDatatype(datatype), "unknown datatype");
  expects(isValidLayout(datatype, layout), "the datatype does not have this layout");
  expects(elementCount <= kMaxElementCount, "a frame holds at most 2^40 elements, not ",
          elementCount);
  return frameLayout(datatype, layout, elementCount, 0);
}

}  // namespace

FrameLayout checkedLayout(const FrameSpec& spec) {
  const FrameLayout layout =
      checkedLayoutWithoutPool(spec.datatype, spec.layout, spec.elementCount);
  expects(isValidPool(layout, spec.poolBytes), "a pool of ", spec.poolBytes,
          " bytes is not a multiple of 128 up to ", layout.maxExtraBytes);
  return frameLayout(spec.datatype, spec.layout, spec.elementCount, spec.poolBytes);
}

std::uint64_t elementBytes(Datatype datatype) noexcept { return bytesPerElement(datatype); }

std::uint64_t maxFrameBytes(Datatype datatype, std::uint64_t elementCount) {
  // The wide layout moves 2048 bytes a tile from extra space to the record, so this holds for it
  // too.
  const FrameLayout layout = checkedLayoutWithoutPool(datatype, Layout::kNarrow, elementCount);
  return layout.poolAt + layout.maxExtraBytes;
}

std::uint64_t maxPoolBytes(Datatype datatype, Layout layout, std::uint64_t elementCount) {
  return checkedLayoutWithoutPool(datatype, layout, elementCount).maxExtraBytes;
}

std::uint64_t defaultPoolBytes(Datatype datatype, Layout layout, std::uint64_t elementCount) {
  const FrameLayout frame = checkedLayoutWithoutPool(datatype, layout, elementCount);
  return std::min(alignUp(kDefaultPoolBytesPerTile * frame.tileCount, kSectionAlignment),
                  frame.maxExtraBytes);
}

std::uint64_t steadyPoolBytes(Datatype datatype, Layout layout, std::uint64_t elementCount,
                              std::uint64_t extraBytes) {
  const std::uint64_t most = maxPoolBytes(datatype, layout, elementCount);
  const std::uint64_t used = std::min(extraBytes, most);
  return std::min(alignUp(used + used / 64, kSectionAlignment), most);
}

std::uint64_t staticBytes(const FrameSpec& spec) { return checkedLayout(spec).staticBytes; }

}  // namespace zipccl::codec
