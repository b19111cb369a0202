// SPDX-License-Identifier: Apache-2.0
//
// The decision: one pure function of facts that all ranks share. Ranks that call it with the same
// facts and the same profile decide alike, whatever their data, memory and clocks are like.

#pragma once

#include <cstdint>
#include <string>

#include "policy/facts.hpp"
#include "policy/profile.hpp"

namespace zipccl::policy {

/// Why a strategy was chosen.
enum class Reason : std::uint8_t {
  kSettingsDiffer,   ///< native: the handshake found settings that differ between ranks
  kNativeForced,     ///< native: asked for
  kCollectiveOff,    ///< native: the collective is not among those that may be compressed
  kNoFormat,         ///< native: the datatype has no frame format
  kOtherOperation,   ///< native: the reduction is none that frames can be reduced by
  kReduceOff,        ///< native: reductions are not to be compressed
  kNothingToSend,    ///< native: no elements, or one rank
  kBelowMinBytes,    ///< native: fewer bytes than the user's minimum
  kScratchTooSmall,  ///< native: the bound of scratch leaves no room for a group of tiles
  kChunksTooSmall,   ///< native: the bound of scratch would cut the message too fine
  kNoTable,          ///< native: a reduction whose choice must come from a table, and there is none
  kLinkIsMemory,     ///< native: what is sent moves as fast as a codec could write it
  kLinkIsFast,       ///< native: the link takes what the codec needs, and is nearly as fast
  kNoProfile,        ///< native: nothing is known of link and codec
  kNotInGroup,       ///< native: a Send or Recv that is not in a group
  kPassesThrough,    ///< native: captured into a graph, to itself, or in a symmetric window
  kNothingSaved,     ///< native: the frame of a message would be as large as the message
  kNativeIsFaster,   ///< native: predicted
  kStagedForced,     ///< staged: asked for
  kStagedIsFaster,   ///< staged: predicted
  kProbe,            ///< staged: to see whether the data compress by now
};

/// Auto leaves compression out where scratch would cut a message into chunks of fewer bytes.
inline constexpr std::uint64_t kMinChunkBytes = std::uint64_t{1} << 20;

/// Auto compresses when that is predicted to take at most this part of the native time.
inline constexpr double kStagedGainNeeded = 0.95;

/// Where links and codec share a processor, auto compresses only on links that are slower than the
/// codec by this factor. A GPU: NVLink, at a quarter of the codec's speed, gains nothing that was
/// predicted. The core of a rank that moves its data itself: TCP at 10 Gbit/s, half as fast as the
/// codec, takes longer for frames than for what they hold.
inline constexpr double kSharedGpuLead = 6.0;
inline constexpr double kSharedCoreLead = 4.0;

/// A class that went native because its data did not compress is compressed again, once, after so
/// many native calls.
inline constexpr std::uint64_t kProbeInterval = 64;

struct Decision {
  Strategy strategy = Strategy::kNative;
  Reason reason = Reason::kNativeForced;
  FrameLayout layout = FrameLayout::kNarrow;  ///< this and what follows: staged only
  std::uint64_t chunkElements = 0;            ///< elements of every chunk but the last
  std::uint64_t chunkCount = 0;
  std::uint64_t chunksInFlight = 1;
  std::uint64_t poolBytes = 0;  ///< of every chunk but the last, see poolBytes() for that
  double nativeUs = 0.0;        ///< predictions; 0 where none was needed
  double stagedUs = 0.0;

  friend bool operator==(const Decision&, const Decision&) = default;
};

/// Chooses how `call` is done. A reduction whose bits may depend on it, as above two ranks, is
/// decided from a table that was given, and without one goes native: never from a measurement or
/// from what earlier calls were like, so that the same job gives the same bits.
///
/// A forced strategy is followed wherever it can be: a datatype without
/// a format, a message below the minimum and a scratch bound without room for one group of tiles go
/// native all the same.
[[nodiscard]] Decision decide(const CallFacts& call, const Profile& profile) noexcept;

/// The decision in words, such as `staged: predicted 812 us against 1240 us native`.
[[nodiscard]] std::string describe(const Decision& decision);

}  // namespace zipccl::policy
