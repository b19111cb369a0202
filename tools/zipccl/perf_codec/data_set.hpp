// SPDX-License-Identifier: Apache-2.0
//
// The values that are encoded.

#pragma once

#include <cstddef>
#include <string>
#include <vector>
#include <zipccl/codec.hpp>

namespace zipccl::tools::perf_codec {

/// Values that are repeated to whatever size is measured.
struct DataSet {
  std::string name;
  codec::Datatype datatype = codec::Datatype::kBfloat16;
  codec::Layout layout = codec::Layout::kNarrow;
  std::vector<std::byte> bytes;  ///< whole elements
};

}  // namespace zipccl::tools::perf_codec
