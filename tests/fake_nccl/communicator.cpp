// SPDX-License-Identifier: Apache-2.0
//
// How a rank carries out its calls: each is a set of messages with the other ranks, and for
// reductions a sum of what came.

#include "communicator.hpp"

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "exchange.hpp"

namespace zipccl::testing {
namespace {

/// Labels of sends and receives are of this kind.
constexpr int kPairKind = 8;

bool isPair(Kind kind) { return kind == Kind::kSend || kind == Kind::kReceive; }

bool isReduction(Kind kind) {
  return kind == Kind::kReduceScatter || kind == Kind::kAllReduce || kind == Kind::kReduce;
}

bool isRooted(Kind kind) {
  return kind == Kind::kBroadcast || kind == Kind::kReduce || kind == Kind::kGather ||
         kind == Kind::kScatter;
}

const std::byte* at(const void* buffer, std::size_t bytes) {
  return static_cast<const std::byte*>(buffer) + bytes;
}

std::byte* at(void* buffer, std::size_t bytes) { return static_cast<std::byte*>(buffer) + bytes; }

constexpr const char* kNoSum = "a reduction of a datatype that the fake library cannot add";

/// What an operation that a program made does to the elements of one rank.
Operation operationOf(const Call& call) {
  const double scalar = call.user->deviceScalar != nullptr
                            ? readScalar(call.user->deviceScalar, call.user->datatype)
                            : call.user->scalar;
  return {.kind = kNcclSum, .isPremultiplied = true, .scalar = scalar};
}

/// Lets other streams wait for a kernel in one: a one-time event.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool isOpen = false;

  void open() {
    const std::lock_guard lock(mutex);
    isOpen = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return isOpen; });
  }
};

}  // namespace

Communicator::Communicator(bool isBlocking) : device_(fakeGetDevice()), isBlocking_(isBlocking) {
  fakeNcclCountCommunicator(1);
}

Communicator::~Communicator() { fakeNcclCountCommunicator(-1); }

int Communicator::join(const std::string& name, int ranks, int rank) {
  name_ = name;
  ranks_ = ranks;
  rank_ = rank;
  try {
    arena_ = std::make_unique<Arena>(name, ranks_, rank_);
  } catch (const std::exception& error) {
    fakeFault(error.what());
    return kNcclSystemError;
  }
  switch (arena_->come(isAborted_, fakeNcclTimeLimitMs())) {
    case Wait::kDone:
      return kNcclSuccess;
    case Wait::kAborted:
      return kNcclInternalError;
    case Wait::kTimedOut:
      break;
  }
  fakeFault(("would hang: rank " + std::to_string(rank_) + " of " + std::to_string(ranks_) +
             " waits in its init for other ranks")
                .c_str());
  return kNcclSystemError;
}

int Communicator::splitPlan(int color, int key, std::string& name, int& ranks, int& rank) {
  std::array<MeetingSlot, kMostRanks>* slots = nullptr;
  const Wait wait = arena_->meet(color, key, isAborted_, fakeNcclTimeLimitMs(), slots);
  if (wait == Wait::kAborted) return kNcclInternalError;
  if (wait == Wait::kTimedOut) {
    fakeFault(("would hang: rank " + std::to_string(rank_) + " of " + std::to_string(ranks_) +
               " waits in CommSplit for other ranks")
                  .c_str());
    return kNcclSystemError;
  }
  ranks = 0;
  rank = 0;
  const std::pair own(key, rank_);
  for (int other = 0; other < ranks_; ++other) {
    const MeetingSlot& slot = (*slots)[static_cast<std::size_t>(other)];
    if (slot.color != color) continue;
    ++ranks;
    if (std::pair(static_cast<int>(slot.key), other) < own) ++rank;
  }
  const std::uint32_t round = (*slots)[static_cast<std::size_t>(rank_)].round;
  name = name_ + "." + std::to_string(round) + "." + std::to_string(color);
  return kNcclSuccess;
}

