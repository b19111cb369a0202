// SPDX-License-Identifier: Apache-2.0
//
// Every implementation of a tile, one by one: that the machine runs those that it can, that each
// can be forced, and that each gives the reference's bytes without touching any outside its pieces.
// Whole frames go through every implementation in all tests that use codec_testing.hpp.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

#include "codec/tile_bytes.hpp"
#include "codec/tile_codec.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::codec::testing {
namespace {

/// The flags of the first processor, as the kernel lists them.
std::set<std::string> cpuFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

bool machineRuns(HostCodecChoice choice) {
  return tileCodecFor(choice).name() == std::string(hostCodecChoiceName(choice));
}

TEST(Implementations, ScalarIsTheLastResort) {
  ASSERT_FALSE(tileCodecs().empty());
  EXPECT_EQ(tileCodecs().back(), &scalarTileCodec());
  EXPECT_TRUE(machineRuns(HostCodecChoice::kScalar));
}

TEST(Implementations, Avx2RunsWhereTheMachineHasIt) {
  const std::set<std::string> flags = cpuFlags();
  const bool expected = flags.contains("avx2") && flags.contains("bmi2") && flags.contains("f16c");
  EXPECT_EQ(machineRuns(HostCodecChoice::kAvx2), expected);
}

TEST(Implementations, Avx512RunsWhereTheMachineHasIt) {
  const std::set<std::string> flags = cpuFlags();
  bool expected = machineRuns(HostCodecChoice::kAvx2);
  for (const char* flag :
       {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vbmi2"}) {
    expected = expected && flags.contains(flag);
  }
  EXPECT_EQ(machineRuns(HostCodecChoice::kAvx512), expected);
  if (!expected) GTEST_SKIP() << "this machine has no AVX-512 with VBMI2";
}

TEST(Implementations, EachIsChosenByItsName) {
  for (const TileCodec* codec : tileCodecs()) {
    int chosenBy = 0;
    for (const auto choice :
         {HostCodecChoice::kScalar, HostCodecChoice::kAvx2, HostCodecChoice::kAvx512}) {
      chosenBy += hostCodecChoiceName(choice) == codec->name() ? 1 : 0;
      if (hostCodecChoiceName(choice) == codec->name()) {
        EXPECT_EQ(&tileCodecFor(choice), codec);
      }
    }
    EXPECT_EQ(chosenBy, 1) << codec->name();
  }
  EXPECT_EQ(&tileCodecFor(HostCodecChoice::kAuto), tileCodecs().front());
}

class Tiles : public zipccl::testing::SeededTest {};

TEST_F(Tiles, GiveTheBytesOfTheReference) {
  for (const TileCodec* codec : tileCodecs()) expectBytesOfTheReference(*codec, random_, 300);
}

TEST_F(Tiles, OfAnyBytesDecodeAlike) {
  for (const TileCodec* codec : tileCodecs()) expectDecodesAnyBytesAlike(*codec, random_, 5000);
}

}  // namespace
}  // namespace zipccl::codec::testing
