// SPDX-License-Identifier: Apache-2.0
//
// The C API as this tool uses it.

#include "perf/communicator.hpp"

#include <utility>

namespace zipccl::tools::perf {
namespace {

void check(zipcclResult_t result) {
  if (result == zipcclSuccess) return;
  std::string words = zipcclGetLastError(nullptr);
  if (words.empty()) words = zipcclGetErrorString(result);
  throw CallFailure(result, words);
}

zipcclConfig_t configOf(zipcclStrategy_t strategy) {
  zipcclConfig_t config = ZIPCCL_CONFIG_INITIALIZER;
  config.strategy = strategy;
  return config;
}

}  // namespace

std::vector<Communicator> Communicator::createLocal(int ranks, zipcclStrategy_t strategy) {
  std::vector<zipcclComm_t> comms(static_cast<std::size_t>(ranks), nullptr);
  const zipcclConfig_t config = configOf(strategy);
  check(zipcclCommInitAllLocal(comms.data(), ranks, &config));
  std::vector<Communicator> owners;
  owners.reserve(comms.size());
  for (zipcclComm_t comm : comms) owners.push_back(Communicator(comm));
  return owners;
}

Communicator Communicator::createMpi(zipcclStrategy_t strategy) {
  zipcclComm_t comm = nullptr;
  const zipcclConfig_t config = configOf(strategy);
  check(zipcclCommInitMpi(&comm, &config));
  return Communicator(comm);
}

int Communicator::rank() const {
  int rank = 0;
  check(zipcclCommUserRank(comm_.get(), &rank));
  return rank;
}

int Communicator::rankCount() const {
  int count = 0;
  check(zipcclCommCount(comm_.get(), &count));
  return count;
}

zipcclCommStats_t Communicator::statistics() const {
  zipcclCommStats_t stats = ZIPCCL_COMM_STATS_INITIALIZER;
  check(zipcclCommGetStats(comm_.get(), &stats));
  return stats;
}

void Communicator::allGather(const void* send, void* receive, std::size_t count,
                             zipcclDataType_t datatype) {
  check(zipcclAllGather(send, receive, count, datatype, comm_.get(), nullptr));
}

std::vector<RankCommunicators> RankCommunicators::createLocal(int ranks,
                                                              zipcclStrategy_t strategy) {
  std::vector<Communicator> control = Communicator::createLocal(ranks, zipcclStrategyNative);
  std::vector<Communicator> native = Communicator::createLocal(ranks, zipcclStrategyNative);
  std::vector<Communicator> measured = Communicator::createLocal(ranks, strategy);
  std::vector<RankCommunicators> all;
  all.reserve(control.size());
  for (std::size_t rank = 0; rank < control.size(); ++rank) {
    all.push_back({std::move(control[rank]), std::move(native[rank]), std::move(measured[rank])});
  }
  return all;
}

RankCommunicators RankCommunicators::createMpi(zipcclStrategy_t strategy) {
  // One after the other on every rank: members of an aggregate are made in their order.
  return {Communicator::createMpi(zipcclStrategyNative),
          Communicator::createMpi(zipcclStrategyNative), Communicator::createMpi(strategy)};
}

}  // namespace zipccl::tools::perf
