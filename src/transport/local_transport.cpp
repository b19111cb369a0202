// SPDX-License-Identifier: Apache-2.0
//
// The local transport. A sender posts its message in the lane of the ordered pair; the receiver
// finds the post by its place in that lane, copies the bytes without holding the lock, and marks it
// taken. Collective operations are sets of such messages in lanes of their own. One lock guards all
// posts; it is never held while bytes are copied. Each rank sleeps on a condition variable of its
// own. A rank that waits for one operation takes what arrives for all that it has in flight, so
// that ranks may finish their operations in different orders.

#include "transport/local_transport.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.hpp"
#include "transport/rank_list.hpp"

namespace zipccl::transport {

namespace {

enum class LaneKind { kExchange, kCollective };

enum class OperationKind { kExchange, kAllGather, kBroadcast, kBarrier, kControl };

const char* kindName(OperationKind kind) {
  switch (kind) {
    case OperationKind::kExchange:
      return "exchange";
    case OperationKind::kAllGather:
      return "all-gather";
    case OperationKind::kBroadcast:
      return "broadcast";
    case OperationKind::kBarrier:
      return "barrier";
    case OperationKind::kControl:
      return "control all-gather";
  }
  return "unknown operation";
}

LaneKind laneOf(OperationKind kind) {
  return kind == OperationKind::kExchange ? LaneKind::kExchange : LaneKind::kCollective;
}

/// The emulated links of all ranks: when a message arrives. A rank's messages leave one after the
/// other; what comes to a rank passes its link in the order in which it left the senders, at the
/// earliest as it leaves them. So a message that waits for its turn at one end holds up nobody at
/// the other.
class PacedLinks {
 public:
  /// A message under way.
  using Ticket = std::uint64_t;

  PacedLinks(int ranks, std::uint64_t bytesPerSecond)
      : bytesPerSecond_(bytesPerSecond),
        sendFreeAtUs_(static_cast<std::size_t>(ranks)),
        receivers_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] bool arePaced() const noexcept { return bytesPerSecond_ != 0; }

  /// A message is sent now. Zero for one that is there at once.
  [[nodiscard]] Ticket pass(int sender, int receiver, std::size_t bytes) {
    if (!arePaced() || sender == receiver || bytes == 0) return 0;
    const double timeUs = static_cast<double>(nowUs());
    const double durationUs =
        static_cast<double>(bytes) * 1e6 / static_cast<double>(bytesPerSecond_);
    double& sendFreeAtUs = sendFreeAtUs_[static_cast<std::size_t>(sender)];
    sendFreeAtUs = std::max(sendFreeAtUs, timeUs) + durationUs;

    Receiver& link = receivers_[static_cast<std::size_t>(receiver)];
    link.forget(timeUs);
    const auto place = std::upper_bound(
        link.underWay.begin(), link.underWay.end(), sendFreeAtUs,
        [](double leftAtUs, const Message& message) { return leftAtUs < message.leftAtUs; });
    const Ticket ticket = ++lastTicket_;
    link.schedule(link.underWay.insert(place, {ticket, sendFreeAtUs, durationUs, 0.0}));
    return ticket;
  }

  /// When the message is there, unless others come before it; in the past for one that is.
  [[nodiscard]] std::int64_t arrivesAtUs(int receiver, Ticket ticket) const {
    if (ticket == 0) return 0;
    for (const Message& message : receivers_[static_cast<std::size_t>(receiver)].underWay) {
      if (message.ticket == ticket) return static_cast<std::int64_t>(message.arrivesAtUs);
    }
    return 0;
  }

 private:
  struct Message {
    Ticket ticket = 0;
    double leftAtUs = 0.0;  ///< the sender's link
    double durationUs = 0.0;
    double arrivesAtUs = 0.0;
  };

  struct Receiver {
    std::vector<Message> underWay;  ///< in the order in which they left their senders
    double freeAtUs = 0.0;          ///< after what is no longer under way

