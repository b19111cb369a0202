// SPDX-License-Identifier: Apache-2.0
//
// The program that measures calls of many frames: decode-reduce, and batches of uneven frames, each
// against cudaMemcpyAsync from device to device in the same round. Every round's outputs are those
// of the last call; after the last round they are compared with the host's, bit for bit. Exit
// status: 0, 1 when a bit was wrong, 2 for a wrong command line, 3 when something failed.

#include <zipccl/version.h>

#include <CLI/CLI.hpp>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>
#include <zipccl/gpu_codec.hpp>

#include "base/random.hpp"
#include "perf/statistics.hpp"
#include "perf_codec/cuda.hpp"
#include "perf_codec/gpu_machine.hpp"
#include "support/small_floats.hpp"

namespace zipccl::bench {
namespace {

using codec::Datatype;
using codec::FrameSpec;
using tools::perf::spreadOf;
using tools::perf_codec::check;
using tools::perf_codec::DeviceBuffer;
using tools::perf_codec::Event;
using tools::perf_codec::Stream;
using Json = nlohmann::ordered_json;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kSets = 3;  ///< of frames, used in turn
constexpr int kCallsTimed = 12;     ///< at once

struct ReduceCase {
  const char* name;
  Datatype datatype;
  unsigned frames;
  std::uint64_t frameBytes;  ///< of values
  float factor;
  double zeros;  ///< share of the values
};
constexpr ReduceCase kReduceCases[] = {
    {"bf16", Datatype::kBfloat16, 8, 32 * kMiB, 1.0F, 0.0},
    {"bf16", Datatype::kBfloat16, 2, 32 * kMiB, 1.0F, 0.0},
    {"bf16", Datatype::kBfloat16, 8, 128 * kMiB, 1.0F, 0.0},
    {"bf16, factor 1/8", Datatype::kBfloat16, 8, 32 * kMiB, 0.125F, 0.0},
    {"bf16, 39 % zeros", Datatype::kBfloat16, 8, 32 * kMiB, 1.0F, 0.39},
    {"fp16", Datatype::kFloat16, 8, 32 * kMiB, 1.0F, 0.0},
    {"fp32 widened from bf16", Datatype::kFloat32, 8, 64 * kMiB, 1.0F, 0.0},
    {"fp32 widened from bf16", Datatype::kFloat32, 2, 64 * kMiB, 1.0F, 0.0},
};

struct BatchCase {
  std::size_t frames;
  std::uint64_t totalBytes;
};
constexpr BatchCase kBatchCases[] = {
    {1, 256 * kMiB}, {8, 256 * kMiB}, {64, 256 * kMiB}, {512, 256 * kMiB}, {64, 16 * kMiB}};

/// Values of N(0, 0.02), as elements of `datatype` that repeat after a count that is no power of
/// two.
class Values {
 public:
  Values(Datatype datatype, double zeros, std::uint64_t seed) : datatype_(datatype) {
    Random random(seed);
    numbers_.resize((std::size_t{4} << 20) + 12345);
    for (float& number : numbers_) {
      const auto value = static_cast<float>(0.02 * random.normal());
      number = random.chance(zeros) ? 0.0F : rounded(value);
    }
  }

  /// As the datatype has it; fp32 as bf16 has it.
  [[nodiscard]] float rounded(float value) const {
    if (datatype_ == Datatype::kFloat16) return ofFloat16(zipccl::testing::float16Bits(value));
    return std::bit_cast<float>(static_cast<std::uint32_t>(zipccl::testing::bfloat16Bits(value))
                                << 16);
  }

  [[nodiscard]] float at(std::uint64_t i) const { return numbers_[i % numbers_.size()]; }

  /// `count` elements from number `first` on.
  [[nodiscard]] std::vector<std::byte> elements(std::uint64_t first, std::uint64_t count) const {
    return elementsOf(count, [&](std::uint64_t i) { return at(first + i); });
  }

