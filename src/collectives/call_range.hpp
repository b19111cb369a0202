// SPDX-License-Identifier: Apache-2.0
//
// Ranges of NVTX, by which a profiler shows the calls that the engine makes: from the decision on a
// call until all of it is on its streams. Without a profiler, or in a build without NVTX's headers,
// nothing is done but to ask for one.

#pragma once

#include <cstdint>
#include <utility>

#include "base/collective_kind.hpp"
#include "collectives/datatype.hpp"
#include "policy/facts.hpp"

namespace zipccl::collectives {

/// A range, until its end. Ranges need not be nested.
class CallRange {
 public:
  CallRange() noexcept = default;
  /// `ZipCCL AllGather bfloat16 33554432 staged`.
  CallRange(CollectiveKind collective, Datatype datatype, std::uint64_t elementCount,
            policy::Strategy strategy) noexcept;
  /// `ZipCCL SendRecv, 6 messages`: each of them goes its own way.
  explicit CallRange(std::uint64_t messageCount) noexcept;
  CallRange(CallRange&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  CallRange& operator=(CallRange&& other) noexcept {
    std::swap(id_, other.id_);
    return *this;
  }
  ~CallRange() {
    if (id_ != 0) end();
  }

 private:
  void begin(const char* name) noexcept;
  void end() const noexcept;

  std::uint64_t id_ = 0;  ///< 0: none
};

}  // namespace zipccl::collectives
