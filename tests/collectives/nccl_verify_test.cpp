// SPDX-License-Identifier: Apache-2.0
//
// ZIPCCL_VERIFY over a fake NCCL: random groups verify clean, a codec that flips a bit once is
// found out, and of which calls that is so follows from counting alone.

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "collectives/nccl_communicator.hpp"
#include "collectives/test_settings.hpp"
#include "fake_nccl.h"
#include "fake_nccl_fixture.hpp"
#include "forwarding_stream_codec.hpp"
#include "log_capture.hpp"
#include "nccl_ranks.hpp"
#include "tensors.hpp"
#include "transport/host_stream_device.hpp"

namespace zipccl::collectives::testing {
namespace {

/// Flips a bit, once, in what it has decoded or reduced.
class FaultyCodec final : public ForwardingStreamCodec {
 public:
  FaultyCodec(std::unique_ptr<StreamCodec> codec, transport::Device& device)
      : ForwardingStreamCodec(std::move(codec)),
        device_(static_cast<transport::HostStreamDevice&>(device)) {}

  /// In the next output that has so many bytes, at this one.
  void plant(std::uint64_t atByte) { atByte_ = atByte; }
  [[nodiscard]] bool isPlanted() const { return atByte_.has_value(); }

  void decode(std::span<const DecodeJob> jobs, transport::StreamHandle stream) override {
    ForwardingStreamCodec::decode(jobs, stream);
    for (const DecodeJob& job : jobs) flip(job.spec, job.output, stream);
  }
  void decodeReduce(const ReduceJob& job, transport::StreamHandle stream) override {
    ForwardingStreamCodec::decodeReduce(job, stream);
    flip(job.spec, job.output, stream);
  }

 private:
  void flip(const codec::FrameSpec& spec, void* output, transport::StreamHandle stream) {
    if (!atByte_ || spec.elementCount * codec::elementBytes(spec.datatype) <= *atByte_) return;
    std::byte* const at = static_cast<std::byte*>(output) + *atByte_;
    atByte_.reset();
    device_.enqueue(stream, [at] { *at ^= std::byte{1}; });
  }

  transport::HostStreamDevice& device_;
  std::optional<std::uint64_t> atByte_;
};

FaultyCodec& makeFaulty(NcclCommunicator& communicator) {
  auto faulty = std::make_unique<FaultyCodec>(std::move(communicator.codec), *communicator.device);
  FaultyCodec& codec = *faulty;
  communicator.codec = std::move(faulty);
  return codec;
}

class NcclVerify : public zipccl::testing::FakeNcclTest<20> {
 protected:
  /// Runs `work` for each rank, in a thread of its own, with `every[rank]` as its setting.
  static void onRanks(const std::vector<std::uint32_t>& every,
                      const std::function<void(NcclRank&)>& work) {
    std::vector<CommunicatorSettings> settings;
    for (const std::uint32_t each : every) {
      settings.push_back(testSettings());
      settings.back().agreed.maxScratchBytes = std::uint64_t{1} << 20;
      settings.back().agreed.verifyEvery = each;
    }
    onNcclRanks(settings, work);
  }

