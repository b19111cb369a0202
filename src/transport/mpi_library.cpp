// SPDX-License-Identifier: Apache-2.0
//
// Finding and loading the MPI plugin, and the end of MPI.

#include "transport/mpi_library.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "base/dl_handle.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "transport/mpi_transport.hpp"

namespace zipccl::transport {

namespace {

/// How often a rank that is done looks whether the others are.
constexpr std::chrono::milliseconds kLookInterval{1};

constexpr char kInstallFolder[] = ZIPCCL_INSTALL_LIBDIR;
constexpr char kRelativeFolder[] = ZIPCCL_RELATIVE_LIBDIR;

void refuseFinalised(int isFinalised) {
  expects(isFinalised == 0, ErrorCode::kSystemError,
          "MPI was finalised before, so no MPI transport can be made any more");
}

/// Whether the loader's words say that there is no `path`, rather than what is wrong with it.
bool saysNotFound(std::string_view reason, std::string_view path) {
  return reason.starts_with(concat(path, ": cannot open shared object file: No such file"));
}

using PluginEntry = const ZipcclMpiFunctions* (*)();

const ZipcclMpiFunctions& loadPlugin() {
  // MPI loads components of its own, some of which look for MPI's symbols globally.
  constexpr int kFlags = RTLD_NOW | RTLD_GLOBAL;
  std::string tried;
  for (const std::string& path : mpiPluginCandidates()) {
    std::string reason;
    std::optional<DlHandle> plugin = DlHandle::tryOpen(path, kFlags, &reason);
    if (!plugin) {
      if (!saysNotFound(reason, path)) {
        fail(ErrorCode::kSystemError, "the MPI plugin ", path, " cannot be loaded: ", reason,
             ". Install the MPI that it was built against (Debian: openmpi-bin), or build ZipCCL "
             "again with the MPI of this machine");
      }
      tried += concat(tried.empty() ? "" : ", ", path);
      continue;
    }
    const ZipcclMpiFunctions* functions = plugin->symbol<PluginEntry>(kMpiPluginSymbol)();
    expects(functions->version == kMpiPluginVersion &&
                functions->structBytes == sizeof(ZipcclMpiFunctions),
            ErrorCode::kSystemError, "the MPI plugin ", path, " has version ", functions->version,
            ", this ZipCCL needs version ", kMpiPluginVersion, ": install both from one build");
    plugin->leaveLoaded();
    logInfo(LogSubsystem::kInit, "MPI plugin ", path);
    return *functions;
  }
  fail(
      ErrorCode::kSystemError, "there is no MPI plugin ", kMpiPluginFile, ": tried ", tried,
      ". Build ZipCCL where an MPI is installed (Debian: libopenmpi-dev), or let ZIPCCL_PLUGIN_DIR "
      "name the folder that has it");
}

}  // namespace

std::vector<std::string> mpiPluginCandidates() {
  std::vector<std::string> folders;
  if (!settings().pluginDirectory.empty()) folders.push_back(settings().pluginDirectory);
  const std::string own = folderOfImage(&kInstallFolder);
  if (!own.empty()) {
    folders.push_back(own);
    folders.push_back(concat(own, "/../", kRelativeFolder));
  }
  folders.emplace_back(kInstallFolder);
  std::vector<std::string> files;
  for (const std::string& folder : folders) {
    std::string file = concat(folder, '/', kMpiPluginFile);
    if (std::find(files.begin(), files.end(), file) == files.end())
      files.push_back(std::move(file));
  }
  files.emplace_back(kMpiPluginFile);
  return files;
}

MpiLibrary::MpiLibrary(const ZipcclMpiFunctions& functions)
    : functions_(functions), processId_(::getpid()) {
  int didInitialise = 0;
  int wasFinalised = 0;
  check(functions_.initialise(&didInitialise, &wasFinalised), "MPI_Init_thread");
  refuseFinalised(wasFinalised);
  didInitialise_ = didInitialise != 0;
  logInfo(LogSubsystem::kInit, version(), didInitialise_ ? ", initialised here" : "");
}

std::shared_ptr<MpiLibrary> MpiLibrary::ofPlugin() {
  static std::shared_ptr<MpiLibrary>& library = *new std::shared_ptr<MpiLibrary>();
  if (library == nullptr) {
    library = std::make_shared<MpiLibrary>(loadPlugin());
    std::atexit([] { library->finalise(); });
  }
  return library;
}

std::string MpiLibrary::version() const {
  char text[256] = {};
  functions_.libraryVersion(text, sizeof(text));
  return text;
}

std::string MpiLibrary::textOf(int error) const {
  char text[512] = {};
  functions_.errorText(error, text, sizeof(text));
  return text[0] == '\0' ? concat("MPI error ", error) : text;
}

void MpiLibrary::check(int error, std::string_view call, SourceLocation where) const {
  if (error == 0) return;
  throw Error(ErrorCode::kSystemError, concat(call, " failed: ", textOf(error)), where);
}

void MpiLibrary::addTransport(MpiCommunicators& communicators) {
  communicators.creationIndex = creationCount_;
  live_.push_back(creationCount_);
  ++creationCount_;
}

void MpiLibrary::retire(std::unique_ptr<MpiCommunicators> communicators, bool hasFailed) noexcept {
  if (hasFailed) {
    // Nobody answers for a failed transport, so it cannot be known when MPI is done with them: they
    // count as in use, which keeps all later ones, too, as on the other ranks.
    hasFailed_ = true;
    keep(std::move(communicators));
    return;
  }
  try {
    retired_.reserve(retired_.size() + 1);
    const auto isLater = [&](const std::unique_ptr<MpiCommunicators>& other) {
      return other->creationIndex > communicators->creationIndex;
    };
    const auto place = std::find_if(retired_.begin(), retired_.end(), isLater);
    std::erase(live_, communicators->creationIndex);
    retired_.insert(place, std::move(communicators));
  } catch (const std::exception&) {
    keep(std::move(communicators));
  }
}

void MpiLibrary::keep(std::unique_ptr<MpiCommunicators> communicators) noexcept {
  try {
    kept_.reserve(kept_.size() + 1);
    kept_.push_back(std::move(communicators));
  } catch (const std::exception&) {
    static_cast<void>(communicators.release());
  }
}

bool MpiLibrary::isFreeable(MpiCommunicators& communicators) {
  for (const std::unique_ptr<MpiNoticeSend>& send : communicators.notices) {
    if (send->isDone) continue;
    int isDone = 0;
    std::uint64_t bytes = 0;
    check(functions_.testRequest(&send->request, &isDone, &bytes), "MPI_Test");
    send->isDone = isDone != 0;
  }
  for (;;) {
    MpiNotice notice;
    std::uint64_t bytes = sizeof(notice);
    int source = -1;
    check(functions_.receiveAny(&communicators.control, kMpiNoticeTag, &notice, &bytes, &source),
          "MPI_Recv");
    if (source < 0) break;
    if (bytes != sizeof(notice) || notice.magic != MpiNotice::kMagic) continue;
    if (notice.kind == MpiNotice::Kind::kLeaving) {
      communicators.hasLeft[static_cast<std::size_t>(source)] = true;
    } else if (notice.kind == MpiNotice::Kind::kFailure) {
      hasFailed_ = true;
    }
  }
  const std::vector<bool>& hasLeft = communicators.hasLeft;
  return std::find(hasLeft.begin(), hasLeft.end(), false) == hasLeft.end() &&
         std::all_of(communicators.notices.begin(), communicators.notices.end(),
                     [](const std::unique_ptr<MpiNoticeSend>& send) { return send->isDone; });
}

bool MpiLibrary::isInChild() const noexcept { return ::getpid() != processId_; }

void MpiLibrary::requireUsable() const {
  expects(!isInChild(), ErrorCode::kSystemError,
          "MPI was initialised before this process was forked and belongs to the parent");
  int isFinalised = 0;
  check(functions_.isFinalised(&isFinalised), "MPI_Finalized");
  refuseFinalised(isFinalised);
  int mayCall = 0;
  check(functions_.mayThisThreadCall(&mayCall), "MPI_Query_thread");
  if (mayCall == 0) {
    logWarn(
        "MPI was initialised with a thread level below MPI_THREAD_SERIALIZED, which forbids any "
        "thread but the one that did it to use MPI, and this is another: calls may fail or hang");
  }
}

void MpiLibrary::sweep() {
  // All are looked at, so that notices that arrive for the later ones are taken too.
  bool mayFree = true;
  for (std::size_t i = 0; i < retired_.size();) {
    MpiCommunicators& communicators = *retired_[i];
    const bool isFirst = live_.empty() || communicators.creationIndex < live_.front();
    mayFree = isFreeable(communicators) && isFirst && mayFree;
    if (!mayFree) {
      ++i;
      continue;
    }
    check(functions_.freeComm(&communicators.data), "MPI_Comm_free");
    check(functions_.freeComm(&communicators.control), "MPI_Comm_free");
    retired_.erase(retired_.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

bool MpiLibrary::finalise() noexcept {
  if (isInChild()) return false;
  try {
    int isFinalised = 0;
    check(functions_.isFinalised(&isFinalised), "MPI_Finalized");
    if (isFinalised != 0) return false;
    for (;;) {
      if (!canFinalise()) return false;
      sweep();
      if (retired_.empty()) break;
      std::this_thread::sleep_for(kLookInterval);
    }
    check(functions_.finalise(), "MPI_Finalize");
    return true;
  } catch (const std::exception& error) {
    logWarn("MPI cannot be finalised: ", error.what());
    return false;
  }
}

}  // namespace zipccl::transport
