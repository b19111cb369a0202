// SPDX-License-Identifier: Apache-2.0
//
// The history of an ordered pair of ranks.

#include "collectives/pair_history.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace zipccl::collectives {

PairHistory::Message PairHistory::begin(const std::optional<ClassKey>& key) {
  const std::uint64_t number = messageCount_++;
  while (!records_.empty() && firstRecord_ + kLag <= number) {
    invariant(records_.front().hasEnded, "a message begins before one whose statistics it needs");
    apply(records_.front(), number);
    records_.pop_front();
    ++firstRecord_;
  }
  records_.push_back({.key = key, .seen = {}});
  return {number, key ? &classes_.use(*key, number) : nullptr};
}

void PairHistory::end(const std::optional<policy::ExtraSpace>& seen) {
  const auto record = std::find_if(records_.begin(), records_.end(),
                                   [](const Record& each) { return !each.hasEnded; });
  invariant(record != records_.end(), "a message ends that never began");
  record->hasEnded = true;
  record->seen = seen;
}

void PairHistory::apply(const Record& record, std::uint64_t number) {
  if (!record.key) return;
  ClassTable::Entry& entry = classes_.use(*record.key, number);
  entry.statistics = record.seen ? policy::afterStaged(entry.statistics, *record.seen)
                                 : policy::afterNative(entry.statistics);
}

}  // namespace zipccl::collectives
