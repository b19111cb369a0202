// SPDX-License-Identifier: Apache-2.0
//
// Measures the GPU codec.

#include "perf_codec/gpu_measurement.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <memory>
#include <span>
#include <zipccl/gpu_codec.hpp>

#include "perf/check.hpp"
#include "perf/statistics.hpp"
#include "perf_codec/cuda.hpp"
#include "perf_codec/gpu_codec_calls.hpp"
#include "perf_codec/gpu_timing.hpp"
#include "perf_codec/nvcomp_codec.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::perf_codec {
namespace {

constexpr int kPoison = 0xA5;
constexpr std::size_t kHeaderBytes = 128;
constexpr std::size_t kStagingBytes = std::size_t{64} << 20;

std::uint64_t freeDeviceBytes() {
  std::size_t freeBytes = 0;
  std::size_t totalBytes = 0;
  check(cudaMemGetInfo(&freeBytes, &totalBytes), "asking for free memory");
  return freeBytes;
}

/// Sources, frames and outputs of one size, in sets that are used in turn.
class CodecBuffers {
 public:
  CodecBuffers(const Stream& stream, const DataSet& data, const codec::FrameSpec& spec,
               const MeasurementPlan& plan)
      : stream_(stream),
        data_(data),
        spec_(spec),
        inputBytes_(spec.elementCount * codec::elementBytes(spec.datatype)),
        frameCapacity_(codec::maxFrameBytes(spec.datatype, spec.elementCount)),
        sets_(setsThatFit(plan)),
        sources_(sets_ * aligned(inputBytes_)),
        frames_(sets_ * aligned(frameCapacity_)),
        outputs_(sets_ * aligned(inputBytes_)),
        workspace_(gpu::kEncodeWorkspaceBytes),
        status_(sizeof(std::uint32_t)) {
    gpu::initEncodeWorkspace(workspace_.data(), stream_.get());
    check(cudaMemsetAsync(status_.data(), 0, status_.bytes(), stream_.get()), "clearing status");
    fillSources();
  }

  [[nodiscard]] std::uint64_t sets() const noexcept { return sets_; }

  void copy(std::uint64_t call) const {
    check(cudaMemcpyAsync(output(call), source(call), inputBytes_, cudaMemcpyDeviceToDevice,
                          stream_.get()),
          "copying");
  }
  void encode(std::uint64_t call, const gpu::LaunchOptions& options) const {
    gpu::encode(spec_, source(call), frame(call), frameCapacity_, nullptr, workspace_.data(),
                stream_.get(), options);
  }
  void decode(std::uint64_t call, const gpu::LaunchOptions& options) const {
    decodeOnGpu(spec_, frame(call), frameCapacity_, output(call),
                reinterpret_cast<std::uint32_t*>(status_.data()), stream_.get(), options);
  }

  /// For a codec that works on the same sources, and on outputs that lie in the same place.
  [[nodiscard]] NvcompBuffers forRival(std::uint64_t mostSets) const {
    return {std::min(sets_, mostSets), inputBytes_,
            [this](std::uint64_t set) { return source(set); },
            [this](std::uint64_t set) { return output(set); }};
  }

  /// Reads the sizes of the frames that the timed calls left, and decodes and compares them all
  /// where `checks`. Waits.
  void verify(bool checks, CodecResult& result, const gpu::LaunchOptions& options) const {
    FrameSizes sizes;
    for (std::uint64_t set = 0; set < sets_; ++set) {
      std::array<std::byte, kHeaderBytes> header{};
      download(frame(set), header.data(), header.size());
      if (!sizes.add(header)) {
        result.statusWord |= 1U << static_cast<unsigned>(codec::DecodeStatus::kBadMagic);
      }
    }
    sizes.finish(result);
    if (checks) {
      poisonOutputs();
      for (std::uint64_t set = 0; set < sets_; ++set) decode(set, options);
      result.wrongElements = wrongElements(sets_);
      result.wasChecked = true;
    }
    std::uint32_t word = 0;
    download(status_.data(), &word, sizeof(word));
    result.statusWord |= word;
  }

  void poisonOutputs() const {
    check(cudaMemsetAsync(outputs_.data(), kPoison, outputs_.bytes(), stream_.get()), "poisoning");
  }

