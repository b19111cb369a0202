// SPDX-License-Identifier: Apache-2.0
//
// Communicators over NCCL, and their calls.

#include "capi/nccl_comm.hpp"

#include <algorithm>
#include <deque>
#include <utility>

#include "collectives/buffers.hpp"
#include "collectives/nccl_attach.hpp"
#include "collectives/nccl_rounds.hpp"
#include "image/nccl_image.hpp"

namespace zipccl::capi {

using collectives::bytesAt;
using collectives::CommunicatorStatistics;
using collectives::Datatype;
using collectives::elementBytes;
using collectives::NcclCommunicator;

class NcclComm::Use {
 public:
  explicit Use(NcclComm& comm) noexcept
      : comm_(comm), isHeld_(!comm.isInUse_.test_and_set(std::memory_order_acquire)) {}
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;
  ~Use() {
    if (isHeld_) comm_.isInUse_.clear(std::memory_order_release);
  }

  [[nodiscard]] bool isHeld() const noexcept { return isHeld_; }

 private:
  NcclComm& comm_;
  bool isHeld_;
};

NcclComm::NcclComm(const zipcclNcclApi& api, void* handle,
                   const collectives::CommunicatorSettings& settings)
    : api_(api),
      handle_(handle),
      link_(api, handle),
      communicator_(collectives::attachNccl(api, handle, settings)) {
  if (communicator_ == nullptr) return;
  if (const std::optional<Error> error = communicator_->asyncError()) {
    NcclCommunicator::destroy(std::move(communicator_));
    throw *error;
  }
  wireBytesBefore_ = communicator_->statistics().wireBytesSent;
}

NcclComm::~NcclComm() {
  if (communicator_ != nullptr) NcclCommunicator::destroy(std::move(communicator_));
}

void NcclComm::abort() noexcept {
  if (communicator_ != nullptr) communicator_->abort();
}

std::optional<Error> NcclComm::asyncError() noexcept {
  try {
    if (communicator_ != nullptr) {
      if (std::optional<Error> error = communicator_->asyncError()) return error;
    }
    const int result = link_.asyncError();
    if (result != transport::kNcclInProgress) check(result, "NCCL");
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

CommunicatorStatistics NcclComm::statistics() {
  if (communicator_ == nullptr) {
    const std::lock_guard lock(mutex_);
    return alone_;
  }
  if (const Use use(*this); use.isHeld()) communicator_->hearOfFrames();
  CommunicatorStatistics statistics = communicator_->statistics();
  statistics.wireBytesSent -= wireBytesBefore_;
  return statistics;
}

zipcclNcclCall NcclComm::callOf(zipcclNcclKind kind, const void* send, void* receive,
                                std::uint64_t count, Datatype datatype, zipcclStream_t stream,
                                int op, int peer) const noexcept {
  return {.kind = kind,
          .isGrouped = 0,
          .sendbuff = send,
          .recvbuff = receive,
          .count = count,
          .datatype = static_cast<int>(datatype),
          .op = op,
          .peer = peer,
          .comm = handle_,
          .attached = communicator_.get(),
          .stream = stream};
}

void NcclComm::addMessage(Calls& calls, bool isSend, int peer, const void* source, void* target,
                          std::uint64_t count, Datatype datatype, zipcclStream_t stream) const {
  if (count == 0) return;
  const zipcclNcclKind kind = isSend ? zipcclNcclSend : zipcclNcclRecv;
  calls.push_back(callOf(kind, source, target, count, datatype, stream, 0, peer));
  calls.back().isGrouped = 1;
}

NcclComm::Calls NcclComm::callsOf(const collectives::AllGatherArguments& call,
                                  zipcclStream_t stream, int /*op*/) const {
  return {callOf(zipcclNcclAllGather, call.send, call.receive, call.elementCount, call.datatype,
                 stream)};
}

NcclComm::Calls NcclComm::callsOf(const collectives::AllToAllArguments& call, zipcclStream_t stream,
                                  int /*op*/) const {
  if (api_.allToAll != nullptr) {
    return {callOf(zipcclNcclAlltoAll, call.send, call.receive, call.elementCount, call.datatype,
                   stream)};
  }
  Calls calls;
  const std::uint64_t partBytes = call.elementCount * elementBytes(call.datatype);
  for (int peer = 0; peer < rankCount(); ++peer) {
    const std::uint64_t at = static_cast<std::uint64_t>(peer) * partBytes;
    addMessage(calls, true, peer, bytesAt(call.send, at), nullptr, call.elementCount, call.datatype,
               stream);
    addMessage(calls, false, peer, nullptr, bytesAt(call.receive, at), call.elementCount,
               call.datatype, stream);
  }
  return calls;
}

NcclComm::Calls NcclComm::callsOf(const collectives::AllToAllvArguments& call,
                                  zipcclStream_t stream, int /*op*/) const {
  Calls calls;
  const std::uint64_t bytesEach = elementBytes(call.datatype);
  for (int peer = 0; peer < rankCount(); ++peer) {
    const auto at = static_cast<std::size_t>(peer);
    addMessage(calls, true, peer, bytesAt(call.send, call.sendOffsets[at] * bytesEach), nullptr,
               call.sendCounts[at], call.datatype, stream);
    addMessage(calls, false, peer, nullptr,
               bytesAt(call.receive, call.receiveOffsets[at] * bytesEach), call.receiveCounts[at],
               call.datatype, stream);
  }
  return calls;
}

NcclComm::Calls NcclComm::callsOf(const collectives::ReduceScatterArguments& call,
                                  zipcclStream_t stream, int op) const {
  return {callOf(zipcclNcclReduceScatter, call.send, call.receive, call.elementCount, call.datatype,
                 stream, op)};
}

NcclComm::Calls NcclComm::callsOf(const collectives::AllReduceArguments& call,
                                  zipcclStream_t stream, int op) const {
  return {callOf(zipcclNcclAllReduce, call.send, call.receive, call.elementCount, call.datatype,
                 stream, op)};
}

NcclComm::Calls NcclComm::callsOf(const collectives::BroadcastArguments& call,
                                  zipcclStream_t stream, int /*op*/) const {
  return {callOf(zipcclNcclBroadcast, call.send, call.receive, call.elementCount, call.datatype,
                 stream, 0, call.root)};
}

NcclComm::Calls NcclComm::callsOf(const collectives::GatherArguments& call, zipcclStream_t stream,
                                  int /*op*/) const {
  if (api_.gather != nullptr) {
    return {callOf(zipcclNcclGather, call.send, call.receive, call.elementCount, call.datatype,
                   stream, 0, call.root)};
  }
  Calls calls;
  addMessage(calls, true, call.root, call.send, nullptr, call.elementCount, call.datatype, stream);
  const std::uint64_t partBytes = call.elementCount * elementBytes(call.datatype);
  for (int peer = 0; rank() == call.root && peer < rankCount(); ++peer) {
    addMessage(calls, false, peer, nullptr,
               bytesAt(call.receive, static_cast<std::uint64_t>(peer) * partBytes),
               call.elementCount, call.datatype, stream);
  }
  return calls;
}

NcclComm::Calls NcclComm::callsOf(const collectives::ScatterArguments& call, zipcclStream_t stream,
                                  int /*op*/) const {
  if (api_.scatter != nullptr) {
    return {callOf(zipcclNcclScatter, call.send, call.receive, call.elementCount, call.datatype,
                   stream, 0, call.root)};
  }
  Calls calls;
  const std::uint64_t partBytes = call.elementCount * elementBytes(call.datatype);
  for (int peer = 0; rank() == call.root && peer < rankCount(); ++peer) {
    addMessage(calls, true, peer, bytesAt(call.send, static_cast<std::uint64_t>(peer) * partBytes),
               nullptr, call.elementCount, call.datatype, stream);
  }
  addMessage(calls, false, call.root, nullptr, call.receive, call.elementCount, call.datatype,
             stream);
  return calls;
}

NcclComm::Calls NcclComm::callsOf(const collectives::PointToPoint& call, zipcclStream_t stream,
                                  int /*op*/) const {
  Calls calls;
  addMessage(calls, call.isSend, call.peer, call.source, call.target, call.elementCount,
             call.datatype, stream);
  return calls;
}

int NcclComm::createPreMulSum(void* scalar, int datatype, int residence) {
  int (*create)(int* op, void* scalar, int datatype, int residence, void* comm) = nullptr;
  image::takeNcclFunction({.handle = api_.image}, "ncclRedOpCreatePreMulSum", create);
  expects(create != nullptr, ErrorCode::kInvalidUsage, "this NCCL makes no operations");
  int op = 0;
  check(create(&op, scalar, datatype, residence, handle_), "ncclRedOpCreatePreMulSum");
  return op;
}

void NcclComm::destroyRedOp(int op) {
  int (*destroy)(int op, void* comm) = nullptr;
  image::takeNcclFunction({.handle = api_.image}, "ncclRedOpDestroy", destroy);
  expects(destroy != nullptr, ErrorCode::kInvalidUsage, "this NCCL makes no operations");
  check(destroy(op, handle_), "ncclRedOpDestroy");
}

void NcclComm::check(int result, const char* what) const {
  if (result == transport::kNcclSuccess) return;
  fail(transport::errorCodeOf(result), what, ": ", transport::wordsOfNccl(api_, handle_, result));
}

void NcclCalls::add(NcclComm& comm, const NcclComm::Calls& calls) {
  if (calls.empty()) return;
  calls_.insert(calls_.end(), calls.begin(), calls.end());
  if (std::find(comms_.begin(), comms_.end(), &comm) == comms_.end()) comms_.push_back(&comm);
}

void NcclCalls::run() {
  if (isEmpty()) return;
  std::deque<NcclComm::Use> uses;
  for (NcclComm* const comm : comms_) {
    uses.emplace_back(*comm);
    expects(uses.back().isHeld(), ErrorCode::kInvalidUsage,
            "another thread is inside a call on this communicator (rank ", comm->rank(), ")");
    if (comm->communicator_ != nullptr) comm->communicator_->throwIfFailed();
  }
  std::vector<collectives::RoundCall> rounds;
  for (const zipcclNcclCall& call : calls_) {
    rounds.push_back({&call, static_cast<NcclCommunicator*>(call.attached)});
  }
  const int result = collectives::runRounds(comms_.front()->api_, rounds);
  expects(result != transport::kNcclInProgress, ErrorCode::kInvalidUsage,
          "the communicator of NCCL is non-blocking");
  comms_.front()->check(result, "NCCL");
  for (const zipcclNcclCall& call : calls_) {
    if (call.attached == nullptr) noteAlone(call);
  }
}

void NcclCalls::noteAlone(const zipcclNcclCall& call) {
  const auto comm = std::find_if(comms_.begin(), comms_.end(),
                                 [&](NcclComm* each) { return each->handle_ == call.comm; });
  collectives::CallOutcome outcome;
  outcome.decision.reason = policy::Reason::kNothingToSend;
  outcome.inputBytes = call.count * elementBytes(static_cast<Datatype>(call.datatype));
  const std::lock_guard lock((*comm)->mutex_);
  (*comm)->alone_.add(outcome);
}

}  // namespace zipccl::capi
