// SPDX-License-Identifier: Apache-2.0
//
// Measures the GPU codec. What is timed is a region of many calls between two events, each call on
// the next set of buffers; the operations take turns, round after round, and who begins changes.

#include "bench/codec_measurement.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>

#include "base/error.hpp"
#include "base/random.hpp"
#include "codec/layout.hpp"
#include "gpu/cuda_check.hpp"
#include "gpu/owners.hpp"
#include "zipccl/gpu_codec.hpp"

namespace zipccl::bench {
namespace {

using gpu::check;
using gpu::DeviceBuffer;
using gpu::Event;
using gpu::Graph;
using gpu::Stream;

constexpr std::uint64_t kBufferAlignment = 256;
constexpr int kPoison = 0xA5;
constexpr std::uint64_t kLeastSets = 3;
constexpr std::size_t kStagingBytes = std::size_t{64} << 20;
/// For the number of calls in a region; nothing that is reported depends on it.
constexpr double kBytesPerUs = 1.5e6;
constexpr double kCallUs = 3.0;

std::uint64_t aligned(std::uint64_t bytes) { return codec::alignUp(bytes, kBufferAlignment); }

/// How often a region repeats an operation on `inputBytes`.
std::uint64_t callsPerRegion(const MeasurementPlan& plan, std::uint64_t inputBytes) {
  const double callUs = std::max(kCallUs, static_cast<double>(inputBytes) / kBytesPerUs);
  return static_cast<std::uint64_t>(std::clamp(plan.regionUs / callUs, 4.0, 1000.0));
}

std::uint64_t freeDeviceBytes() {
  std::size_t freeBytes = 0;
  std::size_t totalBytes = 0;
  check(cudaMemGetInfo(&freeBytes, &totalBytes), "asking for free memory");
  return freeBytes;
}

/// An operation that is timed: `call(i)` puts its i-th call on the stream.
class Region {
 public:
  Region(const Stream& stream, std::uint64_t calls, bool usesGraph,
         std::function<void(std::uint64_t)> call)
      : stream_(stream), calls_(calls), call_(std::move(call)) {
    if (usesGraph) graph_.emplace(stream_, [this] { callAll(); });
  }

  /// Microseconds of one call, from the whole region. Waits.
  double time() {
    start_.record(stream_.get());
    if (graph_) {
      graph_->launch(stream_.get());
    } else {
      callAll();
    }
    end_.record(stream_.get());
    end_.synchronize();
    return end_.elapsedUsSince(start_) / static_cast<double>(calls_);
  }

 private:
  // Later regions go on with later sets, so that none finds in the cache what the last one left.
  void callAll() {
    for (std::uint64_t i = 0; i < calls_; ++i) call_(next_++);
  }

  const Stream& stream_;
  std::uint64_t calls_;
  std::uint64_t next_ = 0;
  std::function<void(std::uint64_t)> call_;
  std::optional<Graph> graph_;
  Event start_{Event::Timing::kOn};
  Event end_{Event::Timing::kOn};
};

/// Times each of `regions` once a round, beginning with another one each time.
template <std::size_t kCount>
std::vector<std::array<double, kCount>> timeRounds(const MeasurementPlan& plan,
                                                   const std::array<Region*, kCount>& regions) {
  std::vector<std::array<double, kCount>> rounds;
  for (int round = -plan.warmupRounds; round < plan.rounds; ++round) {
    std::array<double, kCount> times{};
    const auto first = static_cast<std::size_t>(round + plan.warmupRounds);
    for (std::size_t i = 0; i < kCount; ++i) {
      const std::size_t which = (first + i) % kCount;
      times[which] = regions[which]->time();
    }
    if (round >= 0) rounds.push_back(times);
  }
  return rounds;
}

/// Memory of constant bytes can be faster than memory of any.
void fillWithRandomBits(const Stream& stream, const DeviceBuffer& buffer) {
  std::vector<std::byte> block(std::min<std::uint64_t>(kStagingBytes, buffer.bytes()));
  Random random(freshSeed());
  random.fill(block);
  for (std::uint64_t at = 0; at < buffer.bytes(); at += block.size()) {
    check(cudaMemcpyAsync(buffer.data() + at, block.data(),
                          std::min<std::uint64_t>(block.size(), buffer.bytes() - at),
                          cudaMemcpyHostToDevice, stream.get()),
          "filling");
  }
  stream.synchronize();
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
        staticBytes_(codec::staticBytes(spec)),
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
    gpu::decode(spec_, frame(call), frame(call) + staticBytes_, frameCapacity_ - staticBytes_,
                output(call), reinterpret_cast<std::uint32_t*>(status_.data()), stream_.get(),
                options);
  }

