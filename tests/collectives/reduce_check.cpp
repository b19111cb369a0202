// SPDX-License-Identifier: Apache-2.0
//
// One reduction, compared with the reference.

#include "reduce_check.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "collectives/all_reduce.hpp"
#include "collectives/reduce_scatter.hpp"
#include "reference_reduction.hpp"
#include "support/guarded_buffer.hpp"

namespace zipccl::collectives::testing {
namespace {

using zipccl::testing::GuardedBuffer;

std::uint64_t inputElements(const ReduceCase& test, int rankCount) {
  return test.isAllReduce ? test.elementCount
                          : test.elementCount * static_cast<std::uint64_t>(rankCount);
}

void makeCall(Communicator& communicator, const ReduceCase& test, const std::byte* send,
              std::byte* receive) {
  if (test.isAllReduce) {
    communicator.call(
        AllReduceArguments{send, receive, test.elementCount, test.datatype, test.reduction, {}});
  } else {
    communicator.call(ReduceScatterArguments{
        send, receive, test.elementCount, test.datatype, test.reduction, {}});
  }
}

}  // namespace

Shard ReduceCase::input(int rank, int rankCount) const {
  return makeShard(seed, rank, datatype, inputElements(*this, rankCount),
                   contents[static_cast<std::size_t>(rank) % contents.size()]);
}

Shard expectedResult(const ReduceCase& test, int rankCount) {
  std::vector<Shard> inputs;
  for (int rank = 0; rank < rankCount; ++rank) inputs.push_back(test.input(rank, rankCount));
  return referenceReduction(test.datatype, test.reduction, inputs);
}

void checkReduce(Communicator& communicator, const ReduceCase& test, const Shard& expected) {
  const int ranks = communicator.rankCount();
  const std::size_t bytesEach = elementBytes(test.datatype);
  const std::size_t outputBytes = test.elementCount * bytesEach;
  const std::size_t misalignment = test.misalignedElements * bytesEach;
  const Shard input = test.input(communicator.rank(), ranks);
  GuardedBuffer send(input.size(), misalignment);
  GuardedBuffer receive(test.inPlace ? 0 : outputBytes, misalignment);
  put(send.bytes(), input);
  const std::size_t partAt =
      test.isAllReduce ? 0 : static_cast<std::size_t>(communicator.rank()) * outputBytes;
  const std::span<std::byte> output =
      test.inPlace ? send.bytes().subspan(partAt, outputBytes) : receive.bytes();

  makeCall(communicator, test, send.bytes().data(), output.data());

  const auto wanted = std::span(expected).subspan(partAt, outputBytes);
  const auto wrong = std::mismatch(wanted.begin(), wanted.end(), output.begin()).first;
  if (wrong != wanted.end()) {
    ADD_FAILURE() << "rank " << communicator.rank() << " of " << ranks << " got byte "
                  << wrong - wanted.begin() << " of " << outputBytes << " wrong ("
                  << (test.isAllReduce ? "AllReduce " : "ReduceScatter ")
                  << reduceOpName(test.reduction.op) << " of " << datatypeName(test.datatype)
                  << ", " << test.elementCount << " elements" << (test.inPlace ? ", in place" : "")
                  << ", seed " << test.seed << ")";
  }
  // In place other ranks' parts of a ReduceScatter stay.
  Shard left = input;
  if (test.inPlace) {
    std::copy(wanted.begin(), wanted.end(), left.begin() + static_cast<std::ptrdiff_t>(partAt));
  }
  EXPECT_TRUE(std::equal(left.begin(), left.end(), send.bytes().begin()))
      << "the input was changed";
  EXPECT_TRUE(send.isIntact()) << "a write around the send buffer";
  EXPECT_TRUE(receive.isIntact()) << "a write around the receive buffer";
}

}  // namespace zipccl::collectives::testing
