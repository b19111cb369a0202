// SPDX-License-Identifier: Apache-2.0
//
// A run of `zipccl perf codec` as it is reported: the table on stdout, and the JSON file.

#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "perf/machine.hpp"
#include "perf_codec/data_set.hpp"
#include "perf_codec/gpu_machine.hpp"
#include "perf_codec/measurement.hpp"
#include "perf_codec/options.hpp"

namespace zipccl::tools::perf_codec {

/// What is said of a data set.
struct DataNote {
  std::string name;
  std::string description;
  codec::Datatype datatype = codec::Datatype::kBfloat16;
  codec::Layout layout = codec::Layout::kNarrow;
};

/// What is known before the first call.
struct RunInfo {
  std::vector<std::string> arguments;
  Options options;
  std::string startedAt;  ///< UTC, ISO 8601
  perf::Machine machine;
  bool usesHost = true;
  std::optional<GpuMachine> gpu;  ///< absent where none is measured
  std::string gpuNote;            ///< why none is, where the user did not say so
  std::vector<DataNote> data;
  std::optional<std::uint64_t> seed;  ///< absent where no data depends on it
  std::string rivalVersion;           ///< of nvCOMP; empty where it is not measured
  std::string rivalNote;              ///< why it is not, where the user did not say so
};

struct RunReport {
  RunInfo info;
  std::vector<CodecResult> results;

  /// Elements that did not come back, of both codecs.
  [[nodiscard]] std::uint64_t wrongElements() const noexcept;
  /// Whether nothing is known to be wrong.
  [[nodiscard]] bool isRight() const noexcept;
};

/// Lines that begin with #, then the titles of the columns.
[[nodiscard]] std::string tableHead(const RunInfo& info);
[[nodiscard]] std::string tableRow(const RunInfo& info, const CodecResult& result);
/// Lines that begin with #: what was wrong, and what the largest input showed, in words.
[[nodiscard]] std::string tableFoot(const RunReport& report);

/// Everything, with every sample: a JSON object in ASCII.
[[nodiscard]] std::string jsonText(const RunReport& report);

// Pieces of reports, for programs that report other measurements in the same way.

/// `text` after spaces that make it `width` characters.
[[nodiscard]] std::string padded(const std::string& text, std::size_t width);
/// `1.013 [0.978 1.034]`: the median, the least and the most.
[[nodiscard]] std::string spreadText(const std::vector<double>& samples);
/// 10^9 bytes a second.
[[nodiscard]] double gigabytesPerSecond(std::uint64_t bytes, double elapsedUs) noexcept;
/// What is said of an operation on `inputBytes`; `speeds` are against the copy of the same round.
[[nodiscard]] nlohmann::ordered_json operationToJson(std::uint64_t inputBytes,
                                                     const std::vector<double>& timesUs,
                                                     const std::vector<double>& speeds);
[[nodiscard]] nlohmann::ordered_json toJson(const GpuMachine& machine);

}  // namespace zipccl::tools::perf_codec