  /// Decodes all frames as the timed calls left them and compares with the sources. Waits.
  void verify(CodecResult& result, const gpu::LaunchOptions& options) const {
    check(cudaMemsetAsync(outputs_.data(), kPoison, outputs_.bytes(), stream_.get()), "poisoning");
    for (std::uint64_t set = 0; set < sets_; ++set) decode(set, options);
    std::vector<std::byte> piece(std::min<std::uint64_t>(kStagingBytes, inputBytes_));
    result.wrongBytes = 0;
    double frameBytes = 0.0;
    double steadyBytes = 0.0;
    for (std::uint64_t set = 0; set < sets_; ++set) {
      for (std::uint64_t at = 0; at < inputBytes_; at += piece.size()) {
        const std::uint64_t bytes = std::min<std::uint64_t>(piece.size(), inputBytes_ - at);
        download(output(set) + at, piece.data(), bytes);
        result.wrongBytes += differingBytes(set * inputBytes_ + at, std::span(piece).first(bytes));
      }
      codec::FrameHeader header;
      std::array<std::byte, codec::kHeaderBytes> headerBytes{};
      download(frame(set), headerBytes.data(), headerBytes.size());
      if (codec::readHeader(headerBytes, header) != codec::DecodeStatus::kOk) {
        result.wrongBytes += inputBytes_;
        continue;
      }
      frameBytes += static_cast<double>(header.staticBytes + header.dynamicBytes);
      codec::FrameSpec steady = spec_;
      steady.poolBytes = codec::steadyPoolBytes(spec_.datatype, spec_.layout, spec_.elementCount,
                                                header.extraBytes);
      steadyBytes += static_cast<double>(codec::staticBytes(steady));
    }
    result.meanFrameBytes = frameBytes / static_cast<double>(sets_);
    result.meanSteadyBytes = steadyBytes / static_cast<double>(sets_);
    std::uint32_t word = 0;
    download(status_.data(), &word, sizeof(word));
    result.statusWord = word;
  }

