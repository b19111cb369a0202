// SPDX-License-Identifier: Apache-2.0
//
// What a run measures, and what it found.

#pragma once

#include <zipccl/zipccl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "perf/reference.hpp"
#include "perf/statistics.hpp"

namespace zipccl::tools::perf {

struct MeasurementPlan {
  zipcclDataType_t datatype = zipcclBfloat16;
  int warmups = 0;
  std::optional<int> iterations;  ///< IterationBudget where absent
  int checks = 0;
};

/// One pair of calls, native and zipccl, made directly one after the other.
struct PairSample {
  double nativeUs = 0.0;  ///< of the rank that took longest
  double zipcclUs = 0.0;
  double nativeWireBytes = 0.0;  ///< sent to other ranks by a rank, mean over ranks
  double zipcclWireBytes = 0.0;
  double nativeCpuUs = 0.0;  ///< processor time, all ranks together
  double zipcclCpuUs = 0.0;
  std::optional<double> plainMpiUs = {};  ///< of MPI's own collective, made beside them
  bool wasStaged = false;                 ///< whether zipccl compressed
  bool wasNativeFirst = true;             ///< pairs alternate
};

/// In place or out of place, at one size.
struct PlaceResult {
  std::vector<PairSample> samples;
  std::uint64_t nativeWrong = 0;  ///< elements, over all ranks and checks
  std::uint64_t zipcclWrong = 0;
  std::uint64_t plainMpiWrong = 0;  ///< not of reductions, whose order is MPI's
  SquaredError nativeError;         ///< of reductions, against fp64, over all ranks and checks
  SquaredError zipcclError;
  SquaredError plainMpiError;

  [[nodiscard]] std::vector<double> nativeTimesUs() const;
  [[nodiscard]] std::vector<double> zipcclTimesUs() const;
  /// Empty where MPI's collective was not measured.
  [[nodiscard]] std::vector<double> plainMpiTimesUs() const;
  /// How many cores worked for the ranks, of each call.
  [[nodiscard]] std::vector<double> nativeCores() const;
  [[nodiscard]] std::vector<double> zipcclCores() const;
  /// Native over zipccl, of each pair.
  [[nodiscard]] std::vector<double> speedups() const;
  /// The same over MPI's collective.
  [[nodiscard]] std::vector<double> plainMpiSpeedups() const;
};

struct SizeResult {
  std::uint64_t sizeBytes = 0;  ///< as nccl-tests counts it
  std::uint64_t count = 0;      ///< the argument of the call
  bool wasChecked = false;
  PlaceResult outOfPlace;
  PlaceResult inPlace;
  std::string reason;  ///< why the last call went as it did, in the library's words

  [[nodiscard]] std::uint64_t wrongElements() const noexcept;
  /// Means over the pairs of both places.
  [[nodiscard]] double nativeWireBytes() const noexcept;
  [[nodiscard]] double zipcclWireBytes() const noexcept;
  /// Uncompressed over wire bytes; 0 where nothing is sent.
  [[nodiscard]] double ratio() const noexcept;
  /// `staged`, `native` or `mixed`.
  [[nodiscard]] const char* strategy() const noexcept;
};

/// As nccl-tests has it: of uncompressed bytes, in GB/s (10^9 bytes).
[[nodiscard]] double algorithmBandwidth(std::uint64_t sizeBytes, double timeUs) noexcept;

}  // namespace zipccl::tools::perf
