// SPDX-License-Identifier: Apache-2.0
//
// Measures the host codec, in one thread.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <functional>

#include "perf/check.hpp"
#include "perf/machine.hpp"
#include "perf_codec/codec_calls.hpp"
#include "perf_codec/measurement.hpp"
#include "support/failure.hpp"
#include "support/host_buffer.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf_codec {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kLeastSets = 3;

/// Sources, frames and outputs of one size, in sets that are used in turn.
class HostSets {
 public:
  HostSets(const DataSet& data, const codec::FrameSpec& spec, const MeasurementPlan& plan)
      : data_(data),
        spec_(spec),
        inputBytes_(spec.elementCount * codec::elementBytes(spec.datatype)),
        frameCapacity_(codec::maxFrameBytes(spec.datatype, spec.elementCount)),
        staticBytes_(codec::staticBytes(spec)),
        sets_(std::max(kLeastSets, (plan.rotatedBytes + inputBytes_ - 1) / inputBytes_)) {
    expectMemory();
    sources_ = HostBuffer(sets_ * inputBytes_);
    frames_ = HostBuffer(sets_ * frameCapacity_);
    outputs_ = HostBuffer(sets_ * inputBytes_);
    data_.forEachPiece(0, sources_.bytes().size(),
                       [this](std::uint64_t at, std::span<const std::byte> piece) {
                         std::memcpy(sources_.bytes().data() + at, piece.data(), piece.size());
                       });
    // Every page is touched before it is timed, and every set has a frame before it is decoded.
    std::fill(outputs_.bytes().begin(), outputs_.bytes().end(), std::byte{0xA5});
    for (std::uint64_t set = 0; set < sets_; ++set) encode(set);
  }

  [[nodiscard]] std::uint64_t sets() const noexcept { return sets_; }

  void copy(std::uint64_t call) {
    std::memcpy(output(call).data(), source(call).data(), inputBytes_);
  }
  void encode(std::uint64_t call) { encodeOnHost(spec_, source(call), frame(call)); }
  void decode(std::uint64_t call) {
    const std::span<std::byte> whole = frame(call);
    const codec::DecodeStatus status =
        decodeOnHost(spec_, whole.first(staticBytes_), whole.subspan(staticBytes_), output(call));
    if (status != codec::DecodeStatus::kOk) statusWord_ |= 1U << static_cast<unsigned>(status);
  }

  /// Reads the sizes of the frames that the timed calls left, and decodes and compares them all
  /// where `checks`.
  void verify(bool checks, CodecResult& result) {
    FrameSizes sizes;
    for (std::uint64_t set = 0; set < sets_; ++set) {
      if (!sizes.add(frame(set))) {
        statusWord_ |= 1U << static_cast<unsigned>(codec::DecodeStatus::kBadMagic);
      }
    }
    sizes.finish(result);
    result.statusWord = statusWord_;
    if (!checks) return;
    result.wasChecked = true;
    const std::uint64_t elementBytes = codec::elementBytes(spec_.datatype);
    for (std::uint64_t set = 0; set < sets_; ++set) {
      perf::poison(output(set), source(set));
      decode(set);
      // Against the data, not the source: an encoder may have written to what it reads.
      data_.forEachPiece(set * inputBytes_, inputBytes_,
                         [&](std::uint64_t at, std::span<const std::byte> expected) {
                           result.wrongElements += perf::wrongElements(
                               output(set).subspan(at, expected.size()), expected, elementBytes);
                         });
    }
    result.statusWord = statusWord_;
  }

 private:
  void expectMemory() const {
    const double neededBytes =
        static_cast<double>(sets_) *
        (2.0 * static_cast<double>(inputBytes_) + static_cast<double>(frameCapacity_));
    const std::uint64_t presentBytes = perf::physicalMemoryBytes();
    if (neededBytes <= static_cast<double>(presentBytes)) return;
    throw Failure("inputs of this size need " + fixed(neededBytes / 0x1.0p30, 1) +
                  " GiB of memory, of which this machine has " + humanBytes(presentBytes) +
                  "; choose a smaller --maxbytes");
  }

