// SPDX-License-Identifier: Apache-2.0
//
// NCCL as this tool uses it: loaded at run time, so that the command starts where there is none.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <string>

struct ncclComm;

namespace zipccl::tools::perf_nccl {

/// ncclUniqueId, which is passed by value.
struct NcclUniqueId {
  std::array<char, 128> bytes;
};

/// NCCL's functions, with int for enumerators. What came with 2.28 is null in an older one.
struct NcclFunctions {
  int (*getVersion)(int* version);
  int (*getUniqueId)(NcclUniqueId* id);
  const char* (*getErrorString)(int result);
  const char* (*getLastError)(ncclComm* comm);
  int (*commInitRank)(ncclComm** comm, int rankCount, NcclUniqueId id, int rank);
  int (*commDestroy)(ncclComm* comm);
  int (*commAbort)(ncclComm* comm);
  int (*commGetAsyncError)(ncclComm* comm, int* error);
  int (*redOpCreatePreMulSum)(int* op, void* scalar, int datatype, int residence, ncclComm* comm);
  int (*groupStart)();
  int (*groupEnd)();
  int (*allGather)(const void* send, void* receive, std::size_t count, int datatype, ncclComm* comm,
                   void* stream);
  int (*allReduce)(const void* send, void* receive, std::size_t count, int datatype, int op,
                   ncclComm* comm, void* stream);
  int (*reduceScatter)(const void* send, void* receive, std::size_t count, int datatype, int op,
                       ncclComm* comm, void* stream);
  int (*broadcast)(const void* send, void* receive, std::size_t count, int datatype, int root,
                   ncclComm* comm, void* stream);
  int (*send)(const void* send, std::size_t count, int datatype, int peer, ncclComm* comm,
              void* stream);
  int (*receive)(void* receive, std::size_t count, int datatype, int peer, ncclComm* comm,
                 void* stream);
  int (*allToAll)(const void* send, void* receive, std::size_t count, int datatype, ncclComm* comm,
                  void* stream);
  int (*gather)(const void* send, void* receive, std::size_t count, int datatype, int root,
                ncclComm* comm, void* stream);
  int (*scatter)(const void* send, void* receive, std::size_t count, int datatype, int root,
                 ncclComm* comm, void* stream);
};

/// The one NCCL of this process, never unloaded.
class NcclLibrary {
 public:
  /// `path` empty: the one that the process has loaded, else the file that ZIPCCL_NCCL_LIB names,
  /// else libnccl.so.2 as the dynamic linker finds it. Throws Failure.
  explicit NcclLibrary(const std::string& path);

  [[nodiscard]] const NcclFunctions& functions() const noexcept { return functions_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Such as `2.28.9`.
  [[nodiscard]] std::string version() const;

  /// A function that this NCCL has besides, or null.
  [[nodiscard]] void* find(const char* name) const noexcept;

  /// Throws Failure, in NCCL's words, unless `result` is success. `comm` may be null.
  void check(int result, const char* what, ncclComm* comm) const;

 private:
  void* handle_ = nullptr;
  std::string path_;
  NcclFunctions functions_{};
};

/// Owns one rank of a communicator.
class NcclCommunicator {
 public:
  /// A collective call. Throws Failure.
  NcclCommunicator(const NcclLibrary& library, const NcclUniqueId& id, int rank, int rankCount);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  /// A collective call, among the ranks of a host, unless aborted.
  ~NcclCommunicator();

  [[nodiscard]] ncclComm* get() const noexcept { return comm_; }

  /// Ends what it waits for; any thread may call it.
  void abort() noexcept;
  [[nodiscard]] bool isAborted() const noexcept { return isAborted_; }

 private:
  const NcclLibrary& library_;
  ncclComm* comm_ = nullptr;
  std::atomic<bool> isAborted_ = false;
};

}  // namespace zipccl::tools::perf_nccl
