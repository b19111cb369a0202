// SPDX-License-Identifier: Apache-2.0
//
// The measurement of a profile: what it finds on links of known speed, what it costs on slow ones,
// and that it believes no broken codec.

#include "collectives/profile_measurement.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "damaging_transport.hpp"
#include "forwarding_codec.hpp"
#include "local_group.hpp"
#include "policy/cost_model.hpp"
#include "support/sanitized.hpp"
#include "transport/local_transport.hpp"

namespace zipccl::collectives {
namespace {

using testing::Damage;
using testing::ForwardingCodec;
using testing::RankErrors;
using testing::runRanks;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr int kRanks = 2;

/// A link whose every operation takes as long as this says, and a little more.
struct Link {
  double latencyUs = 0.0;
  double bytesPerUs = 0.0;

  [[nodiscard]] double us(std::uint64_t shardBytes) const {
    return latencyUs + static_cast<double>(shardBytes) / bytesPerUs;
  }
};

struct Result {
  policy::Profile profile;
  double linkUs = 0.0;  ///< what the operations of the measurement took by the link's terms
};

/// On a link whose operations of so many bytes take each rank what `usOf` says.
Result measureOn(const std::function<double(int rank, std::uint64_t shardBytes)>& usOf,
                 std::uint64_t scratchBytes = 256 * kMiB) {
  transport::LocalWorld world(kRanks);
  std::vector<policy::Profile> profiles(kRanks);
  double linkUs = 0.0;
  const auto spend = [&](int rank, std::size_t bytes) {
    const double us = usOf(rank, bytes);
    if (rank == 0) linkUs += us;
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(us));
  };
  const Damage slowness{
      .onSend = {},
      .onReceive = [&](int rank, int, std::span<std::byte>,
                       std::size_t shardBytes) { spend(rank, shardBytes); },
      .onBarrier = {},
      .onMessage = [&](int rank, int, int,
                       std::span<std::byte> message) { spend(rank, message.size()); }};
  const RankErrors errors = runRanks(kRanks, [&](int rank) {
    const std::unique_ptr<transport::Transport> transport =
        testing::damage(world.transport(rank), slowness);
    ForwardingCodec codec;
    profiles[static_cast<std::size_t>(rank)] = measureProfile(*transport, codec, scratchBytes);
  });
  for (const std::optional<Error>& error : errors) EXPECT_FALSE(error) << error->what();
  EXPECT_EQ(profiles[0], profiles[1]);
  return {profiles[0], linkUs};
}

Result measureOn(const Link& link, std::uint64_t scratchBytes = 256 * kMiB) {
  return measureOn([&](int, std::uint64_t bytes) { return link.us(bytes); }, scratchBytes);
}

/// Whether `holds` is true of one of some measurements: other work on the machine spoils some.
template <class Holds>
bool holdsOnce(const Holds& holds) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (holds()) return true;
  }
  return false;
}

TEST(ProfileMeasurement, TellsLatencyFromBandwidth) {
  // 2.2 ms before the first byte, then 5 GB/s: no reason to take it for 2 MB/s.
  const Link link{.latencyUs = 2200.0, .bytesPerUs = 5000.0};
  EXPECT_TRUE(holdsOnce([&] {
    const policy::Profile profile = measureOn(link).profile;
    EXPECT_TRUE(policy::isUsable(profile));
    bool isNear = true;
    for (const std::uint64_t bytes : {4096 * std::uint64_t{1}, kMiB, 64 * kMiB}) {
      const double foundUs = policy::linkUs(profile.allGather, bytes);
      EXPECT_GE(foundUs, link.latencyUs) << bytes;
      // A busy machine takes several times as long; the latency taken for bandwidth made thousands.
      isNear = isNear && foundUs <= 200.0 * link.us(bytes);
    }
    return isNear;
  }));
}

