// SPDX-License-Identifier: Apache-2.0
//
// The side channel: one rank's end of a mesh of TCP connections between the ranks of one
// communicator, for the rare bytes whose number only the data decides. NCCL's own operations need
// sizes that both ends know before; these do not.
//
// Each ordered pair of ranks with something to send gets a connection of its own, in one direction,
// made for its first message; side_wire.hpp has what it says. The owner drives all of them from its
// own loop: there is no thread in here.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "transport/side_context.hpp"
#include "transport/side_wire.hpp"
#include "transport/tcp_socket.hpp"

namespace zipccl::transport {

class SideReceiver;
class SideSender;

/// One rank's end. Not thread-safe: one thread at a time uses it. It belongs to the process that
/// made it: a forked child may destroy its copy, which leaves the parent's as it is, and do nothing
/// else with it.
///
/// Order: messages from one rank to another arrive in the order in which they were sent, each
/// whole. There is no order between pairs.
///
/// Progress: bytes move only inside progress(), verify() and flush(). As long as all ranks come
/// back to one of these and take what receive() has for them, no order of calls can deadlock.
///
/// Errors: Error(kRemoteError), with ranks, addresses and the system's words, when a connection in
/// use breaks: a peer cannot be reached, is gone with messages for it unsent, is gone in the middle
/// of a message, or breaks the protocol. It sticks: send(), verify(), progress() and flush() throw
/// it again, while receive() gives what is here. Error(kSystemError) when this process lacks
/// descriptors or memory; the call may be made again.
/// A peer that ends its connection between messages is no error; see isClosed(). The death of a
/// peer that has never sent to this rank, nor was sent to, cannot be seen from here.
class SideChannel {
 public:
  /// Listens on the interface that NCCL would choose for its bootstrap (network_interface.hpp).
  /// Throws Error(kInvalidArgument) unless 0 <= rank < rankCount, Error(kSystemError) where no
  /// interface fits or the system refuses.
  SideChannel(int rank, int rankCount, const SideLimits& limits = {});
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  /// Closes everything at once. What was unsent is lost; what was not still arrives.
  ~SideChannel();

  [[nodiscard]] int rank() const noexcept { return context_.rank; }
  [[nodiscard]] int rankCount() const noexcept { return rankCount_; }

  /// This rank's own.
  [[nodiscard]] const SideAddress& address() const noexcept { return context_.own; }

  /// The addresses of all ranks in rank order, this one's among them; once, before anything moves.
  /// Throws Error(kInvalidArgument) where one is missing or the own is not address().
  void setPeers(std::vector<SideAddress> addresses);

  /// Proves, when all ranks call it, that they reach each other in a ring: this one connects to the
  /// next and is connected to by the previous. Throws Error(kRemoteError) by `deadline`, which
  /// tells what failed and how to mend it; ranks between which all is well do not learn of that.
  /// The connection stays for use.
  void verify(std::chrono::steady_clock::time_point deadline);

  /// Queues a message to another rank. `bytes` may be shared by many messages and must not change.
  /// Throws Error(kInvalidArgument) on a wrong argument, and as above.
  void send(int peer, const SideTag& tag, std::shared_ptr<const std::vector<std::byte>> bytes);

  /// The next message of another rank, if it is here. Moves nothing by itself.
  [[nodiscard]] std::optional<SideMessage> receive(int peer);

  /// Whether that rank has ended its connection to this one and all its messages are received.
  [[nodiscard]] bool isClosed(int peer) const;

  /// Connects, accepts, sends and reads as far as it goes without waiting. Returns whether anything
  /// moved. With nothing to do it is one system call, whatever the number of ranks.
  bool progress();

  /// Waits until progress() has something to do, `timeout` has passed, or a signal comes.
  void waitBriefly(std::chrono::microseconds timeout) const noexcept;

  /// Whether there are bytes of messages that the system has not taken yet.
  [[nodiscard]] bool hasUnsent() const noexcept;

  /// Makes progress until nothing is unsent; false when `deadline` comes first.
  [[nodiscard]] bool flush(std::chrono::steady_clock::time_point deadline);

  /// `rank 3 at 10.0.0.3:4711`, for messages.
  [[nodiscard]] std::string describePeer(int peer) const;

 private:
  /// Who has connected and not said who it is.
  struct Stranger {
    WatchedSocket socket;
    std::chrono::steady_clock::time_point dismissAt;
    std::array<std::byte, sizeof(SideHello)> hello{};
    std::size_t helloBytes = 0;
  };

  void checkPeer(int peer) const;
  void throwIfFailed() const;
  template <class Work>
  auto orFail(Work work);
  [[nodiscard]] SideSender& senderTo(int peer);
  [[nodiscard]] SideReceiver& receiverFrom(int peer);

  bool advanceOpening();
  bool handleEvents();
  void handle(const epoll_event& event);
  void sortOpening();
  bool sendQueued();
  void acceptStrangers();
  void hear(std::uint64_t number);
  void admit(UniqueFd fd, const SideHello& hello);
  void dismissLateStrangers();
  [[noreturn]] void failRing(int next, int previous) const;

  int rankCount_;
  SideContext context_;
  WatchedSocket listener_;
  std::optional<Error> failure_;
  std::vector<std::unique_ptr<SideSender>> senders_;      ///< by rank, where there is one
  std::vector<std::unique_ptr<SideReceiver>> receivers_;  ///< likewise
  std::vector<SideSender*> opening_;
  std::vector<SideSender*> sending_;             ///< ready, with messages
  std::map<std::uint64_t, Stranger> strangers_;  ///< by number: the oldest is first
  std::uint64_t strangerCount_ = 0;              ///< that ever were
};

}  // namespace zipccl::transport