  /// Elements of the first `sets` outputs that are not the data's. Waits.
  [[nodiscard]] std::uint64_t wrongElements(std::uint64_t sets) const {
    std::vector<std::byte> staging(std::min<std::uint64_t>(kStagingBytes, inputBytes_));
    const std::uint64_t elementBytes = codec::elementBytes(spec_.datatype);
    std::uint64_t wrong = 0;
    for (std::uint64_t set = 0; set < sets; ++set) {
      for (std::uint64_t at = 0; at < inputBytes_; at += staging.size()) {
        const std::span<std::byte> actual =
            std::span(staging).first(std::min<std::uint64_t>(staging.size(), inputBytes_ - at));
        download(output(set) + at, actual.data(), actual.size());
        data_.forEachPiece(set * inputBytes_ + at, actual.size(),
                           [&](std::uint64_t place, std::span<const std::byte> expected) {
                             wrong += perf::wrongElements(actual.subspan(place, expected.size()),
                                                          expected, elementBytes);
                           });
      }
    }
    return wrong;
  }

 private:
  [[nodiscard]] std::uint64_t setsThatFit(const MeasurementPlan& plan) const {
    const std::uint64_t wanted =
        std::max(kLeastSets, (plan.rotatedBytes + inputBytes_ - 1) / inputBytes_);
    const std::uint64_t setBytes = 2 * aligned(inputBytes_) + aligned(frameCapacity_);
    const std::uint64_t roomBytes = freeDeviceBytes() / 16 * 15;
    const std::uint64_t fitting = std::min(wanted, roomBytes / setBytes);
    if (fitting < kLeastSets) {
      throw Failure("three sets of buffers for " + std::to_string(inputBytes_) + " bytes need " +
                    std::to_string(kLeastSets * setBytes) + " bytes of device memory, " +
                    std::to_string(roomBytes) + " are free");
    }
    return fitting;
  }

  [[nodiscard]] std::byte* source(std::uint64_t call) const {
    return sources_.data() + call % sets_ * aligned(inputBytes_);
  }
  [[nodiscard]] std::byte* frame(std::uint64_t call) const {
    return frames_.data() + call % sets_ * aligned(frameCapacity_);
  }
  [[nodiscard]] std::byte* output(std::uint64_t call) const {
    return outputs_.data() + call % sets_ * aligned(inputBytes_);
  }

  void fillSources() const {
    const DeviceBuffer block(data_.bytes.size());
    check(cudaMemcpyAsync(block.data(), data_.bytes.data(), data_.bytes.size(),
                          cudaMemcpyHostToDevice, stream_.get()),
          "filling the sources");
    for (std::uint64_t set = 0; set < sets_; ++set) {
      data_.forEachPiece(
          set * inputBytes_, inputBytes_, [&](std::uint64_t at, std::span<const std::byte> piece) {
            const auto place = piece.data() - data_.bytes.data();
            check(cudaMemcpyAsync(source(set) + at, block.data() + place, piece.size(),
                                  cudaMemcpyDeviceToDevice, stream_.get()),
                  "filling the sources");
          });
    }
    stream_.synchronize();
  }

  void download(const std::byte* from, void* to, std::uint64_t bytes) const {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream_.get()), "reading back");
    stream_.synchronize();
  }

  const Stream& stream_;
  const DataSet& data_;
  codec::FrameSpec spec_;
  std::uint64_t inputBytes_;
  std::uint64_t frameCapacity_;
  std::uint64_t sets_;
  DeviceBuffer sources_;
  DeviceBuffer frames_;
  DeviceBuffer outputs_;
  DeviceBuffer workspace_;
  DeviceBuffer status_;
};

/// The settings with which nvCOMP takes the least time for both ways together; notes all that were
/// tried.
NvcompSettings fastestSettings(const Nvcomp& library, const Stream& stream,
                               codec::Datatype datatype, const CodecBuffers& buffers,
                               std::vector<RivalTrial>& trials) {
  constexpr std::uint64_t kCalls = 3;
  constexpr int kRounds = 3;
  MeasurementPlan plan;
  plan.rounds = kRounds;
  NvcompSettings fastest;
  double leastUs = 0.0;
  for (const NvcompSettings& candidate : nvcompCandidates()) {
    const NvcompCodec codec(library, stream, datatype, candidate, buffers.forRival(kLeastSets));
    Region both(stream, kCalls, false, [&](std::uint64_t i) {
      codec.compress(i);
      codec.decompress(i);
    });
    std::vector<double> timesUs;
    for (const auto& [bothUs] : timeRounds<1>(plan, {&both})) timesUs.push_back(bothUs);
    const double medianUs = perf::spreadOf(std::move(timesUs)).median;
    trials.push_back({candidate.describe(), medianUs});
    if (fastest.chunkBytes == 0 || medianUs < leastUs) {
      fastest = candidate;
      leastUs = medianUs;
    }
  }
  return fastest;
}

