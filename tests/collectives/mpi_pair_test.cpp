// SPDX-License-Identifier: Apache-2.0
//
// Exchanges between pairs with processes as ranks: the cases of the threads, over the MPI
// transport. Every rank runs every test; inputs follow from a seed that rank 0 chose.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "collectives/frame_geometry.hpp"
#include "collectives/host_codec.hpp"
#include "collectives/send_receive.hpp"
#include "mpi_test_main.hpp"
#include "pair_check.hpp"
#include "policy/chunks.hpp"
#include "test_settings.hpp"
#include "timed_codec.hpp"
#include "transport/mpi_transport.hpp"

namespace zipccl::collectives {
namespace {

using testing::checkPairs;
using testing::Content;
using testing::kAllContents;
using testing::kAllWays;
using testing::PairCase;
using testing::testSettings;
using testing::Way;
using transport::worldTransport;

class MpiPairs : public ::testing::Test {
 protected:
  void TearDown() override { worldTransport().barrier(); }

  static std::unique_ptr<Communicator> communicatorWith(const CommunicatorSettings& settings) {
    return std::make_unique<Communicator>(transport::loadMpiTransport(), makeHostCodec(), settings);
  }

  std::vector<std::vector<std::uint64_t>> unevenCounts(std::uint64_t bound) {
    const auto ranks = static_cast<std::size_t>(worldTransport().rankCount());
    std::vector counts(ranks, std::vector<std::uint64_t>(ranks));
    for (auto& row : counts) {
      for (std::uint64_t& count : row) count = random_.chance(0.33) ? 0 : random_.below(bound);
    }
    return counts;
  }

  std::uint64_t seed_ = transport::sharedSeed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  Random random_{seed_};
};

TEST_F(MpiPairs, CountsAndDatatypesEveryWay) {
  const auto communicator = communicatorWith(testSettings());
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat32, Datatype::kInt64}) {
    for (const std::uint64_t count : {0, 1, 33, 1024, 8193, 20 * 1024 + 1}) {
      for (const Way way : kAllWays) {
        checkPairs(*communicator, {.way = way,
                                   .datatype = datatype,
                                   .elementCount = count,
                                   .misalignedElements = random_.below(64),
                                   .seed = random_()});
      }
    }
  }
  if (communicator->rankCount() > 1) {
    EXPECT_EQ(communicator->statistics().stagedCalls, 2U * 5U * 3U);
  }
}

TEST_F(MpiPairs, SeveralChunksInFlightWithDynamicPartsInBetween) {
  CommunicatorSettings settings = testSettings();
  const policy::FrameGeometry geometry = frameGeometry(codec::Datatype::kFloat32);
  settings.agreed.maxScratchBytes = policy::kFramesOfPair *
                                    static_cast<std::uint64_t>(worldTransport().rankCount() - 1) *
                                    policy::frameBoundBytes(geometry, geometry.groupElements);
  const auto communicator = communicatorWith(settings);
  for (const Content content : {Content::kPatchwork, Content::kManyEscapes}) {
    checkPairs(*communicator, {.datatype = Datatype::kFloat32,
                               .elementCount = 50'001,
                               .contents = {content, Content::kGaussian},
                               .seed = random_()});
  }
  EXPECT_GE(communicator->statistics().chunks, 2U * 7U * 6U);
  EXPECT_LE(communicator->statistics().scratchBytes, settings.agreed.maxScratchBytes);
}

TEST_F(MpiPairs, MillionElements) {
  const auto communicator = communicatorWith(testSettings());
  checkPairs(*communicator, {.elementCount = 1'000'000, .seed = random_()});
}

