// SPDX-License-Identifier: Apache-2.0
//
// The values that are encoded: synthetic ones and those of safetensors files.

#pragma once

#include <cstdint>
#include <string>

#include "perf_codec/data_set.hpp"

namespace zipccl::bench {

using tools::perf_codec::DataSet;

/// The data set that `text` describes:
///
///   normal:SIGMA          bf16, Gaussian
///   zeros:SHARE           bf16, Gaussian of 0.02, of which a share are zeros
///   random                bf16, random bits
///   widened:SIGMA         fp32 whose low halves are zero, Gaussian
///   float:SIGMA           fp32 in the wide layout, Gaussian
///   file:PATH[:TENSOR]    a tensor of a safetensors file; without a name all of the first coded
///                         datatype, one after the other
///
/// The same seed gives the same values. Throws Error(kInvalidArgument) when it describes none.
[[nodiscard]] DataSet makeDataSet(const std::string& text, std::uint64_t seed);

}  // namespace zipccl::bench
