// SPDX-License-Identifier: Apache-2.0
//
// What a user can ask of `zipccl perf codec`.

#pragma once

#include <zipccl/zipccl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>
#include <zipccl/codec.hpp>

#include "perf_codec/measurement.hpp"

namespace zipccl::tools::perf_codec {

/// Which codecs are measured; kAuto: that of the host, and that of a GPU where there is one.
enum class DeviceChoice { kAuto, kHost, kGpu };

/// What the GPU codec is measured against; kAuto: nvCOMP where it is found.
enum class RivalChoice { kAuto, kNone, kNvcomp };

struct Options {
  std::optional<std::uint64_t> minBytes;
  std::optional<std::uint64_t> maxBytes;
  std::uint64_t stepFactor = 4;
  std::optional<int> rounds;  ///< as many as time allows where absent
  int warmups = 1;
  bool checks = true;
  std::optional<std::uint64_t> rotatedBytes;  ///< what suits the device where absent
  std::optional<zipcclDataType_t> datatype;   ///< that of the data where absent
  std::optional<codec::Layout> layout;        ///< what suits the data where absent
  std::vector<std::string> data = {"normal:0.02"};
  std::optional<std::uint64_t> seed;
  DeviceChoice device = DeviceChoice::kAuto;
  std::vector<unsigned> blockLimits = {0};
  RivalChoice against = RivalChoice::kAuto;
  std::string nvcompPath;  ///< empty: where the dynamic linker finds it
  std::string jsonPath;    ///< empty: none
};

/// The sizes of inputs in bytes, smallest first. Throws UsageError when the limits do not fit, or
/// the smallest holds no value.
[[nodiscard]] std::vector<std::uint64_t> inputSizes(const Options& options, Device device);

/// What `options` say of how `device` is measured.
[[nodiscard]] MeasurementPlan planFor(const Options& options, Device device);

}  // namespace zipccl::tools::perf_codec