/// The other codec, with a frame of each set made.
std::unique_ptr<NvcompCodec> prepareRival(const Nvcomp* library, const Stream& stream,
                                          codec::Datatype datatype, const CodecBuffers& buffers,
                                          RivalResult& result) {
  if (library == nullptr) return nullptr;
  const NvcompSettings settings =
      fastestSettings(*library, stream, datatype, buffers, result.trials);
  result.settings = settings.describe();
  auto codec = std::make_unique<NvcompCodec>(*library, stream, datatype, settings,
                                             buffers.forRival(buffers.sets()));
  for (std::uint64_t set = 0; set < buffers.sets(); ++set) codec->compress(set);
  stream.synchronize();
  return codec;
}

/// How large what it made is, and where `checks`, whether it comes back.
void verifyRival(const NvcompCodec& codec, const CodecBuffers& buffers, bool checks,
                 RivalResult& result) {
  if (checks) {
    buffers.poisonOutputs();
    for (std::uint64_t set = 0; set < buffers.sets(); ++set) codec.decompress(set);
    result.wrongElements = buffers.wrongElements(buffers.sets());
  }
  result.meanBytes = codec.compressedBytes() / static_cast<double>(buffers.sets());
  result.failedChunks = codec.failedChunks();
}

/// Times everything and checks it; `result` holds what is known of it already.
void measureWith(const Stream& stream, const CodecBuffers& buffers, const MeasurementPlan& plan,
                 const Nvcomp* library, CodecResult& result) {
  const gpu::LaunchOptions options{result.maxBlocks};
  // Decoding needs frames from the first round on.
  for (std::uint64_t set = 0; set < buffers.sets(); ++set) buffers.encode(set, options);
  stream.synchronize();
  RivalResult rivalResult;
  const std::unique_ptr<NvcompCodec> rival =
      prepareRival(library, stream, result.datatype, buffers, rivalResult);

  const std::uint64_t calls = result.callsTimed;
  const bool graphs = result.usesGraphs;
  Region copying(stream, calls, graphs, [&](std::uint64_t i) { buffers.copy(i); });
  Region encoding(stream, calls, graphs, [&](std::uint64_t i) { buffers.encode(i, options); });
  Region decoding(stream, calls, graphs, [&](std::uint64_t i) { buffers.decode(i, options); });
  Region both(stream, calls, graphs, [&](std::uint64_t i) {
    buffers.encode(i, options);
    buffers.decode(i, options);
  });
  if (rival == nullptr) {
    for (const auto& [copyUs, encodeUs, decodeUs, bothUs] :
         timeRounds<4>(plan, {&copying, &encoding, &decoding, &both})) {
      result.rounds.push_back({copyUs, encodeUs, decodeUs, bothUs});
    }
  } else {
    rivalResult.callsTimed = std::max<std::uint64_t>(calls / 4, 2);
    Region rivalEncoding(stream, rivalResult.callsTimed, graphs,
                         [&](std::uint64_t i) { rival->compress(i); });
    Region rivalDecoding(stream, rivalResult.callsTimed, graphs,
                         [&](std::uint64_t i) { rival->decompress(i); });
    for (const auto& [copyUs, encodeUs, decodeUs, bothUs, rivalEncodeUs, rivalDecodeUs] :
         timeRounds<6>(plan,
                       {&copying, &encoding, &decoding, &both, &rivalEncoding, &rivalDecoding})) {
      result.rounds.push_back({copyUs, encodeUs, decodeUs, bothUs});
      rivalResult.rounds.push_back({rivalEncodeUs, rivalDecodeUs});
    }
  }
  buffers.verify(plan.checks, result, options);
  if (rival != nullptr) {
    verifyRival(*rival, buffers, plan.checks, rivalResult);
    result.rival = std::move(rivalResult);
  }
}

}  // namespace

void measureOnGpu(const DataSet& data, const std::vector<std::uint64_t>& sizesBytes,
                  const std::vector<unsigned>& blockLimits, const MeasurementPlan& plan,
                  const Nvcomp* rival, const ResultHandler& done) {
  const Stream stream;
  for (const std::uint64_t inputBytes : sizesBytes) {
    const codec::FrameSpec spec = firstSpec(data, inputBytes);
    const CodecBuffers buffers(stream, data, spec, plan);
    for (const unsigned maxBlocks : blockLimits) {
      CodecResult result = emptyResult(Device::kGpu, data, spec);
      result.maxBlocks = maxBlocks;
      result.usesGraphs = inputBytes < plan.graphBelowBytes;
      result.sets = buffers.sets();
      result.callsTimed = callsPerRegion(plan, inputBytes);
      measureWith(stream, buffers, plan, rival, result);
      done(std::move(result));
    }
  }
}

}  // namespace zipccl::tools::perf_codec