  NcclTestCall randomCall(int ranks) {
    static constexpr zipcclNcclKind kKinds[] = {
        zipcclNcclAllGather, zipcclNcclReduceScatter, zipcclNcclAllReduce, zipcclNcclBroadcast,
        zipcclNcclAlltoAll,  zipcclNcclGather,        zipcclNcclScatter,   zipcclNcclSend};
    static constexpr Datatype kCoded[] = {Datatype::kBfloat16, Datatype::kFloat16,
                                          Datatype::kFloat32};
    NcclTestCall test;
    test.kind = kKinds[random_.below(std::size(kKinds))];
    test.datatype = kCoded[random_.below(std::size(kCoded))];
    test.count = 1 + random_.below(random_.below(2) == 0 ? 3000 : 60'000);
    test.content = kAllContents[random_.below(std::size(kAllContents))];
    test.isInPlace = random_.below(2) == 0;
    test.root = static_cast<int>(random_.below(static_cast<std::uint64_t>(ranks)));
    test.seed = random_();
    return test;
  }
};

TEST_F(NcclVerify, RandomGroupsAreClean) {
  for (const std::uint32_t every : {1U, 3U}) {
    for (const int ranks : {2, 3}) {
      SCOPED_TRACE(concat("every ", every, " on ", ranks, " ranks"));
      std::vector<std::vector<NcclTestCall>> groups(scaled(20));
      for (auto& group : groups) {
        group.resize(1 + random_.below(4));
        for (NcclTestCall& test : group) test = randomCall(ranks);
      }
      onRanks(std::vector<std::uint32_t>(static_cast<std::size_t>(ranks), every),
              [&](NcclRank& rank) {
                for (const auto& group : groups) run(rank, group);
                EXPECT_EQ(rank.error(), "");
                EXPECT_GT(rank.communicator->verifier->comparedCount(), 0U);
              });
    }
  }
}

TEST_F(NcclVerify, EndsOfAPairMayGroupTheirMessagesAsTheyLike) {
  constexpr int kRanks = 3;
  constexpr int kMessages = 10;
  const std::uint64_t seed = random_();
  for (const std::uint32_t every : {1U, 3U}) {
    onRanks(std::vector<std::uint32_t>(kRanks, every), [&](NcclRank& rank) {
      Random random(seed + static_cast<unsigned>(rank.rank));
      std::uint64_t received = 0;
      // Pair by pair, so that nobody waits in a ring; each end puts as many into a group as it
      // likes.
      for (int pair = 0; pair < kRanks * kRanks; ++pair) {
        const int from = pair / kRanks;
        const int to = pair % kRanks;
        if (from == to || (rank.rank != from && rank.rank != to)) continue;
        std::vector<zipcclNcclCall> group;
        for (int i = 0; i < kMessages; ++i) {
          NcclTestCall test;
          test.count = 2000 + 3000 * static_cast<std::uint64_t>((from + to + i) % 7);
          test.content = kAllContents[static_cast<std::size_t>(i) % std::size(kAllContents)];
          test.seed = seed;
          const bool isOut = rank.rank == from;
          group.push_back(messageCall(rank, test, isOut, isOut ? to : from));
          received += !isOut && static_cast<unsigned>(i) % every == 0 ? 1 : 0;
          if (i + 1 < kMessages && random.below(3) != 0) continue;
          rank.runGroup(std::exchange(group, {}));
        }
      }
      EXPECT_EQ(rank.error(), "");
      EXPECT_EQ(rank.communicator->verifier->comparedCount(), received);
    });
  }
}

TEST_F(NcclVerify, OneOfNIsVerified) {
  onRanks({3, 3}, [](NcclRank& rank) {
    for (int i = 0; i < 7; ++i) run(rank, {NcclTestCall{}});
    EXPECT_EQ(rank.communicator->verifier->comparedCount(), 3U);
    // Messages are counted by themselves; what has no format is not compressed and not counted.
    for (int i = 0; i < 4; ++i) {
      run(rank, {{.kind = zipcclNcclSend},
                 {.kind = zipcclNcclSend, .datatype = Datatype::kInt32},
                 {.datatype = Datatype::kInt32}});
    }
    EXPECT_EQ(rank.error(), "");
    EXPECT_EQ(rank.communicator->verifier->comparedCount(), 5U);
  });
}

TEST_F(NcclVerify, SumsOfMoreThanTwoRanksAreNotCompared) {
  for (const std::uint32_t ranks : {2U, 3U}) {
    onRanks(std::vector<std::uint32_t>(ranks, 1), [&](NcclRank& rank) {
      for (const bool isInPlace : {false, true}) {
        run(rank, {{.kind = zipcclNcclReduceScatter, .isInPlace = isInPlace},
                   {.kind = zipcclNcclAllReduce, .isInPlace = isInPlace}});
      }
      EXPECT_EQ(rank.error(), "");
      EXPECT_EQ(rank.communicator->verifier->comparedCount(), ranks == 2 ? 4U : 0U);
    });
  }
}

TEST_F(NcclVerify, AFlippedBitIsFoundInEveryKindOfCall) {
  struct Planted {
    zipcclNcclKind kind;
    std::string_view words;  ///< of the rank on which the bit is flipped
  };
  const std::array kinds = {
      Planted{zipcclNcclAllGather, "AllGather of 20000 "},
      Planted{zipcclNcclBroadcast, "Broadcast of 20000 "},
      Planted{zipcclNcclReduceScatter, "ReduceScatter of 20000 "},
      Planted{zipcclNcclAllReduce, "AllReduce of 20000 "},
      Planted{zipcclNcclAlltoAll, "AlltoAll of 20000 "},
      Planted{zipcclNcclScatter, "Scatter of 20000 "},
      Planted{zipcclNcclSend, "SendRecv of 20000 "},
  };
  constexpr int kFaulty = 1;
  for (const Planted& planted : kinds) {
    for (const bool isInPlace : {false, true}) {
      SCOPED_TRACE(concat(planted.words, isInPlace ? "in place" : "out of place"));
      const int saidBefore = countInLog(std::string(planted.words));
      onRanks({1, 1}, [&](NcclRank& rank) {
        FaultyCodec& codec = makeFaulty(*rank.communicator);
        const std::vector<NcclTestCall> calls = {{.kind = planted.kind, .isInPlace = isInPlace}};
        run(rank, calls);
        EXPECT_EQ(rank.error(), "");
        if (rank.rank == kFaulty) codec.plant(1234);
        run(rank, calls);
        const std::string words = rank.error();
        if (rank.rank != kFaulty) {
          // It gathers what the faulty one added up.
          EXPECT_EQ(words.empty(), planted.kind != zipcclNcclAllReduce) << words;
          return;
        }
        EXPECT_FALSE(codec.isPlanted());
        EXPECT_NE(words.find(planted.words), std::string::npos) << words;
        EXPECT_NE(words.find("on rank 1 of 2"), std::string::npos) << words;
        if (planted.kind != zipcclNcclAllReduce) {
          EXPECT_NE(words.find("the first wrong byte is 1234 of "), std::string::npos) << words;
        }
        EXPECT_EQ(rank.communicator->asyncError()->code(), ErrorCode::kInternalError);
        EXPECT_THROW(rank.communicator->throwIfFailed(), Error);
      });
      const int said = countInLog(std::string(planted.words)) - saidBefore;
      EXPECT_EQ(said, planted.kind == zipcclNcclAllReduce ? 2 : 1);
    }
  }
}

TEST_F(NcclVerify, ACallThatIsNotVerifiedIsNotCompared) {
  onRanks({2, 2}, [](NcclRank& rank) {
    FaultyCodec& codec = makeFaulty(*rank.communicator);
    run(rank, {NcclTestCall{}});
    codec.plant(10);
    run(rank, {NcclTestCall{}});
    EXPECT_FALSE(codec.isPlanted());
    EXPECT_EQ(rank.error(), "");
    codec.plant(10);
    run(rank, {NcclTestCall{}});
    EXPECT_NE(rank.error(), "");
  });
}

TEST_F(NcclVerify, AFaultOfTheLastCallIsSaidAtTheEnd) {
  const int saidBefore = countInLog("Broadcast of 4444 ");
  onRanks({1, 1}, [](NcclRank& rank) {
    if (rank.rank == 1) makeFaulty(*rank.communicator).plant(99);
    run(rank, {{.kind = zipcclNcclBroadcast, .count = 4444}});
    fakeStreamSynchronize(rank.stream);
  });
  EXPECT_EQ(countInLog("Broadcast of 4444 ") - saidBefore, 1);
}

TEST_F(NcclVerify, RanksThatDifferStayNative) {
  onRanks({1, 2}, [](NcclRank& rank) {
    EXPECT_FALSE(rank.communicator->compressionAgreed);
    run(rank, {NcclTestCall{}});
    EXPECT_EQ(rank.error(), "");
  });
  EXPECT_EQ(countInLog("the number of calls of which one is verified is 1 on rank 0, 2 on rank 1"),
            1);
}

}  // namespace
}  // namespace zipccl::collectives::testing
