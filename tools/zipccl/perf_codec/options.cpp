// SPDX-License-Identifier: Apache-2.0
//
// What follows from the options of `zipccl perf codec`.

#include "perf_codec/options.hpp"

#include "perf/options.hpp"
#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf_codec {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
constexpr std::uint64_t kDefaultMinBytes = kMebibyte;
constexpr std::uint64_t kDefaultMaxBytesOfHost = 16 * kMebibyte;
constexpr std::uint64_t kDefaultMaxBytesOfGpu = 256 * kMebibyte;
/// Of the largest element, so that every input holds one.
constexpr std::uint64_t kLeastBytes = 4;
/// What the largest frame holds of the smallest element.
constexpr std::uint64_t kLargestInputBytes = std::uint64_t{2} << 40;

}  // namespace

std::vector<std::uint64_t> inputSizes(const Options& options, Device device) {
  std::vector<std::uint64_t> sizes = perf::sizesBetween(
      options.minBytes, kDefaultMinBytes, options.maxBytes,
      device == Device::kGpu ? kDefaultMaxBytesOfGpu : kDefaultMaxBytesOfHost, options.stepFactor);
  if (sizes.front() < kLeastBytes) {
    throw UsageError("--minbytes is " + std::to_string(sizes.front()) +
                     ", but the smallest input is " + std::to_string(kLeastBytes));
  }
  if (sizes.back() > kLargestInputBytes) {
    throw UsageError("--maxbytes leads to " + humanBytes(sizes.back()) +
                     ", but the largest input is " + humanBytes(kLargestInputBytes));
  }
  return sizes;
}

MeasurementPlan planFor(const Options& options, Device device) {
  MeasurementPlan plan = MeasurementPlan::forDevice(device);
  plan.rounds = options.rounds;
  plan.warmupRounds = options.warmups;
  plan.checks = options.checks;
  if (options.rotatedBytes) plan.rotatedBytes = *options.rotatedBytes;
  return plan;
}

}  // namespace zipccl::tools::perf_codec