    void forget(double timeUs) {
      std::size_t arrived = 0;
      while (arrived < underWay.size() && underWay[arrived].arrivesAtUs <= timeUs) ++arrived;
      if (arrived != 0) freeAtUs = underWay[arrived - 1].arrivesAtUs;
      underWay.erase(underWay.begin(), underWay.begin() + static_cast<std::ptrdiff_t>(arrived));
    }

    /// Sets the arrivals from `first` on.
    void schedule(std::vector<Message>::iterator first) {
      double freeUs = first == underWay.begin() ? freeAtUs : std::prev(first)->arrivesAtUs;
      for (auto message = first; message != underWay.end(); ++message) {
        freeUs = std::max(message->leftAtUs, freeUs + message->durationUs);
        message->arrivesAtUs = freeUs;
      }
    }
  };

  std::uint64_t bytesPerSecond_;
  Ticket lastTicket_ = 0;
  std::vector<double> sendFreeAtUs_;
  std::vector<Receiver> receivers_;
};

/// A message that its sender offers. The sender's operation owns it and may free it once it is
/// kTaken, or once it has removed it from its lane.
struct Post {
  enum class State { kOffered, kBeingCopied, kTaken };

  int receiver = 0;
  const void* data = nullptr;
  std::size_t bytes = 0;
  bool isBesideWork = false;
  OperationKind kind = OperationKind::kExchange;
  std::uint64_t sequence = 0;
  PacedLinks::Ticket ticket = 0;  ///< tells when it may be taken
  State state = State::kOffered;
};

struct Expected {
  int sender = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  bool isBesideWork = false;
  std::uint64_t sequence = 0;
  bool isDone = false;
};

/// The messages of one kind of lane from one rank to another, in the order they were started.
struct Lane {
  std::vector<Post*> offered;
  std::uint64_t nextSend = 0;
  std::uint64_t nextReceive = 0;

  [[nodiscard]] Post* find(std::uint64_t sequence) const {
    for (Post* post : offered) {
      if (post->sequence == sequence) return post;
    }
    return nullptr;
  }
  void remove(Post* post) { std::erase(offered, post); }
};

void copyBytes(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

class LocalOperation;

}  // namespace

/// What the ranks of a local world share.
class LocalState {
 public:
  LocalState(int ranks, std::uint64_t linkBytesPerSecond)
      : rankCount(ranks),
        links(ranks, linkBytesPerSecond),
        wakeUps(static_cast<std::size_t>(ranks)),
        wasHandedOut(static_cast<std::size_t>(ranks)),
        hasLeft(static_cast<std::size_t>(ranks)),
        inFlight(static_cast<std::size_t>(ranks)),
        lanes_(2 * static_cast<std::size_t>(ranks) * static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] Lane& lane(LaneKind kind, int sender, int receiver) {
    const auto ranks = static_cast<std::size_t>(rankCount);
    const std::size_t pair =
        static_cast<std::size_t>(sender) * ranks + static_cast<std::size_t>(receiver);
    return lanes_[2 * pair + static_cast<std::size_t>(kind)];
  }

  void wake(int rank) { wakeUps[static_cast<std::size_t>(rank)].notify_all(); }

  void wakeAll() {
    for (std::condition_variable& wakeUp : wakeUps) wakeUp.notify_all();
  }

  /// Fails the world, unless it has failed already. Needs the lock.
  void fail(ErrorCode code, std::string message, std::vector<int> involvedRanks,
            SourceLocation where = SourceLocation::current()) {
    if (failure_) return;
    failure_ = Failure{code, std::move(message), std::move(involvedRanks), where};
    hasFailed.store(true, std::memory_order_release);
    wakeAll();
  }

  /// The failure as `rank` sees it. Needs the lock and a failure.
  [[nodiscard]] Error errorFor(int rank) const {
    const std::vector<int>& involved = failure_->involvedRanks;
    const bool isInvolved = std::find(involved.begin(), involved.end(), rank) != involved.end();
    return Error(isInvolved ? failure_->code : ErrorCode::kRemoteError, failure_->message,
                 failure_->where);
  }

