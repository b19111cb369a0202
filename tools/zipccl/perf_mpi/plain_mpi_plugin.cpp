// SPDX-License-Identifier: Apache-2.0
//
// libzipccl_perf_mpi.so: the table of plain_mpi_functions.hpp over the MPI that this file is
// compiled against. Of two collectives of MPI that do the same, the one is called that OpenMPI does
// faster by default.

#include <mpi.h>
#include <zipccl/zipccl.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstddef>
#include <cstring>
#include <vector>

#include "perf/collective_name.hpp"
#include "perf/plain_mpi_functions.hpp"
#include "perf/reference.hpp"

namespace {

using zipccl::tools::perf::CollectiveName;
using zipccl::tools::perf::ReduceOperation;

/// A communicator of its own, so that no message meets another's.
MPI_Comm world = MPI_COMM_NULL;
MPI_Datatype bfloat16 = MPI_DATATYPE_NULL;
MPI_Op bfloat16Sum = MPI_OP_NULL;

float widen(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t narrow(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const bool isNan = (bits & 0x7FFFFFFFU) > 0x7F800000U;
  return static_cast<std::uint16_t>(isNan ? 0x7FFFU : (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

/// MPI has no bf16: each sum of two is rounded, as MPI does it with the datatypes that it has.
void addBfloat16(void* addend, void* sum, int* count, MPI_Datatype*) {
  const auto* const from = static_cast<const std::uint16_t*>(addend);
  auto* const to = static_cast<std::uint16_t*>(sum);
  for (int i = 0; i < *count; ++i) to[i] = narrow(widen(from[i]) + widen(to[i]));
}

int open() {
  int error = MPI_Comm_dup(MPI_COMM_WORLD, &world);
  if (error == MPI_SUCCESS) error = MPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
  if (error == MPI_SUCCESS) error = MPI_Type_contiguous(2, MPI_BYTE, &bfloat16);
  if (error == MPI_SUCCESS) error = MPI_Type_commit(&bfloat16);
  if (error == MPI_SUCCESS) error = MPI_Op_create(addBfloat16, 1, &bfloat16Sum);
  return error;
}

int close() {
  if (bfloat16Sum != MPI_OP_NULL) MPI_Op_free(&bfloat16Sum);
  if (bfloat16 != MPI_DATATYPE_NULL) MPI_Type_free(&bfloat16);
  return world == MPI_COMM_NULL ? MPI_SUCCESS : MPI_Comm_free(&world);
}

std::size_t bytesOf(int datatype) {
  switch (static_cast<zipcclDataType_t>(datatype)) {
    case zipcclInt8:
    case zipcclUint8:
    case zipcclFloat8e4m3:
    case zipcclFloat8e5m2:
      return 1;
    case zipcclFloat16:
    case zipcclBfloat16:
      return 2;
    case zipcclInt32:
    case zipcclUint32:
    case zipcclFloat32:
      return 4;
    case zipcclInt64:
    case zipcclUint64:
    case zipcclFloat64:
      return 8;
    case zipcclNumTypes:
      break;
  }
  return 0;
}

bool adds(const ZipcclPlainMpiCall& call) {
  return isReduction(static_cast<CollectiveName>(call.collective));
}

const char* refusal(const ZipcclPlainMpiCall* call) {
  if (adds(*call) && call->datatype != zipcclFloat32 && call->datatype != zipcclBfloat16) {
    return "MPI has no sum of this datatype";
  }
  // The largest list of bytes that a rank may have here is that of an all-gather.
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const std::uint64_t mostBytes = call->count * bytesOf(call->datatype) *
                                  static_cast<std::uint64_t>(ranks) *
                                  (call->parts == nullptr ? 1U : static_cast<unsigned>(ranks));
  return mostBytes > INT_MAX ? "MPI counts up to 2^31 bytes" : nullptr;
}

/// A message of a collective that adds nothing: bytes.
struct Moved {
  explicit Moved(const ZipcclPlainMpiCall& call)
      : bytesEach(bytesOf(call.datatype)), count(static_cast<int>(call.count * bytesEach)) {}

  std::size_t bytesEach;
  int count;  ///< of bytes that each rank gives, or gets
};

int ranksOfWorld() {
  int ranks = 1;
  MPI_Comm_size(world, &ranks);
  return ranks;
}

int rankInWorld() {
  int rank = 0;
  MPI_Comm_rank(world, &rank);
  return rank;
}

/// What a sum is multiplied by at the end: MPI has neither an average nor factors of addends.
float factorOf(const ZipcclPlainMpiCall& call) {
  switch (static_cast<ReduceOperation>(call.operation)) {
    case ReduceOperation::kSum:
      return 1.0F;
    case ReduceOperation::kAverage:
      return 1.0F / static_cast<float>(ranksOfWorld());
    case ReduceOperation::kScaledSum:
      return zipccl::tools::perf::kScaledSumFactor;
  }
  return 1.0F;
}

void scale(const ZipcclPlainMpiCall& call) {
  const float factor = factorOf(call);
  if (factor == 1.0F) return;
  if (call.datatype == zipcclFloat32) {
    auto* const sums = static_cast<float*>(call.receive);
    std::transform(sums, sums + call.count, sums, [=](float sum) { return sum * factor; });
    return;
  }
  auto* const sums = static_cast<std::uint16_t*>(call.receive);
  std::transform(sums, sums + call.count, sums,
                 [=](std::uint16_t sum) { return narrow(widen(sum) * factor); });
}

int reduce(const ZipcclPlainMpiCall& call) {
  const bool isFloat = call.datatype == zipcclFloat32;
  const MPI_Datatype type = isFloat ? MPI_FLOAT : bfloat16;
  const MPI_Op op = isFloat ? MPI_SUM : bfloat16Sum;
  const int count = static_cast<int>(call.count);
  int error = MPI_SUCCESS;
  if (static_cast<CollectiveName>(call.collective) == CollectiveName::kAllReduce) {
    error = MPI_Allreduce(call.send, call.receive, count, type, op, world);
  } else {
    const std::vector<int> counts(static_cast<std::size_t>(ranksOfWorld()), count);
    error = MPI_Reduce_scatter(call.send, call.receive, counts.data(), type, op, world);
  }
  if (error == MPI_SUCCESS) scale(call);
  return error;
}

int allToAllv(const ZipcclPlainMpiCall& call, std::size_t bytesEach) {
  const int ranks = ranksOfWorld();
  std::vector<int> sendCounts;
  std::vector<int> sendPlaces;
  int at = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    sendCounts.push_back(static_cast<int>(call.parts[rank] * bytesEach));
    sendPlaces.push_back(at);
    at += sendCounts.back();
  }
  const int own = sendCounts[static_cast<std::size_t>(rankInWorld())];
  const std::vector<int> receiveCounts(sendCounts.size(), own);
  std::vector<int> receivePlaces;
  receivePlaces.reserve(sendCounts.size());
  for (int rank = 0; rank < ranks; ++rank) receivePlaces.push_back(rank * own);
  return MPI_Alltoallv(call.send, sendCounts.data(), sendPlaces.data(), MPI_BYTE, call.receive,
                       receiveCounts.data(), receivePlaces.data(), MPI_BYTE, world);
}

int broadcast(const ZipcclPlainMpiCall& call, const Moved& moved) {
  // MPI has one buffer where the C API has two.
  if (rankInWorld() == call.root && moved.count != 0) {
    std::memcpy(call.receive, call.send, static_cast<std::size_t>(moved.count));
  }
  return MPI_Bcast(call.receive, moved.count, MPI_BYTE, call.root, world);
}

int sendReceive(const ZipcclPlainMpiCall& call, const Moved& moved) {
  constexpr int kTag = 1;
  const int ranks = ranksOfWorld();
  const int rank = rankInWorld();
  return MPI_Sendrecv(call.send, moved.count, MPI_BYTE, (rank + 1) % ranks, kTag, call.receive,
                      moved.count, MPI_BYTE, (rank + ranks - 1) % ranks, kTag, world,
                      MPI_STATUS_IGNORE);
}

int callMpi(const ZipcclPlainMpiCall* call) {
  const Moved moved(*call);
  const int n = moved.count;
  switch (static_cast<CollectiveName>(call->collective)) {
    case CollectiveName::kAllReduce:
    case CollectiveName::kReduceScatter:
      return reduce(*call);
    case CollectiveName::kAllGather:
      return MPI_Allgather(call->send, n, MPI_BYTE, call->receive, n, MPI_BYTE, world);
    case CollectiveName::kAllToAll:
      if (call->parts != nullptr) return allToAllv(*call, moved.bytesEach);
      return MPI_Alltoall(call->send, n, MPI_BYTE, call->receive, n, MPI_BYTE, world);
    case CollectiveName::kBroadcast:
      return broadcast(*call, moved);
    case CollectiveName::kGather:
      return MPI_Gather(call->send, n, MPI_BYTE, call->receive, n, MPI_BYTE, call->root, world);
    case CollectiveName::kScatter:
      return MPI_Scatter(call->send, n, MPI_BYTE, call->receive, n, MPI_BYTE, call->root, world);
    case CollectiveName::kSendRecv:
      return sendReceive(*call, moved);
  }
  return MPI_ERR_ARG;
}

void copyText(const char* from, char* text, int roomBytes) {
  if (roomBytes <= 0) return;
  const std::size_t bytes = std::min(std::strlen(from), static_cast<std::size_t>(roomBytes - 1));
  std::memcpy(text, from, bytes);
  text[bytes] = '\0';
}

void errorText(int error, char* text, int roomBytes) {
  char words[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(error, words, &length);
  copyText(words, text, roomBytes);
}

void libraryVersion(char* text, int roomBytes) {
  char words[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  MPI_Get_library_version(words, &length);
  copyText(words, text, roomBytes);
}

constexpr ZipcclPlainMpiFunctions kFunctions = {.version = zipccl::tools::perf::kPlainMpiVersion,
                                                .structBytes = sizeof(ZipcclPlainMpiFunctions),
                                                .open = open,
                                                .close = close,
                                                .refusal = refusal,
                                                .call = callMpi,
                                                .errorText = errorText,
                                                .libraryVersion = libraryVersion};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ZipcclPlainMpiFunctions*
zipcclPlainMpiFunctions() {
  return &kFunctions;
}
