// SPDX-License-Identifier: Apache-2.0
//
// A host codec that notes when each frame was decoded.

#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "forwarding_codec.hpp"

namespace zipccl::collectives::testing {

class DecodeTimes {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit DecodeTimes(int rankCount) : times_(static_cast<std::size_t>(rankCount)) {}

  /// A codec for `rank`, which must not outlive this.
  [[nodiscard]] std::unique_ptr<FrameCodec> codecOf(int rank) {
    return std::make_unique<Codec>(times_[static_cast<std::size_t>(rank)]);
  }

  /// The ends of the decodes of `rank`; not while it is in a call.
  [[nodiscard]] const std::vector<TimePoint>& of(int rank) const {
    return times_[static_cast<std::size_t>(rank)];
  }

 private:
  class Codec final : public ForwardingCodec {
   public:
    explicit Codec(std::vector<TimePoint>& times) : times_(times) {}

    void decode(const codec::FrameSpec& expected, const FrameParts& frame,
                std::span<std::byte> output, codec::DecodeStatus* status,
                transport::StreamHandle stream) override {
      ForwardingCodec::decode(expected, frame, output, status, stream);
      times_.push_back(std::chrono::steady_clock::now());
    }

   private:
    std::vector<TimePoint>& times_;
  };

  std::vector<std::vector<TimePoint>> times_;
};

}  // namespace zipccl::collectives::testing