  template <typename Number>
  [[nodiscard]] std::vector<std::byte> elementsOf(std::uint64_t count, Number&& number) const {
    const std::uint64_t width = codec::elementBytes(datatype_);
    std::vector<std::byte> bytes(count * width);
    for (std::uint64_t i = 0; i < count; ++i) {
      const float value = number(i);
      if (datatype_ == Datatype::kFloat32) {
        std::memcpy(bytes.data() + 4 * i, &value, 4);
      } else {
        const std::uint16_t bits = datatype_ == Datatype::kFloat16
                                       ? zipccl::testing::float16Bits(value)
                                       : zipccl::testing::bfloat16Bits(value);
        std::memcpy(bytes.data() + 2 * i, &bits, 2);
      }
    }
    return bytes;
  }

 private:
  /// Finite ones.
  static float ofFloat16(std::uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const auto mantissa = static_cast<float>(bits & 1023);
    const float magnitude =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0F + mantissa, exponent - 25);
    return (bits & 0x8000U) != 0 ? -magnitude : magnitude;
  }

  Datatype datatype_;
  std::vector<float> numbers_;
};

/// Times each of `operations` once a round, beginning with another one each time; microseconds of
/// one call.
std::vector<std::vector<double>> timeRounds(
    const Stream& stream, int rounds,
    const std::vector<std::function<void(std::uint64_t)>>& calls) {
  const Event start;
  const Event end;
  std::vector<std::vector<double>> times(calls.size());
  std::vector<std::uint64_t> next(calls.size());
  constexpr int kWarmups = 2;
  for (int round = 0; round < rounds + kWarmups; ++round) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const std::size_t which = (static_cast<std::size_t>(round) + i) % calls.size();
      start.record(stream.get());
      for (int call = 0; call < kCallsTimed; ++call) calls[which](next[which]++);
      end.record(stream.get());
      end.synchronize();
      if (round >= kWarmups) times[which].push_back(end.elapsedUsSince(start) / kCallsTimed);
    }
  }
  return times;
}

double medianOf(const std::vector<double>& samples) { return spreadOf(samples).median; }

/// `memcpyUs` over `operationUs`, of each round.
std::vector<double> ratios(const std::vector<double>& memcpyUs,
                           const std::vector<double>& operationUs) {
  std::vector<double> all;
  for (std::size_t i = 0; i < memcpyUs.size(); ++i) all.push_back(memcpyUs[i] / operationUs[i]);
  return all;
}

Json operation(const std::vector<double>& memcpyUs, const std::vector<double>& operationUs) {
  return {{"timeUs", medianOf(operationUs)},
          {"speedToMemcpy", medianOf(ratios(memcpyUs, operationUs))},
          {"samplesUs", operationUs}};
}

class Program {
 public:
  Program(int rounds, std::uint64_t seed) : rounds_(rounds), seed_(seed) {}

