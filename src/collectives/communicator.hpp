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
#include <string>
#include <vector>

#include "base/error.hpp"
#include "collectives/class_table.hpp"
#include "collectives/frame_codec.hpp"
#include "collectives/scratch.hpp"
#include "policy/decide.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// Settings of one communicator, as one rank wants them.
struct CommunicatorSettings {
  policy::AgreedSettings agreed;           ///< must be equal on all ranks
  std::chrono::milliseconds timeout{0};    ///< longest wait for another rank; zero: for ever
  std::optional<policy::Profile> profile;  ///< rank 0's is used by all; measured where absent
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
};

/// How a call went; added to the statistics.
struct CallOutcome {
  policy::Decision decision;
  std::uint64_t inputBytes = 0;
  std::uint64_t encodedBytes = 0;
  std::uint64_t chunks = 0;
  bool hadDynamicPart = false;
};

/// What a collective works with while it runs: the parts of its communicator.
struct Engine {
  transport::Transport& transport;
  FrameCodec& codec;
  Scratch& scratch;
  ClassTable& classes;
  std::vector<FrameReport>& reports;           ///< one a rank, for use during a call
  std::vector<codec::DecodeStatus>& statuses;  ///< likewise
  const policy::AgreedSettings& settings;
  const policy::Profile& profile;
  bool compressionAgreed;
  std::uint64_t call;  ///< number of this call on the communicator: equal on all ranks

  [[nodiscard]] int rank() const noexcept { return transport.rank(); }
  [[nodiscard]] int rankCount() const noexcept { return transport.rankCount(); }

  /// Decides on a call of `elementCount` elements and tells the log once for each kind of call.
  /// With it comes the class to be updated when the call is done: null for calls that cannot be
  /// compressed.
  struct Plan {
    policy::CallFacts facts;
    policy::Decision decision;
    ClassTable::Entry* classEntry = nullptr;
  };
  [[nodiscard]] Plan plan(CollectiveKind collective, Datatype datatype,
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

  /// The contract of zipcclAllGather (zipccl/zipccl.h), by exceptions.
  void allGather(const void* send, void* receive, std::uint64_t elementCount, Datatype datatype,
                 transport::StreamHandle stream = {});

  /// Ends what all ranks wait for on this communicator, and all later calls.
  void abort() noexcept;

  /// The error that every later collective will throw, if there is one.
  [[nodiscard]] std::optional<Error> asyncError() const;

  [[nodiscard]] CommunicatorStatistics statistics() const;

 private:
  void run(const std::function<CallOutcome(Engine&)>& collective);
  void record(const CallOutcome& outcome);
  [[noreturn]] void end(const Error& error);

  std::unique_ptr<transport::Transport> transport_;
  std::unique_ptr<FrameCodec> codec_;
  policy::AgreedSettings settings_;
  policy::Profile profile_;
  bool compressionAgreed_ = false;
  std::string differences_;
  Scratch scratch_;
  ClassTable classes_;
  std::vector<FrameReport> reports_;
  std::vector<codec::DecodeStatus> statuses_;
  std::uint64_t callCount_ = 0;
  std::uint64_t wireBytesBefore_ = 0;  ///< sent before the first call
  std::atomic<bool> isBusy_ = false;

  mutable std::mutex mutex_;  ///< guards what follows
  std::optional<Error> failure_;
  CommunicatorStatistics statistics_;
};

}  // namespace zipccl::collectives
