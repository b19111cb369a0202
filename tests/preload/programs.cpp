// SPDX-License-Identifier: Apache-2.0
//
// The making of random programs.

#include "programs.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

namespace zipccl::testing {
namespace {

using collectives::codedDatatype;
using collectives::Datatype;
using collectives::ReduceOp;
using collectives::testing::Content;
using collectives::testing::kAllContents;

template <class T, std::size_t count>
T oneOf(Random& random, const T (&list)[count]) {
  return list[random.below(count)];
}

bool isFloat(Datatype datatype) {
  return codedDatatype(datatype).has_value() || datatype == Datatype::kFloat64;
}

Datatype anyDatatype(Random& random, bool isReduction) {
  static constexpr Datatype kCoded[] = {Datatype::kBfloat16, Datatype::kFloat16,
                                        Datatype::kFloat32};
  static constexpr Datatype kAdded[] = {Datatype::kInt32, Datatype::kInt64, Datatype::kFloat64};
  static constexpr Datatype kOthers[] = {Datatype::kInt8, Datatype::kUint8, Datatype::kInt32,
                                         Datatype::kFloat64, Datatype::kFloat8e4m3};
  if (random.chance(0.8)) return oneOf(random, kCoded);
  return isReduction ? oneOf(random, kAdded) : oneOf(random, kOthers);
}

/// Sums of few ranks are exact in any order (program_rank.cpp), and so is their half and quarter.
ReduceOp anyOp(Random& random, Datatype datatype, std::size_t ranks) {
  static constexpr ReduceOp kOthers[] = {ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin,
                                         ReduceOp::kPreMulSum, ReduceOp::kAvg};
  if (random.chance(0.6)) return ReduceOp::kSum;
  const ReduceOp op = oneOf(random, kOthers);
  const bool isOfFloats = op == ReduceOp::kAvg || op == ReduceOp::kPreMulSum;
  const bool isPowerOf2 = (ranks & (ranks - 1)) == 0;
  const bool isFine = !isOfFloats || (isFloat(datatype) && (op != ReduceOp::kAvg || isPowerOf2));
  return isFine ? op : ReduceOp::kSum;
}

/// Mostly few elements, for the sake of time; sometimes more than fit into one chunk.
std::uint64_t anyCount(Random& random) {
  static constexpr std::uint64_t kEdges[] = {0, 0, 1, 2, 63, 1023, 1024, 1025, 2048, 8192};
  const std::uint64_t which = random.below(100);
  if (which < 20) return oneOf(random, kEdges);
  if (which < 85) return random.between(2, 600);
  return which < 98 ? random.between(600, 4000) : random.between(4000, 40'000);
}

class Maker {
 public:
  Maker(const std::vector<Members>& communicators, Random& random)
      : communicators_(communicators), random_(random) {
    program_.turns.resize(communicators.front().size());
  }

  [[nodiscard]] Program make() {
    const std::uint64_t blocks = random_.between(1, 3);
    for (std::uint64_t i = 0; i < blocks; ++i) {
      const double kind = random_.uniform();
      if (kind < 0.3) {
        addAlone();
      } else if (kind < 0.6) {
        addSameGroups();
      } else {
        addOwnGroups();
      }
    }
    return std::move(program_);
  }

 private:
  static constexpr std::size_t kLonely = 3;

  [[nodiscard]] const Members& members(const ProgramCall& call) const {
    return communicators_[call.communicator];
  }

  [[nodiscard]] std::size_t ranks() const { return communicators_.front().size(); }

  std::size_t anyCommunicator() {
    const double kind = random_.uniform();
    if (kind < 0.45) return 0;
    if (kind < 0.75) return 1;
    return kind < 0.95 ? 2 : kLonely;
  }

  /// A new call at the end of the order.
  std::size_t add(double messageShare) {
    static constexpr zipcclNcclKind kKinds[] = {
        zipcclNcclAllGather, zipcclNcclReduceScatter, zipcclNcclAllReduce, zipcclNcclBroadcast,
        zipcclNcclReduce,    zipcclNcclAlltoAll,      zipcclNcclGather,    zipcclNcclScatter};
    ProgramCall call;
    call.communicator = anyCommunicator();
    const std::size_t size = members(call).size();
    call.kind = random_.chance(messageShare) ? zipcclNcclSend : oneOf(random_, kKinds);
    call.datatype = anyDatatype(random_, call.isReduction());
    call.count = anyCount(random_);
    call.root = static_cast<int>(random_.below(size));
    // Rarely to itself.
    const std::size_t step = size == 1 || random_.chance(0.05) ? 0 : 1 + random_.below(size - 1);
    call.target = static_cast<int>((static_cast<std::size_t>(call.root) + step) % size);
    if (call.isReduction()) call.op = anyOp(random_, call.datatype, size);
    call.isBcast = call.kind == zipcclNcclBroadcast && random_.chance(0.3);
    call.isInPlace = call.isBcast || random_.chance(0.4);
    call.content = oneOf(random_, kAllContents);
    call.misaligned = random_.below(3);
    call.seed = random_();
    program_.calls.push_back(call);
    return program_.calls.size() - 1;
  }

  /// What `rank` has to do of a call.
  [[nodiscard]] std::vector<ProgramStep> stepsOf(int rank, std::size_t index) const {
    const ProgramCall& call = program_.calls[index];
    const int place = placeOf(rank, members(call));
    if (place < 0) return {};
    if (!call.isMessage()) return {{index, Part::kCollective}};
    std::vector<ProgramStep> steps;
    if (place == call.root) steps.push_back({index, Part::kSend});
    if (place == call.target) steps.push_back({index, Part::kReceive});
    return steps;
  }

  int anyStream() { return static_cast<int>(random_.below(kProgramStreams)); }

  int anyDepth() { return random_.chance(0.2) ? 2 : 1; }

  /// One call that no rank puts into a group, but for a message to oneself, which takes one.
  void addAlone() {
    const std::size_t index = add(0.4);
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      ProgramTurn turn;
      turn.steps = stepsOf(static_cast<int>(rank), index);
      turn.depth = turn.steps.size() > 1 ? 1 : 0;
      end(rank, std::move(turn));
    }
  }

  /// Calls of a group that is the same on all ranks.
  void addSameGroups() {
    const std::uint64_t count = random_.between(1, 6);
    std::vector<std::size_t> indices;
    for (std::uint64_t i = 0; i < count; ++i) indices.push_back(add(0.4));
    // By communicators, of which one rank may meet the first much later in the group than another.
    std::stable_sort(indices.begin(), indices.end(), [this](std::size_t a, std::size_t b) {
      return program_.calls[a].communicator < program_.calls[b].communicator;
    });
    const bool isCaptured = random_.chance(0.1);
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      ProgramTurn turn{.steps = {}, .depth = anyDepth(), .isCaptured = isCaptured};
      for (const std::size_t index : indices) {
        for (const ProgramStep& step : stepsOf(static_cast<int>(rank), index)) {
          turn.steps.push_back(step);
        }
      }
      end(rank, std::move(turn));
    }
  }

