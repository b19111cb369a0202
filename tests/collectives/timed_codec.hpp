// SPDX-License-Identifier: Apache-2.0
//
// A host codec that notes when each frame was decoded.

#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "forwarding_codec.hpp"

namespace zipccl::collectives::testing {

class DecodeTimes {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit DecodeTimes(int rankCount) : DecodeTimes(rankCount, nullptr) {}
  /// Counts all decodes in `count`, which may be in memory that processes share.
  DecodeTimes(int rankCount, std::atomic<int>* count)
      : count_(count != nullptr ? *count : ownCount_),
        times_(static_cast<std::size_t>(rankCount)) {}

  /// A codec for `rank`, which must not outlive this.
  [[nodiscard]] std::unique_ptr<FrameCodec> codecOf(int rank) {
    return std::make_unique<Codec>(times_[static_cast<std::size_t>(rank)], count_);
  }

  /// Returns when there were `count` decodes, of all ranks, or in half a minute. At any time.
  void await(int count) const {
    const TimePoint end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (count_ < count && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  /// The ends of the decodes of `rank`; not while it is in a call.
  [[nodiscard]] const std::vector<TimePoint>& of(int rank) const {
    return times_[static_cast<std::size_t>(rank)];
  }

 private:
  class Codec final : public ForwardingCodec {
   public:
    Codec(std::vector<TimePoint>& times, std::atomic<int>& count) : times_(times), count_(count) {}

    void decode(const codec::FrameSpec& expected, const FrameParts& frame,
                std::span<std::byte> output, codec::DecodeStatus* status,
                transport::StreamHandle stream) override {
      ForwardingCodec::decode(expected, frame, output, status, stream);
      times_.push_back(std::chrono::steady_clock::now());
      ++count_;
    }

   private:
    std::vector<TimePoint>& times_;
    std::atomic<int>& count_;
  };

  std::atomic<int> ownCount_ = 0;
  std::atomic<int>& count_;
  std::vector<std::vector<TimePoint>> times_;
};

}  // namespace zipccl::collectives::testing
