// SPDX-License-Identifier: Apache-2.0
//
// One AllGather, compared with the shards it was made of.

#include "all_gather_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "support/guarded_buffer.hpp"

namespace zipccl::collectives::testing {
namespace {

using zipccl::testing::GuardedBuffer;

/// Where two byte strings of one length differ first, or their length.
std::size_t firstDifference(std::span<const std::byte> a, std::span<const std::byte> b) {
  return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin()).first - a.begin());
}

}  // namespace

std::vector<Shard> makeShards(const AllGatherCase& test, int rankCount) {
  std::vector<Shard> shards;
  for (int rank = 0; rank < rankCount; ++rank) {
    shards.push_back(
        makeShard(test.seed, rank, test.datatype, test.elementCount, test.contentOf(rank)));
  }
  return shards;
}

void checkAllGather(Communicator& communicator, const AllGatherCase& test,
                    const std::vector<Shard>& shards) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const std::size_t shardBytes = test.elementCount * elementBytes(test.datatype);
  const std::size_t misalignment = test.misalignedElements * elementBytes(test.datatype);
  GuardedBuffer receive(shardBytes * shards.size(), misalignment);
  GuardedBuffer send(test.inPlace ? 0 : shardBytes, misalignment);
  const std::span<std::byte> input =
      test.inPlace ? receive.bytes().subspan(rank * shardBytes, shardBytes) : send.bytes();
  put(input, shards[rank]);

  communicator.allGather(input.data(), receive.bytes().data(), test.elementCount, test.datatype);

  for (std::size_t peer = 0; peer < shards.size(); ++peer) {
    const std::span<std::byte> got = receive.bytes().subspan(peer * shardBytes, shardBytes);
    const std::size_t at = firstDifference(got, shards[peer]);
    if (at == shardBytes) continue;
    ADD_FAILURE() << "rank " << rank << " of " << shards.size() << " got the shard of rank " << peer
                  << " wrong from byte " << at << " of " << shardBytes << " on ("
                  << datatypeName(test.datatype) << ", " << test.elementCount << " elements, "
                  << contentName(test.contentOf(static_cast<int>(peer)))
                  << (test.inPlace ? ", in place" : "") << ", seed " << test.seed << ")";
  }
  if (!test.inPlace) {
    EXPECT_EQ(firstDifference(send.bytes(), shards[rank]), shardBytes) << "the input was changed";
    EXPECT_TRUE(send.isIntact()) << "a write around the send buffer";
  }
  EXPECT_TRUE(receive.isIntact()) << "a write around the receive buffer";
}

}  // namespace zipccl::collectives::testing
