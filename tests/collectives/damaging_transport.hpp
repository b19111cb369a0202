// SPDX-License-Identifier: Apache-2.0
//
// A transport that damages data on its way: a decorator for tests.

#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "transport/transport.hpp"

namespace zipccl::collectives::testing {

/// What happens to the data of operations number 0, 1, ... of one rank.
struct Damage {
  /// Changes what this rank sends; all ranks get the changed bytes.
  std::function<void(int rank, int index, std::span<std::byte> sent)> onSend;
  /// Changes what this rank got, `shardBytes` from each rank; the others get theirs undamaged.
  std::function<void(int rank, int index, std::span<std::byte> received, std::size_t shardBytes)>
      onReceive;
  /// Sees barriers.
  std::function<void(int rank)> onBarrier = {};
  /// Changes message number `index` of those that this rank sends to `peer` in exchanges.
  std::function<void(int rank, int peer, int index, std::span<std::byte> sent)> onMessage = {};
};

[[nodiscard]] std::unique_ptr<transport::Transport> damage(
    std::unique_ptr<transport::Transport> inner, const Damage& damage);

}  // namespace zipccl::collectives::testing
