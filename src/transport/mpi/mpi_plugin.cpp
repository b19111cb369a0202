// SPDX-License-Identifier: Apache-2.0
//
// libzipccl_mpi.so: the table of mpi_functions.hpp over the MPI that this file is compiled against.
// It holds no state and decides nothing. Needs MPI 3.0.

#include <mpi.h>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstring>

#include "transport/mpi/mpi_functions.hpp"

namespace {

static_assert(sizeof(MPI_Comm) <= sizeof(ZipcclMpiHandle) &&
              sizeof(MPI_Request) <= sizeof(ZipcclMpiHandle));
static_assert(alignof(MPI_Comm) <= alignof(ZipcclMpiHandle));
static_assert(MPI_SUCCESS == 0);

// Open MPI's handles are pointers, of which the size is meant.
// NOLINTBEGIN(bugprone-sizeof-expression)

template <class Handle>
Handle load(const ZipcclMpiHandle* from) {
  Handle handle;
  std::memcpy(&handle, from, sizeof(Handle));
  return handle;
}

template <class Handle>
void store(ZipcclMpiHandle* to, const Handle& handle) {
  *to = {};
  std::memcpy(to, &handle, sizeof(Handle));
}

// NOLINTEND(bugprone-sizeof-expression)

bool isNone(const ZipcclMpiHandle* request) {
  return request->storage[0] == 0 && request->storage[1] == 0;
}

/// `count` elements of `type` that are `bytes` bytes: MPI_BYTE while an int can count them, else
/// one element of a type made for it.
class ByteSpanType {
 public:
  explicit ByteSpanType(std::uint64_t bytes) {
    if (bytes <= kMaxPlainBytes) {
      count_ = static_cast<int>(bytes);
      return;
    }
    const std::uint64_t blockCount = bytes / kBlockBytes;
    const auto restBytes = static_cast<int>(bytes % kBlockBytes);
    if (blockCount > INT_MAX) {
      error_ = MPI_ERR_COUNT;
      return;
    }
    MPI_Datatype block = MPI_DATATYPE_NULL;
    MPI_Datatype blocks = MPI_DATATYPE_NULL;
    run(MPI_Type_contiguous(static_cast<int>(kBlockBytes), MPI_BYTE, &block));
    if (error_ == MPI_SUCCESS) {
      run(MPI_Type_contiguous(static_cast<int>(blockCount), block, &blocks));
    }
    if (error_ == MPI_SUCCESS) {
      int lengths[2] = {1, restBytes};
      MPI_Aint places[2] = {0, static_cast<MPI_Aint>(blockCount * kBlockBytes)};
      MPI_Datatype parts[2] = {blocks, MPI_BYTE};
      run(MPI_Type_create_struct(restBytes == 0 ? 1 : 2, lengths, places, parts, &type_));
      if (error_ == MPI_SUCCESS) {
        isOwned_ = true;
        run(MPI_Type_commit(&type_));
        count_ = 1;
      }
    }
    if (blocks != MPI_DATATYPE_NULL) MPI_Type_free(&blocks);
    if (block != MPI_DATATYPE_NULL) MPI_Type_free(&block);
  }
  ByteSpanType(const ByteSpanType&) = delete;
  ByteSpanType& operator=(const ByteSpanType&) = delete;

  /// MPI keeps a freed type until the operations that use it are complete.
  ~ByteSpanType() {
    if (isOwned_) MPI_Type_free(&type_);
  }

  [[nodiscard]] int error() const { return error_; }
  [[nodiscard]] int count() const { return count_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }

 private:
#ifdef ZIPCCL_TEST_SMALL_BLOCKS
  // For the tests, whose messages are not larger than what an int can count.
  static constexpr std::uint64_t kMaxPlainBytes = 500;
  static constexpr std::uint64_t kBlockBytes = 64;
#else
  static constexpr std::uint64_t kMaxPlainBytes = INT_MAX;
  static constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 24;
#endif

  void run(int error) {
    if (error_ == MPI_SUCCESS) error_ = error;
  }