  void reduce(const ReduceCase& c) {
    const Values values(c.datatype, c.zeros, seed_);
    const FrameSpec spec = specOf(c.datatype, c.frameBytes / codec::elementBytes(c.datatype));
    const std::uint64_t capacity =
        (codec::maxFrameBytes(c.datatype, spec.elementCount) + 255) / 256 * 256;
    const std::uint64_t split = codec::staticBytes(spec);
    const DeviceBuffer source(c.frameBytes);
    const DeviceBuffer frames(kSets * c.frames * capacity);
    const DeviceBuffer outputs(kSets * c.frameBytes);
    const DeviceBuffer status(4);
    const DeviceBuffer workspace(gpu::kEncodeWorkspaceBytes);
    gpu::initEncodeWorkspace(workspace.data(), stream_.get());
    check(cudaMemsetAsync(status.data(), 0, 4, stream_.get()), "clearing");
    check(cudaMemsetAsync(outputs.data(), 0xA5, outputs.bytes(), stream_.get()), "poisoning");
    const auto firstOf = [&](std::uint64_t set, unsigned frame) {
      return (set * c.frames + frame) * std::uint64_t{777'777};
    };
    double movedBytes = static_cast<double>(c.frameBytes);
    std::vector<std::vector<gpu::FrameParts>> parts(kSets);
    for (std::uint64_t set = 0; set < kSets; ++set) {
      for (unsigned f = 0; f < c.frames; ++f) {
        upload(source.data(), values.elements(firstOf(set, f), spec.elementCount));
        std::byte* const frame = frames.data() + (set * c.frames + f) * capacity;
        gpu::encode(spec, source.data(), frame, capacity, nullptr, workspace.data(), stream_.get());
        parts[set].push_back({frame, frame + split, capacity - split});
        codec::FrameHeader header;
        if (codec::readHeader(download(frame, 128), header) != codec::DecodeStatus::kOk) fail();
        // The idle part of the pool is not read.
        movedBytes += static_cast<double>(split - spec.poolBytes + header.extraBytes) / kSets;
      }
    }
    const auto copyBytes = static_cast<std::uint64_t>(movedBytes / 2) / 256 * 256;
    const DeviceBuffer copies(4 * copyBytes);
    const auto times = timeRounds(
        stream_, rounds_,
        {[&](std::uint64_t i) {
           check(cudaMemcpyAsync(copies.data() + copyBytes * (2 * (i % 2)),
                                 copies.data() + copyBytes * (2 * (i % 2) + 1), copyBytes,
                                 cudaMemcpyDeviceToDevice, stream_.get()),
                 "copying");
         },
         [&](std::uint64_t i) {
           gpu::decodeReduce(spec, parts[i % kSets], c.factor,
                             outputs.data() + i % kSets * c.frameBytes,
                             reinterpret_cast<std::uint32_t*>(status.data()), stream_.get());
         }});
    bool right = wordAt(status.data()) == 0;
    for (std::uint64_t set = 0; set < kSets; ++set) {
      const auto expected = values.elementsOf(spec.elementCount, [&](std::uint64_t i) {
        float sum = -0.0F;
        for (unsigned f = 0; f < c.frames; ++f) {
          const float value = values.at(firstOf(set, f) + i);
          sum += c.factor == 1.0F ? value : values.rounded(value * c.factor);
        }
        return sum;
      });
      right = right && download(outputs.data() + set * c.frameBytes, c.frameBytes) == expected;
    }
    isRight_ = isRight_ && right;
    const double gigabytes = movedBytes / medianOf(times[1]) * 1e-3;
    std::cout << c.frames << " frames of " << c.frameBytes / kMiB << " MiB, " << c.name << ": "
              << medianOf(times[1]) << " us, " << gigabytes << " GB/s moved, "
              << medianOf(ratios(times[0], times[1])) << " of memcpy"
              << (right ? "" : ", WRONG BITS") << std::endl;
    reduce_.push_back({{"data", c.name},
                       {"frames", c.frames},
                       {"frameBytes", c.frameBytes},
                       {"factor", c.factor},
                       {"zeros", c.zeros},
                       {"movedBytes", movedBytes},
                       {"memcpyBytes", copyBytes},
                       {"memcpy", operation(times[0], times[0])},
                       {"decodeReduce", operation(times[0], times[1])},
                       {"isRight", right}});
  }

  void batch(const BatchCase& c) {
    const Datatype datatype = Datatype::kBfloat16;
    const Values values(datatype, 0.0, seed_);
    const std::vector<std::uint64_t> counts = unevenCounts(c.frames, c.totalBytes / 2);
    const FrameSpec whole = specOf(datatype, c.totalBytes / 2);
    const std::uint64_t wholeCapacity = codec::maxFrameBytes(datatype, whole.elementCount);
    std::uint64_t framesBytes = 0;
    for (const std::uint64_t count : counts) {
      framesBytes += (codec::maxFrameBytes(datatype, count) + 255) / 256 * 256;
    }
    const DeviceBuffer sources(kSets * c.totalBytes);
    const DeviceBuffer outputs(kSets * c.totalBytes);
    const DeviceBuffer frames(kSets * framesBytes);
    const DeviceBuffer wholeFrames(kSets * wholeCapacity);
    const DeviceBuffer statuses(4 * (c.frames + 1));
    const DeviceBuffer workspace(gpu::encodeWorkspaceBytes(c.frames));
    gpu::initEncodeWorkspace(workspace.data(), stream_.get(), c.frames);
    check(cudaMemsetAsync(statuses.data(), 0, statuses.bytes(), stream_.get()), "clearing");
    std::vector<std::vector<gpu::EncodeItem>> toEncode(kSets);
    std::vector<std::vector<gpu::DecodeItem>> toDecode(kSets);
    for (std::uint64_t set = 0; set < kSets; ++set) {
      upload(sources.data() + set * c.totalBytes,
             values.elements(set * 777'777, whole.elementCount));
      std::uint64_t at = set * c.totalBytes;
      std::byte* frame = frames.data() + set * framesBytes;
      for (const std::uint64_t count : counts) {
        const FrameSpec spec = specOf(datatype, count);
        const std::uint64_t capacity = codec::maxFrameBytes(datatype, count);
        const std::uint64_t split = codec::staticBytes(spec);
        toEncode[set].push_back(
            {count, spec.poolBytes, sources.data() + at, frame, capacity, nullptr});
        toDecode[set].push_back({count, spec.poolBytes, frame, frame + split, capacity - split,
                                 outputs.data() + at,
                                 reinterpret_cast<std::uint32_t*>(statuses.data())});
        at += 2 * count;
        frame += (capacity + 255) / 256 * 256;
      }
    }
    const auto wholeFrame = [&](std::uint64_t i) {
      return wholeFrames.data() + i % kSets * wholeCapacity;
    };
    const std::uint64_t split = codec::staticBytes(whole);
    const auto times = timeRounds(
        stream_, rounds_,
        {[&](std::uint64_t i) {
           check(cudaMemcpyAsync(outputs.data() + i % kSets * c.totalBytes,
                                 sources.data() + i % kSets * c.totalBytes, c.totalBytes,
                                 cudaMemcpyDeviceToDevice, stream_.get()),
                 "copying");
         },
         [&](std::uint64_t i) {
           gpu::encode(whole, sources.data() + i % kSets * c.totalBytes, wholeFrame(i),
                       wholeCapacity, nullptr, workspace.data(), stream_.get());
         },
         [&](std::uint64_t i) {
           gpu::encodeBatch(datatype, codec::Layout::kNarrow, toEncode[i % kSets], workspace.data(),
                            stream_.get());
         },
         [&](std::uint64_t i) {
           gpu::decode(whole, wholeFrame(i), wholeFrame(i) + split, wholeCapacity - split,
                       outputs.data() + i % kSets * c.totalBytes,
                       reinterpret_cast<std::uint32_t*>(statuses.data()) + 1, stream_.get());
         },
         [&](std::uint64_t i) {
           gpu::decodeBatch(datatype, codec::Layout::kNarrow, toDecode[i % kSets], stream_.get());
         }});
    check(cudaMemsetAsync(outputs.data(), 0xA5, outputs.bytes(), stream_.get()), "poisoning");
    for (const auto& items : toDecode) {
      gpu::decodeBatch(datatype, codec::Layout::kNarrow, items, stream_.get());
    }
    bool right = wordAt(statuses.data()) == 0;
    for (std::uint64_t set = 0; set < kSets; ++set) {
      right = right && download(outputs.data() + set * c.totalBytes, c.totalBytes) ==
                           values.elements(set * 777'777, whole.elementCount);
    }
    isRight_ = isRight_ && right;
    const auto speed = [&](std::size_t i) { return medianOf(ratios(times[0], times[i])); };
    std::cout << c.frames << " uneven frames of " << c.totalBytes / kMiB << " MiB together: encode "
              << speed(2) << " of memcpy (one frame " << speed(1) << "), decode " << speed(4)
              << " (one frame " << speed(3) << ")" << (right ? "" : ", WRONG BITS") << std::endl;
    batch_.push_back({{"frames", c.frames},
                      {"totalBytes", c.totalBytes},
                      {"memcpy", operation(times[0], times[0])},
                      {"encodeOne", operation(times[0], times[1])},
                      {"encodeBatch", operation(times[0], times[2])},
                      {"decodeOne", operation(times[0], times[3])},
                      {"decodeBatch", operation(times[0], times[4])},
                      {"isRight", right}});
  }

  [[nodiscard]] bool isRight() const { return isRight_; }
  [[nodiscard]] const Json& reduceResults() const { return reduce_; }
  [[nodiscard]] const Json& batchResults() const { return batch_; }

 private:
  static FrameSpec specOf(Datatype datatype, std::uint64_t count) {
    FrameSpec spec;
    spec.datatype = datatype;
    spec.elementCount = count;
    spec.poolBytes = codec::defaultPoolBytes(datatype, spec.layout, count);
    return spec;
  }

  [[noreturn]] static void fail() { throw std::runtime_error("a frame's header is wrong"); }

  /// Counts that add up to `total`, an eighth of them 0, the others from 0 to twice the mean and
  /// multiples of 8, as rows of a tensor are.
  [[nodiscard]] std::vector<std::uint64_t> unevenCounts(std::size_t frames,
                                                        std::uint64_t total) const {
    Random random(seed_ + frames);
    std::vector<std::uint64_t> counts(frames);
    std::uint64_t left = total;
    for (std::size_t i = 0; i + 1 < frames; ++i) {
      const std::uint64_t mean = left / (frames - i);
      counts[i] = random.chance(0.125) ? 0 : std::min(left, random.below(2 * mean + 1) / 8 * 8);
      left -= counts[i];
    }
    counts.back() = left;
    return counts;
  }

  void upload(std::byte* to, const std::vector<std::byte>& bytes) const {
    check(cudaMemcpyAsync(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice, stream_.get()),
          "filling");
    stream_.synchronize();
  }
  [[nodiscard]] std::vector<std::byte> download(const std::byte* from, std::uint64_t count) const {
    std::vector<std::byte> bytes(count);
    check(cudaMemcpyAsync(bytes.data(), from, count, cudaMemcpyDeviceToHost, stream_.get()),
          "reading back");
    stream_.synchronize();
    return bytes;
  }
  [[nodiscard]] std::uint32_t wordAt(const std::byte* from) const {
    std::uint32_t word = 0;
    std::memcpy(&word, download(from, sizeof(word)).data(), sizeof(word));
    return word;
  }

  Stream stream_;
  int rounds_;
  std::uint64_t seed_;
  bool isRight_ = true;
  Json reduce_ = Json::array();
  Json batch_ = Json::array();
};

int run(int argc, char** argv) {
  CLI::App app(
      "Measures decode-reduce and batches of uneven frames on the GPU against cudaMemcpyAsync from "
      "device to device, and checks every bit.");
  int rounds = 15;
  std::uint64_t seed = freshSeed();
  std::string jsonPath;
  app.add_option("-J,--json", jsonPath, "Write every sample, as JSON, to this file");
  app.add_option("--seed", seed, "Repeat the values of another run [a fresh one]");
  app.add_option("-n,--rounds", rounds, "Timed rounds of each case [15]")
      ->check(CLI::Range(1, 100000));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    const auto machine = tools::perf_codec::thisGpuMachine();
    std::cout << machine.name << ", driver " << machine.driver << ", CUDA " << machine.cudaRuntime
              << ", seed " << seed << "\nmedians of " << rounds
              << " rounds; of memcpy: cudaMemcpyAsync from device to device that moves as many "
                 "bytes as decode-reduce, or copies as many as the batch has values"
              << std::endl;
    Program program(rounds, seed);
    for (const ReduceCase& c : kReduceCases) program.reduce(c);
    for (const BatchCase& c : kBatchCases) program.batch(c);
    if (!jsonPath.empty()) {
      const Json json = {{"schema", 1},
                         {"tool", "gpu_frames_bench"},
                         {"version", ZIPCCL_VERSION_STRING},
                         {"gpu",
                          {{"name", machine.name},
                           {"driver", machine.driver},
                           {"cudaRuntime", machine.cudaRuntime}}},
                         {"seed", seed},
                         {"rounds", rounds},
                         {"isRight", program.isRight()},
                         {"decodeReduce", program.reduceResults()},
                         {"batch", program.batchResults()}};
      std::ofstream file(jsonPath);
      file << json.dump(1) << '\n';
      file.close();
      if (!file) throw std::runtime_error("cannot write " + jsonPath);
    }
    return program.isRight() ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "gpu_frames_bench: " << error.what() << '\n';
    return 3;
  }
}

}  // namespace
}  // namespace zipccl::bench

int main(int argc, char** argv) { return zipccl::bench::run(argc, argv); }
