// SPDX-License-Identifier: Apache-2.0
//
// One rank's part of a run.

#include "perf/rank_runner.hpp"

#include <algorithm>
#include <ctime>
#include <string>

#include "perf/check.hpp"
#include "perf/options.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf {
namespace {

// Places of a round's calls in its records.
constexpr std::size_t kNativeOutOfPlace = 0;
constexpr std::size_t kZipcclOutOfPlace = 1;
constexpr std::size_t kNativeInPlace = 2;
constexpr std::size_t kZipcclInPlace = 3;
constexpr std::size_t kPlainMpiOutOfPlace = 4;

std::int64_t threadCpuNs() {
  timespec time = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<std::int64_t>(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
}

}  // namespace

RankRunner::RankRunner(RankCommunicators& communicators, RankDevice& device, const DataPools& pools,
                       const Collective& collective, const MeasurementPlan& plan,
                       std::uint64_t mostCount, const PlainMpi* plainMpi)
    : communicators_(communicators),
      device_(device),
      pools_(pools),
      collective_(collective),
      plan_(plan),
      plainMpi_(plainMpi),
      rank_(communicators.control->rank()),
      rankCount_(communicators.control->rankCount()),
      sendPool_(device, pools.geometry().bytes()),
      receive_(device, pools.geometry().elementBytes() *
                           std::max(collective.sendElements(mostCount, rank_),
                                    collective.receiveElements(mostCount, rank_))),
      expected_(plan.checks == 0 ? 0
                                 : pools.geometry().elementBytes() *
                                       collective.receiveElements(mostCount, rank_)) {
  device_.copyIn(sendPool_.bytes(), pools_.pool(rank_));
  // Touches every page before the first call does.
  device_.fill(receive_.bytes(), std::byte{0xA5});
}

SizeResult RankRunner::measure(std::uint64_t count, Progress* progress) {
  count_ = count;
  spentSeconds_ = 0.0;
  SizeResult result;
  result.count = count;
  result.sizeBytes = collective_.sizeElements(count) * pools_.geometry().elementBytes();
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
  result.reason = communicators_.zipccl->statistics().lastReason;
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
    if (place == Place::kInPlace && !hasInPlace()) continue;
    const bool isOut = place == Place::kOutOfPlace;
    CallRecord& native = record[isOut ? kNativeOutOfPlace : kNativeInPlace];
    CallRecord& zipccl = record[isOut ? kZipcclOutOfPlace : kZipcclInPlace];
    const bool hasPlainMpi = isOut && plainMpi_ != nullptr;
    if (hasPlainMpi && isNativeFirst) {
      record[kPlainMpiOutOfPlace] = timeCall(Way::kPlainMpi, place);
    }
    if (isNativeFirst) native = timeCall(Way::kNative, place);
    zipccl = timeCall(Way::kZipccl, place);
    if (!isNativeFirst) native = timeCall(Way::kNative, place);
    if (hasPlainMpi && !isNativeFirst) {
      record[kPlainMpiOutOfPlace] = timeCall(Way::kPlainMpi, place);
    }
  }
  if (result != nullptr) addSamples(record, isNativeFirst, *result);
}

RankRunner::CallRecord RankRunner::timeCall(Way way, Place place) {
  ++callNumber_;
  if (place == Place::kInPlace) putOwnMessage(place);
  CollectiveCalls& communicator = communicatorOf(way);
  const zipcclCommStats_t before = communicator.statistics();
  communicators_.control->startTogether();
  std::int64_t cpuNs = 0;
  const std::int64_t elapsedNs = device_.timeNs([&] {
    const std::int64_t cpuBefore = threadCpuNs();
    call(way, place);
    cpuNs = threadCpuNs() - cpuBefore;
  });
  communicator.expectWell();
  const zipcclCommStats_t after = communicator.statistics();
  return {.elapsedNs = elapsedNs,
          .cpuNs = cpuNs,
          .wireBytes = static_cast<std::int64_t>(after.wireBytesSent - before.wireBytesSent),
          .wasStaged = after.stagedCalls != before.stagedCalls ? 1 : 0};
}

