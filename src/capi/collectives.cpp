// SPDX-License-Identifier: Apache-2.0
//
// The collectives of the C API: what C can get wrong is checked here, the rest where it is done.

#include <cstddef>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/error.hpp"
#include "capi/comm.hpp"
#include "capi/group.hpp"
#include "collectives/all_gather.hpp"
#include "collectives/all_reduce.hpp"
#include "collectives/all_to_all.hpp"
#include "collectives/broadcast.hpp"
#include "collectives/datatype.hpp"
#include "collectives/gather_scatter.hpp"
#include "collectives/reduce_scatter.hpp"
#include "collectives/send_receive.hpp"

namespace zipccl::capi {
namespace {

using collectives::Communicator;
using collectives::Datatype;

static_assert(static_cast<int>(Datatype::kInt8) == zipcclInt8);
static_assert(static_cast<int>(Datatype::kUint8) == zipcclUint8);
static_assert(static_cast<int>(Datatype::kInt32) == zipcclInt32);
static_assert(static_cast<int>(Datatype::kUint32) == zipcclUint32);
static_assert(static_cast<int>(Datatype::kInt64) == zipcclInt64);
static_assert(static_cast<int>(Datatype::kUint64) == zipcclUint64);
static_assert(static_cast<int>(Datatype::kFloat16) == zipcclFloat16);
static_assert(static_cast<int>(Datatype::kFloat32) == zipcclFloat32);
static_assert(static_cast<int>(Datatype::kFloat64) == zipcclFloat64);
static_assert(static_cast<int>(Datatype::kBfloat16) == zipcclBfloat16);
static_assert(static_cast<int>(Datatype::kFloat8e4m3) == zipcclFloat8e4m3);
static_assert(static_cast<int>(Datatype::kFloat8e5m2) == zipcclFloat8e5m2);

Datatype toDatatype(zipcclDataType_t datatype) {
  const int value = static_cast<int>(datatype);
  expects(value >= 0 && value < zipcclNumTypes, "datatype is ", value, "; 0 to ",
          zipcclNumTypes - 1, " are known");
  return static_cast<Datatype>(value);
}

/// Runs `body` for a call on `comm`. A failure inside a group fails the group.
template <class Body>
zipcclResult_t called(const char* function, zipcclComm_t comm, zipcclStream_t stream,
                      const Body& body) noexcept {
  return guarded(function, comm, [&] {
    try {
      expectAlive(comm);
      expects(stream == nullptr || comm->nccl != nullptr,
              "stream is not NULL, but this communicator works on host memory");
      body();
    } catch (const Error& error) {
      Group::ofThread().noteFailure(error);
      throw;
    }
  });
}

int rankCountOf(zipcclComm_t comm) {
  return with(comm, [](const auto& end) { return end.rankCount(); });
}

/// Makes a call over NCCL at once, or at the end of the group that is open.
template <class Arguments>
void callOverNccl(zipcclComm_t comm, const Arguments& arguments, zipcclStream_t stream, int op) {
  NcclComm& end = *comm->nccl;
  collectives::check(arguments, end.rank(), end.rankCount());
  NcclComm::Calls calls = end.callsOf(arguments, stream, op);
  std::erase_if(calls, [](const zipcclNcclCall& call) { return call.count == 0; });
  Group& group = Group::ofThread();
  if (group.isOpen()) {
    group.add(comm, calls);
    return;
  }
  NcclCalls single;
  single.add(end, calls);
  single.run();
}

/// Makes a collective call at once, or at the end of the group that is open.
template <class Arguments>
void callOrAdd(zipcclComm_t comm, const Arguments& arguments, zipcclStream_t stream,
               zipcclRedOp_t op = zipcclSum) {
  if (comm->nccl != nullptr) {
    callOverNccl(comm, arguments, stream, static_cast<int>(op));
    return;
  }
  Communicator& communicator = *comm->communicator;
  Group& group = Group::ofThread();
  if (!group.isOpen()) {
    communicator.call(arguments);
    return;
  }
  communicator.check(arguments);
  group.add(comm, [arguments](Communicator& later) { later.call(arguments); });
}

static_assert(static_cast<int>(collectives::ReduceOp::kSum) == zipcclSum);
static_assert(static_cast<int>(collectives::ReduceOp::kProd) == zipcclProd);
static_assert(static_cast<int>(collectives::ReduceOp::kMax) == zipcclMax);
static_assert(static_cast<int>(collectives::ReduceOp::kMin) == zipcclMin);
static_assert(static_cast<int>(collectives::ReduceOp::kAvg) == zipcclAvg);

collectives::Reduction toReduction(zipcclComm_t comm, zipcclRedOp_t op, zipcclDataType_t datatype) {
  const int value = static_cast<int>(op);
  expects(value >= 0, "op is ", value);
  if (value < zipcclNumOps) return {.op = static_cast<collectives::ReduceOp>(value)};
  // NCCL knows its own.
  if (comm->nccl != nullptr) return {.op = collectives::ReduceOp::kPreMulSum};
  const std::lock_guard lock(comm->mutex);
  const auto made = comm->preMulSums.find(value);
  expects(made != comm->preMulSums.end(), "op is ", value,
          "; neither one of the first five nor made by zipcclRedOpCreatePreMulSum");
  expects(made->second.datatype == datatype, "op was made for datatype ",
          static_cast<int>(made->second.datatype), ", not ", static_cast<int>(datatype));
  return made->second.reduction;
}

zipcclRedOp_t createPreMulSum(zipcclComm_t comm, void* scalar, zipcclDataType_t datatype,
                              zipcclScalarResidence_t residence) {
  expectAlive(comm);
  expects(scalar != nullptr, "scalar is NULL");
  if (comm->nccl != nullptr) {
    return static_cast<zipcclRedOp_t>(
        comm->nccl->createPreMulSum(scalar, static_cast<int>(toDatatype(datatype)), residence));
  }
  expects(residence == zipcclScalarHostImmediate, "residence is ", static_cast<int>(residence),
          "; a host communicator takes zipcclScalarHostImmediate, ",
          static_cast<int>(zipcclScalarHostImmediate));
  zipcclComm::PreMulSum made{datatype, {.op = collectives::ReduceOp::kPreMulSum}};
  std::memcpy(made.reduction.scalar.data(), scalar,
              collectives::elementBytes(toDatatype(datatype)));
  const std::lock_guard lock(comm->mutex);
  expects(comm->nextRedOp != zipcclMaxRedOp, ErrorCode::kInvalidUsage, "too many operations");
  const int op = comm->nextRedOp++;
  comm->preMulSums.emplace(op, made);
  return static_cast<zipcclRedOp_t>(op);
}

void destroyRedOp(zipcclComm_t comm, zipcclRedOp_t op) {
  expectAlive(comm);
  if (comm->nccl != nullptr) {
    comm->nccl->destroyRedOp(static_cast<int>(op));
    return;
  }
  const std::lock_guard lock(comm->mutex);
  expects(comm->preMulSums.erase(static_cast<int>(op)) == 1, "op is ", static_cast<int>(op),
          ", which zipcclRedOpCreatePreMulSum did not make on this communicator");
}

std::vector<std::size_t> listOf(const std::size_t* list, int rankCount, const char* name) {
  expects(list != nullptr, name, " is NULL");
  return {list, list + rankCount};
}

void sendReceive(zipcclComm_t comm, const collectives::PointToPoint& operation,
                 zipcclStream_t stream) {
  if (comm->nccl != nullptr) {
    callOverNccl(comm, operation, stream, 0);
    return;
  }
  Communicator& communicator = *comm->communicator;
  Group& group = Group::ofThread();
  if (!group.isOpen()) {
    communicator.sendReceive(operation);
    return;
  }
  communicator.check(operation);
  group.add(comm, operation);
}

}  // namespace
}  // namespace zipccl::capi

