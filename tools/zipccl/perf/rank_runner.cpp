// SPDX-License-Identifier: Apache-2.0
//
// One rank's part of a run.

#include "perf/rank_runner.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "perf/check.hpp"
#include "perf/options.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {
namespace {

using Clock = std::chrono::steady_clock;

// Places of a round's calls in its records.
constexpr std::size_t kNativeOutOfPlace = 0;
constexpr std::size_t kZipcclOutOfPlace = 1;
constexpr std::size_t kNativeInPlace = 2;
constexpr std::size_t kZipcclInPlace = 3;

}  // namespace

RankRunner::RankRunner(RankCommunicators& communicators, const DataPools& pools,
                       const MeasurementPlan& plan, std::uint64_t mostCount)
    : communicators_(communicators),
      pools_(pools),
      plan_(plan),
      rank_(communicators.control.rank()),
      rankCount_(communicators.control.rankCount()),
      sendPool_(pools.geometry().bytes()),
      receive_(mostCount * pools.geometry().elementBytes() * static_cast<std::size_t>(rankCount_)) {
  const std::span<const std::byte> own = pools_.pool(rank_);
  std::copy(own.begin(), own.end(), sendPool_.bytes().begin());
  // Touches every page before the first call does.
  std::fill(receive_.bytes().begin(), receive_.bytes().end(), std::byte{0xA5});
}

SizeResult RankRunner::measure(std::uint64_t count, Progress* progress) {
  count_ = count;
  spentSeconds_ = 0.0;
  SizeResult result;
  result.count = count;
  result.sizeBytes =
      count * pools_.geometry().elementBytes() * static_cast<std::uint64_t>(rankCount_);
  const auto show = [&](const std::string& phase) {
    if (progress != nullptr) progress->show(humanBytes(result.sizeBytes) + ": " + phase);
  };

  show("warming up");
  for (int warmup = 0; warmup < plan_.warmups; ++warmup) runRound(warmup % 2 == 0, nullptr);
  for (std::size_t pair = 0; !isTimeSpent(pair); ++pair) {
    show("pair " + std::to_string(pair + 1));
    runRound(pair % 2 == 0, &result);
  }
  if (plan_.checks > 0) {
    show("checking");
    checkCalls(result);
  }
  result.reason = communicators_.zipccl.statistics().lastReason;
  return result;
}

bool RankRunner::isTimeSpent(std::size_t iterations) const {
  if (plan_.iterations) return iterations >= static_cast<std::size_t>(*plan_.iterations);
  if (iterations < IterationBudget::kLeast) return false;
  return iterations >= IterationBudget::kMost || spentSeconds_ >= IterationBudget::kSeconds;
}

void RankRunner::runRound(bool isNativeFirst, SizeResult* result) {
  RoundRecord record;
  for (const Place place : {Place::kOutOfPlace, Place::kInPlace}) {
    const bool isOut = place == Place::kOutOfPlace;
    CallRecord& native = record[isOut ? kNativeOutOfPlace : kNativeInPlace];
    CallRecord& zipccl = record[isOut ? kZipcclOutOfPlace : kZipcclInPlace];
    if (isNativeFirst) native = timeCall(Way::kNative, place);
    zipccl = timeCall(Way::kZipccl, place);
    if (!isNativeFirst) native = timeCall(Way::kNative, place);
  }
  if (result != nullptr) addSamples(record, isNativeFirst, *result);
}

RankRunner::CallRecord RankRunner::timeCall(Way way, Place place) {
  ++callNumber_;
  if (place == Place::kInPlace) {
    const std::span<const std::byte> own = ownMessage();
    std::copy(own.begin(), own.end(), this->place(rank_).begin());
  }
  Communicator& communicator = communicatorOf(way);
  const zipcclCommStats_t before = communicator.statistics();
  communicators_.control.barrier();
  const Clock::time_point start = Clock::now();
  call(way, place);
  const Clock::duration elapsed = Clock::now() - start;
  const zipcclCommStats_t after = communicator.statistics();
  return {.elapsedNs = std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count(),
          .wireBytes = static_cast<std::int64_t>(after.wireBytesSent - before.wireBytesSent),
          .wasStaged = after.stagedCalls != before.stagedCalls ? 1 : 0};
}