void RankRunner::addSamples(const RoundRecord& mine, bool isNativeFirst, SizeResult& result) {
  const std::vector<RoundRecord> ranks = communicators_.control->gather(mine);
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
  const auto cpuUs = [&ranks](std::size_t call) {
    double sum = 0.0;
    for (const RoundRecord& rank : ranks) sum += static_cast<double>(rank[call].cpuNs);
    return sum * 1e-3;
  };
  const auto sample = [&](std::size_t native, std::size_t zipccl) {
    PairSample pair{.nativeUs = slowestUs(native),
                    .zipcclUs = slowestUs(zipccl),
                    .nativeWireBytes = meanWireBytes(native),
                    .zipcclWireBytes = meanWireBytes(zipccl),
                    .nativeCpuUs = cpuUs(native),
                    .zipcclCpuUs = cpuUs(zipccl),
                    .wasStaged = std::any_of(
                        ranks.begin(), ranks.end(),
                        [&](const RoundRecord& rank) { return rank[zipccl].wasStaged != 0; }),
                    .wasNativeFirst = isNativeFirst};
    spentSeconds_ += (pair.nativeUs + pair.zipcclUs) * 1e-6;
    return pair;
  };
  result.outOfPlace.samples.push_back(sample(kNativeOutOfPlace, kZipcclOutOfPlace));
  if (plainMpi_ != nullptr) {
    const double plainMpiUs = slowestUs(kPlainMpiOutOfPlace);
    result.outOfPlace.samples.back().plainMpiUs = plainMpiUs;
    spentSeconds_ += plainMpiUs * 1e-6;
  }
  if (hasInPlace()) result.inPlace.samples.push_back(sample(kNativeInPlace, kZipcclInPlace));
}

void RankRunner::checkCalls(SizeResult& result) {
  CheckRecords mine{};
  for (int check = 0; check < plan_.checks; ++check) {
    checkCall(Way::kNative, Place::kOutOfPlace, mine[kNativeOutOfPlace]);
    checkCall(Way::kZipccl, Place::kOutOfPlace, mine[kZipcclOutOfPlace]);
    if (plainMpi_ != nullptr) {
      checkCall(Way::kPlainMpi, Place::kOutOfPlace, mine[kPlainMpiOutOfPlace]);
    }
    if (!hasInPlace()) continue;
    checkCall(Way::kNative, Place::kInPlace, mine[kNativeInPlace]);
    checkCall(Way::kZipccl, Place::kInPlace, mine[kZipcclInPlace]);
  }
  for (const CheckRecords& rank : communicators_.control->gather(mine)) {
    result.outOfPlace.nativeWrong += rank[kNativeOutOfPlace].wrong;
    result.outOfPlace.zipcclWrong += rank[kZipcclOutOfPlace].wrong;
    result.outOfPlace.plainMpiWrong += rank[kPlainMpiOutOfPlace].wrong;
    result.outOfPlace.plainMpiError += rank[kPlainMpiOutOfPlace].error;
    result.inPlace.nativeWrong += rank[kNativeInPlace].wrong;
    result.inPlace.zipcclWrong += rank[kZipcclInPlace].wrong;
    result.outOfPlace.nativeError += rank[kNativeOutOfPlace].error;
    result.outOfPlace.zipcclError += rank[kZipcclOutOfPlace].error;
    result.inPlace.nativeError += rank[kNativeInPlace].error;
    result.inPlace.zipcclError += rank[kZipcclInPlace].error;
  }
  result.wasChecked = true;
}

