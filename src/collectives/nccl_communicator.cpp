// SPDX-License-Identifier: Apache-2.0
//
// The state of a communicator of NCCL.

#include "collectives/nccl_communicator.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/random.hpp"
#include "codec/layout.hpp"
#include "collectives/host_stream_codec.hpp"
#include "collectives/host_wait.hpp"
#include "collectives/statistics_file.hpp"
#include "transport/host_stream_device.hpp"
#if defined(ZIPCCL_HAS_CUDA)
#include "collectives/gpu_stream_codec.hpp"
#include "transport/cuda_device.hpp"
#endif

namespace zipccl::collectives {
namespace {

constexpr int kSum = 0;
constexpr int kAvg = 4;

std::size_t statusCount(int rankCount) {
  return std::max<std::size_t>(2048, 16 * static_cast<std::size_t>(rankCount));
}

std::optional<CollectiveKind> collectiveOf(zipcclNcclKind kind) {
  switch (kind) {
    case zipcclNcclAllGather:
      return CollectiveKind::kAllGather;
    case zipcclNcclReduceScatter:
      return CollectiveKind::kReduceScatter;
    case zipcclNcclAllReduce:
      return CollectiveKind::kAllReduce;
    case zipcclNcclBroadcast:
      return CollectiveKind::kBroadcast;
    case zipcclNcclAlltoAll:
      return CollectiveKind::kAlltoAll;
    case zipcclNcclGather:
      return CollectiveKind::kGather;
    case zipcclNcclScatter:
      return CollectiveKind::kScatter;
    case zipcclNcclSend:
    case zipcclNcclRecv:
      return CollectiveKind::kSendRecv;
    case zipcclNcclReduce:
    case zipcclNcclNumKinds:
      break;
  }
  return std::nullopt;
}

DeviceParts openCuda([[maybe_unused]] int deviceNumber) {
#if defined(ZIPCCL_HAS_CUDA)
  DeviceParts parts;
  parts.device = transport::openCudaDevice(deviceNumber);
  const transport::CurrentDevice current(*parts.device);
  parts.codec = makeGpuStreamCodec(*parts.device);
  return parts;
#else
  zipccl::fail(ErrorCode::kInvalidUsage, "this library was built without CUDA");
#endif
}

}  // namespace

DeviceParts openDevice(const zipcclNcclApi& api, int deviceNumber) {
  const transport::HostStreamFunctions functions = transport::findHostStreams(api.image);
  if (!functions.isPresent()) return openCuda(deviceNumber);
  auto device = std::make_shared<transport::HostStreamDevice>(functions, deviceNumber);
  std::unique_ptr<StreamCodec> codec = makeHostStreamCodec(*device);
  return {std::move(device), std::move(codec)};
}

CallOutcome outcomeOf(const zipcclNcclCall& call) noexcept {
  CallOutcome outcome;
  if (!isDatatype(call.datatype)) return outcome;
  outcome.collective = collectiveOf(call.kind);
  outcome.datatype = static_cast<Datatype>(call.datatype);
  return outcome;
}

std::span<std::byte> RoundScratch::reserve(std::uint64_t round, std::uint64_t bytes) {
  constexpr std::uint64_t kLeastBytes = std::uint64_t{4} << 20;
  constexpr std::uint64_t kAlignment = 128;
  const std::size_t own = round % 2;
  std::uint64_t& itsBytes = inUse_[own];
  const std::uint64_t othersBytes = inUse_[1 - own];
  if (blocks_.empty() || blocks_.back().bytes() < bytes + othersBytes) {
    // Room for the next round too; the second time for all that can ever be needed.
    std::uint64_t wanted = blocks_.empty() ? std::max(2 * bytes, kLeastBytes) : maxBytes_;
    wanted = std::max(std::min(wanted, maxBytes_), bytes + othersBytes);
    wanted = (wanted + kAlignment - 1) / kAlignment * kAlignment;
    blocks_.emplace_back(device_, wanted);
    inUse_ = {};
  }
  itsBytes = bytes;
  const std::span<std::byte> all(blocks_.back().data(), blocks_.back().bytes());
  return own == 0 ? all.first(bytes) : all.last(bytes);
}

void RoundScratch::freeRetired() {
  while (hasRetired()) blocks_.pop_front();
}

std::uint64_t RoundScratch::heldBytes() const noexcept {
  std::uint64_t bytes = 0;
  for (const transport::DeviceMemory& block : blocks_) bytes += block.bytes();
  return bytes;
}

NcclCommunicator::NcclCommunicator(const zipcclNcclApi& api, void* comm,
                                   const CommunicatorSettings& wanted, DeviceParts parts)
    : link(api, comm),
      device(std::move(parts.device)),
      codec(std::move(parts.codec)),
      settings(wanted.agreed),
      codecStream(*device),
      begun(*device),
      encoded(*device),
      decoded(*device),
      scratch(*device, wanted.agreed.maxScratchBytes),
      verifier(wanted.agreed.verifyEvery != 0
                   ? std::make_unique<NcclVerifier>(*device, rank(), rankCount(),
                                                    wanted.agreed.verifyEvery)
                   : nullptr),
      peers(static_cast<std::size_t>(rankCount()), PeerHistories(kLag)),
      statuses_(*device, statusCount(rankCount()) * sizeof(std::uint32_t)),
      statusUses_(statusCount(rankCount())) {
  startStatistics(rank(), rankCount());
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::make(const zipcclNcclApi& api, void* comm,
                                                         const CommunicatorSettings& wanted) {
  DeviceParts parts = openDevice(api, transport::NcclLink(api, comm).deviceNumber());
  const std::shared_ptr<transport::Device> device = parts.device;
  const transport::CurrentDevice current(*device);
  return std::make_unique<NcclCommunicator>(api, comm, wanted, std::move(parts));
}

void NcclCommunicator::destroy(std::unique_ptr<NcclCommunicator> communicator) noexcept {
  if (communicator->isBroken()) {
    // Its work may never end, and to free its memory would wait for that.
    static_cast<void>(communicator.release());
    return;
  }
  const std::shared_ptr<transport::Device> device = communicator->device;
  try {
    const transport::CurrentDevice current(*device);
    // Its gates need the courier until they have passed.
    device->record(communicator->decoded.get(), communicator->codecStream.get());
    communicator->await(communicator->decoded.get());
    // All gates have passed, and what the last calls were like is known.
    communicator->hearOfFrames();
    // Nobody may have asked since the last comparison.
    if (communicator->verifier) static_cast<void>(communicator->asyncError());
    communicator.reset();
  } catch (const Error&) {
    // It failed now, or the device is gone, at the end of the program, and what it held is too.
    static_cast<void>(communicator.release());
  }
}

bool NcclCommunicator::wants(const zipcclNcclCall& call) const {
  if (!compressionAgreed || settings.strategy == StrategyChoice::kNative || rankCount() <= 1) {
    return false;
  }
  if (!isDatatype(call.datatype)) return false;
  const auto datatype = static_cast<Datatype>(call.datatype);
  if (!codedDatatype(datatype) || call.count == 0) return false;
  switch (call.kind) {
    case zipcclNcclSend:
    case zipcclNcclRecv:
      if (call.peer == rank()) return false;
      break;
    case zipcclNcclReduceScatter:
    case zipcclNcclAllReduce:
      if (!reductionOf(call.op)) return false;
      break;
    case zipcclNcclReduce:
      return false;
    case zipcclNcclAllGather:
    case zipcclNcclBroadcast:
    case zipcclNcclAlltoAll:
    case zipcclNcclGather:
    case zipcclNcclScatter:
      break;
    case zipcclNcclNumKinds:
      return false;
  }
  const std::uint64_t bytes = call.count * elementBytes(datatype);
  if (bytes < std::max<std::uint64_t>(settings.minBytes, 1)) return false;
  if (windowCount_.load(std::memory_order_relaxed) != 0 && usesWindow(call)) return false;
  return !isAlwaysNative(call) && !device->isCapturing({call.stream});
}

bool NcclCommunicator::usesWindow(const zipcclNcclCall& call) const {
  switch (call.kind) {
    case zipcclNcclSend:
    case zipcclNcclRecv:
      return false;
    case zipcclNcclGather:
      return isInWindow(call.sendbuff);
    case zipcclNcclBroadcast:
    case zipcclNcclScatter:
      return isInWindow(call.recvbuff);
    case zipcclNcclAllGather:
    case zipcclNcclReduceScatter:
    case zipcclNcclAllReduce:
    case zipcclNcclReduce:
    case zipcclNcclAlltoAll:
    case zipcclNcclNumKinds:
      break;
  }
  return isInWindow(call.sendbuff) || isInWindow(call.recvbuff);
}

bool NcclCommunicator::isAlwaysNative(const zipcclNcclCall& call) const {
  // Two calls that share 63 bits of a hash are not to be expected.
  const bool isMessage = call.kind == zipcclNcclSend || call.kind == zipcclNcclRecv;
  std::uint64_t state = static_cast<std::uint64_t>(isMessage ? zipcclNcclSend : call.kind) << 40 ^
                        static_cast<std::uint64_t>(call.datatype) << 32 ^
                        static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.op));
  state = splitMix64(state) ^ call.count;
  const std::uint64_t hash = splitMix64(state) & ~std::uint64_t{1};
  std::atomic<std::uint64_t>& known = known_[hash >> 58];
  const std::uint64_t found = known.load(std::memory_order_relaxed);
  if ((found & ~std::uint64_t{1}) == hash) return (found & 1U) != 0;
  const bool result = decideAfresh(call).strategy == policy::Strategy::kNative;
  known.store(hash | (result ? 1U : 0U), std::memory_order_relaxed);
  return result;
}