  /// Calls that each rank puts into groups of its own.
  void addOwnGroups() {
    const std::uint64_t count = random_.between(2, 8);
    std::vector<std::size_t> indices;
    for (std::uint64_t i = 0; i < count; ++i) indices.push_back(add(0.75));
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      ProgramTurn turn;
      for (const std::size_t index : indices) {
        const std::vector<ProgramStep> steps = stepsOf(static_cast<int>(rank), index);
        if (steps.empty()) continue;
        if (!mayJoin(turn, program_.calls[index]) || random_.chance(0.35)) {
          endOwn(rank, std::exchange(turn, {}));
        }
        turn.steps.insert(turn.steps.end(), steps.begin(), steps.end());
      }
      endOwn(rank, std::move(turn));
    }
  }

  /// Whether a call may stand in a group behind what it has, if other ranks' groups differ.
  [[nodiscard]] bool mayJoin(const ProgramTurn& turn, const ProgramCall& call) const {
    const auto isOfSame = [&](const ProgramStep& step) {
      return program_.calls[step.call].communicator == call.communicator;
    };
    if (std::none_of(turn.steps.begin(), turn.steps.end(), isOfSame)) return true;
    return isOfSame(turn.steps.back()) && call.isMessage();
  }

  void endOwn(std::size_t rank, ProgramTurn turn) {
    const bool needsGroup = turn.steps.size() > 1;
    turn.depth = needsGroup || random_.chance(0.4) ? anyDepth() : 0;
    end(rank, std::move(turn));
  }

  void end(std::size_t rank, ProgramTurn turn) {
    if (turn.steps.empty()) return;
    shuffle(turn.steps);
    // One stream, or any: the order of calls is that of the communicator, too.
    const int only = turn.isCaptured ? 1 : anyStream();
    const bool hasOne = turn.isCaptured || random_.chance(0.5);
    for (ProgramStep& step : turn.steps) step.stream = hasOne ? only : anyStream();
    program_.turns[rank].push_back(std::move(turn));
  }

  /// Whether two neighbours of a group may change places with nothing being changed by it.
  [[nodiscard]] bool mayChangePlaces(const std::vector<ProgramStep>& steps, std::size_t at) const {
    const ProgramCall& first = program_.calls[steps[at].call];
    const ProgramCall& second = program_.calls[steps[at + 1].call];
    if (first.communicator == second.communicator) {
      if (first.isMessage() != second.isMessage()) return true;
      if (!first.isMessage()) return false;
      return steps[at].part != steps[at + 1].part || first.root != second.root ||
             first.target != second.target;
    }
    // Which communicator is called first must stay.
    const auto isBefore = [&](std::size_t communicator) {
      const auto end = steps.begin() + static_cast<std::ptrdiff_t>(at);
      return std::any_of(steps.begin(), end, [&](const ProgramStep& step) {
        return program_.calls[step.call].communicator == communicator;
      });
    };
    return isBefore(first.communicator) && isBefore(second.communicator);
  }

  void shuffle(std::vector<ProgramStep>& steps) {
    for (std::size_t i = 0; i < 2 * steps.size() && steps.size() > 1; ++i) {
      const std::size_t at = random_.below(steps.size() - 1);
      if (mayChangePlaces(steps, at)) std::swap(steps[at], steps[at + 1]);
    }
  }

  const std::vector<Members>& communicators_;
  Random& random_;
  Program program_;
};

}  // namespace

std::vector<Members> programCommunicators(int ranks) {
  Members all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return {all, Members(all.rbegin(), all.rend()), Members(all.begin() + 1, all.end()), {0}};
}

int placeOf(int rank, const Members& members) {
  const auto found = std::find(members.begin(), members.end(), rank);
  return found == members.end() ? -1 : static_cast<int>(found - members.begin());
}

Program makeProgram(const std::vector<Members>& communicators, Random& random) {
  return Maker(communicators, random).make();
}

}  // namespace zipccl::testing
