// SPDX-License-Identifier: Apache-2.0
//
// Gates on the GPU: what holds on every device, and what a gate costs that has nothing to move.

#include "gpu/dynamic_gate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <vector>

#include "base/shared_word.hpp"
#include "codec/bytes.hpp"
#include "codec/layout.hpp"
#include "collectives/gate_check.hpp"
#include "collectives/gpu_stream_codec.hpp"
#include "gpu/empty_kernel.hpp"
#include "gpu/gpu_testing.hpp"
#include "transport/cuda_device.hpp"

namespace zipccl::gpu::testing {
namespace {

using collectives::testing::GateRig;

class GpuGates : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (IsSkipped()) return;
    device_ = transport::openCudaDevice(0);
    codec_ = collectives::makeGpuStreamCodec(*device_);
  }

  std::unique_ptr<transport::Device> device_;
  std::unique_ptr<collectives::StreamCodec> codec_;
};

TEST_F(GpuGates, PartsOfAllSizesPass) {
  GateRig rig(*device_, *codec_);
  const int rounds = usesExactBuffers() ? 2 : 60;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    collectives::testing::checkParts(rig, random_, round % 8 == 7 ? 32U << 20 : 1U << 20);
  }
}

TEST_F(GpuGates, FramesAreDecodedToWhatWasEncoded) {
  GateRig rig(*device_, *codec_);
  const int rounds = usesExactBuffers() ? 1 : 12;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE(::testing::Message() << "round " << round);
    collectives::testing::checkFrames(rig, random_, usesExactBuffers() ? 50'000 : 2'000'000);
  }
  EXPECT_GT(loadAcquire(rig.window().imported), 0U) << "no pool was too small";
}

TEST_F(GpuGates, PartsWithoutRoomStayWhereTheyAre) {
  GateRig rig(*device_, *codec_);
  collectives::testing::checkPartsWithoutRoom(rig, random_);
}

TEST_F(GpuGates, AnAbortEndsExports) {
  for (int repeat = 0; repeat < 5 && !HasFailure(); ++repeat) {
    GateRig rig(*device_, *codec_);
    collectives::testing::checkAbortOfExport(rig, random_);
  }
}

TEST_F(GpuGates, AnAbortEndsImports) {
  for (int repeat = 0; repeat < 5 && !HasFailure(); ++repeat) {
    GateRig rig(*device_, *codec_);
    collectives::testing::checkAbortOfImport(rig, random_);
  }
}

TEST_F(GpuGates, NothingWaitsBehindAnAbort) {
  GateRig rig(*device_, *codec_);
  collectives::testing::checkGatesAfterAbort(rig, random_);
}

TEST_F(GpuGates, TakeNoneToManyFrames) {
  GateRig rig(*device_, *codec_);
  collectives::testing::checkNumbersOfFrames(rig);
}

/// Microseconds of one of `launches` calls of `launch`, the least of several rounds: put on the
/// stream by the host, or by a graph, which is not held up by it.
double launchUs(const Stream& stream, int launches, bool isGraph,
                const std::function<void()>& launch) {
  const auto launchAll = [&] {
    for (int i = 0; i < launches; ++i) launch();
  };
  std::unique_ptr<Graph> graph;
  if (isGraph) graph = std::make_unique<Graph>(stream, launchAll);
  const Event start(Event::Timing::kOn);
  const Event end(Event::Timing::kOn);
  double leastUs = 0;
  for (int round = 0; round < 6; ++round) {
    start.record(stream.get());
    if (isGraph) {
      graph->launch(stream.get());
    } else {
      launchAll();
    }
    end.record(stream.get());
    end.synchronize();
    const double us = end.elapsedUsSince(start) / launches;
    leastUs = round == 0 ? us : std::min(leastUs, us);
  }
  return leastUs;
}

TEST_F(GpuGates, ThatMoveNothingAreShort) {
  if (usesExactBuffers()) GTEST_SKIP() << "times mean nothing under compute-sanitizer";
  constexpr int kLaunches = 1000;
  constexpr double kMostUs = 10;  // beyond an empty kernel; 3 are expected
  GateRig rig(*device_, *codec_);
  for (const std::size_t frames : {std::size_t{1}, std::size_t{16}, codec::kMostGateFrames}) {
    Bytes headers(frames * codec::kHeaderBytes);
    for (std::size_t i = 0; i < frames; ++i) {
      codec::HeaderBytes header{};
      header.poolBytes = 4096;
      header.extraBytes = random_.below(4097);
      codec::storeWord(headers.data() + i * codec::kHeaderBytes, header);
    }
    const GuardedDeviceBuffer memory(stream(), headers);
    const GuardedDeviceBuffer place(stream(), 128);
    std::vector<codec::DynamicPart> parts;
    for (std::size_t i = 0; i < frames; ++i) {
      parts.push_back({memory.data() + i * codec::kHeaderBytes, place.data(), place.bytes()});
    }
    for (const bool isGraph : {false, true}) {
      const double emptyUs = launchUs(stream(), kLaunches, isGraph, [&] {
        check(launchEmptyKernel(stream().get()), "launching a kernel that does nothing");
      });
      codec::Gate last;
      const double gateUs = launchUs(stream(), kLaunches, isGraph, [&] {
        last = rig.nextGate();
        exportDynamic(parts, last, stream().get());
      });
      std::cout << "a gate of " << frames << " frames that moves nothing, in a "
                << (isGraph ? "graph: " : "stream: ") << gateUs << " us, an empty kernel "
                << emptyUs << " us, ratio " << gateUs / emptyUs << '\n';
      EXPECT_LT(gateUs, emptyUs + kMostUs);
      EXPECT_TRUE(collectives::WindowEnd::hasPassed(*last.slot, last.number));
      EXPECT_TRUE(
          equalBytes(std::as_bytes(std::span(last.slot->headers)).first(headers.size()), headers));
    }
  }
}

}  // namespace
}  // namespace zipccl::gpu::testing
