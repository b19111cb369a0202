// SPDX-License-Identifier: Apache-2.0
//
// AllGather with processes as ranks: the cases of the threads, over the MPI transport. Every rank
// runs every test; inputs follow from a seed that rank 0 chose.

#include <gtest/gtest.h>

#include <iterator>
#include <memory>
#include <vector>

#include "all_gather_check.hpp"
#include "collectives/frame_geometry.hpp"
#include "collectives/host_codec.hpp"
#include "mpi_test_main.hpp"
#include "policy/chunks.hpp"
#include "test_settings.hpp"
#include "transport/mpi_transport.hpp"

namespace zipccl::collectives {
namespace {

using testing::AllGatherCase;
using testing::Content;
using testing::kAllContents;
using testing::testSettings;
using transport::worldTransport;

class MpiAllGather : public ::testing::Test {
 protected:
  void TearDown() override { worldTransport().barrier(); }

  static std::unique_ptr<Communicator> communicatorWith(const CommunicatorSettings& settings) {
    return std::make_unique<Communicator>(transport::loadMpiTransport(), makeHostCodec(), settings);
  }

  static void check(Communicator& communicator, const AllGatherCase& test) {
    testing::checkAllGather(communicator, test,
                            testing::makeShards(test, communicator.rankCount()));
  }

  std::uint64_t seed_ = transport::sharedSeed();
  ::testing::ScopedTrace trace_{__FILE__, __LINE__, ::testing::Message() << "seed " << seed_};
  Random random_{seed_};
};

TEST_F(MpiAllGather, CountsAndDatatypesInPlaceAndNot) {
  const auto communicator = communicatorWith(testSettings());
  for (const Datatype datatype : {Datatype::kBfloat16, Datatype::kFloat16, Datatype::kFloat32,
                                  Datatype::kInt64, Datatype::kUint8}) {
    for (const std::uint64_t count : {0, 1, 33, 1023, 1024, 1025, 8193, 20 * 1024 + 1}) {
      for (const bool inPlace : {false, true}) {
        check(*communicator, {.datatype = datatype,
                              .elementCount = count,
                              .inPlace = inPlace,
                              .misalignedElements = random_.below(64),
                              .seed = random_()});
      }
    }
  }
  if (communicator->rankCount() > 1) {
    EXPECT_EQ(communicator->statistics().stagedCalls, 3U * 7U * 2U);
  }
}

TEST_F(MpiAllGather, MillionElements) {
  const auto communicator = communicatorWith(testSettings());
  check(*communicator, {.elementCount = 1'000'000, .inPlace = true, .seed = random_()});
}

TEST_F(MpiAllGather, OneRankWithALargeDynamicPart) {
  const auto communicator = communicatorWith(testSettings());
  const std::vector<Content> contents = {Content::kGaussian, Content::kGaussian,
                                         Content::kManyEscapes, Content::kGaussian};
  for (int call = 0; call < 2; ++call) {
    check(*communicator, {.elementCount = 50 * 1024, .contents = contents, .seed = random_()});
    EXPECT_EQ(communicator->statistics().dynamicCalls, 1U) << "the second pool holds it";
  }
}

TEST_F(MpiAllGather, SmallScratchMeansManyChunksWithinIt) {
  CommunicatorSettings settings = testSettings();
  const policy::FrameGeometry geometry = frameGeometry(codec::Datatype::kFloat32);
  settings.agreed.maxScratchBytes = static_cast<std::uint64_t>(worldTransport().rankCount() + 1) *
                                    policy::frameBoundBytes(geometry, geometry.groupElements);
  const auto communicator = communicatorWith(settings);
  check(*communicator, {.datatype = Datatype::kFloat32,
                        .elementCount = 50'001,
                        .contents = {Content::kPatchwork},
                        .seed = random_()});
  EXPECT_EQ(communicator->statistics().chunks, 7U);
  EXPECT_LE(communicator->statistics().scratchBytes, settings.agreed.maxScratchBytes);
}

TEST_F(MpiAllGather, SettingsThatDifferMeanNative) {
  CommunicatorSettings settings = testSettings();
  settings.agreed.minBytes = worldTransport().rank() == 1 ? 1 : 0;
  const auto communicator = communicatorWith(settings);
  EXPECT_FALSE(communicator->compressionAgreed());
  EXPECT_EQ(communicator->differences(),
            "the minimum of bytes is 0 on ranks 0, 2 and 3, 1 on rank 1");
  check(*communicator, {.elementCount = 20'000, .seed = random_()});
  EXPECT_EQ(communicator->statistics().nativeCalls, 1U);
}

TEST_F(MpiAllGather, AutoMeasuresAndAgrees) {
  const auto communicator = communicatorWith(testSettings(StrategyChoice::kAuto));
  EXPECT_TRUE(policy::isUsable(communicator->profile()));
  check(*communicator, {.elementCount = 100'000, .seed = random_()});
}

TEST_F(MpiAllGather, RandomCalls) {
  for (int round = 0; round < 3; ++round) {
    CommunicatorSettings settings = testSettings();
    settings.agreed.checksum = random_.chance(0.5);
    settings.agreed.maxScratchBytes = std::uint64_t{1} << random_.between(16, 24);
    const auto communicator = communicatorWith(settings);
    for (int call = 0; call < 25; ++call) {
      AllGatherCase test;
      test.datatype = random_.chance(0.5) ? Datatype::kBfloat16 : Datatype::kFloat32;
      test.elementCount = random_.below(std::uint64_t{1} << random_.between(0, 15));
      test.contents.clear();
      for (int rank = 0; rank < communicator->rankCount(); ++rank) {
        test.contents.push_back(kAllContents[random_.below(std::size(kAllContents))]);
      }
      test.inPlace = random_.chance(0.5);
      test.misalignedElements = random_.below(64);
      test.seed = random_();
      check(*communicator, test);
    }
  }
}

}  // namespace
}  // namespace zipccl::collectives
