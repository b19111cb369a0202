// SPDX-License-Identifier: Apache-2.0
//
// One exchange between pairs of ranks, compared with what was sent.

#include "pair_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "collectives/all_to_all.hpp"
#include "collectives/send_receive.hpp"
#include "support/guarded_buffer.hpp"

namespace zipccl::collectives::testing {
namespace {

using zipccl::testing::GuardedBuffer;

/// Parts of one buffer in rank order; AlltoAllv and groups leave gaps between them.
struct Parts {
  Parts(const PairCase& test, int self, int rankCount, bool isSend) {
    const bool hasGaps = test.way != Way::kAllToAll;
    std::size_t at = 0;
    for (int rank = 0; rank < rankCount; ++rank) {
      at += hasGaps ? static_cast<std::size_t>(1 + rank % 3) : 0;
      offsets.push_back(at);
      counts.push_back(isSend ? test.count(self, rank) : test.count(rank, self));
      at += counts.back();
    }
    elementCount = at + (hasGaps ? 2 : 0);
  }

  std::vector<std::size_t> counts;
  std::vector<std::size_t> offsets;
  std::size_t elementCount = 0;
};

void makeCall(Communicator& communicator, const PairCase& test, const Parts& sends,
              std::byte* source, const Parts& receives, std::byte* target) {
  if (test.way == Way::kAllToAll) {
    communicator.call(AllToAllArguments{source, target, test.elementCount, test.datatype, {}});
    return;
  }
  if (test.way == Way::kAllToAllv) {
    communicator.call(AllToAllvArguments{source,
                                         sends.counts,
                                         sends.offsets,
                                         target,
                                         receives.counts,
                                         receives.offsets,
                                         test.datatype,
                                         {}});
    return;
  }
  const std::uint64_t bytesEach = elementBytes(test.datatype);
  std::vector<PointToPoint> operations;
  for (int peer = 0; peer < communicator.rankCount(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    operations.push_back({.isSend = true,
                          .source = source + sends.offsets[at] * bytesEach,
                          .target = nullptr,
                          .elementCount = sends.counts[at],
                          .datatype = test.datatype,
                          .peer = peer});
    operations.push_back({.isSend = false,
                          .source = nullptr,
                          .target = target + receives.offsets[at] * bytesEach,
                          .elementCount = receives.counts[at],
                          .datatype = test.datatype,
                          .peer = peer});
  }
  // Any order is allowed, on each rank its own.
  Random random(test.seed, static_cast<std::uint64_t>(communicator.rank()));
  for (std::size_t i = operations.size(); i > 1; --i) {
    std::swap(operations[i - 1], operations[random.below(i)]);
  }
  communicator.sendReceiveGroup(operations);
}

}  // namespace

std::string_view wayName(Way way) noexcept {
  switch (way) {
    case Way::kAllToAll:
      return "AlltoAll";
    case Way::kAllToAllv:
      return "AlltoAllv";
    case Way::kGroup:
      return "Group";
  }
  return "?";
}

Shard PairCase::part(int from, int to) const {
  return makeShard(seed, 1000 * (to + 1) + from, datatype, count(from, to),
                   contents[static_cast<std::size_t>(from) % contents.size()]);
}

void checkPairs(Communicator& communicator, const PairCase& test) {
  const int self = communicator.rank();
  const int ranks = communicator.rankCount();
  const std::size_t bytesEach = elementBytes(test.datatype);
  const Parts sends(test, self, ranks, true);
  const Parts receives(test, self, ranks, false);
  GuardedBuffer send(sends.elementCount * bytesEach, test.misalignedElements * bytesEach);
  GuardedBuffer receive(receives.elementCount * bytesEach, test.misalignedElements * bytesEach);
  const std::span<std::byte> sent = send.bytes();
  for (int peer = 0; peer < ranks; ++peer) {
    const Shard part = test.part(self, peer);
    const std::size_t at = sends.offsets[static_cast<std::size_t>(peer)] * bytesEach;
    if (!part.empty()) std::memcpy(sent.data() + at, part.data(), part.size());
  }
  const Shard before(sent.begin(), sent.end());
  Shard expected(receive.bytes().begin(), receive.bytes().end());

  makeCall(communicator, test, sends, sent.data(), receives, receive.bytes().data());

  for (int peer = 0; peer < ranks; ++peer) {
    const Shard part = test.part(peer, self);
    const std::size_t at = receives.offsets[static_cast<std::size_t>(peer)] * bytesEach;
    std::copy(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(at));
  }
  const auto wrong = std::mismatch(expected.begin(), expected.end(), receive.bytes().begin()).first;
  if (wrong != expected.end()) {
    ADD_FAILURE() << "rank " << self << " of " << ranks << " got byte " << wrong - expected.begin()
                  << " of " << expected.size() << " wrong (" << wayName(test.way) << " of "
                  << datatypeName(test.datatype) << ", " << test.elementCount << " elements, seed "
                  << test.seed << ")";
  }
  EXPECT_TRUE(std::equal(before.begin(), before.end(), sent.begin())) << "the input was changed";
  EXPECT_TRUE(send.isIntact()) << "a write around the send buffer";
  EXPECT_TRUE(receive.isIntact()) << "a write around the receive buffer";
}

}  // namespace zipccl::collectives::testing
