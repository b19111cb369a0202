// SPDX-License-Identifier: Apache-2.0
//
// The MPI transport. Data travels by MPI's own non-blocking operations on one communicator; notices
// of failure and departure by small messages on another, which every wait polls. So a wait ends
// when its operation is complete, when this rank or another has failed, when a rank that is needed
// has left, or when the time is up; then the ranks are asked where they are, so that the error can
// name the missing.

#include "transport/mpi_transport.hpp"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/settings.hpp"
#include "base/text.hpp"
#include "transport/mpi_library.hpp"
#include "transport/rank_list.hpp"
#include "transport/ring_schedule.hpp"

namespace zipccl::transport {

namespace {

using Milliseconds = std::chrono::milliseconds;

/// From this size on a blocking all-gather is MPI_Allgather itself.
constexpr std::size_t kBlockingAllGatherBytes = std::size_t{1} << 20;

/// From this size on an all-gather that is started goes around a ring, by messages. MPI's own may
/// start all transfers at once (OpenMPI's does), which meet at the ranks' links.
constexpr std::size_t kRingBytes = std::size_t{1} << 16;

/// What moves while ranks work goes in pieces of this size. MPIs send such over a network at
/// once (OpenMPI over TCP up to 64 KiB, its own header counted), and of larger ones ask the
/// receiver first: that takes two more times until the process is there to answer.
constexpr std::uint64_t kPieceBytes = 60 * 1024;

/// How many pieces of a ring are on their way to a rank.
constexpr std::uint64_t kRingPieces = 32;

/// Tags of rings, which differ among those under way.
constexpr int kFirstRingTag = 16;
constexpr std::uint64_t kRingTags = 1024;

/// How long the ranks have to answer where they are once the time is up.
constexpr Milliseconds kAnswerTime{300};

/// How long operations in flight have to end after a failure, and notices to leave at the end.
constexpr Milliseconds kDrainTime{200};

/// Gives the core away between looks at MPI: at once for other ranks of this machine, and by
/// sleeping where nothing has happened for long.
class Pause {
 public:
  void reset() noexcept {
    count_ = 0;
    sinceUs_ = 0;
    isLong_ = false;
  }

  void operator()() noexcept {
    if (++count_ < kSpinCount) return;
    if (sinceUs_ == 0) sinceUs_ = nowUs();
    if (count_ % 64 == 0) isLong_ = nowUs() - sinceUs_ > kYieldUs;
    if (isLong_) {
      const timespec nap = {.tv_sec = 0, .tv_nsec = 100'000};
      ::nanosleep(&nap, nullptr);
    } else {
      ::sched_yield();
    }
  }

  /// Whether it is time for the rarer looks.
  [[nodiscard]] bool isDue() const noexcept { return isLong_ || count_ % 16 == 0; }

 private:
  static constexpr std::uint64_t kSpinCount = 32;
  static constexpr std::int64_t kYieldUs = 1'000'000;

  std::uint64_t count_ = 0;
  std::int64_t sinceUs_ = 0;
  bool isLong_ = false;
};

enum class CallKind { kExchange, kAllGather, kBroadcast, kBarrier, kControl };

const char* kindName(CallKind kind) {
  switch (kind) {
    case CallKind::kExchange:
      return "exchange";
    case CallKind::kAllGather:
      return "all-gather";
    case CallKind::kBroadcast:
      return "broadcast";
    case CallKind::kBarrier:
      return "barrier";
    case CallKind::kControl:
      return "control all-gather";
  }
  return "unknown operation";
}

enum class PartKind { kSend, kReceive, kCollective };

/// One MPI request of an operation.
struct Part {
  PartKind kind = PartKind::kCollective;
  int peer = -1;
  std::uint64_t bytes = 0;
  std::uint64_t sequence = 0;   ///< among the messages of its pair and direction
  std::uint64_t at = 0;         ///< where a piece of a message begins in it
  std::uint64_t restBytes = 0;  ///< of that message, behind it
  bool isPiece = false;
  ZipcclMpiHandle request = {};
  bool isDone = false;
};

/// An all-gather around a ring, and how far it is.
struct Ring {
  RingSchedule schedule;
  std::byte* blocks = nullptr;  ///< of all ranks
  int tag = 0;
  std::uint64_t receiveCount = 0;  ///< started
  std::uint64_t arrivedCount = 0;  ///< received, with all before
  std::uint64_t sendCount = 0;     ///< started
  std::uint64_t sentCount = 0;     ///< sent, with all before

  [[nodiscard]] bool areAllStarted() const noexcept {
    return receiveCount == schedule.pieceCount() && sendCount == schedule.pieceCount();
  }
};

/// What is known of another rank.
struct Peer {
  bool isOnThisHost = false;
  std::uint64_t sentCount = 0;      ///< messages started to it
  std::uint64_t receivedCount = 0;  ///< messages expected from it
  bool hasLeft = false;
  MpiNotice leaving;  ///< its counts when it left
  bool hasAnswered = false;
  MpiNotice answer;
};

class MpiTransport;

class MpiOperation final : public Operation {
 public:
  MpiOperation(MpiTransport& transport, CallKind kind, Milliseconds timeout)
      : transport_(transport), kind_(kind), timeout_(timeout) {}

  /// One that memory ran out for is still under way.
  ~MpiOperation() override;

  [[nodiscard]] bool progress(bool mayBlock) override;
  [[nodiscard]] std::size_t progressAny(std::span<Operation* const> operations) override;
  void cancel() noexcept override;

  void reserve(std::size_t partCount) { parts_.reserve(partCount); }
  Part& addPart(const Part& part) { return parts_.emplace_back(part); }

  /// Asks MPI to end what can be ended and waits a little for the rest.
  void abandon() noexcept;

  [[nodiscard]] CallKind kind() const noexcept { return kind_; }
  [[nodiscard]] const std::vector<Part>& parts() const noexcept { return parts_; }
  [[nodiscard]] Milliseconds timeout() const noexcept { return timeout_; }

