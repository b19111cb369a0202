// SPDX-License-Identifier: Apache-2.0
//
// Programs (programs.hpp), most of them random, through the interposer and the engine, with the
// host's codec, on the fake NCCL. Ranks are threads or processes, every bit is checked, and memory,
// threads and descriptors must not grow. ZIPCCL_TEST_LONG=1 runs 10^5 programs.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "fake_nccl/arithmetic.hpp"
#include "fake_nccl/fake_nccl.h"
#include "fake_nccl/fake_nccl_fixture.hpp"
#include "fake_nccl/nccl_calls.h"
#include "fake_nccl/rank_processes.hpp"
#include "program_rank.hpp"
#include "programs.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"

namespace zipccl::testing {
namespace {

// Before the engine reads its settings: all that can be is compressed, in many rounds.
const bool kIsEnvironmentSet = [] {
  ::setenv("ZIPCCL_STRATEGY", "staged", 0);
  ::setenv("ZIPCCL_REDUCE", "on", 0);
  ::setenv("ZIPCCL_MAX_SCRATCH", "512K", 0);
  return true;
}();

/// Ends this process, with what repeats its fault, where nothing has been finished for so long.
class Watchdog {
 public:
  Watchdog(std::uint64_t seed, std::chrono::seconds limit)
      : seed_(seed), limit_(limit), thread_([this](const std::stop_token& stop) { run(stop); }) {}

  /// Program number `number` has been called.
  void note(std::uint64_t number) noexcept { last_.store(number, std::memory_order_relaxed); }

 private:
  void run(const std::stop_token& stop) {
    using Clock = std::chrono::steady_clock;
    std::uint64_t seen = 0;
    Clock::time_point since = Clock::now();
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const std::uint64_t now = last_.load(std::memory_order_relaxed);
      if (now != seen) since = Clock::now();
      seen = now;
      if (Clock::now() - since < limit_) continue;
      std::fprintf(stderr, "ZIPCCL_TEST_SEED=%llu: nothing moves behind program %llu\n",
                   static_cast<unsigned long long>(seed_), static_cast<unsigned long long>(now));
      std::_Exit(9);
    }
  }

  std::uint64_t seed_;
  std::chrono::seconds limit_;
  std::atomic<std::uint64_t> last_ = 0;
  std::jthread thread_;
};

/// What this process holds.
struct Holdings {
  std::uint64_t residentBytes = 0;
  std::ptrdiff_t threads = 0;
  std::ptrdiff_t descriptors = 0;

  static Holdings ofThisProcess() {
    const auto count = [](const char* folder) {
      return std::distance(std::filesystem::directory_iterator(folder), {});
    };
    std::ifstream file("/proc/self/statm");
    std::uint64_t pages = 0;
    std::uint64_t resident = 0;
    file >> pages >> resident;
    const auto pageBytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    return {resident * pageBytes, count("/proc/self/task"), count("/proc/self/fd")};
  }
};

/// All ranks have the same programs; when they wait for the end of some is each one's own affair.
/// `measure()` is called when a fifth has been run, and at the end.
template <class Measure>
void runPrograms(int rank, int ranks, void* comm, std::uint64_t seed, std::uint64_t programs,
                 Watchdog& watchdog, const Measure& measure) {
  constexpr std::uint64_t kRenewEvery = 200;
  const std::vector<Members> communicators = programCommunicators(ranks);
  Random random(seed, 1);
  Random own(seed, 100 + static_cast<std::uint64_t>(rank));
  ProgramRank player(rank, comm, communicators);
  for (std::uint64_t number = 0; number < programs; ++number) {
    player.run(makeProgram(communicators, random));
    if (own.chance(0.4)) player.finish();
    if (number % kRenewEvery == kRenewEvery / 2) player.renewCommunicators();
    if (number == programs / 5) {
      player.finish();
      measure();
    }
    if (::testing::Test::HasFailure()) break;
    watchdog.note(number + 1);
  }
  player.finish();
  measure();
}

/// As one of the processes: an exit status.
int play(const PlayedRank& played) {
  const std::uint64_t seed = testSeed();
  Watchdog watchdog(seed, std::chrono::seconds(60));
  fakeSetDevice(played.rank);
  void* comm = nullptr;
  if (ncclCommInitRank(&comm, played.count, played.id, played.rank) != kNcclSuccess) return 10;
  runPrograms(played.rank, played.count, comm, seed, std::stoull(played.scene), watchdog, [] {});
  if (ncclCommDestroy(comm) != kNcclSuccess || fakeFaultCount() != 0) return 11;
  return ::testing::Test::HasFailure() ? 12 : 0;
}

/// As the first thing of all, with GoogleTest's macros at hand.
class Player : public ::testing::Environment {
  void SetUp() override {
    if (const std::optional<PlayedRank> played = playedRank()) std::exit(play(*played));
  }
};
const auto* const kPlayer = ::testing::AddGlobalTestEnvironment(new Player);

constexpr int kRanks = 3;

/// A program of two communicators, all ranks and all in reverse, in which each rank has one group.
class GroupProgram {
 public:
  GroupProgram() { program_.turns.resize(kRanks); }

