// SPDX-License-Identifier: Apache-2.0
//
// A transport that damages data on its way.

#include "damaging_transport.hpp"

#include <deque>
#include <utility>
#include <vector>

namespace zipccl::collectives::testing {
namespace {

using transport::ReceiveMessage;
using transport::Request;
using transport::SendMessage;
using transport::StreamHandle;
using transport::Transport;

class DamagingTransport final : public Transport {
 public:
  DamagingTransport(std::unique_ptr<Transport> inner, const Damage& damage)
      : Transport(inner->rank(), inner->rankCount()),
        inner_(std::move(inner)),
        damage_(damage),
        messages_(static_cast<std::size_t>(rankCount())) {}

  [[nodiscard]] std::string_view name() const noexcept override { return inner_->name(); }
  [[nodiscard]] bool hasFailed() const noexcept override { return inner_->hasFailed(); }
  [[nodiscard]] std::optional<Error> failure() const override { return inner_->failure(); }
  [[nodiscard]] bool mayStillTouchBuffers() const noexcept override {
    return inner_->mayStillTouchBuffers();
  }

 private:
  [[nodiscard]] Request doStartAllGather(const void* send, void* receive, std::size_t bytesPerRank,
                                         StreamHandle stream) override {
    const int index = allGathers_++;
    const auto* from = static_cast<const std::byte*>(send);
    std::vector<std::byte> sent(from, from + bytesPerRank);
    if (damage_.onSend) damage_.onSend(rank(), index, sent);
    withTimeout().allGather(sent.data(), receive, bytesPerRank, stream);
    const std::span received(static_cast<std::byte*>(receive),
                             bytesPerRank * static_cast<std::size_t>(rankCount()));
    if (damage_.onReceive) damage_.onReceive(rank(), index, received, bytesPerRank);
    return Request();
  }

  [[nodiscard]] Request doStartBroadcast(void* buffer, std::size_t bytes, int root,
                                         StreamHandle stream) override {
    return withTimeout().startBroadcast(buffer, bytes, root, stream);
  }

  [[nodiscard]] Request doStartExchange(std::span<const SendMessage> sends,
                                        std::span<const ReceiveMessage> receives,
                                        StreamHandle stream) override {
    std::vector<SendMessage> changed(sends.begin(), sends.end());
    for (SendMessage& message : changed) {
      if (!damage_.onMessage) break;
      const auto* from = static_cast<const std::byte*>(message.data);
      std::vector<std::byte>& copy = kept_.emplace_back(from, from + message.bytes);
      int& index = messages_[static_cast<std::size_t>(message.peer)];
      damage_.onMessage(rank(), message.peer, index++, copy);
      message.data = copy.data();
    }
    return withTimeout().startExchange(changed, receives, stream);
  }

  void doBarrier() override {
    withTimeout().barrier();
    if (damage_.onBarrier) damage_.onBarrier(rank());
  }

  void doAllGatherControl(std::span<const std::byte> mine, std::span<std::byte> all,
                          std::chrono::milliseconds timeout) override {
    inner_->allGatherControl(mine, all, timeout);
  }

  void doAbort(std::string_view reason) noexcept override { inner_->abort(reason); }
  void doSpreadFailure() noexcept override { inner_->tellOthers(); }
  void doLearnHosts(std::span<const std::uint32_t> hostOfRank) override {
    inner_->learnHosts(hostOfRank);
  }

  Transport& withTimeout() {
    inner_->setTimeout(timeout());
    return *inner_;
  }

  std::deque<std::vector<std::byte>> kept_;  ///< what is sent in exchanges, to the end
  std::unique_ptr<Transport> inner_;
  Damage damage_;
  int allGathers_ = 0;
  std::vector<int> messages_;
};

}  // namespace

std::unique_ptr<Transport> damage(std::unique_ptr<Transport> inner, const Damage& damage) {
  return std::make_unique<DamagingTransport>(std::move(inner), damage);
}

}  // namespace zipccl::collectives::testing
