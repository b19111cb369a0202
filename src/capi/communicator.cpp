// SPDX-License-Identifier: Apache-2.0
//
// The calls of the C API that concern communicators.

#include <zipccl/zipccl_nccl.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/settings.hpp"
#include "capi/comm.hpp"
#include "capi/config.hpp"
#include "capi/nccl_api.hpp"
#include "capi/nccl_comm.hpp"
#include "capi/rethrow_cause.hpp"
#include "collectives/host_codec.hpp"
#include "transport/local_transport.hpp"
#include "transport/mpi_transport.hpp"

namespace zipccl::capi {
namespace {

using collectives::Communicator;
using collectives::CommunicatorSettings;

std::unique_ptr<zipcclComm> makeComm(std::unique_ptr<transport::Transport> transport,
                                     const CommunicatorSettings& settings) {
  return std::make_unique<zipcclComm>(
      std::make_unique<Communicator>(std::move(transport), collectives::makeHostCodec(), settings));
}

/// Creates all ranks, each in a thread of its own, since they wait for each other.
std::vector<std::unique_ptr<zipcclComm>> makeLocalComms(
    const std::vector<CommunicatorSettings>& settings, std::uint64_t linkBytesPerSecond) {
  const std::size_t rankCount = settings.size();
  transport::LocalWorld world(static_cast<int>(rankCount),
                              {.timeout = std::nullopt, .linkBytesPerSecond = linkBytesPerSecond});
  std::vector<std::unique_ptr<zipcclComm>> comms(rankCount);
  std::vector<std::exception_ptr> exceptions(rankCount);
  {
    std::vector<std::jthread> threads;
    threads.reserve(rankCount);
    try {
      for (std::size_t rank = 0; rank < rankCount; ++rank) {
        threads.emplace_back([&, rank] {
          try {
            comms[rank] = makeComm(world.transport(static_cast<int>(rank)), settings[rank]);
          } catch (...) {
            exceptions[rank] = std::current_exception();
          }
        });
      }
    } catch (...) {
      world.abort("a thread could not be started");
      throw;
    }
  }
  rethrowCause(exceptions);
  return comms;
}

/// configs[rank] as the caller counts, whose struct may be an older, smaller one.
const zipcclConfig_t* configAt(const zipcclConfig_t* configs, int rank) {
  expects(configs->size % alignof(zipcclConfig_t) == 0, "configs[0].size is ", configs->size,
          ", which no zipcclConfig_t has");
  const auto* const at = reinterpret_cast<const zipcclConfig_t*>(
      reinterpret_cast<const std::byte*>(configs) + static_cast<std::size_t>(rank) * configs->size);
  expects(at->size == configs->size, "configs[", rank, "].size is ", at->size,
          ", configs[0].size is ", configs->size, "; all have the size of one struct");
  return at;
}

void initAllLocal(zipcclComm_t* comms, int nranks, const zipcclConfig_t* configs,
                  bool isOneForAll) {
  expects(comms != nullptr, "comms is NULL");
  expects(nranks >= 1 && nranks <= transport::LocalWorld::kMaxRanks, "nranks is ", nranks,
          "; 1 to ", transport::LocalWorld::kMaxRanks, " are possible");
  std::fill_n(comms, nranks, nullptr);
  std::vector<CommunicatorSettings> settings;
  for (int rank = 0; rank < nranks; ++rank) {
    const zipcclConfig_t* config = isOneForAll ? configs : configAt(configs, rank);
    settings.push_back(resolveSettings(config, zipccl::settings()));
  }
  std::vector<std::unique_ptr<zipcclComm>> made = makeLocalComms(settings, emulatedLink(configs));
  for (std::size_t rank = 0; rank < made.size(); ++rank) comms[rank] = made[rank].release();
}

zipcclComm_t initMpi(const zipcclConfig_t* config,
                     const std::optional<transport::MpiParent>& parent = {}) {
  const CommunicatorSettings settings = resolveSettings(config, zipccl::settings());
  return makeComm(transport::loadMpiTransport({.timeout = settings.timeout, .parent = parent}),
                  settings)
      .release();
}

/// Attaches to all at once, each in a thread of its own: they wait for each other.
std::vector<std::unique_ptr<zipcclComm>> makeNcclComms(std::span<ncclComm* const> handles,
                                                       const CommunicatorSettings& settings) {
  const zipcclNcclApi& api = ncclApiOfProcess();
  const auto make = [&](ncclComm* handle) {
    return std::make_unique<zipcclComm>(std::make_unique<NcclComm>(api, handle, settings));
  };
  std::vector<std::unique_ptr<zipcclComm>> comms(handles.size());
  std::vector<std::exception_ptr> exceptions(handles.size());
  const auto makeAt = [&](std::size_t i) {
    try {
      comms[i] = make(handles[i]);
    } catch (...) {
      exceptions[i] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 1; i < handles.size(); ++i) threads.emplace_back(makeAt, i);
    makeAt(0);
  }
  rethrowCause(exceptions);
  return comms;
}

void initAllNccl(zipcclComm_t* comms, ncclComm* const* nccl, int count,
                 const zipcclConfig_t* config) {
  expects(comms != nullptr, "comms is NULL");
  expects(count >= 1, "count is ", count);
  std::fill_n(comms, count, nullptr);
  expects(nccl != nullptr, "nccl is NULL");
  const std::span handles(nccl, static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < handles.size(); ++i) {
    expects(handles[i] != nullptr, "nccl[", i, "] is NULL");
  }
  std::vector<std::unique_ptr<zipcclComm>> made =
      makeNcclComms(handles, resolveNcclSettings(config, zipccl::settings()));
  for (std::size_t i = 0; i < made.size(); ++i) comms[i] = made[i].release();
}

zipcclStrategy_t toStrategy(policy::Strategy strategy) {
  switch (strategy) {
    case policy::Strategy::kNative:
      return zipcclStrategyNative;
    case policy::Strategy::kStaged:
      return zipcclStrategyStaged;
  }
  return zipcclStrategyNative;
}

/// Of a Communicator or a NcclComm.
template <class End>
zipcclCommStats_t readStats(End& communicator) {
  const collectives::CommunicatorStatistics from = communicator.statistics();
  zipcclCommStats_t stats = ZIPCCL_COMM_STATS_INITIALIZER;
  stats.calls = from.nativeCalls + from.stagedCalls;
  stats.nativeCalls = from.nativeCalls;
  stats.stagedCalls = from.stagedCalls;
  stats.dynamicCalls = from.dynamicCalls;
  stats.inputBytes = from.inputBytes;
  stats.stagedInputBytes = from.stagedInputBytes;
  stats.encodedBytes = from.encodedBytes;
  stats.wireBytesSent = from.wireBytesSent;
  stats.chunks = from.chunks;
  stats.scratchBytes = from.scratchBytes;
  stats.compressionAgreed = communicator.compressionAgreed() ? 1 : 0;
  if (from.lastDecision) {
    stats.lastStrategy = toStrategy(from.lastDecision->strategy);
    const std::string reason = policy::describe(*from.lastDecision);
    reason.copy(stats.lastReason, sizeof(stats.lastReason) - 1);
  }
  return stats;
}

}  // namespace
}  // namespace zipccl::capi