using zipccl::capi::called;
using zipccl::capi::callOrAdd;
using zipccl::capi::guarded;
using zipccl::capi::listOf;
using zipccl::capi::rankCountOf;
using zipccl::capi::sendReceive;
using zipccl::capi::toDatatype;
using zipccl::capi::toReduction;

zipcclResult_t zipcclGroupStart(void) {
  return guarded(__func__, nullptr, [] { zipccl::capi::Group::ofThread().start(); });
}

zipcclResult_t zipcclGroupEnd(void) {
  return guarded(__func__, nullptr, [] { zipccl::capi::Group::ofThread().end(); });
}

zipcclResult_t zipcclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                               zipcclDataType_t datatype, zipcclComm_t comm,
                               zipcclStream_t stream) {
  return called(__func__, comm, stream, [&] {
    const zipccl::collectives::AllGatherArguments arguments{
        sendbuff, recvbuff, sendcount, toDatatype(datatype), {}};
    callOrAdd(comm, arguments, stream);
  });
}

zipcclResult_t zipcclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                              zipcclDataType_t datatype, zipcclComm_t comm, zipcclStream_t stream) {
  return called(__func__, comm, stream, [&] {
    const zipccl::collectives::AllToAllArguments arguments{
        sendbuff, recvbuff, count, toDatatype(datatype), {}};
    callOrAdd(comm, arguments, stream);
  });
}

