// SPDX-License-Identifier: Apache-2.0
//
// The statistics of a communicator's classes of calls. The table is bounded, and what it forgets is
// a function of the calls alone, so that all ranks forget alike.

#pragma once

#include <cstdint>
#include <vector>

#include "base/collective_kind.hpp"
#include "collectives/datatype.hpp"
#include "policy/decide.hpp"
#include "policy/facts.hpp"

namespace zipccl::collectives {

/// Calls that are expected to be alike. The size class is the number of bits of the element count.
struct ClassKey {
  CollectiveKind collective = CollectiveKind::kAllGather;
  Datatype datatype = Datatype::kBfloat16;
  std::uint8_t sizeClass = 0;

  friend bool operator==(const ClassKey&, const ClassKey&) = default;
};

[[nodiscard]] ClassKey classOf(CollectiveKind collective, Datatype datatype,
                               std::uint64_t elementCount) noexcept;

class ClassTable {
 public:
  static constexpr std::size_t kMaxClasses = 64;

  struct Entry {
    ClassKey key;
    policy::ClassStatistics statistics;
    std::uint64_t lastCall = 0;
    std::uint64_t endedCount = 0;  ///< histories: calls whose ends have counted
    bool wasLogged = false;        ///< local: whether `logged` holds what was last told to the user
    policy::Reason logged{};
  };

  explicit ClassTable(std::size_t mostClasses = kMaxClasses) noexcept : mostClasses_(mostClasses) {}

  /// The entry of `key`, a new one where there is none: then, in a full table, the class whose last
  /// use is longest ago is forgotten. `call` is the number of the call, which rises from use to
  /// use. The reference is valid until the next use.
  [[nodiscard]] Entry& use(const ClassKey& key, std::uint64_t call);

  /// The entry of `key`, null where there is none.
  [[nodiscard]] const Entry* find(const ClassKey& key) const noexcept;

  [[nodiscard]] std::size_t classCount() const noexcept { return entries_.size(); }

 private:
  std::size_t mostClasses_;
  std::vector<Entry> entries_;
};

}  // namespace zipccl::collectives