using zipccl::expects;
using zipccl::capi::expectAlive;
using zipccl::capi::guarded;
using zipccl::capi::with;

zipcclResult_t zipcclCommInitAllLocal(zipcclComm_t* comms, int nranks,
                                      const zipcclConfig_t* config) {
  return guarded(__func__, nullptr,
                 [&] { zipccl::capi::initAllLocal(comms, nranks, config, true); });
}

zipcclResult_t zipcclCommInitAllLocalConfigs(zipcclComm_t* comms, int nranks,
                                             const zipcclConfig_t* configs) {
  return guarded(__func__, nullptr, [&] {
    expects(configs != nullptr, "configs is NULL");
    zipccl::capi::initAllLocal(comms, nranks, configs, false);
  });
}

zipcclResult_t zipcclCommInitMpi(zipcclComm_t* comm, const zipcclConfig_t* config) {
  return guarded(__func__, nullptr, [&] {
    expects(comm != nullptr, "comm is NULL");
    *comm = nullptr;
    *comm = zipccl::capi::initMpi(config);
  });
}

zipcclResult_t zipcclCommInitMpiHandle(zipcclComm_t* comm, const void* parent, size_t parentBytes,
                                       const char* mpiLibrary, const zipcclConfig_t* config) {
  return guarded(__func__, nullptr, [&] {
    expects(comm != nullptr, "comm is NULL");
    *comm = nullptr;
    expects(parent != nullptr, "parent is NULL");
    expects(mpiLibrary != nullptr, "mpiLibrary is NULL");
    *comm = zipccl::capi::initMpi(config,
                                  zipccl::transport::MpiParent{parent, parentBytes, mpiLibrary});
  });
}

