// SPDX-License-Identifier: Apache-2.0
//
// Buffers of the calls of random programs, and the calls.

#include "program_rank.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "fake_nccl/arithmetic.hpp"
#include "fake_nccl/nccl_calls.h"
#include "support/guarded_buffer.hpp"
#include "support/small_floats.hpp"

namespace zipccl::testing {
namespace {

using collectives::codedDatatype;
using collectives::Datatype;
using collectives::elementBytes;
using collectives::ReduceOp;
using collectives::testing::Content;
using collectives::testing::makeShard;
using collectives::testing::Shard;

constexpr std::byte kPoison{0xA5};

template <class T>
void storeAs(T value, std::byte* to) {
  std::memcpy(to, &value, sizeof(value));
}

/// A number that the datatype has.
void store(double value, Datatype datatype, std::byte* to) {
  switch (datatype) {
    case Datatype::kBfloat16:
      return storeAs(bfloat16Bits(static_cast<float>(value)), to);
    case Datatype::kFloat16:
      return storeAs(float16Bits(static_cast<float>(value)), to);
    case Datatype::kFloat32:
      return storeAs(static_cast<float>(value), to);
    case Datatype::kFloat64:
      return storeAs(value, to);
    case Datatype::kInt32:
      return storeAs(static_cast<std::int32_t>(value), to);
    case Datatype::kInt64:
      return storeAs(static_cast<std::int64_t>(value), to);
    default:
      ADD_FAILURE() << "no reduction is of this datatype";
  }
}

/// What is reduced, such that in any order it gives the same bits: small whole numbers, or finite
/// numbers of any bits of which but one at each place is not +0.
class Addends {
 public:
  Addends(const ProgramCall& call, int ranks) : call_(call), ranks_(ranks) {
    isSparse_ = call.op == ReduceOp::kSum && codedDatatype(call.datatype).has_value() &&
                call.content != Content::kGaussian;
  }

  [[nodiscard]] Shard of(int rank, std::uint64_t elements) const {
    Shard shard(elements * elementBytes(call_.datatype));
    for (std::uint64_t i = 0; i < elements; ++i) {
      std::byte* const to = at(shard, i);
      if (!isSparse_) {
        store(small(rank, i), call_.datatype, to);
      } else if (owner(i) == rank) {
        storeAny(i, to);
      }
    }
    return shard;
  }

  /// Of each rank's scalar of its own: 1/2, 1, 3/2, ...
  [[nodiscard]] static double scalar(int rank) { return 0.5 * (rank + 1); }

  [[nodiscard]] Shard sum(std::uint64_t elements) const {
    Shard shard(elements * elementBytes(call_.datatype));
    for (std::uint64_t i = 0; i < elements; ++i) {
      if (isSparse_) {
        storeAny(i, at(shard, i));
      } else {
        store(reduced(i), call_.datatype, at(shard, i));
      }
    }
    return shard;
  }

 private:
  [[nodiscard]] std::byte* at(Shard& shard, std::uint64_t i) const {
    return shard.data() + i * elementBytes(call_.datatype);
  }

  [[nodiscard]] std::uint64_t bits(std::uint64_t i, std::uint64_t stream) const {
    std::uint64_t state = call_.seed ^ (i * 64 + stream);
    return splitMix64(state);
  }

  [[nodiscard]] int owner(std::uint64_t i) const {
    return static_cast<int>(bits(i, 63) % static_cast<std::uint64_t>(ranks_));
  }

  void storeAny(std::uint64_t i, std::byte* to) const {
    auto word = static_cast<std::uint32_t>(bits(i, 62));
    if (call_.datatype == Datatype::kFloat32) {
      if ((word & 0x7F800000U) == 0x7F800000U) word ^= 0x40000000U;
      return storeAs(word << 1 == 0 ? 0U : word, to);
    }
    const std::uint16_t infinity = call_.datatype == Datatype::kFloat16 ? 0x7C00 : 0x7F80;
    auto half = static_cast<std::uint16_t>(word);
    if ((half & infinity) == infinity) half ^= 0x4000;
    storeAs<std::uint16_t>((half & 0x7FFF) == 0 ? 0 : half, to);
  }

  [[nodiscard]] double small(int rank, std::uint64_t i) const {
    const std::uint64_t random = bits(i, static_cast<std::uint64_t>(rank));
    return call_.op == ReduceOp::kProd ? static_cast<double>(random % 3)
                                       : static_cast<double>(random % 8) - 3.0;
  }

