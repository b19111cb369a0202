// SPDX-License-Identifier: Apache-2.0
//
// The host codec by google-benchmark: each implementation that this machine runs, on several data
// sets and sizes, beside memcpy and what else compresses losslessly and was found when this was
// built (zstd at level 1, lz4); all in one thread, but for what says otherwise. Take ratios to the
// memcpy of the same run, with
// --benchmark_enable_random_interleaving=true; scripts/host_bench.sh does. Times are of the
// processor, which other work on the machine disturbs least.
//
// Names are OPERATION/WHO/DATA/SIZE. Bytes a second are of values: input of encode, output of
// decode, all addends of reduce. The counter `bits` is what a value takes when it is encoded.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "codec/frame.hpp"
#include "perf_codec/data_set.hpp"
#include "perf_codec/measurement.hpp"
#include "support/host_buffer.hpp"
#if defined(ZIPCCL_BENCH_ZSTD)
#include <zstd.h>
#endif
#if defined(ZIPCCL_BENCH_LZ4)
#include <lz4.h>
#endif

namespace zipccl::bench {
namespace {

using tools::HostBuffer;
using tools::perf_codec::DataSet;
using tools::perf_codec::firstSpec;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
/// Buffers are used in turn, so many bytes of them in all, for caches not to answer.
constexpr std::uint64_t kRotatedBytes = 128 * kMiB;
constexpr std::uint64_t kSeed = 1;

struct DataName {
  const char* name;
  const char* datatype;  ///< in the name of the benchmark
  zipcclDataType_t type;
};
constexpr DataName kDataNames[] = {
    {"normal:0.02", "bf16", zipcclBfloat16}, {"zeros:0.39", "bf16", zipcclBfloat16},
    {"random-bits", "bf16", zipcclBfloat16}, {"normal:0.02", "fp16", zipcclFloat16},
    {"widened:0.02", "fp32", zipcclFloat32}, {"normal:0.02", "fp32", zipcclFloat32},
};
constexpr std::uint64_t kSizes[] = {kMiB, 64 * kMiB};

/// Lossless compression of a buffer, by whoever does it.
struct Compressor {
  std::string name;
  std::function<std::size_t(std::size_t inputBytes)> bound;
  /// Return the bytes written; 0 when it failed.
  std::function<std::size_t(std::span<const std::byte>, std::span<std::byte>)> compress;
  std::function<std::size_t(std::span<const std::byte>, std::span<std::byte>)> decompress;
};

/// Inputs of one size of one data set.
class Inputs {
 public:
  Inputs(const DataSet& data, std::uint64_t bytes)
      : data_(data), bytes_(bytes), sets_(std::max<std::uint64_t>(2, kRotatedBytes / bytes)) {
    memory_ = HostBuffer(sets_ * bytes_);
    data_.forEachPiece(0, sets_ * bytes_,
                       [this](std::uint64_t at, std::span<const std::byte> piece) {
                         std::memcpy(memory_.bytes().data() + at, piece.data(), piece.size());
                       });
  }

  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  [[nodiscard]] std::uint64_t sets() const { return sets_; }
  [[nodiscard]] std::span<const std::byte> set(std::uint64_t i) const {
    return memory_.bytes().subspan(i % sets_ * bytes_, bytes_);
  }
  [[nodiscard]] codec::FrameSpec spec() const { return firstSpec(data_, bytes_); }

 private:
  const DataSet& data_;
  std::uint64_t bytes_;
  std::uint64_t sets_;
  HostBuffer memory_;
};

/// What all benchmarks write to, made once: pages are touched before they are timed.
class Scratch {
 public:
  explicit Scratch(std::uint64_t bytes) : memory_(bytes) {
    std::fill(memory_.bytes().begin(), memory_.bytes().end(), std::byte{0xA5});
  }
  /// Part `i` of `count`, aligned.
  [[nodiscard]] std::span<std::byte> part(std::uint64_t i, std::uint64_t count) {
    const std::uint64_t bytes = memory_.bytes().size() / count / 4096 * 4096;
    return memory_.bytes().subspan(i % count * bytes, bytes);
  }

 private:
  HostBuffer memory_;
};

class Program {
 public:
  Program() {
    for (const DataName& name : kDataNames) {
      tools::perf_codec::DataWish wish;
      wish.datatype = name.type;
      wish.seed = kSeed;
      wish.mostBytes = kSizes[1];
      wish.threads = static_cast<int>(std::thread::hardware_concurrency());
      data_.push_back(std::make_unique<DataSet>(tools::perf_codec::makeDataSet(name.name, wish)));
    }
  }