policy::Decision NcclCommunicator::decideAfresh(const zipcclNcclCall& call) const {
  if (!isDatatype(call.datatype)) return {.reason = policy::Reason::kNoFormat};
  const auto datatype = static_cast<Datatype>(call.datatype);
  const std::optional<CollectiveKind> collective = collectiveOf(call.kind);
  if (!collective) return {.reason = policy::Reason::kOtherOperation};
  if (!policy::isReduction(*collective)) {
    return plan(*collective, datatype, call.count, nullptr).decision;
  }
  const std::optional<Reduction> reduction = reductionOf(call.op);
  if (!reduction) return {.reason = policy::Reason::kOtherOperation};
  const std::uint64_t count = *collective == CollectiveKind::kAllReduce
                                  ? allReducePart(call.count, rankCount())
                                  : call.count;
  return planReduction(*collective, datatype, count, *reduction, nullptr).decision;
}

std::uint64_t allReducePart(std::uint64_t elementCount, int rankCount) noexcept {
  const auto ranks = static_cast<std::uint64_t>(rankCount);
  return codec::alignUp((elementCount + ranks - 1) / ranks, codec::kTileElements);
}

std::optional<Reduction> NcclCommunicator::reductionOf(int op) noexcept {
  if (op == kSum) return Reduction{.op = ReduceOp::kSum};
  if (op == kAvg) return Reduction{.op = ReduceOp::kAvg};
  // Of operations that programs make, each rank has a scalar of its own, which others do not know.
  return std::nullopt;
}