  /// The place of a collective operation in the order of all.
  std::uint64_t collectiveIndex = 0;
  /// Messages to oneself that are not copied yet.
  std::size_t openSelfCount = 0;

  /// Makes the operation an all-gather around this ring and starts its first messages. Returns
  /// MPI's error, or 0.
  [[nodiscard]] int startRing(const Ring& ring);
  /// Looks at the messages of the ring and starts those that may follow; fails the transport on an
  /// error. Returns whether one has ended.
  bool advanceRing();

 private:
  static MpiOperation& mpiOf(Operation* operation) {
    return *static_cast<MpiOperation*>(operation);
  }

  /// Returns the place of the first of `operations` that is complete. None when the transport has
  /// failed or, unless it may block, when none is complete.
  std::optional<std::size_t> makeProgress(std::span<Operation* const> operations, bool mayBlock);
  /// Fails the transport on a failure elsewhere, a lost peer, or when the time is up.
  void lookForTrouble(std::span<Operation* const> operations, const Deadline& deadline);

  /// Tests all parts; throws nothing, but fails the transport on an error. Returns whether a part
  /// has ended.
  bool testParts();
  /// The same for one part.
  bool testPart(Part& part);
  [[nodiscard]] bool isComplete() const;
  /// The part that has a message of the ring, or had an earlier one.
  [[nodiscard]] Part& ringReceive(std::uint64_t number) { return parts_[number % kRingPieces]; }
  [[nodiscard]] Part& ringSend(std::uint64_t number) {
    return parts_[kRingPieces + number % kRingPieces];
  }
  /// Starts what messages of the ring may start by now. Returns MPI's error, or 0.
  [[nodiscard]] int startRingMessages();
  void failOnMpi(int error);
  void failOnWrongSize(const Part& part, std::uint64_t gotBytes);

  MpiTransport& transport_;
  CallKind kind_;
  Milliseconds timeout_;
  std::vector<Part> parts_;
  std::optional<Ring> ring_;
  bool wasAbandoned_ = false;
};

class MpiTransport final : public Transport {
 public:
  MpiTransport(std::shared_ptr<MpiLibrary> library, std::unique_ptr<MpiCommunicators> communicators,
               int rank, int rankCount)
      : Transport(rank, rankCount),
        library_(std::move(library)),
        communicators_(std::move(communicators)),
        peers_(static_cast<std::size_t>(rankCount)) {
    communicators_->hasLeft.assign(static_cast<std::size_t>(rankCount), false);
    communicators_->hasLeft[static_cast<std::size_t>(rank)] = true;
    library_->addTransport(*communicators_);
  }

  ~MpiTransport() override;

  [[nodiscard]] std::string_view name() const noexcept override { return "mpi"; }
  [[nodiscard]] bool allowsConcurrency() const noexcept override { return false; }
  [[nodiscard]] bool usesCoreOfRank() const noexcept override { return true; }

  [[nodiscard]] bool hasFailed() const noexcept override {
    return hasFailed_.load(std::memory_order_acquire);
  }

  [[nodiscard]] std::optional<Error> failure() const override {
    if (!hasFailed()) return std::nullopt;
    return stickyError();
  }

  /// The sticky error; the transport has failed.
  [[nodiscard]] Error stickyError() const {
    const std::lock_guard lock(failureMutex_);
    return failure_ ? *failure_ : Error(ErrorCode::kSystemError, "out of memory in a failure");
  }

  [[nodiscard]] bool mayStillTouchBuffers() const noexcept override {
    return mayStillTouchBuffers_.load(std::memory_order_relaxed);
  }
  /// An operation was given up that MPI may go on with.
  void leaveBuffersToMpi() noexcept {
    mayStillTouchBuffers_.store(true, std::memory_order_relaxed);
  }

  [[nodiscard]] const ZipcclMpiFunctions& mpi() const noexcept { return library_->functions(); }
  [[nodiscard]] const MpiLibrary& library() const noexcept { return *library_; }
  [[nodiscard]] const ZipcclMpiHandle& dataComm() const noexcept { return communicators_->data; }

  /// Fails the transport here and tells the others, unless it has failed already.
  void failEverywhere(ErrorCode code, const std::string& message, std::array<int, 2> involved,
                      SourceLocation where = SourceLocation::current()) noexcept;

  /// Takes the notices that have arrived. Never throws: an error of MPI fails the transport.
  void takeNotices() noexcept;

  /// Fails the transport if a rank that left is still needed for `operation`.
  void checkForLostPeers(const MpiOperation& operation) noexcept;

  /// Fails the transport because all of `operations`, not none, took too long, naming the ranks
  /// they wait for.
  void failOnTimeout(std::span<Operation* const> operations);

  /// Until when operations in flight may end after a failure: all of them together.
  [[nodiscard]] const Deadline& drainDeadline() noexcept {
    if (!drainDeadline_) drainDeadline_.emplace(kDrainTime);
    return *drainDeadline_;
  }

  /// Rings go on with whatever the rank waits for: its neighbours need what it hands on.
  void addRing(MpiOperation* operation) { rings_.push_back(operation); }
  void removeRing(MpiOperation* operation) noexcept { std::erase(rings_, operation); }
  /// Returns whether a message has ended.
  bool advanceRings() {
    bool hasEnded = false;
    for (MpiOperation* ring : rings_) {
      if (!hasFailed()) hasEnded = ring->advanceRing() || hasEnded;
    }
    return hasEnded;
  }

  void dropSelfMessages(const MpiOperation* operation) noexcept;

  /// Tells the others of a failure that they do not know of yet.
  void spreadFailure() noexcept;

 private:
  struct SelfMessage {
    const void* from = nullptr;
    void* to = nullptr;
    std::uint64_t bytes = 0;
    MpiOperation* operation = nullptr;
  };