zipcclResult_t zipcclAlltoAllv(const void* sendbuff, const size_t sendcounts[],
                               const size_t sdispls[], void* recvbuff, const size_t recvcounts[],
                               const size_t rdispls[], zipcclDataType_t datatype, zipcclComm_t comm,
                               zipcclStream_t stream) {
  return called(__func__, comm, stream, [&] {
    const int ranks = rankCountOf(comm);
    const zipccl::collectives::AllToAllvArguments arguments{sendbuff,
                                                            listOf(sendcounts, ranks, "sendcounts"),
                                                            listOf(sdispls, ranks, "sdispls"),
                                                            recvbuff,
                                                            listOf(recvcounts, ranks, "recvcounts"),
                                                            listOf(rdispls, ranks, "rdispls"),
                                                            toDatatype(datatype),
                                                            {}};
    callOrAdd(comm, arguments, stream);
  });
}

zipcclResult_t zipcclSend(const void* sendbuff, size_t count, zipcclDataType_t datatype, int peer,
                          zipcclComm_t comm, zipcclStream_t stream) {
  return called(__func__, comm, stream, [&] {
    sendReceive(comm,
                {.isSend = true,
                 .source = sendbuff,
                 .target = nullptr,
                 .elementCount = count,
                 .datatype = toDatatype(datatype),
                 .peer = peer},
                stream);
  });
}

zipcclResult_t zipcclRecv(void* recvbuff, size_t count, zipcclDataType_t datatype, int peer,
                          zipcclComm_t comm, zipcclStream_t stream) {
  return called(__func__, comm, stream, [&] {
    sendReceive(comm,
                {.isSend = false,
                 .source = nullptr,
                 .target = recvbuff,
                 .elementCount = count,
                 .datatype = toDatatype(datatype),
                 .peer = peer},
                stream);
  });
}

zipcclResult_t zipcclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                   zipcclDataType_t datatype, zipcclRedOp_t op, zipcclComm_t comm,
                                   zipcclStream_t stream) {
  return called(__func__, comm, stream, [&] {
    const zipccl::collectives::ReduceScatterArguments arguments{
        sendbuff, recvbuff, recvcount, toDatatype(datatype), toReduction(comm, op, datatype), {}};
    callOrAdd(comm, arguments, stream, op);
  });
}

zipcclResult_t zipcclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                               zipcclDataType_t datatype, zipcclRedOp_t op, zipcclComm_t comm,
                               zipcclStream_t stream) {
  return called(__func__, comm, stream, [&] {
    const zipccl::collectives::AllReduceArguments arguments{
        sendbuff, recvbuff, count, toDatatype(datatype), toReduction(comm, op, datatype), {}};
    callOrAdd(comm, arguments, stream, op);
  });
}

zipcclResult_t zipcclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                               zipcclDataType_t datatype, int root, zipcclComm_t comm,
                               zipcclStream_t stream) {
  return called(__func__, comm, stream, [&] {
    const zipccl::collectives::BroadcastArguments arguments{
        sendbuff, recvbuff, count, toDatatype(datatype), root, {}};
    callOrAdd(comm, arguments, stream);
  });
}

zipcclResult_t zipcclGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                            zipcclDataType_t datatype, int root, zipcclComm_t comm,
                            zipcclStream_t stream) {
  return called(__func__, comm, stream, [&] {
    const zipccl::collectives::GatherArguments arguments{
        sendbuff, recvbuff, sendcount, toDatatype(datatype), root, {}};
    callOrAdd(comm, arguments, stream);
  });
}

zipcclResult_t zipcclScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                             zipcclDataType_t datatype, int root, zipcclComm_t comm,
                             zipcclStream_t stream) {
  return called(__func__, comm, stream, [&] {
    const zipccl::collectives::ScatterArguments arguments{
        sendbuff, recvbuff, recvcount, toDatatype(datatype), root, {}};
    callOrAdd(comm, arguments, stream);
  });
}

zipcclResult_t zipcclRedOpCreatePreMulSum(zipcclRedOp_t* op, void* scalar,
                                          zipcclDataType_t datatype,
                                          zipcclScalarResidence_t residence, zipcclComm_t comm) {
  return guarded(__func__, comm, [&] {
    zipccl::expects(op != nullptr, "op is NULL");
    *op = zipccl::capi::createPreMulSum(comm, scalar, datatype, residence);
  });
}

zipcclResult_t zipcclRedOpDestroy(zipcclRedOp_t op, zipcclComm_t comm) {
  return guarded(__func__, comm, [&] { zipccl::capi::destroyRedOp(comm, op); });
}
