// SPDX-License-Identifier: Apache-2.0
//
// A program that mpi_failure_test.cpp runs under mpirun: plays one scenario of failure and prints
// how it ended on this rank, as `rank 1: <outcome>`, to standard error.

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/dl_handle.hpp"
#include "base/unique_fd.hpp"
#include "transport/mpi_transport.hpp"

namespace zipccl::transport {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kLargeBytes = 4 << 20;

int rankOfProcess() {
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  return rank == nullptr ? 0 : std::atoi(rank);
}

void report(const std::string& outcome) {
  const std::string line = concat("rank ", rankOfProcess(), ": ", outcome, "\n");
  static_cast<void>(!::write(STDERR_FILENO, line.data(), line.size()));
}

/// Runs `call` and prints its error, with the time it took.
template <class Call>
void reportErrorOf(Call call) {
  const std::int64_t startUs = nowUs();
  try {
    call();
    report("no error");
  } catch (const Error& error) {
    report(concat("error ", static_cast<int>(error.code()), " after ", (nowUs() - startUs) / 1000,
                  " ms: ", error.message()));
  }
}

std::unique_ptr<Transport> load(std::chrono::milliseconds timeout) {
  return loadMpiTransport({.timeout = timeout});
}

void gatherSmall(Transport& transport) {
  std::vector<std::byte> send(100);
  std::vector<std::byte> receive(100 * static_cast<std::size_t>(transport.rankCount()));
  transport.allGather(send.data(), receive.data(), 100);
}

void abortInTheMiddle() {
  const std::unique_ptr<Transport> transport = load(60s);
  transport->barrier();
  std::thread watchdog;
  if (transport->rank() == 0) {
    watchdog = std::thread([&] {
      std::this_thread::sleep_for(200ms);
      transport->abort("the watchdog had enough");
    });
  }
  reportErrorOf([&] {
    if (transport->rank() == 2) std::this_thread::sleep_for(600ms);
    if (transport->rank() == 1) {
      std::array<std::byte, 8> data = {};
      const ReceiveMessage receive{.peer = 2, .data = data.data(), .bytes = data.size()};
      transport->exchange({}, {&receive, 1});
    }
    gatherSmall(*transport);
    transport->barrier();
  });
  if (watchdog.joinable()) watchdog.join();
  reportErrorOf([&] { transport->barrier(); });
}

void missing(bool isLarge) {
  const std::unique_ptr<Transport> transport = load(500ms);
  transport->barrier();
  if (transport->rank() == 2) std::this_thread::sleep_for(2500ms);
  reportErrorOf([&] {
    if (isLarge) {
      std::vector<std::byte> send(kLargeBytes);
      std::vector<std::byte> receive(kLargeBytes * 3);
      transport->allGather(send.data(), receive.data(), kLargeBytes);
    } else {
      gatherSmall(*transport);
    }
    // The late rank may find all it needs for that, but not for more.
    transport->barrier();
  });
}

void lateAndContent() {
  const std::unique_ptr<Transport> transport = load(500ms);
  transport->barrier();
  if (transport->rank() == 2) std::this_thread::sleep_for(2500ms);
  reportErrorOf([&] { gatherSmall(*transport); });
}

void missingInExchange() {
  const std::unique_ptr<Transport> transport = load(500ms);
  transport->barrier();
  reportErrorOf([&] {
    if (transport->rank() == 2) {
      std::this_thread::sleep_for(2500ms);
      transport->barrier();
    }
    std::vector<std::byte> buffer(kLargeBytes);
    const int other = 1 - transport->rank();
    std::vector<std::byte> received(kLargeBytes);
    const std::array<SendMessage, 2> sends = {
        SendMessage{.peer = other, .data = buffer.data(), .bytes = 1000},
        SendMessage{.peer = 2, .data = buffer.data(), .bytes = kLargeBytes}};
    const std::array<ReceiveMessage, 2> receives = {
        ReceiveMessage{.peer = other, .data = received.data(), .bytes = 1000},
        ReceiveMessage{.peer = 2, .data = received.data() + 1000, .bytes = 8}};
    transport->exchange(sends, receives);
  });
}

void left() {
  std::unique_ptr<Transport> transport = load(60s);
  transport->barrier();
  if (transport->rank() == 2) {
    transport.reset();
    report("left");
    return;
  }
  reportErrorOf([&] {
    if (transport->rank() == 0) {
      std::array<std::byte, 8> data = {};
      const ReceiveMessage receive{.peer = 2, .data = data.data(), .bytes = data.size()};
      transport->exchange({}, {&receive, 1});
    }
    gatherSmall(*transport);
  });
}

void thrown() {
  const std::unique_ptr<Transport> transport = load(60s);
  transport->barrier();
  if (transport->rank() == 1) fail(ErrorCode::kInternalError, "a fault of rank 1 alone");
  reportErrorOf([&] { gatherSmall(*transport); });
}

void mismatch(std::size_t sentBytes, std::size_t expectedBytes, bool isBesideWork = false) {
  const std::unique_ptr<Transport> transport = load(60s);
  transport->barrier();
  std::vector<std::byte> buffer(kLargeBytes);
  reportErrorOf([&] {
    if (transport->rank() == 0) {
      const SendMessage send{1, buffer.data(), sentBytes, isBesideWork};
      transport->exchange({&send, 1}, {});
    } else if (transport->rank() == 1) {
      const ReceiveMessage receive{0, buffer.data(), expectedBytes, isBesideWork};
      transport->exchange({}, {&receive, 1});
    }
    transport->barrier();
  });
}

void controlMismatch() {
  const std::unique_ptr<Transport> transport = load(60s);
  std::array<std::byte, 40> mine = {};
  std::array<std::byte, 120> all = {};
  const std::size_t bytes = transport->rank() == 1 ? 36 : 40;
  reportErrorOf([&] {
    transport->allGatherControl(std::span(mine).first(bytes), std::span(all).first(3 * bytes));
    transport->barrier();
  });
}

void droppedRequest() {
  const std::unique_ptr<Transport> transport = load(60s);
  transport->barrier();
  std::vector<std::byte> buffer(1000);
  if (transport->rank() == 0) {
    const ReceiveMessage receive{.peer = 1, .data = buffer.data(), .bytes = 1000};
    Request request = transport->startExchange({}, {&receive, 1});
    request = Request();
  }
  reportErrorOf([&] { transport->barrier(); });
}

using MpiInit = int (*)(int*, char***);
using MpiFinalize = int (*)();

DlHandle openMpi() { return DlHandle::open("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL); }

/// The program owns MPI: the transport must neither initialise nor finalise it.
void initialisedByTheProgram() {
  DlHandle mpi = openMpi();
  mpi.symbol<MpiInit>("MPI_Init")(nullptr, nullptr);
  std::unique_ptr<Transport> transport = load(60s);
  gatherSmall(*transport);
  transport.reset();
  transport = load(60s);
  gatherSmall(*transport);
  mpi.symbol<MpiFinalize>("MPI_Finalize")();
  // Too late, but harmless.
  transport.reset();
  reportErrorOf([] { static_cast<void>(load(60s)); });
  mpi.leaveLoaded();
}

/// An error of MPI that concerns no communicator of the transport.
void errorOfMpi() {
  const std::unique_ptr<Transport> transport = load(60s);
  DlHandle mpi = openMpi();
  using CallErrorHandler = int (*)(void* comm, int error);
  mpi.symbol<CallErrorHandler>("MPI_Comm_call_errhandler")(mpi.symbol<void*>("ompi_mpi_comm_world"),
                                                           16);
  report("goes on");
  gatherSmall(*transport);
  mpi.leaveLoaded();
}

void missingAtTheStart() {
  if (rankOfProcess() != 2) {
    reportErrorOf([] { static_cast<void>(load(500ms)); });
    return;
  }
  DlHandle mpi = openMpi();
  mpi.symbol<MpiInit>("MPI_Init")(nullptr, nullptr);
  std::this_thread::sleep_for(3s);
  report("did not come");
  mpi.leaveLoaded();
}

void clean() {
  const std::unique_ptr<Transport> transport = load(60s);
  gatherSmall(*transport);
  report("done");
}

int play(const std::string& name) {
  const std::map<std::string, void (*)()> scenarios = {
      {"clean", clean},
      {"abort", abortInTheMiddle},
      {"missing", [] { missing(false); }},
      {"missing-large", [] { missing(true); }},
      {"missing-exchange", missingInExchange},
      {"late-and-content", lateAndContent},
      {"left", left},
      {"thrown", thrown},
      {"mismatch-short", [] { mismatch(kLargeBytes - 96, kLargeBytes); }},
      {"mismatch-long", [] { mismatch(kLargeBytes, kLargeBytes - 96); }},
      {"mismatch-small", [] { mismatch(100, 96); }},
      {"mismatch-zero", [] { mismatch(0, 7); }},
      {"mismatch-in-pieces-short", [] { mismatch(60 * 1024, 100'000, true); }},
      {"mismatch-in-pieces-long", [] { mismatch(100'000, 60 * 1024, true); }},
      {"mismatch-in-pieces-many", [] { mismatch(300'000, 70'000, true); }},
      {"control-mismatch", controlMismatch},
      {"dropped-request", droppedRequest},
      {"initialised-by-program", initialisedByTheProgram},
      {"error-of-mpi", errorOfMpi},
      {"missing-at-start", missingAtTheStart},
  };
  const auto found = scenarios.find(name);
  if (found == scenarios.end()) {
    report("no scenario " + name);
    return 2;
  }
  found->second();
  return 0;
}

/// mpirun ends the others when the first process of a failed job exits: so each waits here until
/// all have printed how it ended.
void waitForOthers(const std::string& folder) {
  const auto fileOf = [&](int rank) { return concat(folder, "/ended-", rank); };
  UniqueFd(::open(fileOf(rankOfProcess()).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)).reset();
  const Deadline limit(20s);
  for (int rank = 0; rank < 3; ++rank) {
    while (::access(fileOf(rank).c_str(), F_OK) != 0 && !limit.hasPassed()) {
      std::this_thread::sleep_for(10ms);
    }
  }
}

}  // namespace
}  // namespace zipccl::transport

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  int status = 3;
  try {
    status = zipccl::transport::play(argv[1]);
  } catch (const zipccl::Error& error) {
    zipccl::transport::report("threw " + error.message());
  }
  zipccl::transport::waitForOthers(argv[2]);
  return status;
}