  [[nodiscard]] Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  enum class Origin { kThisRank, kAnotherRank };

  /// Sets the failure; false if there was one. One of this rank has to be spread.
  bool setFailure(Error error, Origin origin, std::array<int, 2> involved = {-1, -1}) noexcept;
  void markFailed(Origin origin) noexcept;
  void sendNotice(int to, MpiNotice notice);
  void sendToAll(const MpiNotice& notice) noexcept;
  /// Lets notices leave, for as long as `deadline` allows; at least one look.
  void testNotices(const Deadline& deadline) noexcept;
  void receiveNotice(const MpiNotice& notice, int source) noexcept;
  [[nodiscard]] std::vector<int> ranksNotIn(const MpiOperation& operation);
  void matchSelfMessages();

  [[nodiscard]] std::unique_ptr<MpiOperation> newCollective(CallKind kind, Milliseconds timeout) {
    auto operation = std::make_unique<MpiOperation>(*this, kind, timeout);
    operation->reserve(1);
    operation->collectiveIndex = collectiveCount_++;
    return operation;
  }

  /// Fails the transport and throws if `error` is one of MPI's.
  void checkStart(int error, std::string_view call);
  static void finish(MpiOperation& operation);

  /// Copies this rank's shard to its place in `receive`. MPI_IN_PLACE is for all ranks or for none,
  /// and where a rank's send buffer lies, the others do not know.
  void putInPlace(const void* send, void* receive, std::size_t bytesPerRank) const;

  [[nodiscard]] Request doStartAllGather(const void* send, void* receive, std::size_t bytesPerRank,
                                         StreamHandle stream) override;
  void doAllGather(const void* send, void* receive, std::size_t bytesPerRank,
                   StreamHandle stream) override;
  [[nodiscard]] Request doStartBroadcast(void* buffer, std::size_t bytes, int root,
                                         StreamHandle stream) override;
  [[nodiscard]] Request doStartExchange(std::span<const SendMessage> sends,
                                        std::span<const ReceiveMessage> receives,
                                        StreamHandle stream) override;
  void doBarrier() override;
  void doAllGatherControl(std::span<const std::byte> mine, std::span<std::byte> all,
                          Milliseconds timeout) override;
  void doAbort(std::string_view reason) noexcept override;
  void doSpreadFailure() noexcept override { spreadFailure(); }
  void doLearnHosts(std::span<const std::uint32_t> hostOfRank) override {
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      peers_[r].isOnThisHost = hostOfRank[r] == hostOfRank[static_cast<std::size_t>(rank())];
    }
  }
  /// Whether a message goes in pieces, which in the memory of a host only costs.
  template <class Message>
  [[nodiscard]] bool goesInPieces(const Message& message) {
    return message.isBesideWork && !peer(message.peer).isOnThisHost;
  }

  std::shared_ptr<MpiLibrary> library_;
  std::unique_ptr<MpiCommunicators> communicators_;
  std::vector<Peer> peers_;
  std::uint64_t collectiveCount_ = 0;
  std::vector<MpiOperation*> rings_;  ///< not yet destroyed, in the order of their start
  std::deque<SelfMessage> selfSends_;
  std::deque<SelfMessage> selfReceives_;

  mutable std::mutex failureMutex_;
  std::optional<Error> failure_;
  std::array<int, 2> failureInvolves_ = {-1, -1};
  std::atomic<bool> hasFailed_ = false;
  std::atomic<bool> mustSpread_ = false;
  std::atomic<bool> mayStillTouchBuffers_ = false;
  std::optional<Deadline> drainDeadline_;
};

MpiOperation::~MpiOperation() {
  if (!wasAbandoned_ && !isComplete()) cancel();
  if (ring_) transport_.removeRing(this);
}

bool MpiOperation::isComplete() const {
  return openSelfCount == 0 && (!ring_ || ring_->areAllStarted()) &&
         std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.isDone; });
}

int MpiOperation::startRing(const Ring& ring) {
  transport_.addRing(this);
  ring_.emplace(ring);
  const Part idleReceive{
      .kind = PartKind::kReceive, .peer = ring.schedule.left(), .isPiece = true, .isDone = true};
  const Part idleSend{.kind = PartKind::kSend, .peer = ring.schedule.right(), .isDone = true};
  parts_.assign(2 * kRingPieces, idleReceive);
  std::fill(parts_.begin() + kRingPieces, parts_.end(), idleSend);
  return startRingMessages();
}

int MpiOperation::startRingMessages() {
  Ring& ring = *ring_;
  const RingSchedule& schedule = ring.schedule;
  const ZipcclMpiHandle* const comm = &transport_.dataComm();
  while (ring.receiveCount != schedule.pieceCount() &&
         ring.receiveCount != ring.arrivedCount + kRingPieces) {
    const RingSchedule::Piece piece = schedule.received(ring.receiveCount);
    Part& part = ringReceive(ring.receiveCount);
    part.bytes = piece.bytes;
    part.at = piece.at % schedule.blockBytes();
    part.restBytes = schedule.blockBytes() - part.at - piece.bytes;
    const int error = transport_.mpi().startReceive(comm, ring.blocks + piece.at, piece.bytes,
                                                    part.peer, ring.tag, &part.request);
    if (error != 0) return error;
    part.isDone = false;
    ++ring.receiveCount;
  }
  while (ring.sendCount != schedule.pieceCount() &&
         ring.sendCount != ring.sentCount + kRingPieces &&
         schedule.receivedBefore(ring.sendCount) <= ring.arrivedCount) {
    const RingSchedule::Piece piece = schedule.sent(ring.sendCount);
    Part& part = ringSend(ring.sendCount);
    part.bytes = piece.bytes;
    const int error = transport_.mpi().startSend(comm, ring.blocks + piece.at, piece.bytes,
                                                 part.peer, ring.tag, &part.request);
    if (error != 0) return error;
    part.isDone = false;
    ++ring.sendCount;
  }
  return 0;
}

