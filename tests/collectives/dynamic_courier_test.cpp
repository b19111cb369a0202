// SPDX-License-Identifier: Apache-2.0
//
// Couriers of two ranks of one process, between which the test is the device: what was handed out
// arrives, whenever a rank leaves.

#include "collectives/dynamic_courier.hpp"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/shared_word.hpp"
#include "collectives/courier_thread.hpp"
#include "collectives/frame_note.hpp"
#include "support/seeded_test.hpp"
#include "transport/host_stream_device.hpp"

namespace zipccl::collectives::testing {
namespace {

using namespace std::chrono_literals;
using codec::kPieceBytes;
using codec::kWindowPieces;
using Bytes = std::vector<std::byte>;

/// A frame of random bits, whose rest does not fit its pool, with the note of message `call`.
struct Frame {
  Frame(Random& random, std::uint64_t call, std::uint64_t tileCount) {
    spec.elementCount = tileCount * codec::kTileElements;
    spec.poolBytes = 0;
    Bytes elements(spec.elementCount * 2);
    random.fill(elements);
    bytes.resize(codec::maxFrameBytes(spec.datatype, spec.elementCount));
    static_cast<void>(codec::encode(spec, elements.data(), bytes));
    sealHeader(bytes, {.call = call});
    const FrameReport report = readReport(bytes);
    part.assign(bytes.begin() + static_cast<std::ptrdiff_t>(codec::staticBytes(spec)),
                bytes.begin() +
                    static_cast<std::ptrdiff_t>(codec::staticBytes(spec) + report.dynamicBytes));
  }

  [[nodiscard]] GateFrame atGate(std::uint64_t call, int maker, std::vector<int> readers) const {
    GateFrame frame;
    frame.spec = spec;
    frame.place = {.call = call, .unit = "message"};
    frame.maker = maker;
    frame.readers = std::move(readers);
    return frame;
  }

  codec::FrameSpec spec;
  Bytes bytes;
  Bytes part;
};

class Couriers : public zipccl::testing::SeededTest {
 protected:
  Couriers() : device_(transport::findHostStreams(::dlopen(nullptr, RTLD_NOW)), 0) {
    std::vector<std::unique_ptr<transport::SideChannel>> channels;
    std::vector<transport::SideAddress> addresses;
    for (int rank = 0; rank < 2; ++rank) {
      channels.push_back(std::make_unique<transport::SideChannel>(rank, 2));
      addresses.push_back(channels.back()->address());
    }
    for (int rank = 0; rank < 2; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      channels[at]->setPeers(addresses);
      couriers_[at] = std::make_unique<DynamicCourier>(
          device_, std::move(channels[at]), rank,
          [](const Error& error) { ADD_FAILURE() << error.what(); });
    }
  }

  static void showHeader(const codec::Gate& gate, const Frame& frame) {
    std::memcpy(gate.slot->headers[0], frame.bytes.data(), codec::kHeaderBytes);
    storeRelease(gate.slot->number, gate.number);
  }

  /// What a kernel at an export gate does.
  static void exportPart(const codec::Gate& gate, const Frame& frame) {
    showHeader(gate, frame);
    codec::DynamicWindow& window = *gate.window;
    for (std::uint64_t done = 0; done < frame.part.size(); done += kPieceBytes) {
      const std::uint64_t piece = window.exported;
      while (!codec::hasPlace(piece, loadAcquire(window.taken))) std::this_thread::sleep_for(10us);
      std::memcpy(window.out[piece % kWindowPieces], frame.part.data() + done,
                  codec::pieceBytesAt(frame.part.size(), done));
      storeRelease(window.exported, piece + 1);
    }
  }

  static Bytes importPart(const codec::Gate& gate, const Frame& frame) {
    showHeader(gate, frame);
    codec::DynamicWindow& window = *gate.window;
    Bytes part(frame.part.size());
    const auto start = std::chrono::steady_clock::now();
    for (std::uint64_t done = 0; done < part.size(); done += kPieceBytes) {
      const std::uint64_t piece = window.imported;
      while (piece >= loadAcquire(window.given)) {
        if (std::chrono::steady_clock::now() - start > 100s) return {};
        std::this_thread::sleep_for(10us);
      }
      std::memcpy(part.data() + done, window.in[piece % kWindowPieces],
                  codec::pieceBytesAt(part.size(), done));
      storeRelease(window.imported, piece + 1);
    }
    return part;
  }

  transport::HostStreamDevice device_;
  std::array<std::unique_ptr<DynamicCourier>, 2> couriers_;
};

TEST_F(Couriers, BringPartsWhoseMakerLeavesAtOnce) {
  const Frame frame(random_, 0, 3000);
  ASSERT_GT(frame.part.size(), kWindowPieces * kPieceBytes);
  std::thread reader([&] {
    std::this_thread::sleep_for(300ms);
    const codec::Gate gate = couriers_[0]->openImport({frame.atGate(0, 1, {})});
    EXPECT_EQ(importPart(gate, frame), frame.part);
  });
  exportPart(couriers_[1]->openExport({frame.atGate(0, 1, {0})}), frame);
  couriers_[1].reset();
  reader.join();
}

TEST_F(Couriers, TakeWhatTheDeviceHandedOutBeforeTheyEnd) {
  const Frame frame(random_, 0, 100);
  ASSERT_GT(frame.part.size(), 0U);
  ASSERT_LE(frame.part.size(), kWindowPieces * kPieceBytes);
  // Nobody looks for it before it ends, as when the thread is late.
  DynamicCourier* const maker = couriers_[1].get();
  ASSERT_TRUE(CourierThread::instance().remove(maker));
  exportPart(maker->openExport({frame.atGate(0, 1, {0})}), frame);
  std::this_thread::sleep_for(10ms);
  CourierThread::instance().add(maker);
  std::thread reader([&] {
    const codec::Gate gate = couriers_[0]->openImport({frame.atGate(0, 1, {})});
    EXPECT_EQ(importPart(gate, frame), frame.part);
  });
  couriers_[1].reset();
  reader.join();
}

TEST_F(Couriers, LetAForkedChildEnd) {
  for (const bool destroysThem : {false, true}) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::alarm(20);
      if (destroysThem) {
        for (auto& courier : couriers_) courier.reset();
      }
      std::exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  const Frame frame(random_, 0, 3000);
  std::thread reader([&] {
    EXPECT_EQ(importPart(couriers_[0]->openImport({frame.atGate(0, 1, {})}), frame), frame.part);
  });
  exportPart(couriers_[1]->openExport({frame.atGate(0, 1, {0})}), frame);
  reader.join();
}

}  // namespace
}  // namespace zipccl::collectives::testing
