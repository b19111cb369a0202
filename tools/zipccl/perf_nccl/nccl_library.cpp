// SPDX-License-Identifier: Apache-2.0
//
// Finds, loads and calls NCCL.

#include "perf_nccl/nccl_library.hpp"

#include <dlfcn.h>

#include <cstdlib>

#include "support/failure.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf_nccl {
namespace {

constexpr const char* kUsualName = "libnccl.so.2";

/// For the whole process: the library looks for it there.
constexpr int kFlags = RTLD_NOW | RTLD_GLOBAL;

void* open(const std::string& wanted, std::string& path) {
  if (!wanted.empty()) {
    path = wanted;
    return ::dlopen(path.c_str(), kFlags);
  }
  path = kUsualName;
  if (void* const loaded = ::dlopen(kUsualName, kFlags | RTLD_NOLOAD)) return loaded;
  const char* const named = ::secure_getenv("ZIPCCL_NCCL_LIB");
  if (named != nullptr && *named != '\0') path = named;
  return ::dlopen(path.c_str(), kFlags);
}

}  // namespace

NcclLibrary::NcclLibrary(const std::string& path) {
  handle_ = open(path, path_);
  if (handle_ == nullptr) {
    throw Failure(
        "NCCL cannot be loaded (--nccl FILE names it; PyTorch brings one as "
        "nvidia/nccl/lib/libnccl.so.2): " +
        printable(::dlerror(), 400));
  }
  bool isComplete = true;
  const auto take = [&](auto& function, const char* name, bool isNeeded = true) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(find(name));
    isComplete = isComplete && (function != nullptr || !isNeeded);
  };
  NcclFunctions& f = functions_;
  take(f.getVersion, "ncclGetVersion");
  take(f.getUniqueId, "ncclGetUniqueId");
  take(f.getErrorString, "ncclGetErrorString");
  take(f.getLastError, "ncclGetLastError", false);
  take(f.commInitRank, "ncclCommInitRank");
  take(f.commDestroy, "ncclCommDestroy");
  take(f.commAbort, "ncclCommAbort");
  take(f.commGetAsyncError, "ncclCommGetAsyncError");
  take(f.redOpCreatePreMulSum, "ncclRedOpCreatePreMulSum");
  take(f.groupStart, "ncclGroupStart");
  take(f.groupEnd, "ncclGroupEnd");
  take(f.allGather, "ncclAllGather");
  take(f.allReduce, "ncclAllReduce");
  take(f.reduceScatter, "ncclReduceScatter");
  take(f.broadcast, "ncclBroadcast");
  take(f.send, "ncclSend");
  take(f.receive, "ncclRecv");
  take(f.allToAll, "ncclAlltoAll", false);
  take(f.gather, "ncclGather", false);
  take(f.scatter, "ncclScatter", false);
  if (!isComplete) throw Failure(printable(path_, 400) + " is no NCCL that this command knows");
  Dl_info info = {};
  if (::dladdr(reinterpret_cast<void*>(f.getVersion), &info) != 0 && info.dli_fname != nullptr) {
    path_ = info.dli_fname;
  }
}

std::string NcclLibrary::version() const {
  int code = 0;
  if (functions_.getVersion(&code) != 0) return "unknown";
  // Before 2.9 a minor version had two digits less.
  const int base = code < 10'000 ? 1000 : 10'000;
  return std::to_string(code / base) + "." + std::to_string(code % base / 100) + "." +
         std::to_string(code % 100);
}

void* NcclLibrary::find(const char* name) const noexcept { return ::dlsym(handle_, name); }

void NcclLibrary::check(int result, const char* what, ncclComm* comm) const {
  if (result == 0) return;
  std::string words = std::string(what) + ": " + functions_.getErrorString(result);
  const char* const more =
      functions_.getLastError != nullptr ? functions_.getLastError(comm) : nullptr;
  if (more != nullptr && *more != '\0') words += ": " + printable(more, 400);
  throw Failure(words);
}

NcclCommunicator::NcclCommunicator(const NcclLibrary& library, const NcclUniqueId& id, int rank,
                                   int rankCount)
    : library_(library) {
  library_.check(library_.functions().commInitRank(&comm_, rankCount, id, rank), "ncclCommInitRank",
                 nullptr);
}

NcclCommunicator::~NcclCommunicator() {
  if (!isAborted_) static_cast<void>(library_.functions().commDestroy(comm_));
}

void NcclCommunicator::abort() noexcept {
  if (!isAborted_.exchange(true)) static_cast<void>(library_.functions().commAbort(comm_));
}

}  // namespace zipccl::tools::perf_nccl
