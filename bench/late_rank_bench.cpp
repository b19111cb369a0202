// SPDX-License-Identifier: Apache-2.0
//
// What one late rank costs an AlltoAll over MPI: run it by mpirun on one host. In turns, each rank
// counted by the slowest: a compressed AlltoAll that all ranks enter at once; the same with the
// last rank late, from its arrival on, with the number of frames that early ranks had decoded
// before; and the other way to move frames of unknown size, sizes first, likewise late. Every round
// compares what arrived, bit for bit. Exit status: 0, 1 when a bit was wrong, 2 for a wrong command
// line, 3 when something failed.

#include <zipccl/version.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "collectives/all_to_all.hpp"
#include "collectives/communicator.hpp"
#include "collectives/host_codec.hpp"
#include "perf/machine.hpp"
#include "perf/spread_json.hpp"
#include "perf/statistics.hpp"
#include "tensors.hpp"
#include "timed_codec.hpp"
#include "transport/mpi_transport.hpp"

namespace zipccl::bench {
namespace {

using collectives::AllToAllArguments;
using collectives::Communicator;
using collectives::Datatype;
using collectives::FrameParts;
using collectives::FrameReport;
using collectives::testing::Shard;
using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

struct Options {
  std::uint64_t partBytes = std::uint64_t{4} << 20;
  int rounds = 15;
  int lateMs = 250;
  std::string jsonPath;
};

std::int64_t nanoseconds(Clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

/// One rank's view of one exchange; all processes of a host read the same clock.
struct Times {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t wrongBytes = 0;
};

/// What a round found.
struct Sample {
  double punctualUs = 0.0;
  double lateUs = 0.0;            ///< after the late rank's arrival
  double sizesFirstUs = 0.0;      ///< the same
  std::int64_t earlyDecodes = 0;  ///< by early ranks, before the late one's arrival
};

class LateRank {
 public:
  explicit LateRank(const Options& options)
      : options_(options),
        transport_(transport::loadMpiTransport()),
        codec_(collectives::makeHostCodec()),
        times_(transport_->rankCount()),
        communicator_(transport::loadMpiTransport(), times_.codecOf(transport_->rank()),
                      settings()),
        ranks_(static_cast<std::size_t>(transport_->rankCount())),
        count_(options.partBytes / 2),
        partBytes_(2 * count_),
        send_(ranks_ * partBytes_),
        receive_(ranks_ * partBytes_) {
    expects(ranks_ >= 3,
            "at least three ranks are needed: two that are early and one that is late");
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      const Shard part = partOf(rank(), peer);
      std::copy(part.begin(), part.end(), send_.begin() + at(peer));
    }
    for (std::size_t peer = 0; peer < ranks_; ++peer) expected_.push_back(partOf(peer, rank()));
  }

  [[nodiscard]] bool isFirst() const { return rank() == 0; }
  [[nodiscard]] std::size_t ranks() const { return ranks_; }
  [[nodiscard]] std::int64_t wrongBytes() const { return wrongBytes_; }
  /// What early ranks can decode before the late one comes.
  [[nodiscard]] std::int64_t earlyFrames() const { return earlyFrames_; }

  Sample round() {
    Sample sample;
    const std::size_t before = times_.of(transport_->rank()).size();
    sample.punctualUs = sinceLast(measure(false, [this] { exchange(); }));
    const std::size_t between = times_.of(transport_->rank()).size();
    const std::vector<Times> late = measure(true, [this] { exchange(); });
    sample.lateUs = sinceLast(late);
    sample.earlyDecodes = sum(countDecodes(between, late.back().begin));
    earlyFrames_ = sum(
        isLate() ? 0 : static_cast<std::int64_t>((between - before) / (ranks_ - 1) * (ranks_ - 2)));
    sample.sizesFirstUs = sinceLast(measure(true, [this] { exchangeSizesFirst(); }));
    return sample;
  }

 private:
  static collectives::CommunicatorSettings settings() {
    collectives::CommunicatorSettings settings;
    settings.agreed.strategy = StrategyChoice::kStaged;
    settings.agreed.maxScratchBytes = std::uint64_t{256} << 20;
    settings.timeout = std::chrono::minutes(2);
    return settings;
  }

  [[nodiscard]] std::size_t rank() const { return static_cast<std::size_t>(transport_->rank()); }
  [[nodiscard]] bool isLate() const { return rank() + 1 == ranks_; }
  [[nodiscard]] std::ptrdiff_t at(std::size_t peer) const {
    return static_cast<std::ptrdiff_t>(peer * partBytes_);
  }

  [[nodiscard]] Shard partOf(std::size_t from, std::size_t to) const {
    return collectives::testing::makeShard(1, static_cast<int>(from * ranks_ + to),
                                           Datatype::kBfloat16, count_,
                                           collectives::testing::Content::kGaussian);
  }

  template <class Body>
  std::vector<Times> measure(bool oneIsLate, const Body& body) {
    std::fill(receive_.begin(), receive_.end(), std::byte{0xA5});
    transport_->barrier();
    if (oneIsLate && isLate()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(options_.lateMs));
    }
    Times mine{.begin = nanoseconds(Clock::now())};
    body();
    mine.end = nanoseconds(Clock::now());
    for (std::size_t peer = 0; peer < ranks_; ++peer) {
      const auto got = receive_.begin() + at(peer);
      for (std::size_t i = 0; i < partBytes_; ++i) {
        mine.wrongBytes += got[static_cast<std::ptrdiff_t>(i)] != expected_[peer][i] ? 1 : 0;
      }
    }
    std::vector<Times> all(ranks_);
    transport_->allGatherControl(std::as_bytes(std::span(&mine, 1)),
                                 std::as_writable_bytes(std::span(all)));
    for (const Times& times : all) wrongBytes_ += times.wrongBytes;
    return all;
  }

