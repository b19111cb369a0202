// SPDX-License-Identifier: Apache-2.0
//
// The collectives of MPI itself, the other thing that a user could have.

#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "perf/collective.hpp"
#include "perf/plain_mpi_functions.hpp"

namespace zipccl::tools::perf {

/// Calls follow each other as those on an MPI communicator of the library do: in one order on all
/// ranks, by one thread.
class PlainMpi {
 public:
  /// Looks for the plugin beside libzipccl.so and loads it, for as long as the program runs. Throws
  /// Failure where it is missing or does not fit.
  PlainMpi();

  /// Collective; MPI must be initialised. Throws Failure.
  void open();
  /// Collective.
  void close() noexcept;

  /// In one line.
  [[nodiscard]] std::string libraryVersion() const;

  /// Why MPI has no such call; empty where it has.
  [[nodiscard]] std::string refusal(const Collective& collective, std::uint64_t mostCount) const;

  /// Makes the call out of place. Throws Failure.
  void call(const Collective& collective, const void* send, void* receive,
            std::uint64_t count) const;

 private:
  void check(int error, const char* what) const;

  const ZipcclPlainMpiFunctions* functions_ = nullptr;
};

}  // namespace zipccl::tools::perf
