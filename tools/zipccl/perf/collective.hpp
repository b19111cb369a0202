// SPDX-License-Identifier: Apache-2.0
//
// The collectives as this tool measures them: names and sizes of nccl-tests, the call, and what
// must arrive.

#pragma once

#include <zipccl/zipccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "perf/collective_calls.hpp"
#include "perf/collective_name.hpp"
#include "perf/reference.hpp"

namespace zipccl::tools::perf {

/// Where a rank's elements stand in one buffer when it calls in place.
struct InPlace {
  std::uint64_t sendAt = 0;
  std::uint64_t receiveAt = 0;
};

/// What each rank sends, in rank order.
using Messages = std::vector<std::span<const std::byte>>;

/// One collective on a number of ranks. `count` is the argument of its C function; elements are
/// counted, unless a name says bytes.
class Collective {
 public:
  Collective(const CollectiveChoice& choice, zipcclDataType_t datatype, int ranks);
  Collective(const Collective&) = delete;
  Collective& operator=(const Collective&) = delete;
  virtual ~Collective() = default;

  [[nodiscard]] const CollectiveChoice& choice() const noexcept { return choice_; }
  [[nodiscard]] zipcclDataType_t datatype() const noexcept { return datatype_; }
  [[nodiscard]] int ranks() const noexcept { return ranks_; }

  /// The count at which nccl-tests says that a message has `elements` elements, and the way back.
  [[nodiscard]] std::uint64_t countOf(std::uint64_t elements) const {
    return elements / countsInSize();
  }
  [[nodiscard]] std::uint64_t sizeElements(std::uint64_t count) const {
    return count * countsInSize();
  }

  /// Of the buffers of a call out of place, also where a rank's buffer does not count.
  [[nodiscard]] virtual std::uint64_t sendElements(std::uint64_t count, int /*rank*/) const {
    return count;
  }
  [[nodiscard]] virtual std::uint64_t receiveElements(std::uint64_t count, int /*rank*/) const {
    return count;
  }

  /// Absent where the collective has no in-place form.
  [[nodiscard]] virtual std::optional<InPlace> inPlace(std::uint64_t /*count*/,
                                                       int /*rank*/) const {
    return std::nullopt;
  }

  /// Of an uneven all-to-all: what each rank gets of each rank's message. Empty elsewhere.
  [[nodiscard]] virtual std::vector<std::size_t> unevenParts(std::uint64_t /*count*/) const {
    return {};
  }

  virtual void call(CollectiveCalls& communicator, int rank, const void* send, void* receive,
                    std::uint64_t count) const = 0;

  /// Writes what `rank` must get.
  virtual void expect(const Messages& messages, std::uint64_t count, int rank,
                      std::span<std::byte> received) const = 0;

  /// How far `received` is from exact sums; nothing where nothing is added.
  [[nodiscard]] virtual SquaredError error(const Messages& /*messages*/, std::uint64_t /*count*/,
                                           int /*rank*/,
                                           std::span<const std::byte> /*received*/) const {
    return {};
  }

 protected:
  /// How many counts nccl-tests puts into the size of a message: one for each rank, or one alone.
  [[nodiscard]] virtual std::uint64_t countsInSize() const { return 1; }
  [[nodiscard]] std::size_t bytesEach() const noexcept { return bytesEach_; }
  [[nodiscard]] std::uint64_t rankCount() const noexcept {
    return static_cast<std::uint64_t>(ranks_);
  }

 private:
  CollectiveChoice choice_;
  zipcclDataType_t datatype_;
  int ranks_;
  std::size_t bytesEach_;
};

/// Throws UsageError for a root that is no rank and for a reduction of a datatype that this tool
/// cannot check.
[[nodiscard]] std::unique_ptr<Collective> makeCollective(const CollectiveChoice& choice,
                                                         zipcclDataType_t datatype, int ranks);

}  // namespace zipccl::tools::perf