  [[nodiscard]] double reduced(std::uint64_t i) const {
    double result = 0.0;
    for (int rank = 0; rank < ranks_; ++rank) {
      const double addend = small(rank, i);
      switch (call_.op) {
        case ReduceOp::kProd:
          result = rank == 0 ? addend : result * addend;
          break;
        case ReduceOp::kMax:
          result = rank == 0 ? addend : std::max(result, addend);
          break;
        case ReduceOp::kMin:
          result = rank == 0 ? addend : std::min(result, addend);
          break;
        case ReduceOp::kPreMulSum:
          result += scalar(rank) * addend;
          break;
        case ReduceOp::kAvg:
        case ReduceOp::kSum:
          result += addend;
          break;
      }
    }
    return call_.op == ReduceOp::kAvg ? result / ranks_ : result;
  }

  const ProgramCall& call_;
  int ranks_;
  bool isSparse_ = false;
};

/// What one rank sends to another, or to all with the same number for `to`.
Shard partOf(const ProgramCall& call, int from, int to) {
  return makeShard(call.seed + 1000U * static_cast<unsigned>(to + 1), from, call.datatype,
                   call.count, call.content);
}

std::string describe(const ProgramCall& call) {
  return "kind " + std::to_string(call.kind) + ", communicator " +
         std::to_string(call.communicator) + ", count " + std::to_string(call.count) +
         ", datatype " + std::string(datatypeName(call.datatype)) + ", op " +
         std::string(reduceOpName(call.op)) + ", root " + std::to_string(call.root) + ", target " +
         std::to_string(call.target) + (call.isInPlace ? ", in place" : "");
}

}  // namespace

/// The buffers of a call on one rank, and what they hold once it is done.
class ProgramRank::Buffers {
 public:
  Buffers(const ProgramCall& call, int place, int ranks)
      : call_(call), place_(place), ranks_(ranks) {
    if (call.isMessage()) {
      if (place == call.root) send_ = add(partOf(call, place, call.target));
      if (place == call.target) receive_ = addOutput(partOf(call, call.root, place));
    } else if (call.isReduction()) {
      makeReduction();
    } else {
      makeCopies();
    }
  }

  [[nodiscard]] const ProgramCall& call() const { return call_; }
  [[nodiscard]] const void* send() const { return send_; }
  [[nodiscard]] void* receive() const { return receive_; }

  void check() const {
    for (const Held& each : held_) {
      const auto bytes = each.buffer.bytes();
      const auto wrong = std::mismatch(bytes.begin(), bytes.end(), each.expected.begin()).first;
      ASSERT_EQ(wrong - bytes.begin(), static_cast<std::ptrdiff_t>(bytes.size()))
          << "the first wrong byte of " << bytes.size() << ", at " << place_ << " of " << ranks_
          << " ranks: " << describe(call_);
      ASSERT_TRUE(each.buffer.isIntact()) << "a write beside a buffer: " << describe(call_);
    }
  }

 private:
  struct Held {
    GuardedBuffer buffer;
    Shard expected;
  };

  [[nodiscard]] std::uint64_t bytes() const { return call_.count * elementBytes(call_.datatype); }
  [[nodiscard]] std::uint64_t ownBytes() const {
    return static_cast<std::uint64_t>(place_) * bytes();
  }
  [[nodiscard]] bool isRoot() const { return place_ == call_.root; }

  /// A buffer that holds `content`, and later `expected`.
  std::byte* add(const Shard& content, Shard expected) {
    Held& held = held_.emplace_back(
        Held{GuardedBuffer(content.size(), call_.misaligned * elementBytes(call_.datatype)),
             std::move(expected)});
    std::copy(content.begin(), content.end(), held.buffer.bytes().begin());
    return held.buffer.bytes().data();
  }
  std::byte* add(const Shard& content) { return add(content, content); }
  std::byte* addOutput(Shard expected) {
    const Shard poisoned(expected.size(), kPoison);
    return add(poisoned, std::move(expected));
  }

  /// Input and output apart, or the input in the output at `inOutput`.
  void place(const Shard& input, Shard output, std::optional<std::uint64_t> inOutput) {
    if (!call_.isInPlace || !inOutput) {
      send_ = add(input);
      receive_ = addOutput(std::move(output));
      return;
    }
    Shard content(output.size(), kPoison);
    std::copy(input.begin(), input.end(), content.begin() + static_cast<std::ptrdiff_t>(*inOutput));
    std::byte* const at = add(content, std::move(output));
    send_ = at + *inOutput;
    receive_ = at;
  }

  /// The output in the input at `inInput`, whose rest stays.
  void placeInInput(const Shard& input, const Shard& output, std::uint64_t inInput) {
    Shard expected = input;
    std::copy(output.begin(), output.end(),
              expected.begin() + static_cast<std::ptrdiff_t>(inInput));
    std::byte* const at = add(input, std::move(expected));
    send_ = at;
    receive_ = at + inInput;
  }

