// SPDX-License-Identifier: Apache-2.0
//
// What was inspected as it is reported: the table on stdout, and the JSON.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "inspect/options.hpp"
#include "inspect/summary.hpp"

namespace zipccl::tools::inspect {

struct Report {
  std::vector<std::string> arguments;
  Options options;
  std::string startedAt;  ///< UTC, ISO 8601
  std::vector<std::string> paths;
  std::vector<TensorSummary> tensors;
  std::vector<DtypeTotal> totals;
  std::vector<std::size_t> order;  ///< of the tensors, as asked for
  std::uint64_t leftOut = 0;       ///< tensors whose names fit no pattern

  [[nodiscard]] std::uint64_t bytes() const noexcept;
  /// What travels: frames, and what has no frame as it is.
  [[nodiscard]] std::uint64_t wireBytes() const noexcept;
};

/// Lines that begin with #, a row for each tensor, and the totals in lines that begin with #.
[[nodiscard]] std::string tableText(const Report& report);

/// Everything: a JSON object in ASCII, a line for each tensor.
[[nodiscard]] std::string jsonText(const Report& report);

}  // namespace zipccl::tools::inspect