void NcclCommunicator::addWindow(void* window, void* buffer, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  windows_[window] = {static_cast<const std::byte*>(buffer), bytes};
  windowCount_.store(windows_.size(), std::memory_order_relaxed);
}

void NcclCommunicator::removeWindow(void* window) {
  const std::lock_guard lock(mutex_);
  windows_.erase(window);
  windowCount_.store(windows_.size(), std::memory_order_relaxed);
}

bool NcclCommunicator::isInWindow(const void* buffer) const {
  const auto address = reinterpret_cast<std::uintptr_t>(buffer);
  const std::lock_guard lock(mutex_);
  return std::any_of(windows_.begin(), windows_.end(), [&](const auto& entry) {
    const auto start = reinterpret_cast<std::uintptr_t>(entry.second.buffer);
    return address >= start && address - start < entry.second.bytes;
  });
}

void NcclCommunicator::fail(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  failLocked(error);
}

void NcclCommunicator::failLocked(const Error& error) noexcept {
  if (failure_) return;
  failure_ = error;
  hasFailed_.store(true, std::memory_order_relaxed);
}

std::optional<Error> NcclCommunicator::asyncError() noexcept {
  const std::lock_guard lock(mutex_);
  lookForFaultsLocked(usedStatuses_);
  return failure_;
}

