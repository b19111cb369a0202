// SPDX-License-Identifier: Apache-2.0
//
// The C API as this tool uses it.

#include "perf/communicator.hpp"

#include <numeric>
#include <utility>

#include "perf/reference.hpp"

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

/// Where each of parts stands that stand one behind the other.
std::vector<std::size_t> placesOf(const std::vector<std::size_t>& counts) {
  std::vector<std::size_t> places(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), std::size_t{0});
  return places;
}

}  // namespace

std::vector<std::unique_ptr<Communicator>> Communicator::createLocal(
    int ranks, zipcclStrategy_t strategy, std::uint64_t linkBytesPerSecond) {
  std::vector<zipcclComm_t> comms(static_cast<std::size_t>(ranks), nullptr);
  zipcclConfig_t config = configOf(strategy);
  config.emulatedLinkBytesPerSecond = static_cast<std::int64_t>(linkBytesPerSecond);
  check(zipcclCommInitAllLocal(comms.data(), ranks, &config));
  std::vector<std::unique_ptr<Communicator>> owners;
  owners.reserve(comms.size());
  for (zipcclComm_t comm : comms) owners.emplace_back(new Communicator(comm));
  return owners;
}

std::unique_ptr<Communicator> Communicator::createMpi(zipcclStrategy_t strategy) {
  zipcclComm_t comm = nullptr;
  const zipcclConfig_t config = configOf(strategy);
  check(zipcclCommInitMpi(&comm, &config));
  return std::unique_ptr<Communicator>(new Communicator(comm));
}

std::unique_ptr<Communicator> Communicator::createNccl(ncclComm* nccl, zipcclStrategy_t strategy,
                                                       zipcclStream_t stream) {
  zipcclComm_t comm = nullptr;
  const zipcclConfig_t config = configOf(strategy);
  check(zipcclCommInitNccl(&comm, nccl, &config));
  return std::unique_ptr<Communicator>(new Communicator(comm, stream));
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

void Communicator::expectWell() const {
  zipcclResult_t error = zipcclSuccess;
  check(zipcclCommGetAsyncError(comm_.get(), &error));
  if (error != zipcclSuccess) throw CallFailure(error, zipcclGetLastError(comm_.get()));
}

zipcclCommStats_t Communicator::statistics() const {
  zipcclCommStats_t stats = ZIPCCL_COMM_STATS_INITIALIZER;
  check(zipcclCommGetStats(comm_.get(), &stats));
  return stats;
}

void Communicator::allGather(const void* send, void* receive, std::size_t count,
                             zipcclDataType_t datatype) {
  check(zipcclAllGather(send, receive, count, datatype, comm_.get(), stream_));
}

void Communicator::allReduce(const void* send, void* receive, std::size_t count,
                             zipcclDataType_t datatype, ReduceOperation operation) {
  const zipcclRedOp_t op = operationFor(operation, datatype);
  check(zipcclAllReduce(send, receive, count, datatype, op, comm_.get(), stream_));
}

void Communicator::reduceScatter(const void* send, void* receive, std::size_t count,
                                 zipcclDataType_t datatype, ReduceOperation operation) {
  const zipcclRedOp_t op = operationFor(operation, datatype);
  check(zipcclReduceScatter(send, receive, count, datatype, op, comm_.get(), stream_));
}

zipcclRedOp_t Communicator::operationFor(ReduceOperation operation, zipcclDataType_t datatype) {
  switch (operation) {
    case ReduceOperation::kSum:
      return zipcclSum;
    case ReduceOperation::kAverage:
      return zipcclAvg;
    case ReduceOperation::kScaledSum:
      break;
  }
  if (!scaledSum_) {
    std::vector<std::byte> scalar = elementOf(datatype, kScaledSumFactor);
    zipcclRedOp_t op = zipcclSum;
    check(zipcclRedOpCreatePreMulSum(&op, scalar.data(), datatype, zipcclScalarHostImmediate,
                                     comm_.get()));
    scaledSum_ = op;
  }
  return *scaledSum_;
}

void Communicator::allToAll(const void* send, void* receive, std::size_t count,
                            zipcclDataType_t datatype) {
  check(zipcclAlltoAll(send, receive, count, datatype, comm_.get(), stream_));
}

void Communicator::allToAllv(const void* send, const std::vector<std::size_t>& sendCounts,
                             void* receive, const std::vector<std::size_t>& receiveCounts,
                             zipcclDataType_t datatype) {
  const std::vector<std::size_t> sendPlaces = placesOf(sendCounts);
  const std::vector<std::size_t> receivePlaces = placesOf(receiveCounts);
  check(zipcclAlltoAllv(send, sendCounts.data(), sendPlaces.data(), receive, receiveCounts.data(),
                        receivePlaces.data(), datatype, comm_.get(), stream_));
}

void Communicator::broadcast(const void* send, void* receive, std::size_t count,
                             zipcclDataType_t datatype, int root) {
  check(zipcclBroadcast(send, receive, count, datatype, root, comm_.get(), stream_));
}

void Communicator::gatherTo(const void* send, void* receive, std::size_t count,
                            zipcclDataType_t datatype, int root) {
  check(zipcclGather(send, receive, count, datatype, root, comm_.get(), stream_));
}

void Communicator::scatterFrom(const void* send, void* receive, std::size_t count,
                               zipcclDataType_t datatype, int root) {
  check(zipcclScatter(send, receive, count, datatype, root, comm_.get(), stream_));
}

void Communicator::sendReceive(const void* send, int to, void* receive, int from, std::size_t count,
                               zipcclDataType_t datatype) {
  check(zipcclGroupStart());
  // The end of the group returns what is wrong with its calls.
  static_cast<void>(zipcclSend(send, count, datatype, to, comm_.get(), stream_));
  static_cast<void>(zipcclRecv(receive, count, datatype, from, comm_.get(), stream_));
  check(zipcclGroupEnd());
}

std::vector<RankCommunicators> RankCommunicators::createLocal(int ranks, zipcclStrategy_t strategy,
                                                              std::uint64_t linkBytesPerSecond) {
  auto control = Communicator::createLocal(ranks, zipcclStrategyNative, 0);
  auto native = Communicator::createLocal(ranks, zipcclStrategyNative, linkBytesPerSecond);
  auto measured = Communicator::createLocal(ranks, strategy, linkBytesPerSecond);
  std::vector<RankCommunicators> all;
  all.reserve(control.size());
  for (std::size_t rank = 0; rank < control.size(); ++rank) {
    all.push_back({std::make_unique<CommunicatorControl>(std::move(control[rank])),
                   std::move(native[rank]), std::move(measured[rank])});
  }
  return all;
}

}  // namespace zipccl::tools::perf
