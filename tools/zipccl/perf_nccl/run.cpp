// SPDX-License-Identifier: Apache-2.0
//
// Ranks over NCCL, as threads or processes.

#include "perf_nccl/run.hpp"

#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>

#include "perf/process_run.hpp"
#include "perf/thread_run.hpp"
#include "perf_nccl/launcher.hpp"
#include "perf_nccl/nccl_calls.hpp"
#include "perf_nccl/nccl_device.hpp"
#include "perf_nccl/nccl_library.hpp"
#include "perf_nccl/own_processes.hpp"
#include "perf_nccl/socket_control.hpp"

namespace zipccl::tools::perf_nccl {
namespace {

using perf::Communicator;
using perf::Options;
using perf::RankCommunicators;
using perf::RankEnds;
using perf::RunInfo;

/// Threads of one process, which start calls by the clock.
class ThreadControl final : public perf::CommunicatorControl {
 public:
  using CommunicatorControl::CommunicatorControl;
  void startTogether() override { startByClock(*this); }
};

perf::NcclInfo describe(const NcclLibrary& library, const NcclDevices& devices, int ranksOfHost,
                        bool areProcesses) {
  perf::NcclInfo info;
  info.version = library.version();
  info.file = library.path();
  const bool doShare = isOwnHostId(std::getenv("NCCL_HOSTID"));
  info.device = doShare ? std::to_string(ranksOfHost) + " ranks share " +
                              std::to_string(devices.count) + " x " + devices.name
                        : std::to_string(ranksOfHost) + " x " + devices.name;
  info.areProcesses = areProcesses;
  // What decides on the link, or on how NCCL uses it.
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_P2P_LEVEL", "NCCL_SHM_DISABLE", "NCCL_NET",
                           "NCCL_IB_DISABLE", "NCCL_HOSTID", "NCCL_NVLS_ENABLE", "NCCL_ALGO",
                           "NCCL_PROTO", "CUDA_DEVICE_MAX_CONNECTIONS"}) {
    const char* const value = std::getenv(name);
    if (value == nullptr || *value == '\0' || isOwnHostId(value)) continue;
    info.variables.emplace_back(name, value);
  }
  return info;
}

/// Native calls and the library's, on one communicator of NCCL.
void openCalls(const NcclLibrary& library, const NcclUniqueId& id, int rank, int rankCount,
               zipcclStrategy_t strategy, NcclDevice& device, RankCommunicators& communicators) {
  auto native = std::make_unique<NcclCalls>(
      library, std::make_unique<NcclCommunicator>(library, id, rank, rankCount), rank, rankCount,
      device.stream());
  communicators.zipccl =
      Communicator::createNccl(native->communicator(), strategy, device.stream());
  communicators.native = std::move(native);
  communicators.nativeReduces = true;
  device.setWatch([control = communicators.control.get(), zipccl = communicators.zipccl.get()] {
    control->expectAll();
    zipccl->expectWell();
  });
}

void expectEnoughDevices(int ranks, const NcclDevices& devices) {
  if (ranks <= devices.count || devices.isShared) return;
  throw UsageError("NCCL wants a device for each rank of a process: there are " +
                   std::to_string(devices.count) + ", not " + std::to_string(ranks) +
                   ". With --processes ranks can share devices");
}

ExitStatus runThreads(const NcclLibrary& library, const NcclDevices& devices, int ranks,
                      const Options& options, const std::vector<std::string>& arguments,
                      const perf::Streams& streams) {
  NcclUniqueId id{};
  std::vector<std::unique_ptr<Communicator>> controls;
  perf::ThreadRun run;
  run.ranks = ranks;
  run.prepare = [&](RunInfo& info) {
    info.nccl = describe(library, devices, ranks, false);
    controls = Communicator::createLocal(ranks, zipcclStrategyNative, 0);
    library.check(library.functions().getUniqueId(&id), "ncclGetUniqueId", nullptr);
  };
  run.open = [&](int rank) {
    std::unique_ptr<NcclDevice> device = openDevice(library, rank);
    RankEnds ends;
    ends.communicators.control =
        std::make_unique<ThreadControl>(std::move(controls[static_cast<std::size_t>(rank)]));
    openCalls(library, id, rank, ranks, options.strategy, *device, ends.communicators);
    ends.device = std::move(device);
    return ends;
  };
  return perf::runThreads(run, options, arguments, streams);
}

/// One process of a launcher.
class NcclProcessRun final : public perf::ProcessRun {
 public:
  NcclProcessRun(const Options& options, const std::vector<std::string>& arguments,
                 const perf::Streams& streams, const LaunchedRank& launched,
                 std::unique_ptr<perf::Control> control)
      : ProcessRun(options, arguments, streams, std::move(control)), launched_(launched) {}
  ~NcclProcessRun() override {
    // What they rest on ends before the base does.
    communicators().zipccl.reset();
    communicators().native.reset();
  }

 private:
  [[nodiscard]] perf::RankDevice& device() override { return *device_; }
  [[nodiscard]] std::string launcher() const override { return launched_.launcher; }

  void open() override {
    // What a rank lacks shows before any rank waits for it in NCCL.
    NcclUniqueId id{};
    agree([&] {
      library_.emplace(options().nccl);
      const NcclDevices devices = findDevices(*library_);
      // A launcher may have left each rank no device but its own.
      device_ = openDevice(*library_, launched_.localRank % devices.count);
      info().nccl = describe(*library_, devices, ranksOfHost(), true);
      if (rank() == 0) {
        library_->check(library_->functions().getUniqueId(&id), "ncclGetUniqueId", nullptr);
      }
    });
    id = control().gather(id).front();
    agree([&] {
      openCalls(*library_, id, rank(), ranks(), options().strategy, *device_, communicators());
    });
  }

  LaunchedRank launched_;
  std::optional<NcclLibrary> library_;
  std::unique_ptr<NcclDevice> device_;
};

ExitStatus runAsLaunched(const LaunchedRank& launched, const Options& options,
                         const std::vector<std::string>& arguments, const perf::Streams& streams) {
  constexpr auto kLongest = std::chrono::seconds(120);
  std::optional<Endpoint> root = launched.root;
  if (!options.rendezvous.empty()) root = parseEndpoint(options.rendezvous);
  if (!root) {
    throw UsageError(launched.launcher +
                     " does not say where rank 0 is: set MASTER_ADDR on all ranks, or give "
                     "--rendezvous HOST:PORT");
  }
  return NcclProcessRun(
             options, arguments, streams, launched,
             std::make_unique<SocketControl>(launched.rank, launched.rankCount, *root, kLongest))
      .run();
}

}  // namespace

ExitStatus runNccl(const Options& options, const std::vector<std::string>& arguments,
                   const perf::Streams& streams) {
  const std::optional<LaunchedRank> launched =
      launchedRank([](const char* name) { return std::getenv(name); }, ::getppid());
  if (launched) return runAsLaunched(*launched, options, arguments, streams);
  const NcclLibrary library(options.nccl);
  const NcclDevices devices = findDevices(library);
  const int ranks = options.ranks.value_or(devices.count);
  if (options.usesProcesses) {
    return runProcesses(arguments, ranks, devices.isShared ? ranks : devices.count);
  }
  expectEnoughDevices(ranks, devices);
  return runThreads(library, devices, ranks, options, arguments, streams);
}

}  // namespace zipccl::tools::perf_nccl
