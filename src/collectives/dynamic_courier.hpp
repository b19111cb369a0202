// SPDX-License-Identifier: Apache-2.0
//
// Carries dynamic parts between the devices of ranks, beside NCCL: from the window of the rank that
// made a frame through its host, by a side channel, to the windows of its readers. Most frames have
// none; then a header is all that the courier sees of them, and it keeps what that tells.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "codec/dynamic_window.hpp"
#include "collectives/frame_check.hpp"
#include "collectives/window_end.hpp"
#include "transport/device.hpp"
#include "transport/side_channel.hpp"

namespace zipccl::collectives {

/// Hears what the headers of frames say; in the thread that makes calls.
class FrameObserver {
 public:
  FrameObserver() = default;
  FrameObserver(const FrameObserver&) = delete;
  FrameObserver& operator=(const FrameObserver&) = delete;
  virtual ~FrameObserver() = default;

  virtual void observe(const codec::FrameSpec& spec, const FrameReport& report, int maker) = 0;
};

/// A frame at a gate.
struct GateFrame {
  codec::FrameSpec spec;
  FramePlace place;
  int maker = 0;
  std::vector<int> readers;  ///< at an export gate
  std::shared_ptr<FrameObserver> observer;
  FrameReport report;  ///< known once the gate has passed
};

/// One rank's courier. Gates are opened in the order in which one stream passes them, by one thread
/// at a time; progress() and abort() are for any thread.
class DynamicCourier {
 public:
  /// `onFailure` hears of the first error, in any thread. The device must be current, here and at
  /// the end.
  DynamicCourier(transport::Device& device, std::unique_ptr<transport::SideChannel> channel,
                 int rank, std::function<void(const Error&)> onFailure);
  DynamicCourier(const DynamicCourier&) = delete;
  DynamicCourier& operator=(const DynamicCourier&) = delete;
  /// Brings what the device has handed out on its way, if the readers take it in time; else it says
  /// so. In a forked child, nothing.
  ~DynamicCourier();

  /// Whether openExport() or openImport() would not have to wait for earlier gates.
  [[nodiscard]] bool mayOpen() const;
  /// A gate for up to codec::kMostGateFrames frames, to be put on the stream at once. Only where
  /// mayOpen().
  [[nodiscard]] codec::Gate openExport(std::vector<GateFrame> frames);
  [[nodiscard]] codec::Gate openImport(std::vector<GateFrame> frames);

  /// Does what can be done without waiting. Returns whether anything was done.
  bool progress();
  /// Whether there is anything that progress() will have to do.
  [[nodiscard]] bool isBusy() const;

  /// Whether readers have yet to get something that the device has begun to hand out.
  [[nodiscard]] bool owes() const;

  /// Bytes of dynamic parts that went to readers; for any thread.
  [[nodiscard]] std::uint64_t sentBytes() const noexcept {
    return sentBytes_.load(std::memory_order_relaxed);
  }

  /// Tells observers of the frames of gates that have passed, in order.
  void tellObservers();

  /// Ends what the device waits for at gates: it passes them with what it has.
  void abort() noexcept;

 private:
  static constexpr std::size_t kSlots = 64;

  struct Ticket {
    std::uint64_t number = 0;
    bool isExport = false;
    bool isRead = false;  ///< its headers are
    std::vector<GateFrame> frames;
    std::size_t next = 0;  ///< the frame whose dynamic part is being moved
  };

  void flush();
  [[nodiscard]] codec::Gate open(std::vector<GateFrame> frames, bool isExport);
  [[nodiscard]] codec::DynamicWindow& windowOf() const noexcept;
  [[nodiscard]] codec::GateSlot& slotOf(std::uint64_t number) const noexcept;
  [[nodiscard]] bool progressLocked();
  [[nodiscard]] bool progressTicket(Ticket& ticket);
  void readHeaders(Ticket& ticket);
  /// Whether the part is done with.
  [[nodiscard]] bool exportPart(const GateFrame& frame);
  [[nodiscard]] bool importPart(const GateFrame& frame);
  void failLocked(const Error& error);
  [[nodiscard]] bool hasEnded() const noexcept {
    return hasFailed_ || isAborted_.load(std::memory_order_acquire);
  }

  int rank_;
  std::function<void(const Error&)> onFailure_;
  transport::SharedMemory windowMemory_;
  transport::SharedMemory slots_;
  WindowEnd window_;
  std::atomic<bool> isAborted_ = false;
  std::atomic<std::uint64_t> sentBytes_ = 0;

  mutable std::mutex mutex_;  ///< guards what follows
  std::unique_ptr<transport::SideChannel> channel_;
  std::deque<Ticket> tickets_;
  std::uint64_t gateCount_ = 0;
  std::deque<Ticket> passed_;  ///< gates whose observers have not heard yet
  bool hasFailed_ = false;

  // Of the part that is being moved.
  std::vector<std::byte> taken_;
  std::optional<transport::SideMessage> arriving_;
  std::uint64_t givenBytes_ = 0;
};

}  // namespace zipccl::collectives
