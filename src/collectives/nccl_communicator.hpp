// SPDX-License-Identifier: Apache-2.0
//
// One rank of a communicator of NCCL whose calls may be compressed: what the ranks agreed on, what
// they learnt of earlier calls, and the streams, events and scratch memory of its rounds.

#pragma once

#include <zipccl/nccl_engine.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "collectives/class_table.hpp"
#include "collectives/communicator.hpp"
#include "collectives/dynamic_courier.hpp"
#include "collectives/frame_check.hpp"
#include "collectives/nccl_verifier.hpp"
#include "collectives/pair_history.hpp"
#include "collectives/reduction.hpp"
#include "collectives/stream_codec.hpp"
#include "policy/decide.hpp"
#include "transport/device.hpp"
#include "transport/nccl_link.hpp"

namespace zipccl::collectives {

/// Elements of the parts that an AllReduce is cut into, all but the last ones: whole tiles, since
/// the rest of a tile is not compressed.
[[nodiscard]] std::uint64_t allReducePart(std::uint64_t elementCount, int rankCount) noexcept;

/// A device and the codec on it.
struct DeviceParts {
  std::shared_ptr<transport::Device> device;
  std::unique_ptr<StreamCodec> codec;
};

/// Those of the communicator's device: CUDA's, or host memory where the image is one made for
/// tests. Throws Error(kInvalidUsage) in a build without CUDA otherwise.
[[nodiscard]] DeviceParts openDevice(const zipcclNcclApi& api, int deviceNumber);

/// The outcome of a call, of which nothing but its kind and datatype is known yet; none of Reduce,
/// which is none of this library's, nor of a datatype that NCCL refuses.
[[nodiscard]] CallOutcome outcomeOf(const zipcclNcclCall& call) noexcept;

/// Scratch of the rounds of one communicator: two rounds share a block, one from either end. It
/// grows once at most, to the bound; the first block stays until nothing is in flight, since to
/// free memory may wait for all of the device's work.
class RoundScratch {
 public:
  RoundScratch(transport::Device& device, std::uint64_t maxBytes)
      : device_(device), maxBytes_(maxBytes) {}

  /// `bytes`, a multiple of 128, for round number `round`, until round + 2.
  [[nodiscard]] std::span<std::byte> reserve(std::uint64_t round, std::uint64_t bytes);
  /// No round is in flight.
  void releaseAll() noexcept { inUse_ = {}; }

  [[nodiscard]] bool hasRetired() const noexcept { return blocks_.size() > 1; }
  /// The device is done with all that was reserved before the last growth.
  void freeRetired();

  [[nodiscard]] std::uint64_t heldBytes() const noexcept;

 private:
  transport::Device& device_;
  std::uint64_t maxBytes_;
  std::deque<transport::DeviceMemory> blocks_;  ///< the last one is in use
  std::array<std::uint64_t, 2> inUse_{};        ///< of the last block, by even and odd rounds
};

/// Threads: one at a time makes calls; abort(), asyncError(), and what concerns windows, are for
/// any thread at any time.
class NcclCommunicator {
 public:
  /// Nothing is agreed on yet (nccl_attach.hpp). The device must be current, here and at the end.
  NcclCommunicator(const zipcclNcclApi& api, void* comm, const CommunicatorSettings& wanted,
                   DeviceParts parts);
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;
  ~NcclCommunicator() = default;

  /// The same with the device made current.
  [[nodiscard]] static std::unique_ptr<NcclCommunicator> make(const zipcclNcclApi& api, void* comm,
                                                              const CommunicatorSettings& wanted);
  static void destroy(std::unique_ptr<NcclCommunicator> communicator) noexcept;

  [[nodiscard]] int rank() const noexcept { return link.rank(); }
  [[nodiscard]] int rankCount() const noexcept { return link.rankCount(); }

