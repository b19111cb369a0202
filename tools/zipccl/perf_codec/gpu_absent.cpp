// SPDX-License-Identifier: Apache-2.0
//
// What stands for the GPU in builds without CUDA.

#include "perf_codec/gpu_machine.hpp"
#include "perf_codec/gpu_measurement.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf_codec {

GpuSearch findGpu() { return {std::nullopt, "this build has no GPU code"}; }

void measureOnGpu(const DataSet&, const std::vector<std::uint64_t>&, const std::vector<unsigned>&,
                  const MeasurementPlan&, const Nvcomp*, const ResultHandler&) {
  throw Failure("this build has no GPU code");
}

}  // namespace zipccl::tools::perf_codec
