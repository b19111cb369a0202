// SPDX-License-Identifier: Apache-2.0
//
// A communicator: one rank's end of a group of ranks that run collectives together. It owns the
// transport, the codec and the scratch memory, and keeps what the ranks agreed on and learnt.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "collectives/class_table.hpp"
#include "collectives/frame_codec.hpp"
#include "collectives/pair_history.hpp"
#include "collectives/scratch.hpp"
#include "policy/decide.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

struct PointToPoint;

/// Scratch that native reductions may use for each other rank whatever the settings say.
inline constexpr std::uint64_t kNativeReduceBytesOfRank = 1024;

/// Settings of one communicator, as one rank wants them.
struct CommunicatorSettings {
  policy::AgreedSettings agreed;           ///< must be equal on all ranks
  std::chrono::milliseconds timeout{0};    ///< longest wait for another rank; zero: for ever
  std::optional<policy::Profile> profile;  ///< rank 0's is used by all; measured where absent
  std::string tuneFile;  ///< over NCCL, rank 0's counts: where profiles are; empty for none
};

/// How a call went; added to the statistics.
struct CallOutcome {
  std::optional<CollectiveKind> collective;  ///< none: it is not counted by kind
  Datatype datatype = Datatype::kInt8;       ///< of a group of messages: of the first
  policy::Decision decision;
  std::uint64_t inputBytes = 0;
  std::uint64_t stagedInputBytes = 0;  ///< the part of inputBytes that was compressed
  std::uint64_t encodedBytes = 0;      ///< of frames that this rank made
  std::uint64_t plainBytes = 0;        ///< of the elements in them
  std::uint64_t chunks = 0;
  bool hadDynamicPart = false;
  policy::ExtraSpace extraSeen;  ///< what the frames that this rank sent and received needed
};

/// What one rank did on a communicator. Counts calls that succeeded.
struct CommunicatorStatistics {
  std::uint64_t nativeCalls = 0;
  std::uint64_t stagedCalls = 0;
  std::uint64_t dynamicCalls = 0;      ///< staged calls in which some rank had a dynamic part
  std::uint64_t inputBytes = 0;        ///< of this rank's contributions
  std::uint64_t stagedInputBytes = 0;  ///< the part of them that was compressed
  std::uint64_t encodedBytes = 0;      ///< into frames of so many bytes
  std::uint64_t wireBytesSent = 0;
  std::uint64_t chunks = 0;
  std::uint64_t scratchBytes = 0;
  std::optional<policy::Decision> lastDecision;

  /// All but wireBytesSent and scratchBytes, which the communicator knows.
  void add(const CallOutcome& outcome);
};

/// What a collective works with while it runs: the parts of its communicator.
struct Engine {
  transport::Transport& transport;
  FrameCodec& codec;
  Scratch& scratch;
  ClassTable& classes;
  ClassTable& gatherClasses;                   ///< of all-gathers that are parts of other calls
  std::vector<PeerHistories>& peers;           ///< one a rank
  std::vector<FrameReport>& reports;           ///< one a rank, for use during a call
  std::vector<codec::DecodeStatus>& statuses;  ///< likewise
  std::vector<transport::Request>& requests;   ///< what is in flight; ended when a call fails
  const policy::AgreedSettings& settings;
  const policy::Profile& profile;
  bool compressionAgreed;
  bool isProfileGiven;              ///< by a rank's settings, not measured
  std::uint64_t leastScratchBytes;  ///< the smallest bound that a rank has
  std::uint64_t call;  ///< number of this collective on the communicator: equal on all ranks

  [[nodiscard]] int rank() const noexcept { return transport.rank(); }
  [[nodiscard]] int rankCount() const noexcept { return transport.rankCount(); }

  /// Decides on a call of `elementCount` elements and tells the log once for each kind of call.
  /// With it comes the class to be updated when the call is done: null for calls that cannot be
  /// compressed.
  struct Plan {
    policy::CallFacts facts;
    policy::Decision decision;
    ClassTable::Entry* classEntry = nullptr;

    /// Makes the decision from `facts`, whose settings and facts of the communicator and of a
    /// reduction are there, of the class and the arguments; rank 0 tells the log when its reason is
    /// new for the class.
    void decide(CollectiveKind collective, Datatype datatype, std::uint64_t elementCount,
                const policy::Profile& byProfile, int rank);

    /// Notes in the class how the call went: staged, with what its frames needed, or native.
    void endStaged(const policy::ExtraSpace& seen) const;
    void endNative() const;
  };
  [[nodiscard]] Plan plan(CollectiveKind collective, Datatype datatype,
                          std::uint64_t elementCount) const;