  /// Whether the call may be compressed. Within 100 ns where a call like it was asked for before.
  [[nodiscard]] bool wants(const zipcclNcclCall& call) const;

  /// The reduction that `op` is, if frames can be reduced by it.
  [[nodiscard]] static std::optional<Reduction> reductionOf(int op) noexcept;

  void addWindow(void* window, void* buffer, std::uint64_t bytes);
  void removeWindow(void* window);
  [[nodiscard]] bool isInWindow(const void* buffer) const;

  void abort() noexcept;
  /// Whether it has failed or was aborted.
  [[nodiscard]] bool isBroken() noexcept { return isAborted() || asyncError().has_value(); }
  [[nodiscard]] bool isAborted() const noexcept {
    return isAborted_.load(std::memory_order_acquire);
  }
  /// Whether an error is known that every later call throws. As cheap as a call that passes wants.
  [[nodiscard]] bool hasFailed() const noexcept {
    return hasFailed_.load(std::memory_order_relaxed);
  }
  /// Makes `error` what every later call throws, unless there is one already.
  void fail(const Error& error) noexcept;
  /// Looks for frames that turned out to be damaged, too.
  [[nodiscard]] std::optional<Error> asyncError() noexcept;
  /// The same for every call: of many frames it looks at a few, in turn.
  void throwIfFailed();

  /// Waits until the device has reached `event`. Throws Error(kRemoteError) when aborted, when
  /// NCCL says that the communicator failed, or at `deadline`.
  using Clock = std::chrono::steady_clock;
  void await(transport::EventHandle event, std::optional<Clock::time_point> deadline = {});

  // Decisions, as Engine::plan...() of communicator.hpp.
  [[nodiscard]] Engine::Plan plan(CollectiveKind collective, Datatype datatype,
                                  std::uint64_t elementCount, ClassTable::Entry* classEntry) const;
  [[nodiscard]] Engine::Plan planReduction(CollectiveKind collective, Datatype datatype,
                                           std::uint64_t elementCount, const Reduction& reduction,
                                           ClassTable::Entry* classEntry) const;

  /// The all-gather that is a part of a staged AllReduce, staged itself.
  [[nodiscard]] Engine::Plan planGather(Datatype datatype, std::uint64_t elementCount,
                                        ClassTable::Entry& classEntry) const;

  /// A word, zero, in which work on the device notes faults of a frame of `peer`. Words are used in
  /// turn, so many that the work of the last use has long been done. Throws what that found.
  [[nodiscard]] std::uint32_t* takeStatus(const FramePlace& place, int peer);

  void record(const CallOutcome& outcome);
  /// A call went as it is: what it sends, and, for one that no phase was made of, the call itself.
  void countNative(const zipcclNcclCall& call);
  void recordNative(const zipcclNcclCall& call);
  /// Counts frames that have passed since, which calls to come would count otherwise. In the thread
  /// that makes calls.
  void hearOfFrames();
  [[nodiscard]] CommunicatorStatistics statistics() const;

  transport::NcclLink link;
  std::shared_ptr<transport::Device> device;
  std::unique_ptr<StreamCodec> codec;

  // What the handshake found: constant afterwards.
  std::uint64_t id = 0;  ///< equal on all ranks, and no other communicator's; 0 without compression
  policy::AgreedSettings settings;
  policy::Profile profile;
  policy::OverlapGoal overlap;
  bool isProfileGiven = false;
  bool compressionAgreed = false;

  // Of the rounds.
  transport::OwnedStream codecStream;
  transport::OwnedEvent begun;    ///< the caller's streams have come to the call
  transport::OwnedEvent encoded;  ///< the frames of a round
  transport::OwnedEvent decoded;  ///< the last frames of a call
  /// Of a round and the `place`-th of the caller's streams in it; made when first asked for.
  [[nodiscard]] const transport::OwnedEvent& movedEvent(std::uint64_t round, std::size_t place);
  RoundScratch scratch;
  const std::unique_ptr<NcclVerifier> verifier;  ///< where the settings ask for one
  [[nodiscard]] bool hasRetiredMemory() const noexcept {
    return scratch.hasRetired() || (verifier && verifier->hasRetired());
  }

