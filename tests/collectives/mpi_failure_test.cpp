// SPDX-License-Identifier: Apache-2.0
//
// Failures with processes as ranks: a damaged frame and an abort end all ranks, and none hangs.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "all_gather_check.hpp"
#include "codec/layout.hpp"
#include "collectives/host_codec.hpp"
#include "damaging_transport.hpp"
#include "mpi_test_main.hpp"
#include "test_settings.hpp"
#include "transport/mpi_transport.hpp"

namespace zipccl::collectives {
namespace {

using testing::AllGatherCase;
using testing::Damage;
using testing::testSettings;
using transport::worldTransport;

/// The first error of this rank in a few calls; fails the test when there is none.
Error firstError(Communicator& communicator, const AllGatherCase& test) {
  const std::vector<testing::Shard> shards = testing::makeShards(test, communicator.rankCount());
  try {
    for (int call = 0; call < 3; ++call) {
      testing::checkAllGather(communicator, test, shards);
    }
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "rank " << communicator.rank() << " made all its calls";
  return Error(ErrorCode::kSuccess, "no error");
}

class MpiFailure : public ::testing::Test {
 protected:
  void TearDown() override { worldTransport().barrier(); }

  std::uint64_t seed_ = transport::sharedSeed();
};

TEST_F(MpiFailure, ADamagedFrameEndsAllRanks) {
  constexpr int kSender = 1;
  const std::uint64_t at =
      codec::frameLayout(codec::Datatype::kBfloat16, codec::Layout::kNarrow, 20'000, 0)
          .descriptorsAt +
      4 * (seed_ % 19) + 1;
  const Damage damage{.onSend =
                          [=](int rank, int index, std::span<std::byte> sent) {
                            if (rank == kSender && index == 0) sent[at] ^= std::byte{0x80};
                          },
                      .onReceive = {}};
  CommunicatorSettings settings = testSettings();
  settings.agreed.checksum = true;
  Communicator communicator(testing::damage(transport::loadMpiTransport(), damage), makeHostCodec(),
                            settings);
  const Error error = firstError(communicator, {.elementCount = 20'000, .seed = seed_});
  EXPECT_EQ(error.code(), ErrorCode::kRemoteError) << error.what();
  EXPECT_NE(error.message().find("the frame of rank 1 (call 0, chunk 0) is damaged: "),
            std::string::npos)
      << error.what();
  EXPECT_TRUE(communicator.asyncError());
}

TEST_F(MpiFailure, AbortOfOneRankEndsTheOthers) {
  Communicator communicator(transport::loadMpiTransport(), makeHostCodec(), testSettings());
  const AllGatherCase test{.elementCount = 20'000, .seed = seed_};
  testing::checkAllGather(communicator, test, testing::makeShards(test, communicator.rankCount()));
  if (communicator.rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    communicator.abort();
  }
  const Error error = firstError(communicator, test);
  EXPECT_EQ(error.code(), ErrorCode::kRemoteError) << error.what();
  EXPECT_NE(error.message().find("the application aborted"), std::string::npos) << error.what();
}

/// The others must not depend on what a rank does after its error, such as leaving at once.
TEST_F(MpiFailure, AFailureSeenByOneRankEndsTheOthersWhileItLives) {
  constexpr int kReceiver = 1;
  const Damage damage{
      .onSend = {},
      .onReceive = [](int rank, int index, std::span<std::byte> received, std::size_t shardBytes) {
        if (rank == kReceiver && index == 1) received[2 * shardBytes] ^= std::byte{1};
      }};
  Communicator communicator(testing::damage(transport::loadMpiTransport(), damage), makeHostCodec(),
                            testSettings());
  const Error error = firstError(communicator, {.elementCount = 20'000, .seed = seed_});
  EXPECT_EQ(error.code(), ErrorCode::kRemoteError) << error.what();
  EXPECT_NE(error.message().find("the frame of rank 2 (call 1, chunk 0) is damaged"),
            std::string::npos)
      << error.what();
  worldTransport().barrier();
}

TEST_F(MpiFailure, AnAbortIsToldByTheNextCall) {
  Communicator communicator(transport::loadMpiTransport(), makeHostCodec(), testSettings());
  // An abort would also end the handshake of a rank that is still in it.
  worldTransport().barrier();
  if (communicator.rank() == 0) communicator.abort();
  const Error error = firstError(communicator, {.elementCount = 20'000, .seed = seed_});
  EXPECT_EQ(error.code(), ErrorCode::kRemoteError) << error.what();
  EXPECT_NE(error.message().find("the application aborted"), std::string::npos) << error.what();
  worldTransport().barrier();
}

TEST_F(MpiFailure, ARankThatDoesNotComeIsNamed) {
  CommunicatorSettings settings = testSettings();
  settings.timeout = std::chrono::milliseconds(500);
  Communicator communicator(transport::loadMpiTransport(), makeHostCodec(), settings);
  if (communicator.rank() != 2) {
    const Error error = firstError(communicator, {.elementCount = 20'000, .seed = seed_});
    EXPECT_EQ(error.code(), ErrorCode::kRemoteError) << error.what();
    EXPECT_NE(error.message().find("rank 2"), std::string::npos) << error.what();
  }
  worldTransport().barrier();
}

}  // namespace
}  // namespace zipccl::collectives