  void makeReduction() {
    const Addends addends(call_, ranks_);
    const std::uint64_t parts =
        call_.kind == zipcclNcclReduceScatter ? static_cast<std::uint64_t>(ranks_) : 1;
    const Shard input = addends.of(place_, parts * call_.count);
    Shard sum = addends.sum(parts * call_.count);
    if (call_.kind == zipcclNcclReduceScatter) {
      const auto begin = sum.begin() + static_cast<std::ptrdiff_t>(ownBytes());
      const Shard own(begin, begin + static_cast<std::ptrdiff_t>(bytes()));
      if (call_.isInPlace) return placeInInput(input, own, ownBytes());
      return place(input, own, {});
    }
    if (call_.kind == zipcclNcclReduce && !isRoot()) {
      send_ = add(input);
      receive_ = addOutput(Shard(input.size(), kPoison));
      return;
    }
    place(input, std::move(sum), 0);
  }

  /// What `from` has for `place` of all ranks, or for one, one after the other.
  template <class Part>
  [[nodiscard]] Shard joined(const Part& part) const {
    Shard all;
    for (int rank = 0; rank < ranks_; ++rank) {
      const Shard one = part(rank);
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  void makeCopies() {
    switch (call_.kind) {
      case zipcclNcclAllGather:
        return place(partOf(call_, place_, 0),
                     joined([&](int from) { return partOf(call_, from, 0); }), ownBytes());
      case zipcclNcclBroadcast:
        return place(partOf(call_, place_, 0), partOf(call_, call_.root, 0), 0);
      case zipcclNcclAlltoAll:
        return place(joined([&](int to) { return partOf(call_, place_, to); }),
                     joined([&](int from) { return partOf(call_, from, place_); }), {});
      case zipcclNcclGather:
        if (isRoot()) {
          return place(partOf(call_, place_, 0),
                       joined([&](int from) { return partOf(call_, from, 0); }), ownBytes());
        }
        send_ = add(partOf(call_, place_, 0));
        return;
      case zipcclNcclScatter: {
        Shard own = partOf(call_, call_.root, place_);
        if (!isRoot()) {
          receive_ = addOutput(std::move(own));
          return;
        }
        const Shard all = joined([&](int to) { return partOf(call_, place_, to); });
        if (call_.isInPlace) return placeInInput(all, own, ownBytes());
        return place(all, std::move(own), {});
      }
      default:
        ADD_FAILURE() << "no collective: " << describe(call_);
    }
  }

  ProgramCall call_;
  int place_;
  int ranks_;
  std::deque<Held> held_;
  const std::byte* send_ = nullptr;
  std::byte* receive_ = nullptr;
};

ProgramRank::ProgramRank(int rank, void* comm, std::vector<Members> communicators)
    : rank_(rank), communicators_(std::move(communicators)), comms_{comm}, streams_{nullptr} {
  while (streams_.size() < kProgramStreams) streams_.push_back(fakeStreamCreate());
  makeCommunicators();
}

ProgramRank::~ProgramRank() {
  destroyCommunicators();
  for (const fakeStream_t stream : streams_) {
    if (stream != nullptr) fakeStreamDestroy(stream);
  }
}

void ProgramRank::makeCommunicators() {
  constexpr int kNoColor = -1;
  comms_.resize(communicators_.size());
  for (std::size_t i = 1; i < communicators_.size(); ++i) {
    const int place = placeOf(rank_, communicators_[i]);
    EXPECT_EQ(ncclCommSplit(comms_[0], place < 0 ? kNoColor : 0, place, &comms_[i], nullptr), 0);
    EXPECT_EQ(comms_[i] != nullptr, place >= 0);
  }
}

void ProgramRank::destroyCommunicators() {
  while (comms_.size() > 1) {
    if (comms_.back() != nullptr) {
      EXPECT_EQ(ncclCommDestroy(comms_.back()), 0);
    }
    comms_.pop_back();
  }
}

void ProgramRank::renewCommunicators() {
  finish();
  destroyCommunicators();
  makeCommunicators();
}

void ProgramRank::run(const Program& program) {
  const std::size_t first = unfinished_.size();
  std::vector<std::unique_ptr<Buffers>> buffers;
  for (const ProgramCall& call : program.calls) {
    const Members& members = communicators_[call.communicator];
    const int place = placeOf(rank_, members);
    const bool isIn =
        place >= 0 && (!call.isMessage() || place == call.root || place == call.target);
    buffers.push_back(
        isIn ? std::make_unique<Buffers>(call, place, static_cast<int>(members.size())) : nullptr);
  }
  for (const ProgramTurn& turn : program.turns[static_cast<std::size_t>(rank_)]) {
    make(turn, buffers);
  }
  unfinished_.reserve(first + buffers.size());
  for (std::unique_ptr<Buffers>& each : buffers) {
    if (each) unfinished_.push_back(std::move(each));
  }
}

void ProgramRank::finish() {
  for (const fakeStream_t stream : streams_) fakeStreamSynchronize(stream);
  for (const std::unique_ptr<Buffers>& each : unfinished_) each->check();
  unfinished_.clear();
  for (void* const comm : comms_) {
    if (comm == nullptr) continue;
    int error = -1;
    EXPECT_EQ(ncclCommGetAsyncError(comm, &error), 0);
    EXPECT_EQ(error, 0) << ncclGetLastError(comm);
  }
}

void ProgramRank::make(const ProgramTurn& turn,
                       const std::vector<std::unique_ptr<Buffers>>& buffers) {
  const fakeStream_t captured =
      turn.isCaptured ? streams_[static_cast<std::size_t>(turn.steps[0].stream)] : nullptr;
  if (turn.isCaptured) fakeStreamBeginCapture(captured);
  for (int i = 0; i < turn.depth; ++i) EXPECT_EQ(ncclGroupStart(), 0);
  for (const ProgramStep& step : turn.steps) {
    const Buffers& its = *buffers[step.call];
    EXPECT_EQ(make(step, its), 0) << describe(its.call());
  }
  for (int i = 0; i < turn.depth; ++i) EXPECT_EQ(ncclGroupEnd(), 0);
  if (!turn.isCaptured) return;
  const fakeGraph_t graph = fakeStreamEndCapture(captured);
  fakeGraphLaunch(graph, captured);
  fakeGraphDestroy(graph);
}

int ProgramRank::make(const ProgramStep& step, const Buffers& buffers) const {
  const ProgramCall& call = buffers.call();
  const auto stream = streams_[static_cast<std::size_t>(step.stream)];
  const auto datatype = static_cast<int>(call.datatype);
  void* const comm = comms_[call.communicator];
  switch (step.part) {
    case Part::kSend:
      return ncclSend(buffers.send(), call.count, datatype, call.target, comm, stream);
    case Part::kReceive:
      return ncclRecv(buffers.receive(), call.count, datatype, call.root, comm, stream);
    case Part::kCollective:
      break;
  }
  return call.isReduction() ? reduce(call, buffers, stream) : makeCollective(call, buffers, stream);
}

int ProgramRank::makeCollective(const ProgramCall& call, const Buffers& buffers,
                                fakeStream_t stream) const {
  const void* const send = buffers.send();
  void* const receive = buffers.receive();
  const auto datatype = static_cast<int>(call.datatype);
  void* const comm = comms_[call.communicator];
  switch (call.kind) {
    case zipcclNcclAllGather:
      return ncclAllGather(send, receive, call.count, datatype, comm, stream);
    case zipcclNcclBroadcast:
      return call.isBcast
                 ? ncclBcast(receive, call.count, datatype, call.root, comm, stream)
                 : ncclBroadcast(send, receive, call.count, datatype, call.root, comm, stream);
    case zipcclNcclAlltoAll:
      return ncclAlltoAll(send, receive, call.count, datatype, comm, stream);
    case zipcclNcclGather:
      return ncclGather(send, receive, call.count, datatype, call.root, comm, stream);
    case zipcclNcclScatter:
      return ncclScatter(send, receive, call.count, datatype, call.root, comm, stream);
    default:
      return kNcclInvalidUsage;
  }
}

int ProgramRank::reduce(const ProgramCall& call, const Buffers& buffers,
                        fakeStream_t stream) const {
  const void* const send = buffers.send();
  void* const receive = buffers.receive();
  const auto datatype = static_cast<int>(call.datatype);
  void* const comm = comms_[call.communicator];
  int op = static_cast<int>(call.op);
  const bool isOwn = call.op == ReduceOp::kPreMulSum;
  if (isOwn) {
    std::byte scalar[8] = {};
    store(Addends::scalar(placeOf(rank_, communicators_[call.communicator])), call.datatype,
          scalar);
    EXPECT_EQ(ncclRedOpCreatePreMulSum(&op, scalar, datatype, 1, comm), 0);
  }
  int result = kNcclInvalidUsage;
  if (call.kind == zipcclNcclReduceScatter) {
    result = ncclReduceScatter(send, receive, call.count, datatype, op, comm, stream);
  } else if (call.kind == zipcclNcclAllReduce) {
    result = ncclAllReduce(send, receive, call.count, datatype, op, comm, stream);
  } else if (call.kind == zipcclNcclReduce) {
    result = ncclReduce(send, receive, call.count, datatype, op, call.root, comm, stream);
  }
  // In a group, before its end.
  if (isOwn) {
    EXPECT_EQ(ncclRedOpDestroy(op, comm), 0);
  }
  return result;
}

}  // namespace zipccl::testing
