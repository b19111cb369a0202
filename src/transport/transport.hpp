// SPDX-License-Identifier: Apache-2.0
//
// The transport interface: how the ranks of one communicator move untyped bytes. The collectives
// are written once against it. Implementations: local (ranks are threads of one process) and mpi
// (ranks are processes); an implementation over GPU memory fits in by the stream argument.
//
// Order and matching, the same for every transport:
//  - Collective operations (allGather, broadcast, barrier, allGatherControl) are started by all
//  ranks
//    in the same order.
//  - Messages of exchanges are matched per ordered pair of ranks, in the order in which they were
//    started, and apart from collective operations. A message of zero bytes is a message: the other
//    side must name it too.
//  - Several operations may be in flight. They may be finished in any order, which may differ from
//    rank to rank: a rank inside a call makes progress with all of its operations.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"

namespace zipccl::transport {

class Transport;

/// A stream of work on a device, as its own library knows it (a cudaStream_t), not owned. Host
/// transports ignore it.
struct StreamHandle {
  void* native = nullptr;
};

/// Where a transport expects the buffers of its data operations.
enum class MemoryKind {
  kHost,    ///< any memory of the process; operations complete in wait(), streams are ignored
  kDevice,  ///< memory of the rank's GPU; operations are ordered in the stream they are started on
};

/// Bytes to be sent to `peer`. `data` may be null where `bytes` is zero.
struct SendMessage {
  int peer = 0;
  const void* data = nullptr;
  std::size_t bytes = 0;
  /// The ranks work while it is on its way, and want it to move all the same: a transport may send
  /// it in pieces. Said alike at both ends.
  bool isBesideWork = false;
};

/// Bytes to be received from `peer`, exactly as many as it sends. `data` may be null where `bytes`
/// is zero.
struct ReceiveMessage {
  int peer = 0;
  void* data = nullptr;
  std::size_t bytes = 0;
  bool isBesideWork = false;  ///< as its sender says
};

/// What one rank moved so far. Messages to oneself are copies and count nowhere.
struct TransportStatistics {
  /// Data bytes that this rank gave to other ranks: the messages of exchanges, and for a collective
  /// what a direct algorithm sends (an all-gather's shard N - 1 times; a broadcast's buffer N - 1
  /// times at the root). An implementation may route them otherwise.
  std::uint64_t wireBytes = 0;
  /// Data bytes that this rank got from other ranks.
  std::uint64_t receivedBytes = 0;
  /// Bytes of allGatherControl() that this rank gave to other ranks.
  std::uint64_t controlBytes = 0;
  /// Data operations started: all-gathers, broadcasts and exchanges.
  std::uint64_t operationCount = 0;
};

/// An operation in flight, as its transport keeps it. Only implementations and Request use it.
class Operation {
 public:
  virtual ~Operation() = default;

  /// Makes progress; with `mayBlock` until the operation is complete. Returns whether it is.
  /// Throws Error when the transport has failed; then no buffer of the operation is touched any
  /// more.
  [[nodiscard]] virtual bool progress(bool mayBlock) = 0;

  /// Blocks until one of `operations`, all of this operation's transport and this one among them,
  /// is complete, and returns its place. Throws Error when the transport has failed; then buffers
  /// are touched until the operations are cancelled.
  [[nodiscard]] virtual std::size_t progressAny(std::span<Operation* const> operations) = 0;

  /// Gives the operation up: aborts the transport and returns once no buffer is touched any more.
  virtual void cancel() noexcept = 0;
};

/// The handle of a started operation. Move-only. An inactive request is one that was default-made,
/// moved from, waited for, or complete from the start.
///
/// Destroying or overwriting an active request aborts its transport on all ranks, since its peers
/// would wait in vain, and returns once the operation's buffers are not touched any more. A request
/// must not outlive its transport.
class Request {
 public:
  Request() noexcept = default;
  explicit Request(std::unique_ptr<Operation> operation) noexcept
      : operation_(std::move(operation)) {}
  Request(Request&& other) noexcept = default;
  Request& operator=(Request&& other) noexcept;
  ~Request() { drop(); }

  [[nodiscard]] bool isActive() const noexcept { return operation_ != nullptr; }

 private:
  friend class Transport;
  void drop() noexcept;

