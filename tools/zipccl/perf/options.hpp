// SPDX-License-Identifier: Apache-2.0
//
// What a user can ask of `zipccl perf`.

#pragma once

#include <zipccl/zipccl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "perf/collective_name.hpp"

namespace zipccl::tools::perf {

enum class TransportKind { kLocal, kMpi, kNccl };

/// `local`, `mpi` or `nccl`.
[[nodiscard]] const char* transportName(TransportKind transport);

struct Options {
  static constexpr std::uint64_t kDefaultMinBytes = std::uint64_t{1} << 20;
  static constexpr std::uint64_t kDefaultMaxBytes = std::uint64_t{16} << 20;
  static constexpr int kDefaultRanks = 4;
  static constexpr int kMostRanks = 1024;

  std::optional<std::uint64_t> minBytes;
  std::optional<std::uint64_t> maxBytes;
  std::uint64_t stepFactor = 4;
  std::optional<int> iterations;  ///< as many as time allows where absent
  std::optional<int> warmups;
  int checks = 1;
  std::optional<int> ranks;
  TransportKind transport = TransportKind::kLocal;
  zipcclStrategy_t strategy = zipcclStrategyStaged;
  std::optional<zipcclDataType_t> datatype;  ///< that of the data where absent
  CollectiveChoice collective;
  std::uint64_t linkBytesPerSecond = 0;  ///< of an emulated link; 0: none
  std::string nccl;                      ///< the file; empty: what is there
  bool usesProcesses = false;            ///< over NCCL, where no launcher has started this process
  std::string rendezvous;                ///< HOST:PORT of rank 0; empty: as the launcher says
  std::string data = "normal:0.02";
  std::optional<std::uint64_t> seed;
  std::string jsonPath;  ///< empty: none
};

/// How often a size is timed when the user does not say: until this much time has gone into its
/// calls, within these bounds.
struct IterationBudget {
  static constexpr int kLeast = 3;
  static constexpr int kMost = 20;
  static constexpr double kSeconds = 1.0;
};

/// Pairs that are not timed. Over NCCL as many as it takes until calls run ahead.
[[nodiscard]] int warmupsOf(const Options& options);

/// Bytes a second of a speed such as `10Gbit`, `2.5Gbit` or `100Mbit`: bits, in powers of ten.
[[nodiscard]] std::optional<std::uint64_t> parseLinkSpeed(std::string_view text);

/// The message sizes in bytes, smallest first. Throws UsageError when the limits do not fit.
[[nodiscard]] std::vector<std::uint64_t> messageSizes(const Options& options);

/// The sizes from `least` on, each `factor` times the one before, up to `most`. Defaults stand in
/// for limits that are not given, and follow those that are. Throws UsageError when they do not
/// fit.
[[nodiscard]] std::vector<std::uint64_t> sizesBetween(std::optional<std::uint64_t> least,
                                                      std::uint64_t defaultLeast,
                                                      std::optional<std::uint64_t> most,
                                                      std::uint64_t defaultMost,
                                                      std::uint64_t factor);

}  // namespace zipccl::tools::perf