void NcclCommunicator::lookForFaultsLocked(std::size_t words) noexcept {
  if (failure_) return;
  try {
    expectNotAborted();
    for (std::size_t i = 0; i < words; ++i) checkStatusLocked(nextLook_++ % usedStatuses_);
    if (verifier) verifier->check();
  } catch (const Error& error) {
    failLocked(error);
  }
}

void NcclCommunicator::abort() noexcept {
  isAborted_.store(true, std::memory_order_release);
  if (courier_) courier_->abort();
}

void NcclCommunicator::throwIfFailed() {
  constexpr std::size_t kFewWords = 32;
  const std::lock_guard lock(mutex_);
  lookForFaultsLocked(std::min(kFewWords, usedStatuses_));
  if (failure_) throw *failure_;
}

void NcclCommunicator::await(transport::EventHandle event,
                             std::optional<Clock::time_point> deadline) {
  HostWait wait;
  while (!device->isReached(event)) {
    expectNotAborted();
    expects(!deadline || Clock::now() < *deadline, ErrorCode::kRemoteError, "rank ", rank(),
            " waited for other ranks longer than the time limit; a rank without ZipCCL never "
            "answers");
    if (wait.pause()) expectNcclIsWell();
  }
}

bool NcclCommunicator::advance() {
  expectNotAborted();
  return courier_ && courier_->progress();
}

void NcclCommunicator::expectWell() {
  throwIfFailed();
  expectNcclIsWell();
}

void NcclCommunicator::expectNotAborted() const {
  expects(!isAborted(), ErrorCode::kRemoteError, "the communicator of rank ", rank(),
          " was aborted");
}

void NcclCommunicator::expectNcclIsWell() const {
  const int error = link.asyncError();
  expects(error == transport::kNcclSuccess || error == transport::kNcclInProgress,
          transport::errorCodeOf(error), "NCCL failed while rank ", rank(),
          " was waiting for other ranks");
}

Engine::Plan NcclCommunicator::plan(CollectiveKind collective, Datatype datatype,
                                    std::uint64_t elementCount,
                                    ClassTable::Entry* classEntry) const {
  Engine::Plan result;
  result.classEntry = classEntry;
  result.facts.settings = settings;
  decide(result, collective, datatype, elementCount);
  return result;
}

Engine::Plan NcclCommunicator::planReduction(CollectiveKind collective, Datatype datatype,
                                             std::uint64_t elementCount, const Reduction& reduction,
                                             ClassTable::Entry* classEntry) const {
  Engine::Plan result;
  result.classEntry = classEntry;
  result.facts.settings = settings;
  result.facts.isScaledSum = isScaledSum(reduction);
  result.facts.transportReduces = true;
  int exponent = 0;
  const float factor = factorOf(reduction, datatype, rankCount());
  // NCCL multiplies and adds fp16 in one step, which shows where halves of its smallest numbers are
  // rounded.
  result.facts.keepsRounding = rankCount() <= 2 && result.facts.isScaledSum &&
                               std::fabs(std::frexp(factor, &exponent)) == 0.5F &&
                               (factor == 1.0F || datatype != Datatype::kFloat16);
  decide(result, collective, datatype, elementCount);
  return result;
}

