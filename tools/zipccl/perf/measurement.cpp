// SPDX-License-Identifier: Apache-2.0
//
// What a run found.

#include "perf/measurement.hpp"

namespace zipccl::tools::perf {
namespace {

std::vector<double> valuesOf(const std::vector<PairSample>& samples, double PairSample::*member) {
  std::vector<double> values;
  values.reserve(samples.size());
  for (const PairSample& sample : samples) values.push_back(sample.*member);
  return values;
}

double meanOf(const SizeResult& result, double PairSample::*member) {
  double sum = 0.0;
  std::size_t count = 0;
  for (const PlaceResult* place : {&result.outOfPlace, &result.inPlace}) {
    for (const PairSample& sample : place->samples) {
      sum += sample.*member;
      ++count;
    }
  }
  return count == 0 ? 0.0 : sum / static_cast<double>(count);
}

}  // namespace

std::vector<double> PlaceResult::nativeTimesUs() const {
  return valuesOf(samples, &PairSample::nativeUs);
}

std::vector<double> PlaceResult::zipcclTimesUs() const {
  return valuesOf(samples, &PairSample::zipcclUs);
}

std::vector<double> PlaceResult::plainMpiTimesUs() const {
  std::vector<double> times;
  for (const PairSample& sample : samples) {
    if (sample.plainMpiUs) times.push_back(*sample.plainMpiUs);
  }
  return times;
}

std::vector<double> PlaceResult::nativeCores() const {
  return pairRatios(valuesOf(samples, &PairSample::nativeCpuUs), nativeTimesUs());
}

std::vector<double> PlaceResult::zipcclCores() const {
  return pairRatios(valuesOf(samples, &PairSample::zipcclCpuUs), zipcclTimesUs());
}

std::vector<double> PlaceResult::speedups() const {
  return pairRatios(nativeTimesUs(), zipcclTimesUs());
}

std::vector<double> PlaceResult::plainMpiSpeedups() const {
  const std::vector<double> times = plainMpiTimesUs();
  return times.empty() ? times : pairRatios(times, zipcclTimesUs());
}

std::uint64_t SizeResult::wrongElements() const noexcept {
  return outOfPlace.nativeWrong + outOfPlace.zipcclWrong + outOfPlace.plainMpiWrong +
         inPlace.nativeWrong + inPlace.zipcclWrong;
}

double SizeResult::nativeWireBytes() const noexcept {
  return meanOf(*this, &PairSample::nativeWireBytes);
}

double SizeResult::zipcclWireBytes() const noexcept {
  return meanOf(*this, &PairSample::zipcclWireBytes);
}

double SizeResult::ratio() const noexcept {
  const double wireBytes = zipcclWireBytes();
  return wireBytes == 0.0 ? 0.0 : nativeWireBytes() / wireBytes;
}

const char* SizeResult::strategy() const noexcept {
  bool hasStaged = false;
  bool hasNative = false;
  for (const PlaceResult* place : {&outOfPlace, &inPlace}) {
    for (const PairSample& sample : place->samples) {
      (sample.wasStaged ? hasStaged : hasNative) = true;
    }
  }
  if (hasStaged && hasNative) return "mixed";
  return hasStaged ? "staged" : "native";
}

double algorithmBandwidth(std::uint64_t sizeBytes, double timeUs) noexcept {
  return timeUs == 0.0 ? 0.0 : static_cast<double>(sizeBytes) / timeUs * 1e-3;
}

}  // namespace zipccl::tools::perf
