// SPDX-License-Identifier: Apache-2.0
//
// Measures the GPU codec.

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <zipccl/gpu_codec.hpp>

#include "perf_codec/cuda.hpp"
#include "perf_codec/gpu_timing.hpp"
#include "perf_codec/measurement.hpp"
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
      std::array<std::byte, kHeaderBytes> headerBytes{};
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

void measureOnGpu(const DataSet& data, const std::vector<std::uint64_t>& sizesBytes,
                  const std::vector<unsigned>& blockLimits, const MeasurementPlan& plan,
                  const std::function<void(CodecResult)>& done) {
  const Stream stream;
  for (const std::uint64_t inputBytes : sizesBytes) {
    codec::FrameSpec spec;
    spec.datatype = data.datatype;
    spec.layout = data.layout;
    spec.elementCount = inputBytes / codec::elementBytes(data.datatype);
    spec.poolBytes = codec::defaultPoolBytes(spec.datatype, spec.layout, spec.elementCount);
    const CodecBuffers buffers(stream, data, spec, plan);
    const bool usesGraphs = inputBytes < plan.graphBelowBytes;
    const std::uint64_t calls = callsPerRegion(plan, inputBytes);
    for (const unsigned maxBlocks : blockLimits) {
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

}  // namespace zipccl::tools::perf_codec