  /// The same for a reduction of parts of `elementCount` elements.
  [[nodiscard]] Plan planReduction(CollectiveKind collective, Datatype datatype,
                                   std::uint64_t elementCount, const Reduction& reduction) const;

  /// The same for the all-gather that is a part of a staged call of `collective`, staged itself.
  [[nodiscard]] Plan planGather(CollectiveKind collective, Datatype datatype,
                                std::uint64_t elementCount) const;

  /// The same for a message of an ordered pair of ranks, with the class from the pair's history, or
  /// null for a datatype without frames. `strategy` replaces the agreed one.
  [[nodiscard]] Plan planMessage(CollectiveKind collective, Datatype datatype,
                                 std::uint64_t elementCount, ClassTable::Entry* classEntry,
                                 std::optional<StrategyChoice> strategy) const;

  /// Fills in `plan`, whose settings, class and facts of a reduction are there.
  void decide(Plan& plan, CollectiveKind collective, Datatype datatype,
              std::uint64_t elementCount) const;
};

/// One rank's end. One thread at a time may be inside a collective; abort(), asyncError() and
/// statistics() are for any thread at any time.
///
/// Errors: kInvalidArgument, and kInvalidUsage for a second thread, leave the communicator as it
/// was. Any other error of a collective is sticky, and the transport is aborted, so that no rank
/// waits for this one: later calls throw the first error again.
class Communicator {
 public:
  /// Shakes hands with the other ranks, which must do the same at the same time. Throws
  /// Error(kRemoteError) when one does not come within the time limit, Error(kInvalidArgument) when
  /// transport and codec work on different memory or a setting makes no sense.
  Communicator(std::unique_ptr<transport::Transport> transport, std::unique_ptr<FrameCodec> codec,
               const CommunicatorSettings& settings);

  [[nodiscard]] int rank() const noexcept { return transport_->rank(); }
  [[nodiscard]] int rankCount() const noexcept { return transport_->rankCount(); }

  /// False when the handshake found differences; then every call is native.
  [[nodiscard]] bool compressionAgreed() const noexcept { return compressionAgreed_; }
  /// What they were, in words.
  [[nodiscard]] const std::string& differences() const noexcept { return differences_; }
  [[nodiscard]] const policy::Profile& profile() const noexcept { return profile_; }

  /// A collective, by its arguments: AllGatherArguments, AllToAllArguments and so on, each with the
  /// contract of the function of that name in zipccl/zipccl.h, by exceptions.
  template <class Arguments>
  void call(const Arguments& arguments);

  /// Throws Error(kInvalidArgument) for arguments of a call, or of a PointToPoint, that are wrong
  /// by themselves.
  template <class Arguments>
  void check(const Arguments& arguments) const;

  void allGather(const void* send, void* receive, std::uint64_t elementCount, Datatype datatype,
                 transport::StreamHandle stream = {});

  /// The contracts of zipcclSend and zipcclRecv: one alone, or those of a group at once.
  void sendReceive(const PointToPoint& operation, transport::StreamHandle stream = {});
  void sendReceiveGroup(std::span<const PointToPoint> operations,
                        transport::StreamHandle stream = {});

  /// Whether another thread may be inside a call on another communicator of the same transport.
  [[nodiscard]] bool allowsConcurrency() const noexcept { return transport_->allowsConcurrency(); }

  /// Ends what all ranks wait for on this communicator, and all later calls.
  void abort() noexcept;

  /// The error that every later collective will throw, if there is one.
  [[nodiscard]] std::optional<Error> asyncError() const;

  [[nodiscard]] CommunicatorStatistics statistics() const;

 private:
  /// Who makes a call.
  enum class Participants { kAllRanks, kSomeRanks };

  void run(Participants participants, const std::function<CallOutcome(Engine&)>& call);
  void record(const CallOutcome& outcome);
  [[noreturn]] void end(const Error& error);

  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<FrameCodec> codec_;
  policy::AgreedSettings settings_;
  policy::Profile profile_;
  bool compressionAgreed_ = false;
  bool isProfileGiven_ = false;
  std::uint64_t leastScratchBytes_ = 0;
  std::string differences_;
  Scratch scratch_;
  ClassTable classes_;
  ClassTable gatherClasses_;
  std::vector<PeerHistories> peers_;
  std::vector<FrameReport> reports_;
  std::vector<codec::DecodeStatus> statuses_;
  std::vector<transport::Request> requests_;
  std::uint64_t callCount_ = 0;
  std::uint64_t wireBytesBefore_ = 0;  ///< sent before the first call
  std::atomic<bool> isBusy_ = false;

  mutable std::mutex mutex_;  ///< guards what follows
  std::optional<Error> failure_;
  CommunicatorStatistics statistics_;
};

}  // namespace zipccl::collectives