 private:
  [[nodiscard]] std::uint64_t setsThatFit(const MeasurementPlan& plan) const {
    const std::uint64_t wanted =
        std::max(kLeastSets, (plan.rotatedBytes + inputBytes_ - 1) / inputBytes_);
    const std::uint64_t setBytes = 2 * aligned(inputBytes_) + aligned(frameCapacity_);
    const std::uint64_t roomBytes = freeDeviceBytes() / 16 * 15;
    const std::uint64_t fitting = std::min(wanted, roomBytes / setBytes);
    if (fitting < kLeastSets) {
      fail(ErrorCode::kUnhandledCudaError, "three sets of buffers for ", inputBytes_,
           " bytes need ", kLeastSets * setBytes, " bytes of device memory, ", roomBytes,
           " are free");
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

  /// Calls `use(offset, bytes of the data set)` for the pieces that make up `bytes` bytes from
  /// `first` on of the data set repeated without end.
  template <typename Use>
  void forEachPiece(std::uint64_t first, std::uint64_t bytes, Use&& use) const {
    for (std::uint64_t done = 0; done < bytes;) {
      const std::uint64_t place = (first + done) % data_.bytes.size();
      const std::uint64_t length = std::min(bytes - done, data_.bytes.size() - place);
      use(done, place, length);
      done += length;
    }
  }

  void fillSources() const {
    const DeviceBuffer block(data_.bytes.size());
    check(cudaMemcpyAsync(block.data(), data_.bytes.data(), data_.bytes.size(),
                          cudaMemcpyHostToDevice, stream_.get()),
          "filling the sources");
    for (std::uint64_t set = 0; set < sets_; ++set) {
      forEachPiece(set * inputBytes_, inputBytes_,
                   [&](std::uint64_t at, std::uint64_t place, std::uint64_t length) {
                     check(cudaMemcpyAsync(source(set) + at, block.data() + place, length,
                                           cudaMemcpyDeviceToDevice, stream_.get()),
                           "filling the sources");
                   });
    }
    stream_.synchronize();
  }

  [[nodiscard]] std::uint64_t differingBytes(std::uint64_t first,
                                             std::span<const std::byte> actual) const {
    std::uint64_t wrong = 0;
    forEachPiece(first, actual.size(),
                 [&](std::uint64_t at, std::uint64_t place, std::uint64_t length) {
                   const std::byte* const expected = data_.bytes.data() + place;
                   if (std::memcmp(actual.data() + at, expected, length) == 0) return;
                   for (std::uint64_t i = 0; i < length; ++i) {
                     wrong += actual[at + i] != expected[i] ? 1 : 0;
                   }
                 });
    return wrong;
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
  std::uint64_t staticBytes_;
  std::uint64_t sets_;
  DeviceBuffer sources_;
  DeviceBuffer frames_;
  DeviceBuffer outputs_;
  DeviceBuffer workspace_;
  DeviceBuffer status_;
};

CodecResult measureWith(const Stream& stream, const CodecBuffers& buffers, unsigned maxBlocks,
                        bool usesGraphs, std::uint64_t calls, const MeasurementPlan& plan) {
  const gpu::LaunchOptions options{maxBlocks};
  // Decoding needs frames from the first round on.
  for (std::uint64_t set = 0; set < buffers.sets(); ++set) buffers.encode(set, options);
  stream.synchronize();
  Region copying(stream, calls, usesGraphs, [&](std::uint64_t i) { buffers.copy(i); });
  Region encoding(stream, calls, usesGraphs, [&](std::uint64_t i) { buffers.encode(i, options); });
  Region decoding(stream, calls, usesGraphs, [&](std::uint64_t i) { buffers.decode(i, options); });
  Region both(stream, calls, usesGraphs, [&](std::uint64_t i) {
    buffers.encode(i, options);
    buffers.decode(i, options);
  });
  CodecResult result;
  for (const auto& [copyUs, encodeUs, decodeUs, bothUs] :
       timeRounds<4>(plan, {&copying, &encoding, &decoding, &both})) {
    result.rounds.push_back({copyUs, encodeUs, decodeUs, bothUs});
  }
  buffers.verify(result, options);
  return result;
}

}  // namespace

std::vector<double> CodecResult::times(double CodecRound::*operation) const {
  std::vector<double> values;
  for (const CodecRound& round : rounds) values.push_back(round.*operation);
  return values;
}

std::vector<double> CodecResult::speeds(double CodecRound::*operation) const {
  std::vector<double> values;
  for (const CodecRound& round : rounds) values.push_back(round.memcpyUs / round.*operation);
  return values;
}

double CodecResult::bitsPerValue() const noexcept {
  return 8.0 * meanFrameBytes / static_cast<double>(elementCount);
}

double CodecResult::steadyBitsPerValue() const noexcept {
  return 8.0 * meanSteadyBytes / static_cast<double>(elementCount);
}

std::vector<double> TrafficResult::times(double TrafficRound::*operation) const {
  std::vector<double> values;
  for (const TrafficRound& round : rounds) values.push_back(round.*operation);
  return values;
}

std::vector<double> TrafficResult::speeds() const {
  std::vector<double> values;
  for (const TrafficRound& round : rounds) values.push_back(round.memcpyUs / round.kernelUs);
  return values;
}

void measureCodec(const CodecCase& codecCase, const DataSet& data, const MeasurementPlan& plan,
                  const std::function<void(CodecResult)>& done) {
  const Stream stream;
  for (const std::uint64_t inputBytes : codecCase.sizesBytes) {
    codec::FrameSpec spec;
    spec.datatype = data.datatype;
    spec.layout = data.layout;
    spec.elementCount = inputBytes / codec::elementBytes(data.datatype);
    spec.poolBytes = codec::defaultPoolBytes(spec.datatype, spec.layout, spec.elementCount);
    const CodecBuffers buffers(stream, data, spec, plan);
    const bool usesGraphs = inputBytes < plan.graphBelowBytes;
    const std::uint64_t calls = callsPerRegion(plan, inputBytes);
    for (const unsigned maxBlocks : codecCase.blockLimits) {
      CodecResult result = measureWith(stream, buffers, maxBlocks, usesGraphs, calls, plan);
      result.data = data.name;
      result.datatype = data.datatype;
      result.layout = data.layout;
      result.inputBytes = inputBytes;
      result.elementCount = spec.elementCount;
      result.maxBlocks = maxBlocks;
      result.usesGraphs = usesGraphs;
      result.sets = buffers.sets();
      result.callsTimed = calls;
      result.spec = spec;
      done(std::move(result));
    }
  }
}

void measureTraffic(const CodecCase& trafficCase, const MeasurementPlan& plan,
                    const std::function<void(TrafficResult)>& done) {
  const Stream stream;
  for (const std::uint64_t inputBytes : trafficCase.sizesBytes) {
    const std::uint64_t tiles = inputBytes / codec::kUpperBytes;
    const std::uint64_t bytes = aligned(tiles * codec::kUpperBytes);
    expects(tiles > 0, "traffic of ", inputBytes, " bytes is not one tile");
    const std::uint64_t sets = std::max(kLeastSets, (plan.rotatedBytes + bytes - 1) / bytes);
    const DeviceBuffer sources(sets * bytes);
    const DeviceBuffer destinations(sets * bytes);
    fillWithRandomBits(stream, sources);
    const std::uint64_t calls = callsPerRegion(plan, inputBytes);
    const auto source = [&](std::uint64_t i) { return sources.data() + i % sets * bytes; };
    const auto destination = [&](std::uint64_t i) {
      return destinations.data() + i % sets * bytes;
    };
    for (const unsigned limit : trafficCase.blockLimits) {
      // As the codec's own kernels: without a limit a block for each group of eight tiles.
      const unsigned blocks =
          limit != 0 ? limit
                     : static_cast<unsigned>((tiles + codec::kGroupTiles - 1) / codec::kGroupTiles);
      for (const TrafficMix& mix : kTrafficMixes) {
        Region copying(stream, calls, false, [&](std::uint64_t i) {
          check(cudaMemcpyAsync(destination(i), source(i), tiles * codec::kUpperBytes,
                                cudaMemcpyDeviceToDevice, stream.get()),
                "copying");
        });
        Region moving(stream, calls, false, [&](std::uint64_t i) {
          check(launchTraffic(mix, source(i), destination(i), tiles, blocks, stream.get()),
                "launching a traffic kernel");
        });
        TrafficResult result;
        result.mix = mix;
        result.inputBytes = inputBytes;
        result.blocks = blocks;
        for (const auto& [copyUs, kernelUs] : timeRounds<2>(plan, {&copying, &moving})) {
          result.rounds.push_back({copyUs, kernelUs});
        }
        done(std::move(result));
      }
    }
  }
}

}  // namespace zipccl::bench