void RankRunner::addSamples(const RoundRecord& mine, bool isNativeFirst, SizeResult& result) {
  const std::vector<RoundRecord> ranks = communicators_.control.gather(mine);
  const auto slowestUs = [&ranks](std::size_t call) {
    std::int64_t mostNs = 0;
    for (const RoundRecord& rank : ranks) mostNs = std::max(mostNs, rank[call].elapsedNs);
    return static_cast<double>(mostNs) * 1e-3;
  };
  const auto meanWireBytes = [&ranks](std::size_t call) {
    double sum = 0.0;
    for (const RoundRecord& rank : ranks) sum += static_cast<double>(rank[call].wireBytes);
    return sum / static_cast<double>(ranks.size());
  };
  const auto sample = [&](std::size_t native, std::size_t zipccl) {
    PairSample pair{.nativeUs = slowestUs(native),
                    .zipcclUs = slowestUs(zipccl),
                    .nativeWireBytes = meanWireBytes(native),
                    .zipcclWireBytes = meanWireBytes(zipccl),
                    .wasStaged = ranks.front()[zipccl].wasStaged != 0,
                    .wasNativeFirst = isNativeFirst};
    spentSeconds_ += (pair.nativeUs + pair.zipcclUs) * 1e-6;
    return pair;
  };
  result.outOfPlace.samples.push_back(sample(kNativeOutOfPlace, kZipcclOutOfPlace));
  result.inPlace.samples.push_back(sample(kNativeInPlace, kZipcclInPlace));
}

void RankRunner::checkCalls(SizeResult& result) {
  WrongCounts mine{};
  for (int check = 0; check < plan_.checks; ++check) {
    mine[kNativeOutOfPlace] += countWrong(Way::kNative, Place::kOutOfPlace);
    mine[kZipcclOutOfPlace] += countWrong(Way::kZipccl, Place::kOutOfPlace);
    mine[kNativeInPlace] += countWrong(Way::kNative, Place::kInPlace);
    mine[kZipcclInPlace] += countWrong(Way::kZipccl, Place::kInPlace);
  }
  for (const WrongCounts& rank : communicators_.control.gather(mine)) {
    result.outOfPlace.nativeWrong += rank[kNativeOutOfPlace];
    result.outOfPlace.zipcclWrong += rank[kZipcclOutOfPlace];
    result.inPlace.nativeWrong += rank[kNativeInPlace];
    result.inPlace.zipcclWrong += rank[kZipcclInPlace];
  }
  result.wasChecked = true;
}

std::uint64_t RankRunner::countWrong(Way way, Place place) {
  ++callNumber_;
  for (int rank = 0; rank < rankCount_; ++rank) poison(this->place(rank), expected(rank));
  if (place == Place::kInPlace) {
    const std::span<const std::byte> own = expected(rank_);
    std::copy(own.begin(), own.end(), this->place(rank_).begin());
  }
  call(way, place);
  const std::size_t step = pools_.geometry().elementBytes();
  std::uint64_t wrong = 0;
  for (int rank = 0; rank < rankCount_; ++rank) {
    wrong += wrongElements(this->place(rank), expected(rank), step);
  }
  // A library that writes to its input breaks the next call.
  if (place == Place::kOutOfPlace) wrong += wrongElements(ownMessage(), expected(rank_), step);
  return wrong;
}

void RankRunner::call(Way way, Place place) {
  const std::span<const std::byte> send =
      place == Place::kInPlace ? this->place(rank_) : ownMessage();
  communicatorOf(way).allGather(send.data(), receive_.bytes().data(), count_, plan_.datatype);
}

Communicator& RankRunner::communicatorOf(Way way) {
  return way == Way::kNative ? communicators_.native : communicators_.zipccl;
}

std::span<std::byte> RankRunner::place(int rank) {
  const std::size_t messageBytes = count_ * pools_.geometry().elementBytes();
  return receive_.bytes().subspan(static_cast<std::size_t>(rank) * messageBytes, messageBytes);
}

std::span<const std::byte> RankRunner::expected(int rank) const {
  return pools_.slice(rank, callNumber_, count_);
}

std::span<const std::byte> RankRunner::ownMessage() const {
  return pools_.geometry().slice(sendPool_.bytes(), callNumber_, count_);
}

}  // namespace zipccl::tools::perf