void MpiOperation::failOnMpi(int error) {
  transport_.failEverywhere(ErrorCode::kSystemError,
                            concat(kindName(kind_), " failed in MPI on rank ", transport_.rank(),
                                   ": ", transport_.library().textOf(error)),
                            {transport_.rank(), -1});
}

void MpiOperation::failOnWrongSize(const Part& part, std::uint64_t gotBytes) {
  transport_.failEverywhere(
      ErrorCode::kInvalidUsage,
      // Behind a whole piece more may follow.
      concat(kindName(kind_), ": rank ", part.peer, " sends ",
             part.isPiece && gotBytes == kPieceBytes ? "at least " : "",
             describeBytes(part.at + gotBytes), " to rank ", transport_.rank(), ", which expects ",
             describeBytes(part.at + part.bytes + part.restBytes)),
      {transport_.rank(), part.peer});
}

bool MpiOperation::testPart(Part& part) {
  int isDone = 0;
  std::uint64_t gotBytes = 0;
  const int error = transport_.mpi().testRequest(&part.request, &isDone, &gotBytes);
  if (error != 0) {
    part.isDone = true;
    if (part.kind == PartKind::kReceive && gotBytes > part.bytes &&
        transport_.mpi().isTruncation(error) != 0) {
      failOnWrongSize(part, gotBytes);
    } else {
      failOnMpi(error);
    }
    return true;
  }
  part.isDone = isDone != 0;
  if (part.isDone && part.kind == PartKind::kReceive && gotBytes != part.bytes) {
    failOnWrongSize(part, gotBytes);
  }
  return part.isDone;
}

bool MpiOperation::testParts() {
  // The transport has looked at rings already.
  if (ring_) return false;
  bool hasEnded = false;
  bool isHeldUp = false;
  for (Part& part : parts_) {
    // Pieces of a message end in their order, or nearly so.
    if (part.at == 0) isHeldUp = false;
    if (part.isDone || isHeldUp) continue;
    isHeldUp = !testPart(part);
    hasEnded = hasEnded || !isHeldUp;
    if (transport_.hasFailed()) break;
  }
  return hasEnded;
}

bool MpiOperation::advanceRing() {
  // Messages of a pair end in their order, or nearly so: behind the first that has not ended none
  // is looked at.
  Ring& ring = *ring_;
  const std::uint64_t endedBefore = ring.arrivedCount + ring.sentCount;
  const auto isOver = [this](Part& part) {
    return (part.isDone || testPart(part)) && !transport_.hasFailed();
  };
  while (ring.arrivedCount != ring.receiveCount && isOver(ringReceive(ring.arrivedCount))) {
    ++ring.arrivedCount;
  }
  while (ring.sentCount != ring.sendCount && isOver(ringSend(ring.sentCount))) ++ring.sentCount;
  if (ring.arrivedCount + ring.sentCount == endedBefore || transport_.hasFailed()) return false;
  if (const int error = startRingMessages(); error != 0) failOnMpi(error);
  return true;
}

bool MpiOperation::progress(bool mayBlock) {
  Operation* const self = this;
  if (makeProgress({&self, 1}, mayBlock)) return true;
  if (!transport_.hasFailed()) return false;
  abandon();
  throw transport_.stickyError();
}

std::size_t MpiOperation::progressAny(std::span<Operation* const> operations) {
  const std::optional<std::size_t> place = makeProgress(operations, true);
  if (!place) throw transport_.stickyError();
  return *place;
}

std::optional<std::size_t> MpiOperation::makeProgress(std::span<Operation* const> operations,
                                                      bool mayBlock) {
  const Deadline deadline(timeout_);
  Pause pause;
  for (;;) {
    if (transport_.hasFailed()) {
      transport_.spreadFailure();
      return std::nullopt;
    }
    bool hasEnded = transport_.advanceRings();
    for (std::size_t place = 0; place < operations.size(); ++place) {
      MpiOperation& operation = mpiOf(operations[place]);
      hasEnded = operation.testParts() || hasEnded;
      if (!transport_.hasFailed() && operation.isComplete()) return place;
    }
    if (transport_.hasFailed()) continue;
    if (hasEnded) pause.reset();
    if (!mayBlock || pause.isDue()) {
      lookForTrouble(operations, mayBlock ? deadline : Deadline());
      if (transport_.hasFailed()) continue;
      if (!mayBlock) return std::nullopt;
    }
    pause();
  }
}

void MpiOperation::lookForTrouble(std::span<Operation* const> operations,
                                  const Deadline& deadline) {
  transport_.takeNotices();
  for (Operation* operation : operations) {
    if (transport_.hasFailed()) return;
    transport_.checkForLostPeers(mpiOf(operation));
  }
  if (!transport_.hasFailed() && deadline.hasPassed()) transport_.failOnTimeout(operations);
}

void MpiOperation::abandon() noexcept {
  wasAbandoned_ = true;
  transport_.dropSelfMessages(this);
  openSelfCount = 0;
  for (Part& part : parts_) {
    if (!part.isDone && part.kind == PartKind::kReceive) {
      transport_.mpi().cancelRequest(&part.request);
    }
  }
  const Deadline& deadline = transport_.drainDeadline();
  Pause pause;
  for (;;) {
    bool isAllDone = true;
    for (Part& part : parts_) {
      if (part.isDone) continue;
      int isDone = 0;
      std::uint64_t gotBytes = 0;
      const int error = transport_.mpi().testRequest(&part.request, &isDone, &gotBytes);
      part.isDone = error != 0 || isDone != 0;
      isAllDone = isAllDone && part.isDone;
    }
    if (isAllDone) return;
    if (deadline.hasPassed()) break;
    pause();
  }
  const auto hasBuffer = [](const Part& part) { return !part.isDone && part.bytes != 0; };
  if (std::any_of(parts_.begin(), parts_.end(), hasBuffer)) transport_.leaveBuffersToMpi();
}

