// SPDX-License-Identifier: Apache-2.0
//
// A run as it is reported: the table on stdout, and the JSON file.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "perf/machine.hpp"
#include "perf/measurement.hpp"
#include "perf/options.hpp"

namespace zipccl::tools::perf {

/// Over NCCL, what moves the bytes.
struct NcclInfo {
  std::string version;
  std::string file;
  std::string device;                                          ///< that of rank 0
  bool areProcesses = false;                                   ///< ranks are; else threads
  std::vector<std::pair<std::string, std::string>> variables;  ///< of NCCL, that choose the link
};

/// What is known before the first call.
struct RunInfo {
  std::vector<std::string> arguments;
  Options options;
  Machine machine;
  int libraryVersion = 0;  ///< as ZIPCCL_VERSION_CODE, of the library that was loaded
  int ranks = 0;
  int hosts = 1;
  zipcclDataType_t datatype = zipcclBfloat16;
  std::string dataDescription;
  std::optional<std::uint64_t> seed;  ///< absent where the data does not depend on it
  std::string startedAt;              ///< UTC, ISO 8601
  std::string plainMpi;    ///< the MPI whose own collective is measured too; empty: none is
  std::string noPlainMpi;  ///< with MPI, why none is
  std::optional<NcclInfo> nccl;
};

struct RunReport {
  RunInfo info;
  std::vector<SizeResult> results;

  [[nodiscard]] std::uint64_t wrongElements() const noexcept;
};

/// What moves the bytes, and what that means for the figures.
[[nodiscard]] std::string transportLabel(const RunInfo& info);

/// Of uncompressed bytes, in GB/s, as nccl-tests has it for the collective of the run.
[[nodiscard]] double busBandwidth(const RunInfo& info, std::uint64_t sizeBytes,
                                  double timeUs) noexcept;

/// Of a reduction: the relative error against fp64, over both places.
[[nodiscard]] double nativeError(const SizeResult& result) noexcept;
[[nodiscard]] double zipcclError(const SizeResult& result) noexcept;
[[nodiscard]] double plainMpiError(const SizeResult& result) noexcept;

/// Lines that begin with #, then the titles of the columns.
[[nodiscard]] std::string tableHead(const RunInfo& info);
[[nodiscard]] std::string tableRow(const RunInfo& info, const SizeResult& result);
/// Lines that begin with #: wrong elements, averages, and what the largest size showed, in words.
[[nodiscard]] std::string tableFoot(const RunReport& report);

/// Everything, with every sample: a JSON object in ASCII.
[[nodiscard]] std::string jsonText(const RunReport& report);

/// A file that appears under its name only when it is complete.
class ReportFile {
 public:
  /// Throws Failure when a file cannot be made there; `flag` is the one that asked for it.
  explicit ReportFile(std::string path, const char* flag = "--json");
  ReportFile(const ReportFile&) = delete;
  ReportFile& operator=(const ReportFile&) = delete;
  ~ReportFile();

  /// Throws Failure when it cannot be written.
  void commit(const std::string& text);

 private:
  std::string path_;
  const char* flag_;
  std::string partPath_;
  bool isCommitted_ = false;
};

}  // namespace zipccl::tools::perf
