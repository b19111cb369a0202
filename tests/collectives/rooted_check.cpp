// SPDX-License-Identifier: Apache-2.0
//
// One call with a root, compared with what was sent.

#include "rooted_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "collectives/broadcast.hpp"
#include "collectives/gather_scatter.hpp"
#include "support/guarded_buffer.hpp"

namespace zipccl::collectives::testing {
namespace {

using zipccl::testing::GuardedBuffer;

Shard partOf(const RootedCase& test, int rank) {
  return makeShard(test.seed, rank, test.datatype, test.elementCount,
                   test.contents[static_cast<std::size_t>(rank) % test.contents.size()]);
}

/// The parts of all ranks, one after the other.
Shard allParts(const RootedCase& test, int rankCount) {
  Shard all;
  for (int rank = 0; rank < rankCount; ++rank) {
    const Shard part = partOf(test, rank);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

/// The call with its buffers; either may be null where it does not count.
void makeCall(Communicator& communicator, const RootedCase& test, const std::byte* send,
              std::byte* receive) {
  switch (test.kind) {
    case Rooted::kBroadcast:
      communicator.call(
          BroadcastArguments{send, receive, test.elementCount, test.datatype, test.root, {}});
      break;
    case Rooted::kGather:
      communicator.call(
          GatherArguments{send, receive, test.elementCount, test.datatype, test.root, {}});
      break;
    case Rooted::kScatter:
      communicator.call(
          ScatterArguments{send, receive, test.elementCount, test.datatype, test.root, {}});
      break;
  }
}

}  // namespace

std::string_view rootedName(Rooted kind) noexcept {
  switch (kind) {
    case Rooted::kBroadcast:
      return "Broadcast";
    case Rooted::kGather:
      return "Gather";
    case Rooted::kScatter:
      return "Scatter";
  }
  return "?";
}

void checkRooted(Communicator& communicator, const RootedCase& test) {
  const int self = communicator.rank();
  const int ranks = communicator.rankCount();
  const bool isRoot = self == test.root;
  const std::size_t partBytes = test.elementCount * elementBytes(test.datatype);
  const std::size_t allBytes = partBytes * static_cast<std::size_t>(ranks);
  const std::size_t ownAt = static_cast<std::size_t>(self) * partBytes;
  const std::size_t misalignment = test.misalignedElements * elementBytes(test.datatype);
  const bool inPlace = test.inPlace && isRoot;

  // The buffer that is as large as the root needs it, and the one with this rank's part.
  const bool isBroadcast = test.kind == Rooted::kBroadcast;
  GuardedBuffer all(!isRoot ? 0 : isBroadcast ? partBytes : allBytes, misalignment);
  GuardedBuffer own(inPlace ? 0 : partBytes, misalignment);
  const std::span<std::byte> ownSpan =
      inPlace ? all.bytes().subspan(isBroadcast ? 0 : ownAt, partBytes) : own.bytes();

  Shard expected;
  std::span<std::byte> output;
  switch (test.kind) {
    case Rooted::kBroadcast:
      expected = partOf(test, test.root);
      if (isRoot) put(all.bytes(), expected);
      output = ownSpan;
      makeCall(communicator, test, isRoot ? all.bytes().data() : nullptr, output.data());
      break;
    case Rooted::kGather:
      if (isRoot) expected = allParts(test, ranks);
      put(ownSpan, partOf(test, self));
      output = all.bytes();
      makeCall(communicator, test, ownSpan.data(), isRoot ? output.data() : nullptr);
      break;
    case Rooted::kScatter:
      expected = partOf(test, self);
      if (isRoot) put(all.bytes(), allParts(test, ranks));
      output = ownSpan;
      makeCall(communicator, test, isRoot ? all.bytes().data() : nullptr, output.data());
      break;
  }

  const auto wrong = std::mismatch(expected.begin(), expected.end(), output.begin()).first;
  if (wrong != expected.end()) {
    ADD_FAILURE() << "rank " << self << " of " << ranks << " got byte " << wrong - expected.begin()
                  << " of " << expected.size() << " wrong (" << rootedName(test.kind) << " of "
                  << datatypeName(test.datatype) << ", " << test.elementCount << " elements, root "
                  << test.root << (inPlace ? ", in place" : "") << ", seed " << test.seed << ")";
  }
  if (test.kind == Rooted::kScatter && isRoot) {
    const Shard input = allParts(test, ranks);
    EXPECT_TRUE(std::equal(input.begin(), input.end(), all.bytes().begin()));
  }
  EXPECT_TRUE(all.isIntact());
  EXPECT_TRUE(own.isIntact());
}

}  // namespace zipccl::collectives::testing