zipcclResult_t zipcclCommInitNccl(zipcclComm_t* comm, struct ncclComm* nccl,
                                  const zipcclConfig_t* config) {
  return guarded(__func__, nullptr, [&] {
    expects(comm != nullptr, "comm is NULL");
    *comm = nullptr;
    expects(nccl != nullptr, "nccl is NULL");
    zipccl::capi::initAllNccl(comm, &nccl, 1, config);
  });
}

zipcclResult_t zipcclCommInitAllNccl(zipcclComm_t* comms, struct ncclComm* const* nccl, int count,
                                     const zipcclConfig_t* config) {
  return guarded(__func__, nullptr, [&] { zipccl::capi::initAllNccl(comms, nccl, count, config); });
}

zipcclResult_t zipcclCommDestroy(zipcclComm_t comm) {
  if (comm == nullptr) return zipcclSuccess;
  return guarded(__func__, nullptr, [&] {
    expectAlive(comm);
    delete comm;
  });
}

zipcclResult_t zipcclCommAbort(zipcclComm_t comm) {
  return guarded(__func__, comm, [&] { with(comm, [](auto& end) { end.abort(); }); });
}

zipcclResult_t zipcclCommCount(const zipcclComm_t comm, int* count) {
  return guarded(__func__, comm, [&] {
    expects(count != nullptr, "count is NULL");
    *count = with(comm, [](const auto& end) { return end.rankCount(); });
  });
}

zipcclResult_t zipcclCommUserRank(const zipcclComm_t comm, int* rank) {
  return guarded(__func__, comm, [&] {
    expects(rank != nullptr, "rank is NULL");
    *rank = with(comm, [](const auto& end) { return end.rank(); });
  });
}

zipcclResult_t zipcclCommGetAsyncError(zipcclComm_t comm, zipcclResult_t* asyncError) {
  return guarded(__func__, comm, [&] {
    expects(asyncError != nullptr, "asyncError is NULL");
    const std::optional<zipccl::Error> error =
        with(comm, [](auto& end) { return end.asyncError(); });
    *asyncError = error ? static_cast<zipcclResult_t>(error->code()) : zipcclSuccess;
    if (error) zipccl::capi::keepMessage(error->message(), comm);
  });
}

zipcclResult_t zipcclCommGetStats(zipcclComm_t comm, zipcclCommStats_t* stats) {
  return guarded(__func__, comm, [&] {
    expects(stats != nullptr, "stats is NULL");
    expects(stats->size > sizeof(stats->size), "stats.size is ", stats->size,
            "; ZIPCCL_COMM_STATS_INITIALIZER makes it ", sizeof(*stats));
    zipcclCommStats_t read = with(comm, [](auto& end) { return zipccl::capi::readStats(end); });
    read.size = stats->size;
    std::memcpy(stats, &read, std::min(stats->size, sizeof(read)));
  });
}
