// SPDX-License-Identifier: Apache-2.0
//
// A group of communicators over the local transport, and threads to run them.

#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "collectives/communicator.hpp"
#include "test_settings.hpp"
#include "transport/local_transport.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives::testing {

/// Puts something between communicator and transport of one rank.
using Decorator =
    std::function<std::unique_ptr<transport::Transport>(std::unique_ptr<transport::Transport>)>;

/// Makes the codec of a rank; the host codec where absent.
using CodecMaker = std::function<std::unique_ptr<FrameCodec>(int rank)>;

/// The error of each rank, if there was one. Any other exception ends the test program.
using RankErrors = std::vector<std::optional<Error>>;

/// Runs `body(rank)` for ranks 0 to rankCount - 1, each in a thread of its own, and waits for all.
RankErrors runRanks(int rankCount, const std::function<void(int)>& body);

class LocalGroup {
 public:
  /// One communicator for each rank; throws the first error when they cannot be created.
  LocalGroup(int rankCount, const CommunicatorSettings& settings, const Decorator& decorate = {},
             const CodecMaker& makeCodec = {}, const transport::LocalWorldOptions& options = {});
  explicit LocalGroup(const std::vector<CommunicatorSettings>& settings,
                      const Decorator& decorate = {}, const CodecMaker& makeCodec = {},
                      const transport::LocalWorldOptions& options = {});

  [[nodiscard]] int rankCount() const noexcept { return static_cast<int>(communicators_.size()); }
  [[nodiscard]] Communicator& operator[](int rank) {
    return *communicators_[static_cast<std::size_t>(rank)];
  }

  /// Destroys the communicator of one rank, which must not be used afterwards.
  void leave(int rank) { communicators_[static_cast<std::size_t>(rank)].reset(); }

  /// Runs `body` on every rank.
  RankErrors run(const std::function<void(Communicator&)>& body);

  /// The same, and an error on any rank is a failure of the test.
  void runAll(const std::function<void(Communicator&)>& body);

 private:
  std::vector<std::unique_ptr<Communicator>> communicators_;
};

}  // namespace zipccl::collectives::testing