void MpiOperation::cancel() noexcept {
  std::string message;
  try {
    message = concat("rank ", transport_.rank(), " gave up its ", kindName(kind_), " in flight");
  } catch (const std::exception&) {
    message = "aborted";
  }
  transport_.failEverywhere(ErrorCode::kRemoteError, message, {-1, -1});
  abandon();
}

MpiTransport::~MpiTransport() {
  if (library_->isInChild()) {
    // MPI and the other ranks belong to the parent.
    static_cast<void>(communicators_.release());
    return;
  }
  int isFinalised = 0;
  if (mpi().isFinalised(&isFinalised) != 0 || isFinalised != 0) {
    // The program ended MPI first: there is nobody to tell, and nothing may be freed.
    library_->retire(std::move(communicators_), true);
    return;
  }
  if (hasFailed()) {
    spreadFailure();
  } else {
    MpiNotice leaving;
    leaving.kind = MpiNotice::Kind::kLeaving;
    sendToAll(leaving);
    // What is not out yet goes on its way with whatever MPI does next, its end included.
    testNotices(Deadline::now());
  }
  for (int r = 0; r < rankCount(); ++r) {
    if (peer(r).hasLeft) communicators_->hasLeft[static_cast<std::size_t>(r)] = true;
  }
  library_->retire(std::move(communicators_), hasFailed());
}

bool MpiTransport::setFailure(Error error, Origin origin, std::array<int, 2> involved) noexcept {
  const std::lock_guard lock(failureMutex_);
  if (failure_) return false;
  failure_.emplace(std::move(error));
  failureInvolves_ = involved;
  markFailed(origin);
  return true;
}

void MpiTransport::markFailed(Origin origin) noexcept {
  // In this order: who sees the failure must see the duty to spread it, too.
  if (origin == Origin::kThisRank) mustSpread_.store(true, std::memory_order_release);
  hasFailed_.store(true, std::memory_order_release);
}

void MpiTransport::failEverywhere(ErrorCode code, const std::string& message,
                                  std::array<int, 2> involved, SourceLocation where) noexcept {
  try {
    if (!setFailure(Error(code, message, where), Origin::kThisRank, involved)) return;
  } catch (const std::exception&) {
    markFailed(Origin::kThisRank);
  }
  spreadFailure();
}

void MpiTransport::spreadFailure() noexcept {
  if (!mustSpread_.exchange(false, std::memory_order_acq_rel)) return;
  MpiNotice notice;
  notice.kind = MpiNotice::Kind::kFailure;
  {
    const std::lock_guard lock(failureMutex_);
    if (failure_) {
      notice.code = static_cast<std::int32_t>(failure_->code());
      const std::string& text = failure_->message();
      std::memcpy(notice.text, text.data(), std::min(text.size(), sizeof(notice.text) - 1));
    }
    notice.involved[0] = failureInvolves_[0];
    notice.involved[1] = failureInvolves_[1];
  }
  sendToAll(notice);
  testNotices(Deadline(kDrainTime));
}

void MpiTransport::sendNotice(int to, MpiNotice notice) {
  notice.collectiveCount = collectiveCount_;
  notice.sentCount = peer(to).sentCount;
  notice.receivedCount = peer(to).receivedCount;
  auto send = std::make_unique<MpiNoticeSend>();
  send->notice = notice;
  communicators_->notices.reserve(communicators_->notices.size() + 1);
  library_->check(mpi().startSend(&communicators_->control, &send->notice, sizeof(send->notice), to,
                                  kMpiNoticeTag, &send->request),
                  "MPI_Isend");
  communicators_->notices.push_back(std::move(send));
}

void MpiTransport::sendToAll(const MpiNotice& notice) noexcept {
  for (int r = 0; r < rankCount(); ++r) {
    if (r == rank()) continue;
    try {
      sendNotice(r, notice);
    } catch (const std::exception& error) {
      logWarn("rank ", r, " cannot be told of a failure or departure: ", error.what());
    }
  }
}

void MpiTransport::testNotices(const Deadline& deadline) noexcept {
  Pause pause;
  std::vector<std::unique_ptr<MpiNoticeSend>>& notices = communicators_->notices;
  for (;;) {
    for (const std::unique_ptr<MpiNoticeSend>& send : notices) {
      int isDone = 0;
      std::uint64_t bytes = 0;
      const int error = mpi().testRequest(&send->request, &isDone, &bytes);
      send->isDone = error != 0 || isDone != 0;
    }
    std::erase_if(notices, [](const std::unique_ptr<MpiNoticeSend>& send) { return send->isDone; });
    if (notices.empty() || deadline.hasPassed()) return;
    pause();
  }
}

void MpiTransport::takeNotices() noexcept {
  for (;;) {
    MpiNotice notice;
    std::uint64_t bytes = sizeof(notice);
    int source = -1;
    const int error =
        mpi().receiveAny(&communicators_->control, kMpiNoticeTag, &notice, &bytes, &source);
    if (error != 0) {
      try {
        failEverywhere(ErrorCode::kSystemError, "MPI_Recv failed: " + library_->textOf(error),
                       {rank(), -1});
      } catch (const std::exception&) {
        failEverywhere(ErrorCode::kSystemError, {}, {rank(), -1});
      }
      return;
    }
    if (source < 0) return;
    if (bytes != sizeof(notice) || notice.magic != MpiNotice::kMagic) continue;
    receiveNotice(notice, source);
  }
}

