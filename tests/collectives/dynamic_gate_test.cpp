// SPDX-License-Identifier: Apache-2.0
//
// Gates and the host's end of their window, on streams of the host: threads that are late at
// random.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "base/shared_word.hpp"
#include "collectives/gate_check.hpp"
#include "collectives/host_stream_codec.hpp"
#include "fake_nccl.h"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"
#include "transport/host_stream_device.hpp"

namespace zipccl::collectives::testing {
namespace {

using codec::kPieceBytes;
using codec::kWindowPieces;

class HostGates : public zipccl::testing::SeededTest {
 protected:
  HostGates()
      : device_(transport::findHostStreams(::dlopen(nullptr, RTLD_NOW)), 0),
        codec_(makeHostStreamCodec(device_)) {
    fakeSetJitterUs(random_.chance(0.5) ? 0 : 200);
  }
  ~HostGates() override { fakeSetJitterUs(0); }

  transport::HostStreamDevice device_;
  std::unique_ptr<StreamCodec> codec_;
};

TEST_F(HostGates, PartsOfAllSizesPass) {
  GateRig rig(device_, *codec_);
  const std::uint64_t rounds =
      zipccl::testing::repeats(zipccl::testing::kIsSanitized ? 4 : 12, 300);
  for (std::uint64_t round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    checkParts(rig, random_, round % 4 == 3 ? 12U << 20 : 1U << 20);
  }
}

TEST_F(HostGates, FramesAreDecodedToWhatWasEncoded) {
  GateRig rig(device_, *codec_);
  const std::uint64_t rounds = zipccl::testing::repeats(zipccl::testing::kIsSanitized ? 2 : 3, 60);
  for (std::uint64_t round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    checkFrames(rig, random_, 300'000);
  }
  EXPECT_GT(loadAcquire(rig.window().imported), 0U) << "no pool was too small";
}

TEST_F(HostGates, PartsWithoutRoomStayWhereTheyAre) {
  GateRig rig(device_, *codec_);
  checkPartsWithoutRoom(rig, random_);
}

TEST_F(HostGates, AnAbortEndsExports) {
  for (int repeat = 0; repeat < 5 && !HasFailure(); ++repeat) {
    GateRig rig(device_, *codec_);
    checkAbortOfExport(rig, random_);
  }
}

TEST_F(HostGates, AnAbortEndsImports) {
  for (int repeat = 0; repeat < 5 && !HasFailure(); ++repeat) {
    GateRig rig(device_, *codec_);
    checkAbortOfImport(rig, random_);
  }
}

TEST_F(HostGates, NothingWaitsBehindAnAbort) {
  GateRig rig(device_, *codec_);
  checkGatesAfterAbort(rig, random_);
}

TEST_F(HostGates, TakeNoneToManyFrames) {
  GateRig rig(device_, *codec_);
  checkNumbersOfFrames(rig);
}

/// A window whose other end is the test.
class WindowEnds : public zipccl::testing::SeededTest {
 protected:
  void exportPieces(std::uint64_t count) {
    for (; count > 0; --count) {
      random_.fill(window_->out[window_->exported % kWindowPieces]);
      storeRelease(window_->exported, window_->exported + 1);
    }
  }

  std::unique_ptr<codec::DynamicWindow> window_{new codec::DynamicWindow()};
};

TEST_F(WindowEnds, TakeWhatIsThere) {
  WindowEnd end(*window_);
  std::vector<std::byte> into;
  EXPECT_TRUE(end.take(into, 0));
  const std::uint64_t bytes = 3 * kPieceBytes + 5;
  EXPECT_FALSE(end.take(into, bytes));
  exportPieces(2);
  EXPECT_FALSE(end.take(into, bytes));
  ASSERT_EQ(into.size(), 2 * kPieceBytes);
  EXPECT_EQ(std::memcmp(into.data(), window_->out, 2 * kPieceBytes), 0);
  EXPECT_EQ(window_->taken, 2U);
  exportPieces(4);
  EXPECT_TRUE(end.take(into, bytes));
  ASSERT_EQ(into.size(), bytes);
  EXPECT_EQ(std::memcmp(into.data() + 2 * kPieceBytes, window_->out[2], kPieceBytes + 5), 0);
  EXPECT_EQ(window_->taken, 4U) << "the next part's pieces are not this one's";
  std::vector<std::byte> next;
  EXPECT_TRUE(end.take(next, kPieceBytes + 1));
  EXPECT_EQ(window_->taken, 6U);
  EXPECT_EQ(std::memcmp(next.data(), window_->out, kPieceBytes + 1), 0);
}

TEST_F(WindowEnds, GiveAsMuchAsThereIsRoomFor) {
  WindowEnd end(*window_);
  std::vector<std::byte> part(kWindowPieces * kPieceBytes + 3 * kPieceBytes / 2);
  random_.fill(part);
  std::uint64_t givenBytes = 0;
  EXPECT_TRUE(end.give({}, givenBytes));
  EXPECT_FALSE(end.give(part, givenBytes));
  EXPECT_EQ(givenBytes, kWindowPieces * kPieceBytes);
  EXPECT_EQ(window_->given, kWindowPieces);
  EXPECT_EQ(std::memcmp(window_->in, part.data(), givenBytes), 0);
  EXPECT_FALSE(end.give(part, givenBytes));
  EXPECT_EQ(givenBytes, kWindowPieces * kPieceBytes);
  storeRelease(window_->imported, 1);
  EXPECT_FALSE(end.give(part, givenBytes));
  EXPECT_EQ(window_->given, kWindowPieces + 1);
  EXPECT_EQ(std::memcmp(window_->in[1], part.data() + kPieceBytes, kPieceBytes), 0)
      << "a place that is not free was written";
  storeRelease(window_->imported, 4);
  EXPECT_TRUE(end.give(part, givenBytes));
  EXPECT_EQ(givenBytes, part.size());
  EXPECT_EQ(window_->given, kWindowPieces + 2);
  EXPECT_EQ(
      std::memcmp(window_->in[1], part.data() + (kWindowPieces + 1) * kPieceBytes, kPieceBytes / 2),
      0);
}

TEST_F(WindowEnds, GoOnWhereAnEarlierEndWas) {
  exportPieces(3);
  std::vector<std::byte> into;
  EXPECT_TRUE(WindowEnd(*window_).take(into, 2 * kPieceBytes));
  std::vector<std::byte> last;
  EXPECT_TRUE(WindowEnd(*window_).take(last, 7));
  EXPECT_EQ(std::memcmp(last.data(), window_->out[2], 7), 0);
  WindowEnd(*window_).abort();
  EXPECT_NE(window_->isAborted, 0U);
}

}  // namespace
}  // namespace zipccl::collectives::testing
