// SPDX-License-Identifier: Apache-2.0
//
// The values that are encoded.

#pragma once

#include <zipccl/zipccl.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>
#include <zipccl/codec.hpp>

namespace zipccl::tools::perf_codec {

/// Values that are repeated to whatever size is measured.
struct DataSet {
  std::string name;         ///< as `--data` says it
  std::string description;  ///< in words
  bool usesSeed = false;
  codec::Datatype datatype = codec::Datatype::kBfloat16;
  codec::Layout layout = codec::Layout::kNarrow;
  std::vector<std::byte> bytes;  ///< whole elements, at least one

  /// Calls `use(offset, piece)` for the pieces that make up `byteCount` bytes from `first` on of
  /// the values repeated without end.
  template <typename Use>
  void forEachPiece(std::uint64_t first, std::uint64_t byteCount, Use&& use) const {
    for (std::uint64_t done = 0; done < byteCount;) {
      const std::uint64_t place = (first + done) % bytes.size();
      const std::uint64_t length = std::min<std::uint64_t>(byteCount - done, bytes.size() - place);
      use(done, std::span(bytes).subspan(place, length));
      done += length;
    }
  }
};

/// `narrow` or `wide`.
[[nodiscard]] const char* layoutName(codec::Layout layout);

/// The codec's datatype, if it has a frame format.
[[nodiscard]] std::optional<codec::Datatype> codedDatatype(zipcclDataType_t datatype);

/// The datatype of the C API.
[[nodiscard]] zipcclDataType_t datatypeOf(codec::Datatype datatype);

/// What is wanted of a data set beside its values.
struct DataWish {
  std::optional<zipcclDataType_t> datatype;  ///< absent: that of the data
  std::optional<codec::Layout> layout;  ///< absent: narrow unless low halves of fp32 are in use
  std::uint64_t seed = 0;
  std::uint64_t mostBytes = 0;  ///< of the largest input
  int threads = 1;
};

/// The data set that `text`, as of `--data`, names. Throws UsageError when there is none such, or
/// none that the codec encodes; Failure when a file cannot be read.
[[nodiscard]] DataSet makeDataSet(const std::string& text, const DataWish& wish);

}  // namespace zipccl::tools::perf_codec