  void abort(std::string_view reason) noexcept {
    std::string message;
    try {
      message = concat("aborted: ", reason);
    } catch (const std::bad_alloc&) {
      message = "aborted";
    }
    const std::lock_guard lock(mutex);
    fail(ErrorCode::kRemoteError, std::move(message), {});
  }

  const int rankCount;
  PacedLinks links;
  std::mutex mutex;
  std::atomic<bool> hasFailed = false;
  std::vector<std::condition_variable> wakeUps;
  std::vector<bool> wasHandedOut;
  std::vector<bool> hasLeft;
  std::vector<std::vector<LocalOperation*>> inFlight;  // by rank, in the order of their start

 private:
  struct Failure {
    ErrorCode code;
    std::string message;
    std::vector<int> involvedRanks;
    SourceLocation where;
  };

  std::vector<Lane> lanes_;
  std::optional<Failure> failure_;
};

namespace {

class LocalOperation final : public Operation {
 public:
  LocalOperation(std::shared_ptr<LocalState> state, int rank, OperationKind kind,
                 std::chrono::milliseconds timeout)
      : state_(std::move(state)), rank_(rank), kind_(kind), timeout_(timeout) {}

  /// One that memory ran out for is still under way.
  ~LocalOperation() override {
    if (isUnderWay()) cancel();
  }

  void reserve(std::size_t sendCount, std::size_t receiveCount) {
    posts_.reserve(sendCount);
    expected_.reserve(receiveCount);
    ready_.reserve(receiveCount);
  }

  void addSend(int receiver, const void* data, std::size_t bytes, bool isBesideWork = false) {
    posts_.push_back({.receiver = receiver,
                      .data = data,
                      .bytes = bytes,
                      .isBesideWork = isBesideWork,
                      .kind = kind_});
  }

  void addReceive(int sender, void* data, std::size_t bytes, bool isBesideWork = false) {
    expected_.push_back(
        {.sender = sender, .data = data, .bytes = bytes, .isBesideWork = isBesideWork});
  }

  /// Offers all messages at once; none may be added later.
  void start() {
    const std::lock_guard lock(state_->mutex);
    own().reserve(own().size() + 1);
    for (const Post& post : posts_) {
      std::vector<Post*>& offered = state_->lane(laneOf(kind_), rank_, post.receiver).offered;
      offered.reserve(offered.size() + posts_.size());
    }
    for (Post& post : posts_) {
      Lane& lane = state_->lane(laneOf(kind_), rank_, post.receiver);
      post.sequence = lane.nextSend++;
      if (kind_ != OperationKind::kControl) {
        post.ticket = state_->links.pass(rank_, post.receiver, post.bytes);
      }
      lane.offered.push_back(&post);
      state_->wake(post.receiver);
    }
    for (Expected& expected : expected_) {
      expected.sequence = state_->lane(laneOf(kind_), expected.sender, rank_).nextReceive++;
    }
    own().push_back(this);
  }

  [[nodiscard]] bool progress(bool mayBlock) override {
    Operation* const self = this;
    std::unique_lock lock(state_->mutex);
    if (makeProgress(lock, {&self, 1}, mayBlock)) return true;
    if (state_->hasFailed.load(std::memory_order_relaxed)) {
      withdraw(lock);
      throw state_->errorFor(rank_);
    }
    return false;
  }

  [[nodiscard]] std::size_t progressAny(std::span<Operation* const> operations) override {
    std::unique_lock lock(state_->mutex);
    const std::optional<std::size_t> place = makeProgress(lock, operations, true);
    if (!place) throw state_->errorFor(rank_);
    return *place;
  }