  /// Makes compressed calls possible: dynamic parts go by `channel`.
  void startCourier(std::unique_ptr<transport::SideChannel> channel);
  /// The courier, where calls are compressed.
  [[nodiscard]] DynamicCourier& courier() noexcept { return *courier_; }

  // What earlier calls were like. Calls run ahead of what they tell by up to kLag.
  static constexpr HistoryLag kLag{.messages = 8, .settling = 3, .sendsAndReceives = 32};
  PairHistory calls{kLag, ClassTable::kMaxClasses};
  PairHistory gathers{kLag, ClassTable::kMaxClasses};  ///< those that are parts of other calls
  std::vector<PeerHistories> peers;
  std::uint64_t callCount = 0;  ///< gathers that were planned: equal on all ranks

  /// Whether what the next message of a history is decided on is known. It will be where all of the
  /// earlier ones are on their streams.
  [[nodiscard]] bool mayBegin(const PairHistory& history, const ClassKey& key);

  // While the host waits for what this rank is to hear of its calls: what it does again and again,
  // and what it asks now and then. Both throw when the communicator was aborted or has failed.
  /// Moves what can be moved; returns whether there was anything.
  [[nodiscard]] bool advance();
  void expectWell();

 private:
  struct Window {
    const std::byte* buffer;
    std::uint64_t bytes;
  };
  struct StatusUse {
    FramePlace place;
    int peer = 0;
  };

  /// Whether the call goes native whatever earlier ones were like: a function of agreed facts.
  [[nodiscard]] bool isAlwaysNative(const zipcclNcclCall& call) const;
  /// What is decided where nothing is known of earlier calls.
  [[nodiscard]] policy::Decision decideAfresh(const zipcclNcclCall& call) const;
  /// Whether a buffer that all ranks pass stands in a window: those that one rank passes alone the
  /// others do not know of.
  [[nodiscard]] bool usesWindow(const zipcclNcclCall& call) const;
  void decide(Engine::Plan& plan, CollectiveKind collective, Datatype datatype,
              std::uint64_t elementCount) const;
  void expectNotAborted() const;
  void expectNcclIsWell() const;
  [[nodiscard]] std::uint32_t* statusWords() const noexcept {
    return reinterpret_cast<std::uint32_t*>(statuses_.data());
  }
  void checkStatusLocked(std::size_t word);
  void failLocked(const Error& error) noexcept;
  /// Looks at `words` of the words in use, after those of the last time; notes what it finds.
  void lookForFaultsLocked(std::size_t words) noexcept;

  std::array<std::deque<transport::OwnedEvent>, 2> movedEvents_;
  transport::SharedMemory statuses_;
  std::size_t nextStatus_ = 0;  ///< words that were taken, ever
  std::atomic<bool> isAborted_ = false;
  std::atomic<bool> hasFailed_ = false;  ///< whether there is a failure_
  /// Of calls by their hash: the hash, and in its lowest bit what isAlwaysNative() found.
  mutable std::array<std::atomic<std::uint64_t>, 64> known_{};
  std::atomic<std::size_t> windowCount_ = 0;

  mutable std::mutex mutex_;  ///< guards what follows
  std::vector<StatusUse> statusUses_;
  std::size_t usedStatuses_ = 0;  ///< of them
  std::size_t nextLook_ = 0;
  std::map<void*, Window> windows_;
  std::optional<Error> failure_;
  CommunicatorStatistics statistics_;

  /// There is one where compression was agreed on. Last, since what it knows of calls is recorded
  /// at its end.
  std::unique_ptr<DynamicCourier> courier_;
};

}  // namespace zipccl::collectives