  std::unique_ptr<Operation> operation_;
};

/// One rank's end of a communicator.
///
/// Threads: one thread at a time uses a transport, but for abort(), hasFailed(), failure() and the
/// constant queries, which any thread may call at any time.
///
/// Blocking: on a host transport start...() returns at once, wait() blocks until the operation is
/// complete on this rank, and the calls without "start" block likewise. On a device transport both
/// return once the work is queued, and later work on the same stream sees the result. Data may move
/// only while a rank is inside a call of its transport.
///
/// Buffers: from the start of an operation until it is complete, what is sent must not change and
/// what is received must not be touched. Buffers that are received into overlap no other buffer of
/// any operation in flight. There is no alignment rule.
///
/// Errors: a wrong argument throws Error(kInvalidArgument) before anything is started. Any other
/// error is sticky: the transport has failed on all ranks, and every later call throws the first
/// error again.
///   kInvalidUsage  calls of ranks that do not fit each other, on the ranks named in the message
///   kRemoteError   a rank failed, left, aborted or did not come within the timeout
///   kSystemError   the library underneath failed
/// A rank that is not concerned itself gets kRemoteError with the first error's words. When a call
/// throws, no buffer of its operation is touched any more, except as an implementation says.
class Transport {
 public:
  /// The largest blob of allGatherControl().
  static constexpr std::size_t kMaxControlBytes = 4096;

  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  /// Leaves the communicator. Peers that wait for what this rank never started fail with
  /// kRemoteError. Never throws and does not wait for other ranks.
  virtual ~Transport() = default;

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int rankCount() const noexcept { return rankCount_; }

  /// `local`, `mpi`, ...: for messages and reports; valid as long as the program.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  [[nodiscard]] virtual MemoryKind memoryKind() const noexcept { return MemoryKind::kHost; }

  /// Whether ranks copy from each other's memory: no link, and nothing that could be faster.
  [[nodiscard]] virtual bool isMemory() const noexcept { return false; }

  /// Whether it is the rank itself that moves data, on its core and only while it waits for some.
  [[nodiscard]] virtual bool usesCoreOfRank() const noexcept { return false; }

  /// Whether transports of this kind may be used by several threads at once, each its own.
  [[nodiscard]] virtual bool allowsConcurrency() const noexcept { return true; }

  /// How long a call may wait for other ranks before it fails with kRemoteError; zero is for ever.
  /// It covers one wait, and starts anew in the next. The default is settings().timeout.
  void setTimeout(std::chrono::milliseconds timeout) noexcept { timeout_ = timeout; }
  [[nodiscard]] std::chrono::milliseconds timeout() const noexcept { return timeout_; }

  /// Every rank gives `bytesPerRank` bytes of `send`; `receive` gets rankCount() x bytesPerRank
  /// bytes in rank order. In place where send == receive + rank() x bytesPerRank; otherwise the
  /// buffers must not overlap. A large one that blocks is the library's own (MPI_Allgather), not
  /// one made of messages.
  void allGather(const void* send, void* receive, std::size_t bytesPerRank,
                 StreamHandle stream = {});
  [[nodiscard]] Request startAllGather(const void* send, void* receive, std::size_t bytesPerRank,
                                       StreamHandle stream = {});

  /// `root` gives `bytes` bytes of `buffer`; the others get them into theirs.
  void broadcast(void* buffer, std::size_t bytes, int root, StreamHandle stream = {});
  [[nodiscard]] Request startBroadcast(void* buffer, std::size_t bytes, int root,
                                       StreamHandle stream = {});

  /// Sends and receives all messages at once: no order of them can deadlock. Any number of messages
  /// per peer, to oneself too; not collective, so that only the named peers take part. The spans
  /// are not needed after the start, the buffers are.
  void exchange(std::span<const SendMessage> sends, std::span<const ReceiveMessage> receives,
                StreamHandle stream = {});
  [[nodiscard]] Request startExchange(std::span<const SendMessage> sends,
                                      std::span<const ReceiveMessage> receives,
                                      StreamHandle stream = {});

  /// Blocks until `request` is complete and makes it inactive; an inactive one is complete. After
  /// an error it is inactive too.
  void wait(Request& request);