  void cancel() noexcept override {
    std::string message;
    try {
      message = concat("rank ", rank_, " gave up its ", kindName(kind_), " in flight");
    } catch (const std::bad_alloc&) {
      message = "aborted";
    }
    std::unique_lock lock(state_->mutex);
    state_->fail(ErrorCode::kRemoteError, std::move(message), {});
    withdraw(lock);
  }

 private:
  using Ready = std::pair<Expected*, Post*>;

  [[nodiscard]] bool isUnderWay() const {
    const std::lock_guard lock(state_->mutex);
    return std::find(own().begin(), own().end(), this) != own().end();
  }

  static LocalOperation& localOf(Operation* operation) {
    return *static_cast<LocalOperation*>(operation);
  }

  /// Returns the place of the first of `operations`, of this rank, that is complete, which is in
  /// flight no more. None when the world has failed or, unless it may block, when none is complete.
  std::optional<std::size_t> makeProgress(std::unique_lock<std::mutex>& lock,
                                          std::span<Operation* const> operations, bool mayBlock) {
    const Deadline deadline(timeout_);
    bool isTooLate = false;
    for (;;) {
      if (state_->hasFailed.load(std::memory_order_relaxed)) return std::nullopt;
      if (takeAllOffers(lock)) {
        isTooLate = false;
        continue;
      }
      if (state_->hasFailed.load(std::memory_order_relaxed)) continue;
      for (std::size_t place = 0; place < operations.size(); ++place) {
        LocalOperation& operation = localOf(operations[place]);
        if (!operation.isComplete()) continue;
        std::erase(own(), &operation);
        return place;
      }
      if (failOnLostPeers(operations) || (isTooLate && failOnTimeouts(operations))) continue;
      if (!mayBlock) return std::nullopt;
      isTooLate = waitForWakeUp(lock, isTooLate ? Deadline() : deadline, nextArrivalUs());
    }
  }

  /// Sleeps until this rank is woken, the deadline has passed, which is what it returns, or
  /// `arrivalUs`.
  bool waitForWakeUp(std::unique_lock<std::mutex>& lock, const Deadline& deadline,
                     std::optional<std::int64_t> arrivalUs) const {
    std::condition_variable& wakeUp = state_->wakeUps[static_cast<std::size_t>(rank_)];
    if (arrivalUs) {
      const std::chrono::steady_clock::time_point arrival{std::chrono::microseconds(*arrivalUs)};
      if (deadline.isNever() || arrival < deadline.at()) {
        wakeUp.wait_until(lock, arrival);
        return false;
      }
    }
    if (deadline.isNever()) {
      wakeUp.wait(lock);
      return false;
    }
    return wakeUp.wait_until(lock, deadline.at()) == std::cv_status::timeout;
  }

  /// When the next message that is on its way to this rank arrives, if one is: on paced links only.
  [[nodiscard]] std::optional<std::int64_t> nextArrivalUs() const {
    std::optional<std::int64_t> next;
    if (!state_->links.arePaced()) return next;
    for (const LocalOperation* operation : own()) {
      for (const Expected& expected : operation->expected_) {
        if (expected.isDone) continue;
        const Post* post =
            state_->lane(laneOf(operation->kind_), expected.sender, rank_).find(expected.sequence);
        if (post == nullptr) continue;
        const std::int64_t arrivalUs = state_->links.arrivesAtUs(rank_, post->ticket);
        next = next ? std::min(*next, arrivalUs) : arrivalUs;
      }
    }
    return next;
  }

  static bool failOnLostPeers(std::span<Operation* const> operations) {
    return std::any_of(operations.begin(), operations.end(),
                       [](Operation* operation) { return localOf(operation).failOnLostPeer(); });
  }
  static bool failOnTimeouts(std::span<Operation* const> operations) {
    return std::any_of(operations.begin(), operations.end(),
                       [](Operation* operation) { return localOf(operation).failOnTimeout(); });
  }

  /// The operations that this rank has in flight.
  [[nodiscard]] std::vector<LocalOperation*>& own() const {
    return state_->inFlight[static_cast<std::size_t>(rank_)];
  }