void MpiTransport::receiveNotice(const MpiNotice& notice, int source) noexcept {
  switch (notice.kind) {
    case MpiNotice::Kind::kFailure: {
      const bool isInvolved = notice.involved[0] == rank() || notice.involved[1] == rank();
      const auto code = isInvolved ? static_cast<ErrorCode>(notice.code) : ErrorCode::kRemoteError;
      try {
        const std::string_view text(notice.text, ::strnlen(notice.text, sizeof(notice.text)));
        setFailure(Error(code, std::string(text)), Origin::kAnotherRank);
      } catch (const std::exception&) {
        markFailed(Origin::kAnotherRank);
      }
      break;
    }
    case MpiNotice::Kind::kLeaving:
      peer(source).hasLeft = true;
      peer(source).leaving = notice;
      break;
    case MpiNotice::Kind::kQuestion:
      try {
        MpiNotice answer;
        answer.kind = MpiNotice::Kind::kAnswer;
        sendNotice(source, answer);
        testNotices(Deadline::now());
      } catch (const std::exception& error) {
        logWarn("rank ", source,
                " asked where this rank is and cannot be answered: ", error.what());
      }
      break;
    case MpiNotice::Kind::kAnswer:
      peer(source).hasAnswered = true;
      peer(source).answer = notice;
      break;
  }
}

void MpiTransport::checkForLostPeers(const MpiOperation& operation) noexcept {
  const char* const kind = kindName(operation.kind());
  try {
    for (int r = 0; r < rankCount(); ++r) {
      const Peer& other = peer(r);
      if (!other.hasLeft) continue;
      if (operation.kind() != CallKind::kExchange) {
        if (operation.collectiveIndex < other.leaving.collectiveCount) continue;
        failEverywhere(ErrorCode::kRemoteError,
                       concat(kind, ": rank ", r, " left before it came; rank ", rank(), " waits"),
                       {-1, -1});
        return;
      }
      for (const Part& part : operation.parts()) {
        if (part.isDone || part.peer != r) continue;
        const bool isSend = part.kind == PartKind::kSend;
        const std::uint64_t otherCount =
            isSend ? other.leaving.receivedCount : other.leaving.sentCount;
        if (part.sequence < otherCount) continue;
        failEverywhere(ErrorCode::kRemoteError,
                       concat(kind, ": rank ", r, " left before it ",
                              isSend ? "received what rank " : "sent what rank ", rank(),
                              isSend ? " sends" : " waits for"),
                       {-1, -1});
        return;
      }
    }
  } catch (const std::exception&) {
    failEverywhere(ErrorCode::kRemoteError, {}, {-1, -1});
  }
}

std::vector<int> MpiTransport::ranksNotIn(const MpiOperation& operation) {
  for (Peer& other : peers_) other.hasAnswered = false;
  MpiNotice question;
  question.kind = MpiNotice::Kind::kQuestion;
  sendToAll(question);
  const Deadline deadline(kAnswerTime);
  Pause pause;
  while (!deadline.hasPassed() && !hasFailed()) {
    takeNotices();
    testNotices(Deadline::now());
    pause();
  }
  std::vector<int> absent;
  for (int r = 0; r < rankCount(); ++r) {
    if (r == rank()) continue;
    const Peer& other = peer(r);
    if (!other.hasAnswered || (operation.kind() != CallKind::kExchange &&
                               other.answer.collectiveCount <= operation.collectiveIndex)) {
      absent.push_back(r);
    }
  }
  return absent;
}

void MpiTransport::failOnTimeout(std::span<Operation* const> operations) {
  std::vector<int> senders;
  std::vector<int> receivers;
  std::size_t openSelfCount = 0;
  for (Operation* each : operations) {
    const auto& operation = *static_cast<MpiOperation*>(each);
    openSelfCount += operation.openSelfCount;
    for (const Part& part : operation.parts()) {
      if (part.isDone) continue;
      if (part.kind == PartKind::kReceive) senders.push_back(part.peer);
      if (part.kind == PartKind::kSend) receivers.push_back(part.peer);
    }
  }
  const auto& operation = *static_cast<MpiOperation*>(operations.front());
  const std::vector<int> absent = ranksNotIn(operation);
  if (hasFailed()) return;
  std::string message = concat(kindName(operation.kind()), ": rank ", rank(), " of ", rankCount(),
                               " waited ", describeMs(operation.timeout().count()));
  if (!senders.empty()) message += " for data from " + listRanks(senders);
  if (!receivers.empty()) {
    message +=
        concat(senders.empty() ? "" : " and", " for ", listRanks(receivers), " to take its data");
  }
  if (openSelfCount != 0) message += " for a message to itself without its other end";
  if (!absent.empty()) {
    message += concat("; ", listRanks(absent), absent.size() == 1 ? " is" : " are",
                      operation.kind() == CallKind::kExchange ? " in no call" : " not in it");
  }
  failEverywhere(ErrorCode::kRemoteError, message, {-1, -1});
}

void MpiTransport::dropSelfMessages(const MpiOperation* operation) noexcept {
  const auto isOfOperation = [operation](const SelfMessage& message) {
    return message.operation == operation;
  };
  std::erase_if(selfSends_, isOfOperation);
  std::erase_if(selfReceives_, isOfOperation);
}

void MpiTransport::matchSelfMessages() {
  while (!selfSends_.empty() && !selfReceives_.empty()) {
    const SelfMessage send = selfSends_.front();
    const SelfMessage receive = selfReceives_.front();
    if (send.bytes != receive.bytes) {
      failEverywhere(ErrorCode::kInvalidUsage,
                     concat("exchange: rank ", rank(), " sends ", describeBytes(send.bytes),
                            " to itself and expects ", describeBytes(receive.bytes)),
                     {rank(), -1});
      return;
    }
    if (send.bytes != 0 && send.from != receive.to) {
      std::memcpy(receive.to, send.from, send.bytes);
    }
    --send.operation->openSelfCount;
    --receive.operation->openSelfCount;
    selfSends_.pop_front();
    selfReceives_.pop_front();
  }
}