  [[nodiscard]] std::span<std::byte> source(std::uint64_t call) {
    return sources_.bytes().subspan(call % sets_ * inputBytes_, inputBytes_);
  }
  [[nodiscard]] std::span<std::byte> frame(std::uint64_t call) {
    return frames_.bytes().subspan(call % sets_ * frameCapacity_, frameCapacity_);
  }
  [[nodiscard]] std::span<std::byte> output(std::uint64_t call) {
    return outputs_.bytes().subspan(call % sets_ * inputBytes_, inputBytes_);
  }

  const DataSet& data_;
  codec::FrameSpec spec_;
  std::uint64_t inputBytes_;
  std::uint64_t frameCapacity_;
  std::uint64_t staticBytes_;
  std::uint64_t sets_;
  HostBuffer sources_;
  HostBuffer frames_;
  HostBuffer outputs_;
  std::uint32_t statusWord_ = 0;
};

double elapsedUs(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

/// An operation that is timed: `call(i)` is its i-th call.
class HostRegion {
 public:
  explicit HostRegion(std::function<void(std::uint64_t)> call) : call_(std::move(call)) {}

  /// Microseconds of one call, from `calls` of them.
  double time(std::uint64_t calls) {
    const Clock::time_point start = Clock::now();
    // Later regions go on with later sets, so that none finds in the cache what the last one left.
    for (std::uint64_t i = 0; i < calls; ++i) call_(next_++);
    return elapsedUs(start) / static_cast<double>(calls);
  }

 private:
  std::function<void(std::uint64_t)> call_;
  std::uint64_t next_ = 0;
};

/// How many calls of an operation that takes `callUs` are timed at once.
std::uint64_t callsFor(const MeasurementPlan& plan, double callUs) {
  return static_cast<std::uint64_t>(std::clamp(plan.regionUs / callUs, 1.0, 1000.0));
}

CodecResult measureSize(const DataSet& data, const codec::FrameSpec& spec,
                        const MeasurementPlan& plan) {
  HostSets sets(data, spec, plan);
  std::array regions = {HostRegion([&](std::uint64_t i) { sets.copy(i); }),
                        HostRegion([&](std::uint64_t i) { sets.encode(i); }),
                        HostRegion([&](std::uint64_t i) { sets.decode(i); }),
                        HostRegion([&](std::uint64_t i) {
                          sets.encode(i);
                          sets.decode(i);
                        })};
  CodecResult result = emptyResult(Device::kHost, data, spec);
  result.sets = sets.sets();
  result.callsTimed = callsFor(plan, regions[1].time(1));
  int rounds = 0;
  double spentUs = 0.0;
  for (std::size_t turn = 0; !plan.isEnough(rounds, spentUs * 1e-6); ++turn) {
    std::array<double, 4> timesUs{};
    const Clock::time_point start = Clock::now();
    for (std::size_t i = 0; i < regions.size(); ++i) {
      const std::size_t which = (turn + i) % regions.size();
      timesUs.at(which) = regions.at(which).time(result.callsTimed);
    }
    if (turn < static_cast<std::size_t>(plan.warmupRounds)) continue;
    spentUs += elapsedUs(start);
    result.rounds.push_back({timesUs[0], timesUs[1], timesUs[2], timesUs[3]});
    ++rounds;
  }
  sets.verify(plan.checks, result);
  return result;
}

}  // namespace

void measureOnHost(const DataSet& data, const std::vector<std::uint64_t>& sizesBytes,
                   const MeasurementPlan& plan, const ResultHandler& done) {
  for (const std::uint64_t inputBytes : sizesBytes) {
    done(measureSize(data, firstSpec(data, inputBytes), plan));
  }
}

}  // namespace zipccl::tools::perf_codec