  /// Copies what has been offered to any operation of this rank. Returns whether there was
  /// something.
  bool takeAllOffers(std::unique_lock<std::mutex>& lock) {
    const std::int64_t timeUs = state_->links.arePaced() ? nowUs() : 0;
    bool hasCopied = false;
    // Only this rank's thread changes the list, so it stays the same while the lock is released.
    for (LocalOperation* operation : own()) {
      operation->takeOffers(timeUs);
      if (operation->ready_.empty()) continue;
      operation->copyReady(lock);
      hasCopied = true;
    }
    return hasCopied;
  }

  /// Moves the offers that match what is expected to ready_; fails the world on one that does not
  /// fit.
  void takeOffers(std::int64_t timeUs) {
    for (Expected& expected : expected_) {
      if (expected.isDone) continue;
      Lane& lane = state_->lane(laneOf(kind_), expected.sender, rank_);
      Post* post = lane.find(expected.sequence);
      if (post == nullptr || state_->links.arrivesAtUs(rank_, post->ticket) > timeUs) continue;
      if (post->kind != kind_ || post->bytes != expected.bytes ||
          post->isBesideWork != expected.isBesideWork) {
        // What fits is copied first, so that nobody waits for a copy that never comes.
        if (ready_.empty()) failOnMismatch(*post, expected);
        return;
      }
      lane.remove(post);
      post->state = Post::State::kBeingCopied;
      ready_.emplace_back(&expected, post);
    }
  }

  void copyReady(std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    for (const auto& [expected, post] : ready_) copyBytes(expected->data, post->data, post->bytes);
    lock.lock();
    for (const auto& [expected, post] : ready_) {
      expected->isDone = true;
      post->state = Post::State::kTaken;
      state_->wake(expected->sender);
    }
    ready_.clear();
  }

  [[nodiscard]] bool isComplete() const {
    return std::all_of(expected_.begin(), expected_.end(),
                       [](const Expected& expected) { return expected.isDone; }) &&
           std::all_of(posts_.begin(), posts_.end(),
                       [](const Post& post) { return post.state == Post::State::kTaken; });
  }

  void failOnMismatch(const Post& post, const Expected& expected) {
    if (post.kind != kind_) {
      state_->fail(ErrorCode::kInvalidUsage,
                   concat("rank ", expected.sender, " is in a ", kindName(post.kind),
                          " while rank ", rank_, " is in a ", kindName(kind_)),
                   {rank_, expected.sender});
      return;
    }
    if (post.bytes == expected.bytes) {
      // Here it makes no difference; other transports could not put the message together.
      state_->fail(ErrorCode::kInternalError,
                   concat(kindName(kind_), ": rank ", expected.sender, " and rank ", rank_,
                          " differ on whether a message of ", describeBytes(post.bytes),
                          " moves beside work"),
                   {rank_, expected.sender});
      return;
    }
    state_->fail(
        ErrorCode::kInvalidUsage,
        concat(kindName(kind_), ": rank ", expected.sender, " sends ", describeBytes(post.bytes),
               " to rank ", rank_, ", which expects ", describeBytes(expected.bytes)),
        {rank_, expected.sender});
  }

  /// Fails the world when a rank that left is still waited for.
  bool failOnLostPeer() {
    for (const Expected& expected : expected_) {
      if (expected.isDone || !state_->hasLeft[static_cast<std::size_t>(expected.sender)]) continue;
      state_->fail(ErrorCode::kRemoteError,
                   concat(kindName(kind_), ": rank ", expected.sender,
                          " left before it sent what rank ", rank_, " waits for"),
                   {});
      return true;
    }
    for (const Post& post : posts_) {
      if (post.state != Post::State::kOffered ||
          !state_->hasLeft[static_cast<std::size_t>(post.receiver)]) {
        continue;
      }
      state_->fail(ErrorCode::kRemoteError,
                   concat(kindName(kind_), ": rank ", post.receiver,
                          " left before it received what rank ", rank_, " sends"),
                   {});
      return true;
    }
    return false;
  }