void MpiTransport::checkStart(int error, std::string_view call) {
  if (error == 0) return;
  failEverywhere(ErrorCode::kSystemError,
                 concat(call, " failed on rank ", rank(), ": ", library_->textOf(error)),
                 {rank(), -1});
  throw stickyError();
}

void MpiTransport::finish(MpiOperation& operation) {
  const bool isComplete = operation.progress(true);
  invariant(isComplete, "a blocking wait returned before its operation was complete");
}

void MpiTransport::putInPlace(const void* send, void* receive, std::size_t bytesPerRank) const {
  if (bytesPerRank == 0) return;
  std::byte* const own =
      static_cast<std::byte*>(receive) + static_cast<std::size_t>(rank()) * bytesPerRank;
  if (send != own) std::memcpy(own, send, bytesPerRank);
}

Request MpiTransport::doStartAllGather(const void* send, void* receive, std::size_t bytesPerRank,
                                       StreamHandle) {
  std::unique_ptr<MpiOperation> operation = newCollective(CallKind::kAllGather, timeout());
  putInPlace(send, receive, bytesPerRank);
  if (rankCount() > 2 && bytesPerRank >= kRingBytes) {
    const Ring ring{
        .schedule = RingSchedule(rank(), rankCount(), bytesPerRank, kPieceBytes),
        .blocks = static_cast<std::byte*>(receive),
        .tag = kFirstRingTag + static_cast<int>(operation->collectiveIndex % kRingTags)};
    checkStart(operation->startRing(ring), "an all-gather's MPI_Irecv or MPI_Isend");
    return Request(std::move(operation));
  }
  Part& part = operation->addPart({.bytes = bytesPerRank});
  checkStart(
      mpi().startAllGather(&communicators_->data, nullptr, receive, bytesPerRank, &part.request),
      "MPI_Iallgather");
  return Request(std::move(operation));
}

void MpiTransport::doAllGather(const void* send, void* receive, std::size_t bytesPerRank,
                               StreamHandle stream) {
  if (bytesPerRank < kBlockingAllGatherBytes) {
    Request request = doStartAllGather(send, receive, bytesPerRank, stream);
    wait(request);
    return;
  }
  // Only when all ranks are there is it safe to enter a call that nothing can interrupt.
  const std::unique_ptr<MpiOperation> arrival = newCollective(CallKind::kAllGather, timeout());
  checkStart(mpi().startBarrier(&communicators_->data, &arrival->addPart({}).request),
             "MPI_Ibarrier");
  finish(*arrival);
  putInPlace(send, receive, bytesPerRank);
  checkStart(mpi().allGather(&communicators_->data, nullptr, receive, bytesPerRank),
             "MPI_Allgather");
}

Request MpiTransport::doStartBroadcast(void* buffer, std::size_t bytes, int root, StreamHandle) {
  std::unique_ptr<MpiOperation> operation = newCollective(CallKind::kBroadcast, timeout());
  Part& part = operation->addPart({.bytes = bytes});
  checkStart(mpi().startBroadcast(&communicators_->data, buffer, bytes, root, &part.request),
             "MPI_Ibcast");
  return Request(std::move(operation));
}

/// How many pieces a message makes. The last one is shorter than the others, if need be empty: so a
/// receiver that expects another size finds a piece of a size that it does not expect.
std::uint64_t pieceCount(std::uint64_t messageBytes, bool isInPieces) {
  return isInPieces ? messageBytes / kPieceBytes + 1 : 1;
}

/// Calls `start` with a part for each piece.
template <class Message, class Start>
void forEachPiece(const Message& message, std::uint64_t count, PartKind kind,
                  std::uint64_t sequence, Start start) {
  for (std::uint64_t piece = 0; piece < count; ++piece) {
    const std::uint64_t at = piece * kPieceBytes;
    const std::uint64_t bytes = piece + 1 == count ? message.bytes - at : kPieceBytes;
    start(Part{.kind = kind,
               .peer = message.peer,
               .bytes = bytes,
               .sequence = sequence,
               .at = at,
               .restBytes = message.bytes - at - bytes,
               .isPiece = count > 1});
  }
}

Request MpiTransport::doStartExchange(std::span<const SendMessage> sends,
                                      std::span<const ReceiveMessage> receives, StreamHandle) {
  auto operation = std::make_unique<MpiOperation>(*this, CallKind::kExchange, timeout());
  const auto piecesOf = [this](const auto& message) {
    return pieceCount(message.bytes, goesInPieces(message));
  };
  std::uint64_t pieces = 0;
  for (const SendMessage& message : sends) pieces += piecesOf(message);
  for (const ReceiveMessage& message : receives) pieces += piecesOf(message);
  operation->reserve(pieces);
  try {
    for (const ReceiveMessage& message : receives) {
      if (message.peer == rank()) {
        selfReceives_.push_back(
            {.to = message.data, .bytes = message.bytes, .operation = operation.get()});
        ++operation->openSelfCount;
        continue;
      }
      const std::uint64_t sequence = peer(message.peer).receivedCount++;
      forEachPiece(
          message, piecesOf(message), PartKind::kReceive, sequence, [&](const Part& piece) {
            Part& part = operation->addPart(piece);
            checkStart(mpi().startReceive(&communicators_->data,
                                          static_cast<std::byte*>(message.data) + piece.at,
                                          piece.bytes, message.peer, kMpiDataTag, &part.request),
                       "MPI_Irecv");
          });
    }
    for (const SendMessage& message : sends) {
      if (message.peer == rank()) {
        selfSends_.push_back(
            {.from = message.data, .bytes = message.bytes, .operation = operation.get()});
        ++operation->openSelfCount;
        continue;
      }
      const std::uint64_t sequence = peer(message.peer).sentCount++;
      forEachPiece(message, piecesOf(message), PartKind::kSend, sequence, [&](const Part& piece) {
        Part& part = operation->addPart(piece);
        // Pieces leave without being asked for. The last one says that its message has come to a
        // receiver, so that no rank runs ahead of a late one by more than it has in flight.
        const bool isLastOfSeveral = piece.at != 0 && piece.restBytes == 0;
        const auto start = isLastOfSeveral ? mpi().startSynchronousSend : mpi().startSend;
        checkStart(
            start(&communicators_->data, static_cast<const std::byte*>(message.data) + piece.at,
                  piece.bytes, message.peer, kMpiDataTag, &part.request),
            isLastOfSeveral ? "MPI_Issend" : "MPI_Isend");
      });
    }
    matchSelfMessages();
  } catch (...) {
    operation->cancel();
    throw;
  }
  return Request(std::move(operation));
}