  /// From the last rank's arrival to the last rank's end.
  static double sinceLast(const std::vector<Times>& all) {
    std::int64_t begin = all.front().begin;
    std::int64_t end = all.front().end;
    for (const Times& times : all) {
      begin = std::max(begin, times.begin);
      end = std::max(end, times.end);
    }
    return static_cast<double>(end - begin) * 1e-3;
  }

  std::int64_t countDecodes(std::size_t first, std::int64_t beforeNs) const {
    const std::vector<Clock::time_point>& all = times_.of(transport_->rank());
    return std::count_if(all.begin() + static_cast<std::ptrdiff_t>(first), all.end(),
                         [&](Clock::time_point time) { return nanoseconds(time) < beforeNs; });
  }

  std::int64_t sum(std::int64_t mine) {
    std::vector<std::int64_t> all(ranks_);
    transport_->allGatherControl(std::as_bytes(std::span(&mine, 1)),
                                 std::as_writable_bytes(std::span(all)));
    std::int64_t sum = 0;
    for (const std::int64_t each : all) sum += each;
    return sum;
  }

  void exchange() {
    communicator_.call(
        AllToAllArguments{send_.data(), receive_.data(), count_, Datatype::kBfloat16, {}});
  }

  /// Encodes everything, tells all peers the sizes, exchanges frames of just these sizes, decodes.
  void exchangeSizesFirst() {
    const codec::FrameSpec spec{.elementCount = count_};
    const std::uint64_t boundBytes = codec::maxFrameBytes(codec::Datatype::kBfloat16, count_);
    outgoing_.resize(ranks_ * boundBytes);
    incoming_.resize(ranks_ * boundBytes);
    std::vector<std::uint64_t> sentBytes(ranks_);
    std::vector<std::uint64_t> receivedBytes(ranks_);
    std::vector<transport::SendMessage> sends;
    std::vector<transport::ReceiveMessage> receives;
    for (std::size_t step = 1; step < ranks_; ++step) {
      const std::size_t peer = (rank() + step) % ranks_;
      const std::span<std::byte> frame =
          std::span(outgoing_).subspan(peer * boundBytes, boundBytes);
      codec_->encode(spec, send_.data() + at(peer), frame, {}, {});
      FrameReport report;
      codec_->readReports(frame.data(), 0, {&report, 1}, {});
      sentBytes[peer] = codec::staticBytes(spec) + report.dynamicBytes;
      sends.push_back({static_cast<int>(peer), &sentBytes[peer], sizeof(std::uint64_t)});
      receives.push_back({static_cast<int>(peer), &receivedBytes[peer], sizeof(std::uint64_t)});
    }
    transport_->exchange(sends, receives);
    for (transport::SendMessage& message : sends) {
      const auto peer = static_cast<std::size_t>(message.peer);
      message = {message.peer, outgoing_.data() + peer * boundBytes, sentBytes[peer]};
    }
    for (transport::ReceiveMessage& message : receives) {
      const auto peer = static_cast<std::size_t>(message.peer);
      message = {message.peer, incoming_.data() + peer * boundBytes, receivedBytes[peer]};
    }
    transport_->exchange(sends, receives);
    codec_->copy(receive_.data() + at(rank()), send_.data() + at(rank()), partBytes_, {});
    const std::uint64_t staticBytes = codec::staticBytes(spec);
    for (const transport::ReceiveMessage& message : receives) {
      const auto peer = static_cast<std::size_t>(message.peer);
      const std::span<const std::byte> frame =
          std::span(incoming_).subspan(peer * boundBytes, receivedBytes[peer]);
      codec::DecodeStatus status{};
      codec_->decode(spec, {frame.first(staticBytes), frame.subspan(staticBytes)},
                     {receive_.data() + at(peer), partBytes_}, &status, {});
      expects(status == codec::DecodeStatus::kOk, ErrorCode::kInternalError,
              codec::describe(status));
    }
  }

