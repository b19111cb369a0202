// SPDX-License-Identifier: Apache-2.0
//
// Reductions and calls with a root, with processes as ranks: the cases of the threads, over the MPI
// transport. Every rank runs every test; inputs follow from a seed that rank 0 chose.

#include <gtest/gtest.h>

#include <chrono>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "collectives/host_codec.hpp"
#include "damaging_transport.hpp"
#include "mpi_test_main.hpp"
#include "reduce_check.hpp"
#include "reference_reduction.hpp"
#include "rooted_check.hpp"
#include "test_settings.hpp"
#include "transport/mpi_transport.hpp"

namespace zipccl::collectives {
namespace {

using testing::Content;
using testing::kAllContents;
using testing::ReduceCase;
using testing::RootedCase;
using testing::testSettings;
using transport::worldTransport;

class MpiReduce : public ::testing::Test {
 protected:
  void TearDown() override { worldTransport().barrier(); }

  static std::unique_ptr<Communicator> communicatorWith(const CommunicatorSettings& settings) {
    return std::make_unique<Communicator>(transport::loadMpiTransport(), makeHostCodec(), settings);
  }

  static void check(Communicator& communicator, const ReduceCase& test) {
    testing::checkReduce(communicator, test,
                         testing::expectedResult(test, communicator.rankCount()));
  }

  std::uint64_t seed_ = transport::sharedSeed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  Random random_{seed_};
};

TEST_F(MpiReduce, NativeAndStagedFollowTheDocumentedOrder) {
  for (const StrategyChoice strategy : {StrategyChoice::kNative, StrategyChoice::kStaged}) {
    const auto communicator = communicatorWith(testSettings(strategy));
    for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32}) {
      for (const std::uint64_t count : {0, 1, 1025, 20 * 1024 + 1}) {
        for (const bool isAllReduce : {false, true}) {
          check(*communicator,
                {.isAllReduce = isAllReduce,
                 .datatype = datatype,
                 .reduction = random_.chance(0.5) ? Reduction{.op = ReduceOp::kAvg}
                                                  : testing::preMulSum(datatype, 0.7),
                 .elementCount = count,
                 .contents = {Content::kPatchwork},
                 .inPlace = random_.chance(0.5),
                 .seed = random_()});
        }
      }
    }
  }
}

TEST_F(MpiReduce, IntegersAndOtherOperations) {
  const auto communicator = communicatorWith(testSettings());
  for (const Datatype datatype : {Datatype::kInt32, Datatype::kUint8, Datatype::kBfloat16}) {
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kAvg}) {
      check(*communicator, {.isAllReduce = random_.chance(0.5),
                            .datatype = datatype,
                            .reduction = {.op = op},
                            .elementCount = 5001,
                            .seed = random_()});
    }
  }
}

TEST_F(MpiReduce, LargeInSeveralChunks) {
  const auto communicator = communicatorWith(testSettings());
  for (const bool isAllReduce : {false, true}) {
    check(*communicator, {.isAllReduce = isAllReduce,
                          .elementCount = isAllReduce ? 4'800'000U : 1'200'000U,
                          .seed = random_()});
  }
  EXPECT_GE(communicator->statistics().chunks, 2U * 2U * 3U);
}

TEST_F(MpiReduce, CallsWithARoot) {
  const auto communicator = communicatorWith(testSettings());
  const int ranks = communicator->rankCount();
  int root = 0;
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat32, Datatype::kInt64}) {
    for (const std::uint64_t count : {0, 1, 1025, 20 * 1024 + 1, 1'300'000}) {
      for (const testing::Rooted kind : testing::kAllRooted) {
        root = (root + 1) % ranks;
        testing::checkRooted(*communicator, {.kind = kind,
                                             .datatype = datatype,
                                             .elementCount = count,
                                             .root = root,
                                             .contents = {Content::kPatchwork, Content::kGaussian},
                                             .inPlace = random_.chance(0.5),
                                             .seed = random_()});
      }
    }
  }
}

TEST_F(MpiReduce, RandomCalls) {
  for (int round = 0; round < 3; ++round) {
    CommunicatorSettings settings = testSettings();
    settings.agreed.checksum = random_.chance(0.5);
    settings.agreed.maxScratchBytes = std::uint64_t{1} << random_.between(17, 24);
    const auto communicator = communicatorWith(settings);
    for (int call = 0; call < 20; ++call) {
      ReduceCase test;
      test.isAllReduce = random_.chance(0.5);
      test.datatype = random_.chance(0.5) ? Datatype::kBfloat16 : Datatype::kFloat32;
      test.reduction = {.op = static_cast<ReduceOp>(random_.below(5))};
      test.elementCount = random_.below(std::uint64_t{1} << random_.between(0, 15));
      test.contents = {kAllContents[random_.below(std::size(kAllContents))], Content::kGaussian};
      test.inPlace = random_.chance(0.5);
      test.seed = random_();
      check(*communicator, test);
    }
  }
}

}  // namespace
}  // namespace zipccl::collectives