void MpiTransport::doBarrier() {
  const std::unique_ptr<MpiOperation> operation = newCollective(CallKind::kBarrier, timeout());
  checkStart(mpi().startBarrier(&communicators_->data, &operation->addPart({}).request),
             "MPI_Ibarrier");
  finish(*operation);
}

void MpiTransport::doAllGatherControl(std::span<const std::byte> mine, std::span<std::byte> all,
                                      Milliseconds timeout) {
  // By messages, so that blobs of different sizes are noticed.
  const std::unique_ptr<MpiOperation> operation = newCollective(CallKind::kControl, timeout);
  operation->reserve(2 * static_cast<std::size_t>(rankCount()));
  try {
    for (int step = 1; step < rankCount(); ++step) {
      const int from = (rank() + step) % rankCount();
      Part& part = operation->addPart(
          {.kind = PartKind::kReceive, .peer = from, .bytes = mine.size(), .sequence = 0});
      checkStart(mpi().startReceive(&communicators_->control,
                                    all.data() + static_cast<std::size_t>(from) * mine.size(),
                                    mine.size(), from, kMpiControlTag, &part.request),
                 "MPI_Irecv");
    }
    for (int step = 1; step < rankCount(); ++step) {
      const int to = (rank() + step) % rankCount();
      Part& part = operation->addPart(
          {.kind = PartKind::kSend, .peer = to, .bytes = mine.size(), .sequence = 0});
      checkStart(mpi().startSend(&communicators_->control, mine.data(), mine.size(), to,
                                 kMpiControlTag, &part.request),
                 "MPI_Isend");
    }
  } catch (...) {
    operation->cancel();
    throw;
  }
  if (!mine.empty()) {
    std::memcpy(all.data() + static_cast<std::size_t>(rank()) * mine.size(), mine.data(),
                mine.size());
  }
  finish(*operation);
}

void MpiTransport::doAbort(std::string_view reason) noexcept {
  // Perhaps on another thread than MPI is used from: the rank's own thread tells the others.
  try {
    setFailure(Error(ErrorCode::kRemoteError, concat("aborted: ", reason, " (rank ", rank(), ")")),
               Origin::kThisRank);
  } catch (const std::exception&) {
    markFailed(Origin::kThisRank);
  }
}

/// Waits for the start of communicators, when there is no transport yet that could tell of
/// failures.
void waitForStart(const MpiLibrary& library, ZipcclMpiHandle& request, Milliseconds timeout) {
  const Deadline deadline(timeout);
  Pause pause;
  for (;;) {
    int isDone = 0;
    std::uint64_t bytes = 0;
    library.check(library.functions().testRequest(&request, &isDone, &bytes), "MPI_Comm_idup");
    if (isDone != 0) return;
    if (deadline.hasPassed()) {
      fail(ErrorCode::kRemoteError,
           "the MPI transport cannot start: not all ranks of the MPI communicator came within ",
           describeMs(timeout.count()));
    }
    pause();
  }
}

/// A handle of one MPI means nothing to another, or worse.
void requireSameMpi(const MpiLibrary& library, const MpiParent& parent) {
  const std::string own = library.version();
  // Both are cut to what some MPI had room for.
  const std::size_t common = std::min(own.size(), parent.library.size());
  expects(common != 0 && own.compare(0, common, parent.library, 0, common) == 0,
          ErrorCode::kSystemError, "the program uses ", parent.library,
          ", but ZipCCL's MPI plugin was built against ", own,
          ": build ZipCCL again with the MPI of the program");
}

std::unique_ptr<Transport> makeTransport(std::shared_ptr<MpiLibrary> library,
                                         const MpiOptions& options) {
  library->requireUsable();
  if (options.parent) requireSameMpi(*library, *options.parent);
  library->sweep();
  const Milliseconds timeout = options.timeout.value_or(settings().timeout);
  auto communicators = std::make_unique<MpiCommunicators>();
  int rank = 0;
  int rankCount = 0;
  for (ZipcclMpiHandle* comm : {&communicators->data, &communicators->control}) {
    ZipcclMpiHandle request = {};
    const MpiParent parent = options.parent.value_or(MpiParent{});
    library->check(
        library->functions().startDuplicate(parent.handle, parent.handleBytes, comm, &request),
        "MPI_Comm_idup");
    try {
      waitForStart(*library, request, timeout);
    } catch (const Error&) {
      // MPI still writes to it.
      library->keep(std::move(communicators));
      throw;
    }
    library->check(library->functions().finishComm(comm, &rank, &rankCount), "MPI_Comm_rank");
  }
  auto transport =
      std::make_unique<MpiTransport>(std::move(library), std::move(communicators), rank, rankCount);
  transport->setTimeout(timeout);
  return transport;
}

}  // namespace

std::unique_ptr<Transport> loadMpiTransport(const MpiOptions& options) {
  return makeTransport(MpiLibrary::ofPlugin(), options);
}

std::unique_ptr<Transport> makeMpiTransport(const ZipcclMpiFunctions& functions,
                                            const MpiOptions& options) {
  return makeTransport(std::make_shared<MpiLibrary>(functions), options);
}

}  // namespace zipccl::transport
