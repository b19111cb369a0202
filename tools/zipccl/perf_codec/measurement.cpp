// SPDX-License-Identifier: Apache-2.0
//
// What measurements on host and GPU have in common.

#include "perf_codec/measurement.hpp"

#include "perf/statistics.hpp"

namespace zipccl::tools::perf_codec {
namespace {

template <class Round>
std::vector<double> valuesOf(const std::vector<Round>& rounds, double Round::*member) {
  std::vector<double> values;
  values.reserve(rounds.size());
  for (const Round& round : rounds) values.push_back(round.*member);
  return values;
}

double bitsOf(double meanBytes, std::uint64_t elementCount) {
  return 8.0 * meanBytes / static_cast<double>(elementCount);
}

}  // namespace

const char* deviceName(Device device) { return device == Device::kGpu ? "gpu" : "host"; }

MeasurementPlan MeasurementPlan::forDevice(Device device) {
  MeasurementPlan plan;
  // Several times the caches: 60 MB of L2 on the largest GPUs, about as much on a desktop.
  plan.rotatedBytes = std::uint64_t{1} << (device == Device::kGpu ? 30 : 27);
  // What a host cannot launch fast enough.
  plan.graphBelowBytes = std::uint64_t{8} << 20;
  return plan;
}

bool MeasurementPlan::isEnough(int roundCount, double spentSeconds) const noexcept {
  if (rounds) return roundCount >= *rounds;
  if (roundCount < kLeastRounds) return false;
  return roundCount >= kMostRounds || spentSeconds >= kBudgetSeconds;
}

std::vector<double> RivalResult::times(double RivalRound::*operation) const {
  return valuesOf(rounds, operation);
}

std::vector<double> CodecResult::times(double CodecRound::*operation) const {
  return valuesOf(rounds, operation);
}

std::vector<double> CodecResult::speeds(double CodecRound::*operation) const {
  return perf::pairRatios(times(&CodecRound::memcpyUs), times(operation));
}

std::vector<double> CodecResult::speedsToRival(double CodecRound::*operation,
                                               double RivalRound::*rivalOperation) const {
  if (!rival) return {};
  return perf::pairRatios(rival->times(rivalOperation), times(operation));
}

double CodecResult::bitsPerValue() const noexcept { return bitsOf(meanFrameBytes, elementCount); }

double CodecResult::steadyBitsPerValue() const noexcept {
  return bitsOf(meanSteadyBytes, elementCount);
}

double CodecResult::rivalBitsPerValue() const noexcept {
  return rival ? bitsOf(rival->meanBytes, elementCount) : 0.0;
}

bool CodecResult::isRight() const noexcept {
  const bool isRivalRight = !rival || (rival->wrongElements == 0 && rival->failedChunks == 0);
  return wrongElements == 0 && statusWord == 0 && isRivalRight;
}

bool FrameSizes::add(std::span<const std::byte> header) {
  codec::FrameHeader read;
  if (codec::readHeader(header, read) != codec::DecodeStatus::kOk) return false;
  codec::FrameSpec steady = read.spec;
  steady.poolBytes =
      codec::steadyPoolBytes(steady.datatype, steady.layout, steady.elementCount, read.extraBytes);
  frameBytes_ += static_cast<double>(read.staticBytes + read.dynamicBytes);
  steadyBytes_ += static_cast<double>(codec::staticBytes(steady));
  ++frames_;
  return true;
}

void FrameSizes::finish(CodecResult& result) const {
  if (frames_ == 0) return;
  result.meanFrameBytes = frameBytes_ / static_cast<double>(frames_);
  result.meanSteadyBytes = steadyBytes_ / static_cast<double>(frames_);
}

codec::FrameSpec firstSpec(const DataSet& data, std::uint64_t inputBytes) {
  codec::FrameSpec spec;
  spec.datatype = data.datatype;
  spec.layout = data.layout;
  spec.elementCount = inputBytes / codec::elementBytes(data.datatype);
  spec.poolBytes = codec::defaultPoolBytes(spec.datatype, spec.layout, spec.elementCount);
  return spec;
}

CodecResult emptyResult(Device device, const DataSet& data, const codec::FrameSpec& spec) {
  CodecResult result;
  result.device = device;
  result.data = data.name;
  result.datatype = data.datatype;
  result.layout = data.layout;
  result.inputBytes = spec.elementCount * codec::elementBytes(data.datatype);
  result.elementCount = spec.elementCount;
  result.spec = spec;
  return result;
}

}  // namespace zipccl::tools::perf_codec