Engine::Plan NcclCommunicator::planGather(Datatype datatype, std::uint64_t elementCount,
                                          ClassTable::Entry& classEntry) const {
  Engine::Plan result;
  result.classEntry = &classEntry;
  result.facts.settings = settings.forPartOfCall(StrategyChoice::kStaged);
  decide(result, CollectiveKind::kAllGather, datatype, elementCount);
  invariant(result.decision.strategy == policy::Strategy::kStaged,
            "a gather without room in the scratch of the reduction before it");
  return result;
}

void NcclCommunicator::decide(Engine::Plan& plan, CollectiveKind collective, Datatype datatype,
                              std::uint64_t elementCount) const {
  policy::CallFacts& facts = plan.facts;
  facts.rankCount = rankCount();
  facts.codecLeadNeeded = policy::kSharedGpuLead;
  facts.compressionAgreed = compressionAgreed;
  facts.isProfileGiven = isProfileGiven;
  facts.overlap = overlap;
  // Messages of a group do not wait for each other with NCCL, and programs may rely on that. So all
  // of them share one round.
  facts.overlap.isWhole = collective == CollectiveKind::kSendRecv;
  plan.decide(collective, datatype, elementCount, profile, rank());
}

const transport::OwnedEvent& NcclCommunicator::movedEvent(std::uint64_t round, std::size_t place) {
  std::deque<transport::OwnedEvent>& events = movedEvents_[round % movedEvents_.size()];
  while (events.size() <= place) events.emplace_back(*device);
  return events[place];
}

void NcclCommunicator::startCourier(std::unique_ptr<transport::SideChannel> channel) {
  courier_ = std::make_unique<DynamicCourier>(*device, std::move(channel), rank(),
                                              [this](const Error& error) { fail(error); });
}

bool NcclCommunicator::mayBegin(const PairHistory& history, const ClassKey& key) {
  courier_->tellObservers();
  return history.mayBegin(key);
}

void NcclCommunicator::checkStatusLocked(std::size_t word) {
  const std::uint32_t found = std::atomic_ref(statusWords()[word]).load(std::memory_order_acquire);
  if (found == 0) return;
  const StatusUse& use = statusUses_[word];
  checkStatus(static_cast<codec::DecodeStatus>(std::countr_zero(found)), use.place, use.peer);
}

std::uint32_t* NcclCommunicator::takeStatus(const FramePlace& place, int peer) {
  const std::size_t word = nextStatus_++ % statusUses_.size();
  const std::lock_guard lock(mutex_);
  checkStatusLocked(word);
  statusUses_[word] = {place, peer};
  usedStatuses_ = std::max(usedStatuses_, word + 1);
  return &statusWords()[word];
}

void NcclCommunicator::record(const CallOutcome& outcome) {
  recordCall(outcome);
  const std::lock_guard lock(mutex_);
  statistics_.add(outcome);
  statistics_.scratchBytes = scratch.heldBytes();
}

void NcclCommunicator::countNative(const zipcclNcclCall& call) {
  link.addWireBytes(
      transport::wireBytesOf(call, elementBytesOfNccl(call.datatype), rank(), rankCount()));
}

void NcclCommunicator::recordNative(const zipcclNcclCall& call) {
  countNative(call);
  CallOutcome outcome = outcomeOf(call);
  outcome.decision = decideAfresh(call);
  if (outcome.decision.strategy != policy::Strategy::kNative) {
    outcome.decision = {.reason = policy::Reason::kPassesThrough};
  }
  if (call.kind != zipcclNcclRecv) {
    outcome.inputBytes = call.count * elementBytesOfNccl(call.datatype);
  }
  record(outcome);
}

void NcclCommunicator::hearOfFrames() {
  if (!courier_) return;
  static_cast<void>(courier_->progress());
  courier_->tellObservers();
}

CommunicatorStatistics NcclCommunicator::statistics() const {
  const std::lock_guard lock(mutex_);
  CommunicatorStatistics statistics = statistics_;
  statistics.wireBytesSent = link.wireBytes() + (courier_ ? courier_->sentBytes() : 0);
  return statistics;
}

}  // namespace zipccl::collectives
