// SPDX-License-Identifier: Apache-2.0
//
// Measures the GPU codec against cudaMemcpyAsync from device to device, and beside it, where there
// is one, another codec.

#pragma once

#include <cstdint>
#include <vector>

#include "perf_codec/data_set.hpp"
#include "perf_codec/measurement.hpp"

namespace zipccl::tools::perf_codec {

class Nvcomp;

/// Measures `data` at each of `sizesBytes` and under each of `blockLimits` (0: none) on the current
/// device, and hands each result to `done`. `rival` may be null; it takes no block limit. Throws
/// Failure, and what the codec throws when it does not have the format.
void measureOnGpu(const DataSet& data, const std::vector<std::uint64_t>& sizesBytes,
                  const std::vector<unsigned>& blockLimits, const MeasurementPlan& plan,
                  const Nvcomp* rival, const ResultHandler& done);

}  // namespace zipccl::tools::perf_codec
