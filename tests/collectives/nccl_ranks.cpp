// SPDX-License-Identifier: Apache-2.0
//
// Ranks of the fake NCCL.

#include "nccl_ranks.hpp"

#include <gtest/gtest.h>

#include <barrier>
#include <utility>

#include "collectives/nccl_attach.hpp"
#include "collectives/nccl_rounds.hpp"
#include "fake_nccl_api.hpp"
#include "fake_nccl_fixture.hpp"

namespace zipccl::collectives::testing {
namespace {

constexpr int kSuccess = 0;

void addCalls(NcclRank& rank, const NcclTestCall& test, std::vector<zipcclNcclCall>& calls) {
  if (test.kind == zipcclNcclSend) {
    for (int peer = 0; peer < rank.count; ++peer) {
      if (peer == rank.rank) continue;
      calls.push_back(messageCall(rank, test, true, peer));
      calls.push_back(messageCall(rank, test, false, peer));
    }
    return;
  }
  const auto ranks = static_cast<std::uint64_t>(rank.count);
  const auto own = static_cast<std::uint64_t>(rank.rank);
  const auto root = static_cast<std::uint64_t>(test.root);
  const std::uint64_t bytes = test.count * elementBytes(test.datatype);
  const bool isRoot = rank.rank == test.root;
  const auto shard = [&](std::uint64_t parts) {
    return makeShard(test.seed, rank.rank, test.datatype, parts * test.count, test.content);
  };
  zipcclNcclCall call{};
  call.kind = test.kind;
  call.isGrouped = 1;
  call.count = test.count;
  call.datatype = static_cast<int>(test.datatype);
  call.peer = test.root;
  call.comm = rank.comm;
  call.stream = rank.stream;
  // Of input and output: parts, and where in the other buffer it stands in place.
  std::uint64_t in = 1;
  std::uint64_t out = 1;
  std::uint64_t place = 0;
  bool canBeInPlace = true;
  switch (test.kind) {
    case zipcclNcclAllGather:
      out = ranks;
      place = own;
      break;
    case zipcclNcclReduceScatter:
      in = ranks;
      place = own;
      break;
    case zipcclNcclAlltoAll:
      in = out = ranks;
      canBeInPlace = false;
      break;
    case zipcclNcclGather:
      out = isRoot ? ranks : 0;
      place = root;
      canBeInPlace = isRoot;
      break;
    case zipcclNcclScatter:
      in = isRoot ? ranks : 0;
      place = root;
      canBeInPlace = isRoot;
      break;
    default:
      break;
  }
  if (!test.isInPlace || !canBeInPlace) {
    call.sendbuff = rank.buffer(shard(in));
    call.recvbuff = rank.buffer(Shard(out * bytes, std::byte{0xA5}));
  } else if (in > out) {
    std::byte* const all = rank.buffer(shard(in));
    call.sendbuff = all;
    call.recvbuff = all + place * bytes;
  } else {
    std::byte* const all = rank.buffer(shard(out));
    call.sendbuff = all + place * bytes;
    call.recvbuff = all;
  }
  calls.push_back(call);
}

}  // namespace

std::byte* NcclRank::buffer(Shard content) {
  buffers.push_back(std::move(content));
  return buffers.back().data();
}

void NcclRank::runGroup(std::span<const zipcclNcclCall> calls) {
  std::vector<RoundCall> rounds;
  for (const zipcclNcclCall& call : calls) rounds.push_back({&call, communicator.get()});
  ASSERT_EQ(runRounds(zipccl::testing::fakeNcclApi(), rounds), kSuccess);
}

std::string NcclRank::error() const {
  fakeStreamSynchronize(stream);
  const std::optional<Error> error = communicator->asyncError();
  return error ? error->message() : "";
}

zipcclNcclCall messageCall(NcclRank& rank, const NcclTestCall& test, bool isOut, int peer) {
  const Shard content = makeShard(test.seed, rank.rank, test.datatype, test.count, test.content);
  std::byte* const at = rank.buffer(isOut ? content : Shard(content.size()));
  zipcclNcclCall call{};
  call.kind = isOut ? zipcclNcclSend : zipcclNcclRecv;
  call.isGrouped = 1;
  if (isOut) {
    call.sendbuff = at;
  } else {
    call.recvbuff = at;
  }
  call.count = test.count;
  call.datatype = static_cast<int>(test.datatype);
  call.peer = peer;
  call.comm = rank.comm;
  call.stream = rank.stream;
  return call;
}

void run(NcclRank& rank, const std::vector<NcclTestCall>& tests) {
  std::vector<zipcclNcclCall> calls;
  for (const NcclTestCall& test : tests) addCalls(rank, test, calls);
  rank.runGroup(calls);
}

void onNcclRanks(std::span<const CommunicatorSettings> settings,
                 const std::function<void(NcclRank&)>& work) {
  ASSERT_NE(zipccl::testing::fakeNcclApi().image, nullptr);
  const auto count = static_cast<int>(settings.size());
  std::barrier allAreDone(count);
  zipccl::testing::onFakeRanks(count, [&](int number, void* comm) {
    NcclRank rank;
    rank.rank = number;
    rank.count = count;
    rank.comm = comm;
    rank.communicator = attachNccl(zipccl::testing::fakeNcclApi(), rank.comm,
                                   settings[static_cast<std::size_t>(number)]);
    ASSERT_NE(rank.communicator, nullptr);
    rank.stream = fakeStreamCreate();
    work(rank);
    fakeStreamDestroy(rank.stream);
    allAreDone.arrive_and_wait();
    NcclCommunicator::destroy(std::move(rank.communicator));
  });
}

}  // namespace zipccl::collectives::testing
