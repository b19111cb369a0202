// SPDX-License-Identifier: Apache-2.0
//
// The local transport: the ranks are threads of one process, and data is copied once, by the
// receiver, straight from the sender's buffer.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "transport/transport.hpp"

namespace zipccl::transport {

struct LocalWorldOptions {
  /// The timeout that each rank's transport starts with; settings().timeout where absent.
  std::optional<std::chrono::milliseconds> timeout;

  /// Bytes a second of the emulated link of each rank, in each direction; 0: none, data moves as
  /// fast as memory allows. A message of data then arrives once it has passed the sender's link
  /// after all that was sent before it, and the receiver's after all that left its sender before
  /// it. Links
  /// carry data whether or not the rank is inside a call; only the copy at the end needs the
  /// receiver.
  std::uint64_t linkBytesPerSecond = 0;
};

class LocalState;

/// A communicator whose ranks are threads of this process: hands out one transport for each rank.
/// It may be destroyed before its transports. Its functions may be called from any thread.
///
/// A send is complete when the receiver has copied the data, so that a sender waits for its
/// receiver even for small messages. Messages whose sizes differ between sender and receiver, and
/// collective operations of different kinds that meet, fail with kInvalidUsage on both ranks.
/// Waiting ranks sleep; more ranks than cores are fine.
class LocalWorld {
 public:
  /// Throws Error(kInvalidArgument) unless 1 <= rankCount <= kMaxRanks.
  explicit LocalWorld(int rankCount, const LocalWorldOptions& options = {});

  static constexpr int kMaxRanks = 1024;

  [[nodiscard]] int rankCount() const noexcept;

  /// The transport of `rank`, once: Error(kInvalidArgument) for a rank that does not exist,
  /// Error(kInvalidUsage) for one that was handed out before. A rank whose transport is never taken
  /// is one that never comes.
  [[nodiscard]] std::unique_ptr<Transport> transport(int rank);

  /// As Transport::abort().
  void abort(std::string_view reason) noexcept;

 private:
  std::shared_ptr<LocalState> state_;
  LocalWorldOptions options_;
};

}  // namespace zipccl::transport