  /// Adds calls. Those of communicator 1 meet each other's headers on rank 1, on which that learns
  /// of them by what the other ranks send.
  void add(std::size_t communicator, zipcclNcclKind kind, std::uint64_t count, int times,
           Random& random) {
    for (int i = 0; i < times; ++i) {
      ProgramCall call;
      call.communicator = communicator;
      call.kind = kind;
      call.count = count;
      call.root = kind == zipcclNcclGather ? 1 : 0;
      call.target = 1;
      call.seed = random();
      program_.calls.push_back(call);
    }
  }

  /// Runs it on all ranks. The calls of communicator i are on stream `streams[rank][i]`; ranks of
  /// which `isReversed` says so call those of communicator 1 first.
  void run(const std::array<std::array<int, 2>, kRanks>& streams,
           const std::array<bool, kRanks>& isReversed) {
    const std::vector<Members> communicators = programCommunicators(kRanks);
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      ProgramTurn turn;
      turn.depth = 1;
      for (std::size_t i = 0; i < 2; ++i) {
        addSteps(turn, rank, isReversed[rank] ? 1 - i : i, communicators, streams[rank]);
      }
      program_.turns[rank] = {turn};
    }
    onFakeRanks(kRanks, [&](int rank, void* comm) {
      ProgramRank player(rank, comm, communicators);
      player.run(program_);
      player.finish();
    });
  }

 private:
  void addSteps(ProgramTurn& turn, std::size_t rank, std::size_t communicator,
                const std::vector<Members>& communicators,
                const std::array<int, 2>& streams) const {
    const int place = placeOf(static_cast<int>(rank), communicators[communicator]);
    for (std::size_t i = 0; i < program_.calls.size(); ++i) {
      const ProgramCall& call = program_.calls[i];
      if (call.communicator != communicator) continue;
      const auto add = [&](Part part) { turn.steps.push_back({i, part, streams[communicator]}); };
      if (!call.isMessage()) {
        add(Part::kCollective);
      } else if (place == call.root) {
        add(Part::kSend);
      } else if (place == call.target) {
        add(Part::kReceive);
      }
    }
  }

  Program program_;
};

/// Rank 1 has the communicators on streams of their own, the others have both on one.
constexpr std::array<std::array<int, 2>, kRanks> kApartOnRank1 = {{{1, 1}, {1, 2}, {0, 0}}};