std::string Communicator::check(const Call& call) const {
  if (elementBytes(call.datatype) == 0) return "datatype is none";
  if (isReduction(call.kind) && (call.op < 0 || call.op >= kNcclNumOps)) {
    const std::optional<UserOperation> operation = userOperation(call.op);
    if (!operation) return "op is none of this communicator";
    if (operation->datatype != call.datatype) return "op is of another datatype";
  }
  if (isPair(call.kind) || isRooted(call.kind)) {
    if (call.peer < 0 || call.peer >= ranks_) return "root or peer is no rank";
  }
  return {};
}

void Communicator::launch(const std::vector<Call>& calls) {
  std::vector<fakeStream_t> streams;
  for (const Call& call : calls) {
    const fakeStream_t stream = resolveStream(call.stream, device_);
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) {
      streams.push_back(stream);
    }
  }
  const std::shared_ptr<Communicator> self = shared_from_this();
  // A graph keeps the order in which its work was captured, whatever the streams.
  const bool isCaptured = fakeStreamIsCapturing(streams.front()) != 0;
  std::vector<std::shared_ptr<Gate>> before;
  const auto after = std::make_shared<Gate>();
  for (std::size_t other = 1; other < streams.size() && !isCaptured; ++other) {
    before.push_back(std::make_shared<Gate>());
    enqueueWork(streams[other], [gate = before.back(), after]() -> Work {
      return [gate, after] {
        gate->open();
        after->wait();
      };
    });
  }
  enqueueWork(streams.front(), [self, calls, before, after]() -> Work {
    std::uint64_t turn = 0;
    {
      const std::lock_guard lock(self->turnMutex_);
      turn = self->launched_++;
    }
    return [self, calls, before, after, turn] {
      for (const std::shared_ptr<Gate>& gate : before) gate->wait();
      self->perform(calls, turn);
      after->open();
    };
  });
}

void Communicator::perform(const std::vector<Call>& calls, std::uint64_t turn) {
  {
    std::unique_lock lock(turnMutex_);
    turnChanged_.wait(lock, [&] { return performed_ == turn; });
  }
  std::string fault;
  std::vector<Call> pairs;
  for (const Call& call : calls) {
    if (isPair(call.kind)) {
      pairs.push_back(call);
    } else if (fault.empty() && !isAborted_ && state_ != kNcclInternalError) {
      fault = performCollective(call);
    }
  }
  if (!pairs.empty() && fault.empty() && !isAborted_ && state_ != kNcclInternalError) {
    fault = performPairs(pairs);
  }
  if (!fault.empty() && fault != "aborted") {
    fakeFault(fault.c_str());
    state_ = kNcclInternalError;
  }
  endTurn();
}

void Communicator::endTurn() {
  const std::lock_guard lock(turnMutex_);
  ++performed_;
  turnChanged_.notify_all();
}