TEST_F(MpiPairs, SendAndRecvAloneAlongTheLine) {
  const auto communicator = communicatorWith(testSettings());
  const testing::Shard source =
      testing::makeShard(seed_, 0, Datatype::kBfloat16, 300'000, Content::kPatchwork);
  testing::Shard target(source.size());
  const int self = communicator->rank();
  if (self > 0) {
    communicator->sendReceive(
        {false, nullptr, target.data(), 300'000, Datatype::kBfloat16, self - 1});
    EXPECT_TRUE(target == source);
  }
  if (self + 1 < communicator->rankCount()) {
    communicator->sendReceive(
        {true, source.data(), nullptr, 300'000, Datatype::kBfloat16, self + 1});
  }
  checkPairs(*communicator, {.elementCount = 5000, .seed = seed_});
}

/// A counter in memory that the processes share.
class SharedCount {
 public:
  SharedCount() {
    std::vector<pid_t> processes(static_cast<std::size_t>(worldTransport().rankCount()));
    const pid_t own = ::getpid();
    worldTransport().allGather(&own, processes.data(), sizeof(own));
    const std::string name = "/zipccl-test-" + std::to_string(processes.front());
    const bool isFirst = worldTransport().rank() == 0;
    if (isFirst) {
      const int file = ::shm_open(name.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
      EXPECT_EQ(::ftruncate(file, sizeof(std::atomic<int>)), 0);
      ::close(file);
    }
    worldTransport().barrier();
    const int file = ::shm_open(name.c_str(), O_RDWR | O_CLOEXEC, 0);
    memory_ =
        ::mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    ::close(file);
    worldTransport().barrier();
    if (isFirst) ::shm_unlink(name.c_str());
    if (memory_ == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  }
  SharedCount(const SharedCount&) = delete;
  SharedCount& operator=(const SharedCount&) = delete;
  ~SharedCount() { ::munmap(memory_, sizeof(std::atomic<int>)); }

  /// Zero at the start, as all new shared memory is.
  [[nodiscard]] std::atomic<int>& get() const { return *static_cast<std::atomic<int>*>(memory_); }

 private:
  static_assert(std::atomic<int>::is_always_lock_free);
  void* memory_;
};

TEST_F(MpiPairs, OfEarlyRanksAreDoneBeforeALateRankComes) {
  const int late = worldTransport().rankCount() - 1;
  const auto ranks = static_cast<std::size_t>(worldTransport().rankCount());
  const SharedCount decoded;
  testing::DecodeTimes times(worldTransport().rankCount(), &decoded.get());
  Communicator communicator(transport::loadMpiTransport(), times.codecOf(worldTransport().rank()),
                            testSettings());
  const bool isLate = communicator.rank() == late;
  const PairCase test{.elementCount = 100'000, .seed = seed_};
  const auto microseconds = [](std::chrono::steady_clock::time_point time) {
    return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
  };
  worldTransport().barrier();
  if (isLate) times.await(late * (late - 1));
  // One host: all processes read the same clock.
  const std::int64_t arrival = microseconds(std::chrono::steady_clock::now());
  checkPairs(communicator, test);
  std::vector<std::int64_t> arrivals(ranks);
  worldTransport().allGather(&arrival, arrivals.data(), sizeof(arrival));
  std::size_t early = 0;
  for (const auto& time : times.of(communicator.rank())) {
    early += microseconds(time) < arrivals[static_cast<std::size_t>(late)] ? 1U : 0U;
  }
  EXPECT_EQ(times.of(communicator.rank()).size(), ranks - 1);
  EXPECT_EQ(early, isLate ? 0U : ranks - 2);
}

TEST_F(MpiPairs, RandomCalls) {
  for (int round = 0; round < 3; ++round) {
    CommunicatorSettings settings = testSettings();
    settings.agreed.checksum = random_.chance(0.5);
    settings.agreed.maxScratchBytes = std::uint64_t{1} << random_.between(17, 24);
    const auto communicator = communicatorWith(settings);
    for (int call = 0; call < 25; ++call) {
      PairCase test;
      test.way = kAllWays[random_.below(std::size(kAllWays))];
      test.datatype = random_.chance(0.5) ? Datatype::kBfloat16 : Datatype::kFloat32;
      const std::uint64_t bound = std::uint64_t{1} << random_.between(0, 15);
      test.elementCount = random_.below(bound);
      if (test.way != Way::kAllToAll) test.counts = unevenCounts(bound);
      test.contents.clear();
      for (int rank = 0; rank < communicator->rankCount(); ++rank) {
        test.contents.push_back(kAllContents[random_.below(std::size(kAllContents))]);
      }
      test.misalignedElements = random_.below(64);
      test.seed = random_();
      checkPairs(*communicator, test);
    }
  }
}

}  // namespace
}  // namespace zipccl::collectives
