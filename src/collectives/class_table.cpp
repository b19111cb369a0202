// SPDX-License-Identifier: Apache-2.0
//
// The statistics of a communicator's classes of calls.

#include "collectives/class_table.hpp"

#include <algorithm>
#include <bit>

namespace zipccl::collectives {

ClassKey classOf(CollectiveKind collective, Datatype datatype,
                 std::uint64_t elementCount) noexcept {
  return {collective, datatype, static_cast<std::uint8_t>(std::bit_width(elementCount))};
}

ClassTable::Entry& ClassTable::use(const ClassKey& key, std::uint64_t call) {
  auto entry = std::find_if(entries_.begin(), entries_.end(),
                            [&](const Entry& candidate) { return candidate.key == key; });
  if (entry == entries_.end()) {
    if (entries_.size() < mostClasses_) {
      entry = entries_.insert(entries_.end(), Entry{});
    } else {
      entry =
          std::min_element(entries_.begin(), entries_.end(),
                           [](const Entry& a, const Entry& b) { return a.lastCall < b.lastCall; });
      *entry = Entry{};
    }
    entry->key = key;
  }
  entry->lastCall = call;
  return *entry;
}

const ClassTable::Entry* ClassTable::find(const ClassKey& key) const noexcept {
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& candidate) { return candidate.key == key; });
  return entry == entries_.end() ? nullptr : &*entry;
}

}  // namespace zipccl::collectives