  /// Fails the world with the ranks that did not come. Returns false when the only thing left is a
  /// copy that a peer is busy with, which ends by itself.
  bool failOnTimeout() {
    std::vector<int> silentSenders;
    std::vector<int> silentReceivers;
    for (const Expected& expected : expected_) {
      if (!expected.isDone) silentSenders.push_back(expected.sender);
    }
    for (const Post& post : posts_) {
      if (post.state == Post::State::kOffered) silentReceivers.push_back(post.receiver);
    }
    if (silentSenders.empty() && silentReceivers.empty()) return false;
    std::string message = concat(kindName(kind_), ": rank ", rank_, " of ", state_->rankCount,
                                 " waited ", describeMs(timeout_.count()));
    if (!silentSenders.empty()) message += " for data from " + listRanks(silentSenders);
    if (!silentReceivers.empty()) {
      message += concat(silentSenders.empty() ? "" : " and", " for ", listRanks(silentReceivers),
                        " to take its data");
    }
    state_->fail(ErrorCode::kRemoteError, std::move(message), {});
    return true;
  }

  /// Takes back what is offered and waits for copies under way: no buffer is touched afterwards.
  void withdraw(std::unique_lock<std::mutex>& lock) {
    std::erase(own(), this);
    for (Post& post : posts_) {
      if (post.state == Post::State::kOffered) {
        state_->lane(laneOf(kind_), rank_, post.receiver).remove(&post);
      }
    }
    state_->wakeUps[static_cast<std::size_t>(rank_)].wait(lock, [this] {
      return std::none_of(posts_.begin(), posts_.end(),
                          [](const Post& post) { return post.state == Post::State::kBeingCopied; });
    });
  }

  std::shared_ptr<LocalState> state_;
  int rank_;
  OperationKind kind_;
  std::chrono::milliseconds timeout_;
  std::vector<Post> posts_;
  std::vector<Expected> expected_;
  std::vector<Ready> ready_;
};

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalState> state, int rank)
      : Transport(rank, state->rankCount), state_(std::move(state)) {}

  ~LocalTransport() override {
    const std::lock_guard lock(state_->mutex);
    state_->hasLeft[static_cast<std::size_t>(rank())] = true;
    state_->wakeAll();
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "local"; }
  [[nodiscard]] bool isMemory() const noexcept override { return !state_->links.arePaced(); }

  [[nodiscard]] bool hasFailed() const noexcept override {
    return state_->hasFailed.load(std::memory_order_acquire);
  }

  [[nodiscard]] std::optional<Error> failure() const override {
    if (!hasFailed()) return std::nullopt;
    const std::lock_guard lock(state_->mutex);
    return state_->errorFor(rank());
  }

 private:
  [[nodiscard]] std::unique_ptr<LocalOperation> newOperation(OperationKind kind) const {
    return std::make_unique<LocalOperation>(state_, rank(), kind, timeout());
  }

  /// Every rank sends `bytes` of `send` to every other; the own bytes are copied at once.
  void addGather(LocalOperation& operation, const void* send, void* receive, std::size_t bytes) {
    operation.reserve(static_cast<std::size_t>(rankCount()), static_cast<std::size_t>(rankCount()));
    auto* out = static_cast<std::byte*>(receive);
    // Each rank begins with its right neighbour, so that not all read the same memory at once.
    for (int step = 1; step < rankCount(); ++step) {
      const int peer = (rank() + step) % rankCount();
      operation.addSend(peer, send, bytes);
      operation.addReceive(
          peer, bytes == 0 ? nullptr : out + static_cast<std::size_t>(peer) * bytes, bytes);
    }
    if (bytes != 0) copyBytes(out + static_cast<std::size_t>(rank()) * bytes, send, bytes);
  }

