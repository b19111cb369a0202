// SPDX-License-Identifier: Apache-2.0
//
// The history of calls or messages.

#include "collectives/pair_history.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace zipccl::collectives {

std::size_t PairHistory::neededRecords(const std::optional<ClassKey>& key) const {
  const bool isAlone = key && key->collective == CollectiveKind::kSendRecv;
  const std::uint64_t lag = isAlone ? lag_.sendsAndReceives : lag_.messages;
  std::size_t needed = 0;
  if (firstRecord_ + lag <= messageCount_) {
    needed = static_cast<std::size_t>(messageCount_ - lag - firstRecord_ + 1);
  }
  if (!key || lag_.settling == 0 || isAlone) return needed;
  const ClassTable::Entry* const entry = classes_.find(*key);
  if (entry != nullptr && entry->endedCount >= lag_.settling) return needed;
  for (std::size_t i = records_.size(); i > needed; --i) {
    if (records_[i - 1].key == key) return i;
  }
  return needed;
}

bool PairHistory::mayBegin(const std::optional<ClassKey>& key) const {
  const auto needed = static_cast<std::ptrdiff_t>(neededRecords(key));
  return std::all_of(records_.begin(), records_.begin() + needed,
                     [](const Record& record) { return record.end != End::kNone; });
}

PairHistory::Message PairHistory::begin(const std::optional<ClassKey>& key) {
  const std::size_t needed = neededRecords(key);
  const std::uint64_t number = messageCount_++;
  for (std::size_t i = 0; i < needed; ++i) {
    invariant(records_.front().end != End::kNone,
              "a message begins before one whose statistics it needs");
    apply(records_.front(), number);
    records_.pop_front();
    ++firstRecord_;
  }
  records_.push_back({.key = key, .seen = {}});
  return {number, key ? &classes_.use(*key, number) : nullptr};
}

void PairHistory::endStaged(std::uint64_t number, const policy::ExtraSpace& seen) {
  end(number, End::kStaged, seen);
}

void PairHistory::endNative(std::uint64_t number) { end(number, End::kNative, {}); }

void PairHistory::endUnseen(std::uint64_t number) { end(number, End::kUnseen, {}); }

bool PairHistory::hasOpen() const noexcept {
  return std::any_of(records_.begin(), records_.end(),
                     [](const Record& record) { return record.end == End::kNone; });
}

void PairHistory::end(std::uint64_t number, End how, const policy::ExtraSpace& seen) {
  invariant(number >= firstRecord_ && number < messageCount_ &&
                records_[static_cast<std::size_t>(number - firstRecord_)].end == End::kNone,
            "a message ends that never began or has ended");
  Record& record = records_[static_cast<std::size_t>(number - firstRecord_)];
  record.end = how;
  record.seen = seen;
}

void PairHistory::apply(const Record& record, std::uint64_t number) {
  if (!record.key) return;
  ClassTable::Entry& entry = classes_.use(*record.key, number);
  ++entry.endedCount;
  if (record.end == End::kStaged) {
    entry.statistics = policy::afterStaged(entry.statistics, record.seen);
  } else if (record.end == End::kNative) {
    entry.statistics = policy::afterNative(entry.statistics);
  }
}

}  // namespace zipccl::collectives