TEST(ProfileMeasurement, LooksAgainAtALinkThatIsSlowAtFirst) {
  if (zipccl::testing::kIsSanitized) GTEST_SKIP() << "a sanitized codec leaves no time for that";
  const Link link{.latencyUs = 50.0, .bytesPerUs = 8000.0};
  constexpr double kSlowUs = 30'000.0;  // too slow to be repeated at once
  EXPECT_TRUE(holdsOnce([&] {
    std::array<int, kRanks> large = {};
    const Result result = measureOn([&](int rank, std::uint64_t bytes) {
      const bool isLarge = bytes >= 8 * kMiB;
      const bool isAtFirst = isLarge && large[static_cast<std::size_t>(rank)]++ == 0;
      return isAtFirst ? kSlowUs : link.us(bytes);
    });
    return policy::linkUs(result.profile.allGather, 8 * kMiB) < kSlowUs;
  }));
}

TEST(ProfileMeasurement, KeepsItsTimeOnSlowLinks) {
  for (const Link& link : {Link{.latencyUs = 30'000.0, .bytesPerUs = 1000.0},
                           Link{.latencyUs = 100.0, .bytesPerUs = 1.0},
                           Link{.latencyUs = 9000.0, .bytesPerUs = 50.0}}) {
    const Result result = measureOn(link);
    EXPECT_TRUE(policy::isUsable(result.profile));
    EXPECT_GE(result.profile.allGather.pointCount, 2U);
    EXPECT_GE(result.profile.exchange.pointCount, 2U);
    // Both links and their overlaps together.
    EXPECT_LE(result.linkUs, 300'000.0) << link.latencyUs << " us, " << link.bytesPerUs;
  }
}

/// Takes its time, 10 ns an element to encode, without a core: what else the machine does matters
/// less.
class SleepyCodec final : public ForwardingCodec {
 public:
  void encode(const codec::FrameSpec& spec, const void* source, std::span<std::byte> frame,
              FrameNote note, transport::StreamHandle stream) override {
    std::this_thread::sleep_for(std::chrono::nanoseconds(10 * spec.elementCount));
    ForwardingCodec::encode(spec, source, frame, note, stream);
  }
};

/// The profile over the local transport with emulated links of that speed, or over memory.
policy::Profile measureOnLinks(std::uint64_t bytesPerSecond) {
  transport::LocalWorld world(kRanks, {.timeout = {}, .linkBytesPerSecond = bytesPerSecond});
  std::vector<policy::Profile> profiles(kRanks);
  const RankErrors errors = runRanks(kRanks, [&](int rank) {
    const std::unique_ptr<transport::Transport> transport = world.transport(rank);
    SleepyCodec codec;
    profiles[static_cast<std::size_t>(rank)] = measureProfile(*transport, codec, 256 * kMiB);
  });
  for (const std::optional<Error>& error : errors) EXPECT_FALSE(error) << error->what();
  EXPECT_EQ(profiles[0], profiles[1]);
  return profiles[0];
}

TEST(ProfileMeasurement, FindsThatLinksGoOnWhileRanksEncode) {
  if (zipccl::testing::kIsSanitized) GTEST_SKIP() << "a sanitizer takes longer than the links";
  EXPECT_TRUE(holdsOnce([] {
    const policy::Profile profile = measureOnLinks(100'000'000);
    return profile.allGather.overlap > 0.5F && profile.exchange.overlap > 0.5F;
  }));
}

TEST(ProfileMeasurement, FindsThatMemoryDoesNotMoveItself) {
  EXPECT_TRUE(holdsOnce([] {
    const policy::Profile profile = measureOnLinks(0);
    return profile.allGather.overlap < 0.5F && profile.exchange.overlap < 0.5F;
  }));
}

TEST(ProfileMeasurement, FitsIntoLittleScratchOrIsNotUsable) {
  const Link link{.latencyUs = 1.0, .bytesPerUs = 10'000.0};
  EXPECT_TRUE(policy::isUsable(measureOn(link, kMiB).profile));
  EXPECT_FALSE(policy::isUsable(measureOn(link, kMiB / 2).profile));
}

/// Notes what happens on one rank, in order: barriers, and encodes by their number of elements.
class Recorder {
 public:
  void add(std::uint64_t event) { events_.push_back(event); }
  [[nodiscard]] const std::vector<std::uint64_t>& events() const { return events_; }
  static constexpr std::uint64_t kBarrier = 0;

 private:
  std::vector<std::uint64_t> events_;
};

class RecordingCodec final : public ForwardingCodec {
 public:
  explicit RecordingCodec(Recorder& recorder) : recorder_(recorder) {}
  void encode(const codec::FrameSpec& spec, const void* source, std::span<std::byte> frame,
              FrameNote note, transport::StreamHandle stream) override {
    recorder_.add(spec.elementCount);
    ForwardingCodec::encode(spec, source, frame, note, stream);
  }

 private:
  Recorder& recorder_;
};

TEST(ProfileMeasurement, EncodesOnAllRanksAtOnceMoreThanACoreCaches) {
  transport::LocalWorld world(kRanks);
  std::vector<Recorder> recorders(kRanks);
  const Damage watch{.onSend = {}, .onReceive = {}, .onBarrier = [&](int rank) {
                       recorders[static_cast<std::size_t>(rank)].add(Recorder::kBarrier);
                     }};
  runRanks(kRanks, [&](int rank) {
    const std::unique_ptr<transport::Transport> transport =
        testing::damage(world.transport(rank), watch);
    RecordingCodec codec(recorders[static_cast<std::size_t>(rank)]);
    static_cast<void>(measureProfile(*transport, codec, 256 * kMiB));
  });
  for (const Recorder& recorder : recorders) {
    std::uint64_t most = 0;
    std::uint64_t previous = 1;
    for (const std::uint64_t event : recorder.events()) {
      if (event != Recorder::kBarrier) {
        EXPECT_EQ(previous, Recorder::kBarrier) << "an encode that does not start with the others'";
      }
      previous = event;
      most = std::max(most, event);
    }
    EXPECT_GE(2 * most, 4 * kMiB);
  }
}

/// Makes frames that nobody can read, or says so.
class BrokenCodec final : public ForwardingCodec {
 public:
  enum class Fault { kHeader, kSeal, kContent };
  explicit BrokenCodec(Fault fault) : fault_(fault) {}

  void readReports(const std::byte* frames, std::uint64_t strideBytes,
                   std::span<FrameReport> reports, transport::StreamHandle stream) override {
    ForwardingCodec::readReports(frames, strideBytes, reports, stream);
    if (fault_ == Fault::kHeader) reports[0].status = codec::DecodeStatus::kBadMagic;
    if (fault_ == Fault::kSeal) reports[0].isSealIntact = false;
  }
  void decode(const codec::FrameSpec& expected, const FrameParts& frame,
              std::span<std::byte> output, codec::DecodeStatus* status,
              transport::StreamHandle stream) override {
    ForwardingCodec::decode(expected, frame, output, status, stream);
    if (fault_ == Fault::kContent) *status = codec::DecodeStatus::kTruncated;
  }

 private:
  Fault fault_;
};

TEST(ProfileMeasurement, ABrokenCodecIsAnErrorOnAllRanks) {
  using Fault = BrokenCodec::Fault;
  struct Case {
    Fault fault;
    const char* words;
  };
  for (const Case& broken : {Case{Fault::kHeader, "cannot read the frame"},
                             {Fault::kSeal, "did not seal the frame"},
                             {Fault::kContent, "cannot read the frame"}}) {
    transport::LocalWorld world(kRanks);
    const RankErrors errors = runRanks(kRanks, [&](int rank) {
      const std::unique_ptr<transport::Transport> transport = world.transport(rank);
      if (rank == 0) {
        ForwardingCodec codec;
        static_cast<void>(measureProfile(*transport, codec, 256 * kMiB));
      } else {
        BrokenCodec codec(broken.fault);
        static_cast<void>(measureProfile(*transport, codec, 256 * kMiB));
      }
    });
    ASSERT_TRUE(errors[1]) << broken.words;
    EXPECT_EQ(errors[1]->code(), ErrorCode::kInternalError);
    EXPECT_NE(errors[1]->message().find(broken.words), std::string::npos) << errors[1]->message();
    ASSERT_TRUE(errors[0]) << broken.words;
    EXPECT_EQ(errors[0]->code(), ErrorCode::kRemoteError) << errors[0]->message();
  }
}

}  // namespace
}  // namespace zipccl::collectives