  void registerAll() {
    for (const std::uint64_t bytes : kSizes) {
      add("copy/memcpy/any", bytes, [this, bytes](benchmark::State& state) { copy(state, bytes); });
      for (std::size_t d = 0; d < data_.size(); ++d) {
        const std::string data = std::string(kDataNames[d].datatype) + " " + kDataNames[d].name;
        for (const Compressor& each : compressorsOf(*data_[d], bytes)) {
          add("encode/" + each.name + "/" + data, bytes,
              [=, this](benchmark::State& state) { encode(state, each, inputs(d, bytes)); });
          add("decode/" + each.name + "/" + data, bytes,
              [=, this](benchmark::State& state) { decode(state, each, inputs(d, bytes)); });
        }
        for (const codec::TileCodec* with : codec::tileCodecs()) {
          add("reduce/" + std::string(with->name()) + "/" + data, bytes,
              [=, this](benchmark::State& state) { reduce(state, *with, inputs(d, bytes)); });
        }
      }
    }
    for (unsigned count = 2; count <= std::thread::hardware_concurrency(); count *= 2) {
      addThreads(count);
    }
  }

 private:
  /// The first data set in the largest size, by the implementation that the machine chooses. These
  /// times are of the clock.
  void addThreads(unsigned count) {
    threads_.push_back(std::make_unique<codec::CodecThreads>(count));
    const Compressor by = sharedCodec(*threads_.back(), firstSpec(*data_[0], kSizes[1]));
    const std::string data = std::string(kDataNames[0].datatype) + " " + kDataNames[0].name;
    add("encode/" + by.name + "/" + data, kSizes[1], [=, this](benchmark::State& state) {
      encode(state, by, inputs(0, kSizes[1]));
    })->UseRealTime();
    add("decode/" + by.name + "/" + data, kSizes[1], [=, this](benchmark::State& state) {
      decode(state, by, inputs(0, kSizes[1]));
    })->UseRealTime();
  }

  template <typename Function>
  static benchmark::internal::Benchmark* add(const std::string& name, std::uint64_t bytes,
                                             Function function) {
    const std::string size = std::to_string(bytes / kMiB) + " MiB";
    return benchmark::RegisterBenchmark((name + "/" + size).c_str(), function);
  }

  [[nodiscard]] const Inputs& inputs(std::size_t data, std::uint64_t bytes) {
    std::unique_ptr<Inputs>& made = inputs_[{data, bytes}];
    if (made == nullptr) made = std::make_unique<Inputs>(*data_[data], bytes);
    return *made;
  }

  [[nodiscard]] std::vector<Compressor> compressorsOf(const DataSet& data,
                                                      std::uint64_t bytes) const {
    std::vector<Compressor> all;
    const codec::FrameSpec spec = firstSpec(data, bytes);
    for (const codec::TileCodec* with : codec::tileCodecs()) all.push_back(codecOf(*with, spec));
#if defined(ZIPCCL_BENCH_ZSTD)
    all.push_back({"zstd -1", ZSTD_compressBound,
                   [](std::span<const std::byte> from, std::span<std::byte> to) {
                     const std::size_t written =
                         ZSTD_compress(to.data(), to.size(), from.data(), from.size(), 1);
                     return ZSTD_isError(written) != 0 ? 0 : written;
                   },
                   [](std::span<const std::byte> from, std::span<std::byte> to) {
                     const std::size_t written =
                         ZSTD_decompress(to.data(), to.size(), from.data(), from.size());
                     return ZSTD_isError(written) != 0 ? 0 : written;
                   }});
#endif
#if defined(ZIPCCL_BENCH_LZ4)
    const auto chars = [](auto* bytesAt) { return reinterpret_cast<const char*>(bytesAt); };
    all.push_back(
        {"lz4",
         [](std::size_t inputBytes) {
           return static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(inputBytes)));
         },
         [chars](std::span<const std::byte> from, std::span<std::byte> to) {
           return static_cast<std::size_t>(
               LZ4_compress_default(chars(from.data()), reinterpret_cast<char*>(to.data()),
                                    static_cast<int>(from.size()), static_cast<int>(to.size())));
         },
         [chars](std::span<const std::byte> from, std::span<std::byte> to) {
           const int written =
               LZ4_decompress_safe(chars(from.data()), reinterpret_cast<char*>(to.data()),
                                   static_cast<int>(from.size()), static_cast<int>(to.size()));
           return written < 0 ? std::size_t{0} : static_cast<std::size_t>(written);
         }});
#endif
    return all;
  }

  static Compressor codecOf(const codec::TileCodec& with, const codec::FrameSpec& spec) {
    return {
        with.name(),
        [spec](std::size_t) {
          return static_cast<std::size_t>(codec::maxFrameBytes(spec.datatype, spec.elementCount));
        },
        [&with, spec](std::span<const std::byte> from, std::span<std::byte> to) {
          return static_cast<std::size_t>(
              codec::encodeWith(with, spec, from.data(), to, {}).frameBytes());
        },
        [&with](std::span<const std::byte> from, std::span<std::byte> to) {
          const bool isOk = codec::decodeFrameWith(with, from, to) == codec::DecodeStatus::kOk;
          return isOk ? to.size() : std::size_t{0};
        }};
  }