  /// Blocks until one of the active `requests`, all of this transport, is complete, and makes that
  /// one inactive. Returns its place; at once, with requests.size(), where none is active. After an
  /// error all are still active and their buffers in use until they are destroyed.
  std::size_t waitAny(std::span<Request> requests);

  /// Makes progress without blocking. Returns true, and makes `request` inactive, when it is
  /// complete.
  [[nodiscard]] bool test(Request& request);

  /// Blocks until every rank has come to the same barrier.
  void barrier();

  /// For handshakes: every rank gives `mine`, of the same size on all ranks and at most
  /// kMaxControlBytes, and gets all ranks' blobs in rank order into `all`, of rankCount() times
  /// that size. Both in host memory, whatever memoryKind() is. Waits `timeout` instead of
  /// timeout().
  void allGatherControl(std::span<const std::byte> mine, std::span<std::byte> all,
                        std::chrono::milliseconds timeout);
  void allGatherControl(std::span<const std::byte> mine, std::span<std::byte> all) {
    allGatherControl(mine, all, timeout_);
  }

  /// Fails the transport on all ranks: calls that wait, and later ones, throw Error(kRemoteError)
  /// with `reason`. From any thread, at any time; returns without waiting. Has no effect on a
  /// transport that has failed already.
  void abort(std::string_view reason) noexcept;

  /// Tells the other ranks of a failure that they do not know of yet; without one, nothing. For a
  /// rank that has failed and may not call its transport again soon. On the thread that uses the
  /// transport; waits a moment at most.
  void tellOthers() noexcept;

  /// Whether something else may still read or write buffers of operations that are over, because an
  /// operation was given up that could not be ended. It stays so: such buffers must never be freed.
  [[nodiscard]] virtual bool mayStillTouchBuffers() const noexcept { return false; }

  /// Whether the transport has failed, by abort() or by an error.
  [[nodiscard]] virtual bool hasFailed() const noexcept = 0;

  /// The sticky error, if the transport has failed.
  [[nodiscard]] virtual std::optional<Error> failure() const = 0;

  /// Tells which ranks are on one host: those that have the same of these numbers, one a rank and
  /// the same on all ranks, between two operations. Until then each is on a host of its own. A
  /// transport may choose by it how messages move, and nothing else.
  void learnHosts(std::span<const std::uint32_t> hostOfRank);

  [[nodiscard]] const TransportStatistics& statistics() const noexcept { return statistics_; }

 protected:
  /// Throws Error(kInvalidArgument) unless 0 <= rank < rankCount.
  Transport(int rank, int rankCount);

 private:
  // The arguments of these are checked, the transport has not failed, and statistics are counted.
  [[nodiscard]] virtual Request doStartAllGather(const void* send, void* receive,
                                                 std::size_t bytesPerRank, StreamHandle stream) = 0;
  [[nodiscard]] virtual Request doStartBroadcast(void* buffer, std::size_t bytes, int root,
                                                 StreamHandle stream) = 0;
  [[nodiscard]] virtual Request doStartExchange(std::span<const SendMessage> sends,
                                                std::span<const ReceiveMessage> receives,
                                                StreamHandle stream) = 0;
  virtual void doAllGather(const void* send, void* receive, std::size_t bytesPerRank,
                           StreamHandle stream);
  virtual void doBarrier() = 0;
  virtual void doAllGatherControl(std::span<const std::byte> mine, std::span<std::byte> all,
                                  std::chrono::milliseconds timeout) = 0;
  virtual void doAbort(std::string_view reason) noexcept = 0;
  // Called on the thread that uses the transport, which has failed.
  virtual void doSpreadFailure() noexcept {}
  virtual void doLearnHosts(std::span<const std::uint32_t> hostOfRank);
  void throwIfFailed();
  void checkAllGather(const void* send, const void* receive, std::size_t bytesPerRank);
  void countAllGather(std::size_t bytesPerRank) noexcept;

  int rank_;
  int rankCount_;
  std::chrono::milliseconds timeout_;
  TransportStatistics statistics_;
  std::vector<Operation*> waited_;  ///< of the last waitAny(), kept so that it allocates nothing
  std::vector<std::size_t> waitedPlaces_;
};

}  // namespace zipccl::transport
