// SPDX-License-Identifier: Apache-2.0
//
// The MPI transport with processes as ranks: the contract of all transports, and what is special to
// MPI. Its failures are in mpi_failure_test.cpp.

#include "transport/mpi_transport.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "contract.hpp"
#include "mpi_test_main.hpp"

namespace zipccl::transport {
namespace {

class MpiContract : public ::testing::TestWithParam<ContractCheck> {};

TEST_P(MpiContract, Holds) {
  const std::uint64_t seed = sharedSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  try {
    GetParam().run(worldTransport(), seed);
    worldTransport().barrier();
  } catch (const Error& error) {
    ADD_FAILURE() << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(All, MpiContract,
                         ::testing::ValuesIn(contractChecks().begin(), contractChecks().end()),
                         [](const auto& instance) { return instance.param.name; });

TEST(MpiTransport, KnowsItself) {
  EXPECT_EQ(worldTransport().name(), "mpi");
  EXPECT_EQ(worldTransport().memoryKind(), MemoryKind::kHost);
  const char* const size = std::getenv("OMPI_COMM_WORLD_SIZE");
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (size == nullptr || rank == nullptr) GTEST_SKIP() << "not started by OpenMPI's mpirun";
  EXPECT_EQ(std::to_string(worldTransport().rankCount()), size);
  EXPECT_EQ(std::to_string(worldTransport().rank()), rank);
}

/// Transports come and go; messages of one never reach another, and a rank may be far ahead.
TEST(MpiTransport, ManyInTurn) {
  const std::uint64_t seed = sharedSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  for (std::uint64_t round = 0; round < 12; ++round) {
    const std::unique_ptr<Transport> transport =
        loadMpiTransport({.timeout = std::chrono::seconds(60)});
    const auto ranks = static_cast<std::size_t>(transport->rankCount());
    const std::vector<std::byte> mine = patternOf(seed, transport->rank(), round, 3000);
    std::vector<std::byte> all(3000 * ranks);
    transport->allGather(mine.data(), all.data(), 3000);
    for (std::size_t r = 0; r < ranks; ++r) {
      EXPECT_TRUE(sameBytes(std::span(all).subspan(r * 3000, 3000),
                            patternOf(seed, static_cast<int>(r), round, 3000)));
    }
  }
}

TEST(MpiTransport, TwoAtOnce) {
  const std::uint64_t seed = sharedSeed();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  const std::unique_ptr<Transport> other = loadMpiTransport({.timeout = std::chrono::seconds(60)});
  const int rank = other->rank();
  const int peer = (rank + 1) % other->rankCount();
  const int source = (rank + other->rankCount() - 1) % other->rankCount();
  const std::vector<std::byte> first = patternOf(seed, rank, 1, 2000);
  const std::vector<std::byte> second = patternOf(seed, rank, 2, 2000);
  std::vector<std::byte> gotFirst(2000);
  std::vector<std::byte> gotSecond(2000);
  const SendMessage sendFirst{.peer = peer, .data = first.data(), .bytes = 2000};
  const SendMessage sendSecond{.peer = peer, .data = second.data(), .bytes = 2000};
  const ReceiveMessage receiveFirst{.peer = source, .data = gotFirst.data(), .bytes = 2000};
  const ReceiveMessage receiveSecond{.peer = source, .data = gotSecond.data(), .bytes = 2000};
  // Started in opposite orders: only the communicator tells the messages apart.
  Request a = worldTransport().startExchange({&sendFirst, 1}, {});
  Request b = other->startExchange({&sendSecond, 1}, {});
  Request c = other->startExchange({}, {&receiveSecond, 1});
  Request d = worldTransport().startExchange({}, {&receiveFirst, 1});
  other->wait(c);
  worldTransport().wait(d);
  worldTransport().wait(a);
  other->wait(b);
  EXPECT_TRUE(sameBytes(gotFirst, patternOf(seed, source, 1, 2000)));
  EXPECT_TRUE(sameBytes(gotSecond, patternOf(seed, source, 2, 2000)));
}

/// More bytes than an int counts, in one message and in one all-gather. Needs 14 GB of memory on 2
/// ranks, so it runs only when ZIPCCL_TEST_LARGE is set.
TEST(MpiTransport, MessagesBeyondTwoGigabytes) {
  const char* const isWanted = std::getenv("ZIPCCL_TEST_LARGE");
  if (isWanted == nullptr || std::string(isWanted) != "1") {
    GTEST_SKIP() << "ZIPCCL_TEST_LARGE=1 runs it";
  }
  Transport& transport = worldTransport();
  ASSERT_EQ(transport.rankCount(), 2);
  const std::size_t bytes = (std::size_t{1} << 31) + 4099;
  const int other = 1 - transport.rank();
  const auto fill = [&](std::vector<std::byte>& buffer, int rank) {
    for (std::size_t at = 0; at < bytes; at += 4096) {
      buffer[at] = static_cast<std::byte>(at / 4096 * 7 + static_cast<std::size_t>(rank));
    }
    buffer[bytes - 1] = std::byte{0x77};
  };
  const auto check = [&](const std::byte* buffer, int rank) {
    std::size_t wrongCount = buffer[bytes - 1] == std::byte{0x77} ? 0 : 1;
    for (std::size_t at = 0; at < bytes - 1; at += 4096) {
      const auto expected = static_cast<std::byte>(at / 4096 * 7 + static_cast<std::size_t>(rank));
      if (buffer[at] != expected) ++wrongCount;
    }
    EXPECT_EQ(wrongCount, 0u);
  };
  std::vector<std::byte> mine(bytes);
  std::vector<std::byte> all(2 * bytes);
  fill(mine, transport.rank());
  const SendMessage send{.peer = other, .data = mine.data(), .bytes = bytes};
  const ReceiveMessage receive{.peer = other, .data = all.data(), .bytes = bytes};
  transport.exchange({&send, 1}, {&receive, 1});
  check(all.data(), other);
  for (const bool isStarted : {false, true}) {
    std::fill(all.begin(), all.end(), std::byte{0xA5});
    if (isStarted) {
      Request request = transport.startAllGather(mine.data(), all.data(), bytes);
      transport.wait(request);
    } else {
      transport.allGather(mine.data(), all.data(), bytes);
    }
    check(all.data(), 0);
    check(all.data() + bytes, 1);
  }
}

}  // namespace
}  // namespace zipccl::transport