std::string Communicator::performCollective(const Call& call) {
  const std::size_t bytes = call.count * elementBytes(call.datatype);
  const auto self = static_cast<std::size_t>(rank_);
  const auto all = static_cast<std::size_t>(ranks_);
  const bool isRoot = rank_ == call.peer;
  // Opaque operations have another handle on each rank.
  const int op = call.op < kNcclNumOps ? call.op : kNcclNumOps;
  const Label label = {.kind = static_cast<int>(call.kind),
                       .datatype = call.datatype,
                       .op = isReduction(call.kind) ? op : 0,
                       .root = isRooted(call.kind) ? call.peer : 0,
                       .count = call.count,
                       .bytes = bytes};
  // Of an operation that programs make each rank has a scalar of its own, for what it gives.
  std::vector<std::byte> scaled;
  const void* source = call.sendbuff;
  if (call.user) {
    const std::size_t given = call.kind == Kind::kReduceScatter ? all * call.count : call.count;
    scaled.resize(given * elementBytes(call.datatype));
    const void* const from[] = {call.sendbuff};
    if (!reduce(from, 0, given, call.datatype, operationOf(call), scaled.data())) return kNoSum;
    source = scaled.data();
  }
  Exchange exchange(*arena_);
  std::vector<std::vector<std::byte>> parts;
  const auto receiveParts = [&] {
    parts.resize(all);
    for (std::size_t peer = 0; peer < all; ++peer) {
      parts[peer].resize(bytes);
      exchange.receive(static_cast<int>(peer), label, parts[peer].data());
    }
  };
  for (int peer = 0; peer < ranks_; ++peer) {
    const auto place = static_cast<std::size_t>(peer) * bytes;
    switch (call.kind) {
      case Kind::kAllGather:
        exchange.send(peer, label, source);
        break;
      case Kind::kReduceScatter:
      case Kind::kAlltoAll:
        exchange.send(peer, label, at(source, place));
        break;
      case Kind::kAllReduce:
        exchange.send(peer, label, source);
        break;
      case Kind::kBroadcast:
        if (isRoot) exchange.send(peer, label, source);
        break;
      case Kind::kScatter:
        if (isRoot) exchange.send(peer, label, at(source, place));
        break;
      case Kind::kReduce:
      case Kind::kGather:
        if (peer == call.peer) exchange.send(peer, label, source);
        break;
      case Kind::kSend:
      case Kind::kReceive:
        break;
    }
  }
  // What comes goes to memory of its own first: in place, it could overwrite what is still to go.
  switch (call.kind) {
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllReduce:
    case Kind::kAlltoAll:
      receiveParts();
      break;
    case Kind::kReduce:
    case Kind::kGather:
      if (isRoot) receiveParts();
      break;
    case Kind::kBroadcast:
    case Kind::kScatter:
      parts.resize(1);
      parts[0].resize(bytes);
      exchange.receive(call.peer, label, parts[0].data());
      break;
    case Kind::kSend:
    case Kind::kReceive:
      break;
  }
  std::string fault = exchange.run(isAborted_, fakeNcclTimeLimitMs());
  if (!fault.empty() || parts.empty() || bytes == 0) return fault;

  if (!isReduction(call.kind)) {
    for (std::size_t part = 0; part < parts.size(); ++part) {
      std::memcpy(at(call.recvbuff, part * bytes), parts[part].data(), bytes);
    }
    return {};
  }
  const Operation operation = {.kind = call.user ? int{kNcclSum} : call.op};
  std::vector<const void*> views;
  for (const std::vector<std::byte>& part : parts) views.push_back(part.data());
  const std::size_t first = call.kind == Kind::kReduceScatter ? (self + 1) % all : 0;
  if (!reduce(views, first, call.count, call.datatype, operation, call.recvbuff)) {
    return kNoSum;
  }
  return {};
}

std::string Communicator::performPairs(const std::vector<Call>& calls) {
  Exchange exchange(*arena_);
  for (const Call& call : calls) {
    const Label label = {.kind = kPairKind,
                         .datatype = call.datatype,
                         .count = call.count,
                         .bytes = call.count * elementBytes(call.datatype)};
    if (call.kind == Kind::kSend) {
      exchange.send(call.peer, label, call.sendbuff);
    } else {
      exchange.receive(call.peer, label, call.recvbuff);
    }
  }
  return exchange.run(isAborted_, fakeNcclTimeLimitMs());
}

void Communicator::abort() {
  isAborted_ = true;
  if (arena_ != nullptr) arena_->ring(rank_);
}

void Communicator::flush() {
  std::unique_lock lock(turnMutex_);
  turnChanged_.wait(lock, [this] { return performed_ == launched_; });
}

int Communicator::addOperation(const UserOperation& operation) {
  const std::lock_guard lock(operationsMutex_);
  // Handles differ between ranks and communicators, as NCCL's do.
  const int op = kNcclNumOps + 1000 * (rank_ + 1) + operationsMade_++;
  operations_[op] = operation;
  return op;
}

bool Communicator::removeOperation(int op) {
  const std::lock_guard lock(operationsMutex_);
  return operations_.erase(op) != 0;
}

std::optional<UserOperation> Communicator::userOperation(int op) const {
  const std::lock_guard lock(operationsMutex_);
  const auto found = operations_.find(op);
  return found == operations_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace zipccl::testing
