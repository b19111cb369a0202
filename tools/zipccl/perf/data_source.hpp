// SPDX-License-Identifier: Apache-2.0
//
// Where the elements that are sent come from.

#pragma once

#include <zipccl/zipccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "perf/data_spec.hpp"

namespace zipccl::tools::perf {

class DataSource {
 public:
  DataSource(const DataSource&) = delete;
  DataSource& operator=(const DataSource&) = delete;
  virtual ~DataSource() = default;

  [[nodiscard]] zipcclDataType_t datatype() const noexcept { return datatype_; }

  /// Whether fill() depends on the seed.
  [[nodiscard]] virtual bool usesSeed() const noexcept = 0;

  /// After how many bytes it repeats itself; 0 where it does not.
  [[nodiscard]] virtual std::uint64_t periodBytes() const noexcept { return 0; }

  /// In words, for reports.
  [[nodiscard]] virtual std::string describe() const = 0;

  /// Fills `elements`, whole elements, with what `rank` of `ranks` sends: the same on every machine
  /// that has the same file. Other ranks get other elements. Works in up to `threads` threads.
  virtual void fill(std::uint64_t seed, int rank, int ranks, int threads,
                    std::span<std::byte> elements) const = 0;

 protected:
  explicit DataSource(zipcclDataType_t datatype) noexcept : datatype_(datatype) {}

 private:
  zipcclDataType_t datatype_;
};

/// The source that `spec` describes, of `datatype` where that is given. Throws UsageError when
/// there is no such tensor or none of that datatype, and names those that there are; Failure when
/// the file cannot be read or is malformed.
[[nodiscard]] std::unique_ptr<DataSource> openDataSource(const DataSpec& spec,
                                                         std::optional<zipcclDataType_t> datatype);

/// What is generated, of `datatype`. Integers get random bits where numbers are asked for; throws
/// UsageError where `spec` cannot be of that datatype. `spec` is none of a file.
[[nodiscard]] std::unique_ptr<DataSource> makeGeneratedSource(
    const DataSpec& spec, std::optional<zipcclDataType_t> datatype);

[[nodiscard]] std::unique_ptr<DataSource> openFileSource(const FileSpec& spec,
                                                         std::optional<zipcclDataType_t> datatype);

}  // namespace zipccl::tools::perf