  [[nodiscard]] Request doStartAllGather(const void* send, void* receive, std::size_t bytesPerRank,
                                         StreamHandle) override {
    std::unique_ptr<LocalOperation> operation = newOperation(OperationKind::kAllGather);
    addGather(*operation, send, receive, bytesPerRank);
    operation->start();
    return Request(std::move(operation));
  }

  [[nodiscard]] Request doStartBroadcast(void* buffer, std::size_t bytes, int root,
                                         StreamHandle) override {
    std::unique_ptr<LocalOperation> operation = newOperation(OperationKind::kBroadcast);
    if (rank() == root) {
      operation->reserve(static_cast<std::size_t>(rankCount()), 0);
      for (int step = 1; step < rankCount(); ++step) {
        operation->addSend((root + step) % rankCount(), buffer, bytes);
      }
    } else {
      operation->reserve(0, 1);
      operation->addReceive(root, buffer, bytes);
    }
    operation->start();
    return Request(std::move(operation));
  }

  [[nodiscard]] Request doStartExchange(std::span<const SendMessage> sends,
                                        std::span<const ReceiveMessage> receives,
                                        StreamHandle) override {
    std::unique_ptr<LocalOperation> operation = newOperation(OperationKind::kExchange);
    operation->reserve(sends.size(), receives.size());
    for (const SendMessage& message : sends) {
      operation->addSend(message.peer, message.data, message.bytes, message.isBesideWork);
    }
    for (const ReceiveMessage& message : receives) {
      operation->addReceive(message.peer, message.data, message.bytes, message.isBesideWork);
    }
    operation->start();
    return Request(std::move(operation));
  }

  void doBarrier() override {
    std::unique_ptr<LocalOperation> operation = newOperation(OperationKind::kBarrier);
    addGather(*operation, nullptr, nullptr, 0);
    finish(*operation);
  }

  void doAllGatherControl(std::span<const std::byte> mine, std::span<std::byte> all,
                          std::chrono::milliseconds timeout) override {
    LocalOperation operation(state_, rank(), OperationKind::kControl, timeout);
    addGather(operation, mine.data(), all.data(), mine.size());
    finish(operation);
  }

  static void finish(LocalOperation& operation) {
    operation.start();
    const bool isComplete = operation.progress(true);
    invariant(isComplete, "a blocking wait returned before its operation was complete");
  }

  void doAbort(std::string_view reason) noexcept override {
    try {
      state_->abort(concat(reason, " (rank ", rank(), ")"));
    } catch (const std::bad_alloc&) {
      state_->abort(reason);
    }
  }

  std::shared_ptr<LocalState> state_;
};

}  // namespace

LocalWorld::LocalWorld(int rankCount, const LocalWorldOptions& options) : options_(options) {
  expects(rankCount >= 1 && rankCount <= kMaxRanks, "a local world of ", rankCount, " ranks; 1 to ",
          kMaxRanks, " are possible");
  state_ = std::make_shared<LocalState>(rankCount, options.linkBytesPerSecond);
}

int LocalWorld::rankCount() const noexcept { return state_->rankCount; }

std::unique_ptr<Transport> LocalWorld::transport(int rank) {
  expects(rank >= 0 && rank < state_->rankCount, "rank ", rank, " of a local world of ",
          state_->rankCount, " ranks");
  {
    const std::lock_guard lock(state_->mutex);
    std::vector<bool>::reference wasHandedOut =
        state_->wasHandedOut[static_cast<std::size_t>(rank)];
    expects(!wasHandedOut, ErrorCode::kInvalidUsage, "the transport of rank ", rank,
            " was handed out before");
    wasHandedOut = true;
  }
  auto transport = std::make_unique<LocalTransport>(state_, rank);
  if (options_.timeout) transport->setTimeout(*options_.timeout);
  return transport;
}

void LocalWorld::abort(std::string_view reason) noexcept { state_->abort(reason); }

}  // namespace zipccl::transport