  static Compressor sharedCodec(codec::CodecThreads& threads, const codec::FrameSpec& spec) {
    Compressor by = codecOf(codec::defaultTileCodec(), spec);
    by.name = std::to_string(threads.count()) + " threads";
    by.compress = [&threads, spec](std::span<const std::byte> from, std::span<std::byte> to) {
      return static_cast<std::size_t>(
          codec::encode(spec, from.data(), to, {}, &threads).frameBytes());
    };
    by.decompress = [&threads](std::span<const std::byte> from, std::span<std::byte> to) {
      const bool isOk = codec::decodeFrame(from, to, &threads) == codec::DecodeStatus::kOk;
      return isOk ? to.size() : std::size_t{0};
    };
    return by;
  }

  static void setBytes(benchmark::State& state, std::uint64_t bytes) {
    state.SetBytesProcessed(static_cast<std::int64_t>(bytes) * state.iterations());
  }

  void copy(benchmark::State& state, std::uint64_t bytes) {
    const Inputs& from = inputs(0, bytes);
    std::uint64_t i = 0;
    for (auto _ : state) {
      const std::span<std::byte> to = output_.part(i, from.sets());
      std::memcpy(to.data(), from.set(i).data(), bytes);
      benchmark::ClobberMemory();
      ++i;
    }
    setBytes(state, bytes);
  }

  void encode(benchmark::State& state, const Compressor& by, const Inputs& from) {
    if (encoded_.part(0, from.sets()).size() < by.bound(from.bytes())) {
      return state.SkipWithError("too little room");
    }
    std::uint64_t i = 0;
    std::size_t written = 0;
    for (auto _ : state) {
      written = by.compress(from.set(i), encoded_.part(i, from.sets()));
      benchmark::ClobberMemory();
      ++i;
    }
    if (written == 0) return state.SkipWithError("not encoded");
    setBytes(state, from.bytes());
    const double bitsOfValue = 8.0 * static_cast<double>(codec::elementBytes(from.spec().datatype));
    state.counters["bits"] =
        bitsOfValue * static_cast<double>(written) / static_cast<double>(from.bytes());
  }

  void decode(benchmark::State& state, const Compressor& by, const Inputs& from) {
    const std::vector<std::span<std::byte>> frames = encodeAll(by, from);
    std::uint64_t i = 0;
    std::size_t written = from.bytes();
    for (auto _ : state) {
      written = std::min(written, by.decompress(frames[i % frames.size()], outputOf(i, from)));
      benchmark::ClobberMemory();
      ++i;
    }
    const std::span<const std::byte> last = outputOf(i - 1, from);
    if (written != from.bytes() ||
        std::memcmp(last.data(), from.set(i - 1).data(), last.size()) != 0) {
      return state.SkipWithError("decoded wrong");
    }
    setBytes(state, from.bytes());
  }

  void reduce(benchmark::State& state, const codec::TileCodec& with, const Inputs& from) {
    const codec::FrameSpec spec = from.spec();
    const std::vector<std::span<std::byte>> frames = encodeAll(codecOf(with, spec), from);
    const std::uint64_t split = codec::staticBytes(spec);
    constexpr std::uint64_t kFrames = 2;
    std::uint64_t i = 0;
    for (auto _ : state) {
      codec::Addend addends[kFrames];
      for (std::uint64_t n = 0; n < kFrames; ++n) {
        const std::span<std::byte> frame = frames[(i + n) % frames.size()];
        addends[n] = {{frame.first(split), frame.subspan(split)}, spec, nullptr};
      }
      const codec::ReduceResult result = codec::decodeReduceWith(
          with, spec.datatype, spec.elementCount, addends, 1.0F, outputOf(i, from));
      if (result.status != codec::DecodeStatus::kOk) return state.SkipWithError("decoded wrong");
      benchmark::ClobberMemory();
      i += kFrames;
    }
    setBytes(state, kFrames * from.bytes());
  }

  [[nodiscard]] std::span<std::byte> outputOf(std::uint64_t i, const Inputs& from) {
    return output_.part(i, from.sets()).first(from.bytes());
  }

  [[nodiscard]] std::vector<std::span<std::byte>> encodeAll(const Compressor& by,
                                                            const Inputs& from) {
    std::vector<std::span<std::byte>> frames;
    for (std::uint64_t i = 0; i < from.sets(); ++i) {
      const std::span<std::byte> to = encoded_.part(i, from.sets());
      frames.push_back(to.first(by.compress(from.set(i), to)));
    }
    return frames;
  }

  std::vector<std::unique_ptr<codec::CodecThreads>> threads_;
  std::vector<std::unique_ptr<DataSet>> data_;
  std::map<std::pair<std::size_t, std::uint64_t>, std::unique_ptr<Inputs>> inputs_;
  Scratch output_{kRotatedBytes + kMiB};
  Scratch encoded_{kRotatedBytes + kRotatedBytes / 16};  ///< bounds are above the input
};

}  // namespace
}  // namespace zipccl::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  zipccl::bench::Program program;
  program.registerAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
