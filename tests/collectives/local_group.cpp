// SPDX-License-Identifier: Apache-2.0
//
// A group of communicators over the local transport.

#include "local_group.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "collectives/host_codec.hpp"
#include "transport/local_transport.hpp"

namespace zipccl::collectives::testing {

RankErrors runRanks(int rankCount, const std::function<void(int)>& body) {
  RankErrors errors(static_cast<std::size_t>(rankCount));
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < rankCount; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const Error& error) {
        errors[static_cast<std::size_t>(rank)] = error;
      }
    });
  }
  threads.clear();
  return errors;
}

LocalGroup::LocalGroup(int rankCount, const CommunicatorSettings& settings,
                       const Decorator& decorate, const CodecMaker& makeCodec,
                       const transport::LocalWorldOptions& options)
    : LocalGroup(std::vector(static_cast<std::size_t>(rankCount), settings), decorate, makeCodec,
                 options) {}

LocalGroup::LocalGroup(const std::vector<CommunicatorSettings>& settings, const Decorator& decorate,
                       const CodecMaker& makeCodec, const transport::LocalWorldOptions& options)
    : communicators_(settings.size()) {
  transport::LocalWorld world(rankCount(), options);
  const RankErrors errors = runRanks(rankCount(), [&](int rank) {
    std::unique_ptr<transport::Transport> transport = world.transport(rank);
    if (decorate) transport = decorate(std::move(transport));
    communicators_[static_cast<std::size_t>(rank)] = std::make_unique<Communicator>(
        std::move(transport), makeCodec ? makeCodec(rank) : makeHostCodec(),
        settings[static_cast<std::size_t>(rank)]);
  });
  for (const std::optional<Error>& error : errors) {
    if (error) throw *error;
  }
}

RankErrors LocalGroup::run(const std::function<void(Communicator&)>& body) {
  return runRanks(rankCount(), [&](int rank) { body((*this)[rank]); });
}

void LocalGroup::runAll(const std::function<void(Communicator&)>& body) {
  const RankErrors errors = run(body);
  for (std::size_t rank = 0; rank < errors.size(); ++rank) {
    if (errors[rank]) ADD_FAILURE() << "rank " << rank << ": " << errors[rank]->what();
  }
}

}  // namespace zipccl::collectives::testing