class Sequences : public SeededTest {
 protected:
  void SetUp() override {
    fakeFaultsClear();
    fakeNcclSetTimeLimitMs(60'000);
    // A program that NCCL runs to its end whatever it buffers may not hang by either.
    fakeNcclSetRendezvous(random_.chance(0.5) ? 1 : 0);
  }
  void TearDown() override {
    EXPECT_EQ(fakeFaultCount(), 0) << fakeFaultText();
    EXPECT_EQ(fakeNcclLiveCommunicators(), 0);
    fakeNcclSetRendezvous(0);
  }
};

// On rank 1 calls of the second communicator wait for what earlier ones tell, and those, by the
// other ranks' stream, for all rounds of the first one.
TEST_F(Sequences, CommunicatorsOfAGroupLearnApart) {
  constexpr zipcclNcclKind kKinds[] = {
      zipcclNcclAllGather, zipcclNcclReduceScatter, zipcclNcclAllReduce, zipcclNcclBroadcast,
      zipcclNcclAlltoAll,  zipcclNcclGather,        zipcclNcclScatter,   zipcclNcclSend};
  for (const zipcclNcclKind kind : kKinds) {
    if (!isVisited(random_, 3)) continue;
    SCOPED_TRACE(kind);
    GroupProgram program;
    program.add(0, zipcclNcclAllGather, 300'000, 1, random_);
    program.add(1, kind, 3000, kind == zipcclNcclSend ? 40 : 3, random_);
    program.run(kApartOnRank1, {});
    if (HasFailure()) return;
  }
}

// The same with more gates than a communicator has room for.
TEST_F(Sequences, CommunicatorsOfAGroupPassGatesApart) {
  GroupProgram program;
  program.add(0, zipcclNcclAllGather, 1'500'000, 1, random_);
  program.add(1, zipcclNcclAllGather, 1'500'000, 1, random_);
  program.run(kApartOnRank1, {});
}

TEST_F(Sequences, CommunicatorsOfAGroupMayBeCalledInAnyOrder) {
  GroupProgram program;
  program.add(0, zipcclNcclAllGather, 60'000, 4, random_);
  program.add(1, zipcclNcclReduceScatter, 30'000, 4, random_);
  program.run({{{1, 2}, {1, 2}, {1, 2}}}, {false, true, false});
}

TEST_F(Sequences, OfRandomCallsDeliverTheirBits) {
  constexpr std::ptrdiff_t kMostConnections = 40;
  constexpr std::uint64_t kMostGrowthBytes = std::uint64_t{16} << 20;
  const std::uint64_t programs = kIsSanitized ? repeats(60, 3000) : repeats(500, 100'000);
  const bool isLong = programs >= 3000;
  // Pauses show work out of order, and cost time.
  fakeSetJitterUs(isLong ? 5 : 20);
  std::vector<Holdings> held;
  const auto start = std::chrono::steady_clock::now();
  {
    Watchdog watchdog(seed_, std::chrono::seconds(120));
    std::barrier together(kRanks);
    onFakeRanks(kRanks, [&](int rank, void* comm) {
      runPrograms(rank, kRanks, comm, seed_, programs, watchdog, [&] {
        together.arrive_and_wait();
        if (rank == 0) held.push_back(Holdings::ofThisProcess());
        together.arrive_and_wait();
      });
    });
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  const Holdings& settled = held.front();
  const Holdings& atEnd = held.back();
  std::printf(
      "%llu programs in %.0f s; after a fifth of them and at the end: %llu and %llu KiB, "
      "%td and %td threads, %td and %td descriptors\n",
      static_cast<unsigned long long>(programs), elapsed.count(),
      static_cast<unsigned long long>(settled.residentBytes / 1024),
      static_cast<unsigned long long>(atEnd.residentBytes / 1024), settled.threads, atEnd.threads,
      settled.descriptors, atEnd.descriptors);
  EXPECT_EQ(atEnd.threads, settled.threads);
  // Ranks connect when they first have something to send.
  EXPECT_LE(atEnd.descriptors, settled.descriptors + kMostConnections);
  if (isLong && !kIsSanitized) {
    EXPECT_LE(atEnd.residentBytes, settled.residentBytes + kMostGrowthBytes);
  }
}

TEST_F(Sequences, OfProcessesDeliverTheirBits) {
  // Of 60 programs one time in some hundreds none had a ReduceScatter that can be compressed.
  constexpr std::uint64_t kEnoughForEveryKind = 250;
  const std::uint64_t programs =
      kIsSanitized ? repeats(15, 300) : repeats(kEnoughForEveryKind, 3000);
  const std::string folder = "sequences." + std::to_string(::getpid());
  std::filesystem::create_directory(folder);
  const std::vector<int> ends =
      playInProcesses(std::to_string(programs), kRanks,
                      {"ZIPCCL_TEST_SEED=" + std::to_string(seed_), "ZIPCCL_VERIFY=3",
                       "ZIPCCL_STATS=" + folder + "/%r.json", "FAKE_NCCL_TIME_LIMIT_MS=60000"},
                      std::chrono::seconds(900));
  EXPECT_EQ(ends, std::vector<int>(kRanks, 0)) << "exit status * 256";
  // Calls of every kind did go compressed.
  for (int rank = 0; rank < kRanks && programs >= kEnoughForEveryKind; ++rank) {
    std::ifstream file(folder + "/" + std::to_string(rank) + ".json");
    const nlohmann::json counts = nlohmann::json::parse(file, nullptr, false);
    ASSERT_FALSE(counts.is_discarded()) << "no statistics of rank " << rank;
    std::vector<std::string> compressed;
    for (const nlohmann::json& row : counts["calls"]) {
      if (row["compressedCalls"] > 0) compressed.push_back(row["collective"]);
    }
    for (const char* const name : {"AllGather", "AllReduce", "AlltoAll", "Broadcast", "Gather",
                                   "ReduceScatter", "Scatter", "SendRecv"}) {
      EXPECT_NE(std::find(compressed.begin(), compressed.end(), name), compressed.end())
          << name << " on rank " << rank;
    }
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace zipccl::testing