  const Options& options_;
  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<collectives::FrameCodec> codec_;
  collectives::testing::DecodeTimes times_;
  Communicator communicator_;
  std::size_t ranks_;
  std::uint64_t count_;
  std::size_t partBytes_;
  std::vector<std::byte> send_;
  std::vector<std::byte> receive_;
  std::vector<Shard> expected_;
  std::vector<std::byte> outgoing_;
  std::vector<std::byte> incoming_;
  std::int64_t wrongBytes_ = 0;
  std::int64_t earlyFrames_ = 0;
};

std::vector<double> ratios(const std::vector<Sample>& samples, double Sample::*over,
                           double Sample::*under) {
  std::vector<double> all;
  for (const Sample& sample : samples) all.push_back(sample.*over / sample.*under);
  return all;
}

std::vector<double> values(const std::vector<Sample>& samples, double Sample::*member) {
  std::vector<double> all;
  for (const Sample& sample : samples) all.push_back(sample.*member);
  return all;
}

Json toJson(const Options& options, const std::vector<std::string>& arguments,
            const LateRank& bench, const std::vector<Sample>& samples) {
  const tools::perf::Machine machine = tools::perf::thisMachine();
  Json json = {
      {"schema", 1},
      {"tool", "late_rank_bench"},
      {"argv", arguments},
      {"startedAt", tools::perf::utcNow()},
      {"version", ZIPCCL_VERSION_STRING},
      {"machine",
       {{"cpuModel", machine.cpuModel},
        {"cores", machine.cores},
        {"instructionSets", machine.instructionSets},
        {"system", machine.system}}},
      {"ranks", bench.ranks()},
      {"partBytes", options.partBytes},
      {"lateMs", options.lateMs},
      {"earlyFrames", bench.earlyFrames()},
      {"wrongBytes", bench.wrongBytes()},
      {"punctualUs",
       tools::perf::toJson(tools::perf::spreadOf(values(samples, &Sample::punctualUs)))},
      {"lateUs", tools::perf::toJson(tools::perf::spreadOf(values(samples, &Sample::lateUs)))},
      {"sizesFirstUs",
       tools::perf::toJson(tools::perf::spreadOf(values(samples, &Sample::sizesFirstUs)))},
      {"lateOverPunctual", tools::perf::toJson(tools::perf::spreadOf(
                               ratios(samples, &Sample::lateUs, &Sample::punctualUs)))},
      {"sizesFirstOverLate", tools::perf::toJson(tools::perf::spreadOf(
                                 ratios(samples, &Sample::sizesFirstUs, &Sample::lateUs)))},
      {"samples", Json::array()}};
  for (const Sample& sample : samples) {
    json["samples"].push_back({{"punctualUs", sample.punctualUs},
                               {"lateUs", sample.lateUs},
                               {"sizesFirstUs", sample.sizesFirstUs},
                               {"earlyDecodes", sample.earlyDecodes}});
  }
  return json;
}

int run(const Options& options, const std::vector<std::string>& arguments) {
  LateRank bench(options);
  static_cast<void>(bench.round());
  std::vector<Sample> samples;
  for (int i = 0; i < options.rounds; ++i) samples.push_back(bench.round());
  if (bench.isFirst()) {
    const Json json = toJson(options, arguments, bench, samples);
    std::cout << "AlltoAll of " << options.partBytes << " bytes a pair on " << bench.ranks()
              << " MPI processes, medians of " << samples.size() << "\n"
              << "  all at once                     " << json["punctualUs"]["median"] << " us\n"
              << "  after a late rank's arrival     " << json["lateUs"]["median"] << " us, "
              << json["lateOverPunctual"]["median"] << " of it\n"
              << "  the same with sizes first       " << json["sizesFirstUs"]["median"] << " us, "
              << json["sizesFirstOverLate"]["median"] << " times as long\n"
              << "  frames decoded before it comes  " << samples.back().earlyDecodes << " of "
              << bench.earlyFrames() << "\n"
              << "  wrong bytes                     " << bench.wrongBytes() << "\n";
    if (!options.jsonPath.empty()) {
      std::ofstream file(options.jsonPath);
      file << json.dump(1) << "\n";
      file.close();
      expects(static_cast<bool>(file), ErrorCode::kSystemError, "cannot write ", options.jsonPath);
    }
  }
  return bench.wrongBytes() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace zipccl::bench

int main(int argc, char** argv) {
  zipccl::bench::Options options;
  CLI::App app("Measures what one late rank costs an AlltoAll over MPI.");
  app.add_option("-b,--part-bytes", options.partBytes, "Bytes from each rank to each other")
      ->check(CLI::Range(std::uint64_t{2}, std::uint64_t{1} << 30))
      ->capture_default_str();
  app.add_option("-n,--rounds", options.rounds, "Timed rounds")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--late-ms", options.lateMs, "How late the last rank is")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("-J,--json", options.jsonPath, "Writes every sample to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return zipccl::bench::run(options, {argv, argv + argc});
  } catch (const std::exception& error) {
    std::cerr << "late_rank_bench: " << error.what() << "\n";
    return 3;
  }
}