  int error_ = MPI_SUCCESS;
  int count_ = 0;
  MPI_Datatype type_ = MPI_BYTE;
  bool isOwned_ = false;
};

int initialise(int* didInitialise, int* wasFinalised) {
  *didInitialise = 0;
  int answer = 0;
  int error = MPI_Finalized(&answer);
  *wasFinalised = answer;
  if (error != MPI_SUCCESS || answer != 0) return error;
  error = MPI_Initialized(&answer);
  if (error != MPI_SUCCESS || answer != 0) return error;
  int provided = 0;
  error = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (error != MPI_SUCCESS) return error;
  *didInitialise = 1;
  // Errors of calls that have no communicator of their own come to this one, which would end the
  // program. Where the program initialised MPI, its own choice stays.
  return MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
}

int mayThisThreadCall(int* answer) {
  int level = MPI_THREAD_SINGLE;
  int error = MPI_Query_thread(&level);
  *answer = 1;
  if (error == MPI_SUCCESS && level < MPI_THREAD_SERIALIZED) error = MPI_Is_thread_main(answer);
  return error;
}

int isFinalised(int* answer) { return MPI_Finalized(answer); }

int finalise() { return MPI_Finalize(); }

void copyText(const char* from, int fromBytes, char* text, int roomBytes) {
  if (roomBytes <= 0) return;
  const int bytes = std::min(fromBytes, roomBytes - 1);
  std::memcpy(text, from, static_cast<std::size_t>(bytes));
  text[bytes] = '\0';
}

void errorText(int error, char* text, int roomBytes) {
  char words[MPI_MAX_ERROR_STRING] = {};
  int wordBytes = 0;
  if (MPI_Error_string(error, words, &wordBytes) != MPI_SUCCESS) wordBytes = 0;
  copyText(words, wordBytes, text, roomBytes);
}

void libraryVersion(char* text, int roomBytes) {
  char words[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int wordBytes = 0;
  if (MPI_Get_library_version(words, &wordBytes) != MPI_SUCCESS) wordBytes = 0;
  copyText(words, wordBytes, text, roomBytes);
}

int isTruncation(int error) {
  int errorClass = MPI_SUCCESS;
  return MPI_Error_class(error, &errorClass) == MPI_SUCCESS && errorClass == MPI_ERR_TRUNCATE ? 1
                                                                                              : 0;
}

int startDuplicate(const void* parent, std::uint64_t parentBytes, ZipcclMpiHandle* comm,
                   ZipcclMpiHandle* request) {
  *comm = {};
  *request = {};
  MPI_Comm from = MPI_COMM_WORLD;
  if (parent != nullptr) {
    if (parentBytes != sizeof(MPI_Comm)) return MPI_ERR_COMM;
    std::memcpy(&from, parent, sizeof(MPI_Comm));
    int isInter = 0;
    if (from == MPI_COMM_NULL || MPI_Comm_test_inter(from, &isInter) != MPI_SUCCESS ||
        isInter != 0) {
      return MPI_ERR_COMM;
    }
  }
  MPI_Request started = MPI_REQUEST_NULL;
  const int error = MPI_Comm_idup(from, reinterpret_cast<MPI_Comm*>(comm), &started);
  store(request, started);
  return error;
}

int finishComm(ZipcclMpiHandle* comm, int* rank, int* rankCount) {
  const auto handle = load<MPI_Comm>(comm);
  int error = MPI_Comm_set_errhandler(handle, MPI_ERRORS_RETURN);
  if (error == MPI_SUCCESS) error = MPI_Comm_rank(handle, rank);
  if (error == MPI_SUCCESS) error = MPI_Comm_size(handle, rankCount);
  return error;
}

int freeComm(ZipcclMpiHandle* comm) {
  auto handle = load<MPI_Comm>(comm);
  const int error = MPI_Comm_free(&handle);
  *comm = {};
  return error;
}

int startSendBy(decltype(&MPI_Isend) start, const ZipcclMpiHandle* comm, const void* data,
                std::uint64_t bytes, int peer, int tag, ZipcclMpiHandle* request) {
  const ByteSpanType span(bytes);
  if (span.error() != MPI_SUCCESS) return span.error();
  MPI_Request started = MPI_REQUEST_NULL;
  const int error =
      start(data, span.count(), span.type(), peer, tag, load<MPI_Comm>(comm), &started);
  store(request, started);
  return error;
}

int startSend(const ZipcclMpiHandle* comm, const void* data, std::uint64_t bytes, int peer, int tag,
              ZipcclMpiHandle* request) {
  return startSendBy(&MPI_Isend, comm, data, bytes, peer, tag, request);
}

int startSynchronousSend(const ZipcclMpiHandle* comm, const void* data, std::uint64_t bytes,
                         int peer, int tag, ZipcclMpiHandle* request) {
  return startSendBy(&MPI_Issend, comm, data, bytes, peer, tag, request);
}

int startReceive(const ZipcclMpiHandle* comm, void* data, std::uint64_t bytes, int peer, int tag,
                 ZipcclMpiHandle* request) {
  const ByteSpanType span(bytes);
  if (span.error() != MPI_SUCCESS) return span.error();
  MPI_Request started = MPI_REQUEST_NULL;
  const int error =
      MPI_Irecv(data, span.count(), span.type(), peer, tag, load<MPI_Comm>(comm), &started);
  store(request, started);
  return error;
}

int startAllGather(const ZipcclMpiHandle* comm, const void* send, void* receive,
                   std::uint64_t bytesPerRank, ZipcclMpiHandle* request) {
  const ByteSpanType span(bytesPerRank);
  if (span.error() != MPI_SUCCESS) return span.error();
  MPI_Request started = MPI_REQUEST_NULL;
  const int error =
      MPI_Iallgather(send == nullptr ? MPI_IN_PLACE : send, span.count(), span.type(), receive,
                     span.count(), span.type(), load<MPI_Comm>(comm), &started);
  store(request, started);
  return error;
}

int allGather(const ZipcclMpiHandle* comm, const void* send, void* receive,
              std::uint64_t bytesPerRank) {
  const ByteSpanType span(bytesPerRank);
  if (span.error() != MPI_SUCCESS) return span.error();
  return MPI_Allgather(send == nullptr ? MPI_IN_PLACE : send, span.count(), span.type(), receive,
                       span.count(), span.type(), load<MPI_Comm>(comm));
}

int startBroadcast(const ZipcclMpiHandle* comm, void* buffer, std::uint64_t bytes, int root,
                   ZipcclMpiHandle* request) {
  const ByteSpanType span(bytes);
  if (span.error() != MPI_SUCCESS) return span.error();
  MPI_Request started = MPI_REQUEST_NULL;
  const int error =
      MPI_Ibcast(buffer, span.count(), span.type(), root, load<MPI_Comm>(comm), &started);
  store(request, started);
  return error;
}

int startBarrier(const ZipcclMpiHandle* comm, ZipcclMpiHandle* request) {
  MPI_Request started = MPI_REQUEST_NULL;
  const int error = MPI_Ibarrier(load<MPI_Comm>(comm), &started);
  store(request, started);
  return error;
}

int testRequest(ZipcclMpiHandle* request, int* isDone, std::uint64_t* messageBytes) {
  *messageBytes = 0;
  if (isNone(request)) {
    *isDone = 1;
    return MPI_SUCCESS;
  }
  auto handle = load<MPI_Request>(request);
  MPI_Status status = {};
  int isComplete = 0;
  const int error = MPI_Test(&handle, &isComplete, &status);
  *isDone = isComplete != 0 || error != MPI_SUCCESS ? 1 : 0;
  if (*isDone == 0) return MPI_SUCCESS;
  *request = {};
  MPI_Count bytes = 0;
  if (MPI_Get_elements_x(&status, MPI_BYTE, &bytes) == MPI_SUCCESS && bytes > 0) {
    *messageBytes = static_cast<std::uint64_t>(bytes);
  }
  return error;
}

int cancelRequest(ZipcclMpiHandle* request) {
  if (isNone(request)) return MPI_SUCCESS;
  auto handle = load<MPI_Request>(request);
  return MPI_Cancel(&handle);
}

int receiveAny(const ZipcclMpiHandle* comm, int tag, void* data, std::uint64_t* bytes,
               int* source) {
  *source = -1;
  int isThere = 0;
  MPI_Status status = {};
  const auto handle = load<MPI_Comm>(comm);
  int error = MPI_Iprobe(MPI_ANY_SOURCE, tag, handle, &isThere, &status);
  if (error != MPI_SUCCESS || isThere == 0) return error;
  const std::uint64_t room = std::min<std::uint64_t>(*bytes, INT_MAX);
  error = MPI_Recv(data, static_cast<int>(room), MPI_BYTE, status.MPI_SOURCE, tag, handle, &status);
  if (error != MPI_SUCCESS) return error;
  int gotBytes = 0;
  error = MPI_Get_count(&status, MPI_BYTE, &gotBytes);
  *bytes = static_cast<std::uint64_t>(gotBytes);
  *source = status.MPI_SOURCE;
  return error;
}

constexpr ZipcclMpiFunctions kFunctions = {
    .version = zipccl::transport::kMpiPluginVersion,
    .structBytes = sizeof(ZipcclMpiFunctions),
    .initialise = initialise,
    .mayThisThreadCall = mayThisThreadCall,
    .isFinalised = isFinalised,
    .finalise = finalise,
    .errorText = errorText,
    .libraryVersion = libraryVersion,
    .isTruncation = isTruncation,
    .startDuplicate = startDuplicate,
    .finishComm = finishComm,
    .freeComm = freeComm,
    .startSend = startSend,
    .startSynchronousSend = startSynchronousSend,
    .startReceive = startReceive,
    .startAllGather = startAllGather,
    .allGather = allGather,
    .startBroadcast = startBroadcast,
    .startBarrier = startBarrier,
    .testRequest = testRequest,
    .cancelRequest = cancelRequest,
    .receiveAny = receiveAny,
};

}  // namespace

extern "C" __attribute__((visibility("default"))) const ZipcclMpiFunctions* zipcclMpiFunctions() {
  return &kFunctions;
}