void RankRunner::checkCall(Way way, Place place, CheckRecord& record) {
  ++callNumber_;
  const std::span<std::byte> received = receiveBuffer(place);
  const std::span<std::byte> expected = expected_.bytes().first(received.size());
  collective_.expect(messages(), count_, rank_, expected);
  const std::span<std::byte> poisoned = device_.hostSpan(received, staging_);
  poison(poisoned, expected);
  device_.copyIn(received, poisoned);
  // In place the message may stand where the result will.
  if (place == Place::kInPlace) putOwnMessage(place);
  CollectiveCalls& communicator = communicatorOf(way);
  const std::uint64_t stagedBefore = communicator.statistics().stagedCalls;
  static_cast<void>(device_.timeNs([&] {
    call(way, place);
    device_.disturb();
  }));
  communicator.expectWell();
  const bool wasStaged = communicator.statistics().stagedCalls != stagedBefore;
  const std::size_t step = pools_.geometry().elementBytes();
  const std::span<const std::byte> result = read(received);
  if (hasDocumentedOrder(way, wasStaged)) record.wrong += wrongElements(result, expected, step);
  record.error += collective_.error(messages(), count_, rank_, result);
  // A library that writes to its input breaks the next call.
  if (place == Place::kOutOfPlace) {
    record.wrong += wrongElements(read(sendBuffer(place)), messageOf(rank_), step);
  }
}

bool RankRunner::hasDocumentedOrder(Way way, bool wasStaged) const {
  if (!isReduction(collective_.choice().name)) return true;
  if (way == Way::kPlainMpi) return false;
  if (!communicators_.nativeReduces || wasStaged) return true;
  // Two addends have one order; factors are rounded in ways of their own.
  const ReduceOperation operation = collective_.choice().operation;
  return rankCount_ <= 2 &&
         (operation == ReduceOperation::kSum ||
          (operation == ReduceOperation::kAverage && collective_.datatype() != zipcclFloat16));
}

void RankRunner::call(Way way, Place place) {
  if (way == Way::kPlainMpi) {
    plainMpi_->call(collective_, sendBuffer(place).data(), receiveBuffer(place).data(), count_);
    return;
  }
  collective_.call(communicatorOf(way), rank_, sendBuffer(place).data(),
                   receiveBuffer(place).data(), count_);
}

CollectiveCalls& RankRunner::communicatorOf(Way way) {
  return way == Way::kZipccl ? *communicators_.zipccl : *communicators_.native;
}

bool RankRunner::hasInPlace() const { return collective_.inPlace(count_, rank_).has_value(); }

std::span<std::byte> RankRunner::part(RankBuffer& buffer, std::uint64_t first,
                                      std::uint64_t elements) const {
  const std::size_t bytes = pools_.geometry().elementBytes();
  return buffer.bytes().subspan(first * bytes, elements * bytes);
}

std::span<std::byte> RankRunner::sendBuffer(Place place) {
  const std::uint64_t elements = collective_.sendElements(count_, rank_);
  if (place == Place::kInPlace) {
    return part(receive_, collective_.inPlace(count_, rank_)->sendAt, elements);
  }
  return ownSlice(elements);
}

std::span<std::byte> RankRunner::ownSlice(std::uint64_t elements) {
  const std::span<std::byte> pool = sendPool_.bytes();
  const std::span<const std::byte> own = pools_.geometry().slice(pool, callNumber_, elements);
  return pool.subspan(static_cast<std::size_t>(own.data() - pool.data()), own.size());
}

std::span<const std::byte> RankRunner::read(std::span<std::byte> memory) {
  const std::span<std::byte> there = device_.hostSpan(memory, staging_);
  device_.copyOut(there, memory);
  return there;
}

std::span<std::byte> RankRunner::receiveBuffer(Place place) {
  const std::uint64_t first =
      place == Place::kInPlace ? collective_.inPlace(count_, rank_)->receiveAt : 0;
  return part(receive_, first, collective_.receiveElements(count_, rank_));
}

void RankRunner::putOwnMessage(Place place) {
  device_.copy(sendBuffer(place), ownSlice(collective_.sendElements(count_, rank_)));
}

std::span<const std::byte> RankRunner::messageOf(int rank) const {
  return pools_.slice(rank, callNumber_, collective_.sendElements(count_, rank));
}

Messages RankRunner::messages() const {
  Messages all;
  for (int rank = 0; rank < rankCount_; ++rank) all.push_back(messageOf(rank));
  return all;
}

}  // namespace zipccl::tools::perf
