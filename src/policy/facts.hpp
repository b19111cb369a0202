// SPDX-License-Identifier: Apache-2.0
//
// What a decision may depend on. Every fact here is one that all ranks of a communicator share: the
// call's own arguments, what the handshake agreed on, and statistics that every rank computed from
// the same bytes. Never pointers, alignment, time, free memory or local data: ranks that decide
// differently wait for each other for ever.

#pragma once

#include <array>
#include <cstdint>

#include "base/collective_kind.hpp"
#include "base/settings.hpp"

namespace zipccl::policy {

/// How its data moves.
enum class Strategy : std::uint8_t {
  kNative = 0,  ///< the transport's own collective, bytes untouched
  kStaged = 1,  ///< encode, exchange, decode
};

/// Where low halves of fp32 elements travel (docs/format.md section 6). Values are the format's.
enum class FrameLayout : std::uint8_t { kNarrow = 0, kWide = 1 };

/// Names for messages: `native`; `narrow`.
[[nodiscard]] const char* name(Strategy strategy) noexcept;
[[nodiscard]] const char* name(FrameLayout layout) noexcept;

/// What the policy knows of a datatype's frames: sizes, filled in by who knows the format.
struct FrameGeometry {
  std::uint64_t elementBytes = 0;
  std::uint64_t tileElements = 0;
  std::uint64_t groupElements = 0;        ///< chunks are cut at multiples of it
  std::uint64_t frameOverheadBytes = 0;   ///< header and alignments of one frame, at most
  std::uint64_t narrowTileBytes = 0;      ///< static bytes of a tile without pool, at most
  std::uint64_t wideTileBytes = 0;        ///< the same; 0: the datatype has no wide layout
  std::uint64_t maxNarrowExtraBytes = 0;  ///< most extra space of a tile
  std::uint64_t maxWideExtraBytes = 0;
  std::uint64_t lowPlaneBytes = 0;     ///< extra space of a tile's low halves, narrow layout
  std::uint64_t defaultPoolBytes = 0;  ///< pool of a tile when nothing is known
  std::uint64_t poolAlignment = 1;     ///< pools of frames are multiples of it

  [[nodiscard]] std::uint64_t tileBytes(FrameLayout layout) const noexcept {
    return layout == FrameLayout::kWide ? wideTileBytes : narrowTileBytes;
  }
  [[nodiscard]] std::uint64_t maxExtraBytes(FrameLayout layout) const noexcept {
    return layout == FrameLayout::kWide ? maxWideExtraBytes : maxNarrowExtraBytes;
  }
};

/// Settings that the handshake found equal on all ranks.
struct AgreedSettings {
  StrategyChoice strategy = StrategyChoice::kAuto;
  CollectiveSet collectives = CollectiveSet::all();  ///< which may be compressed
  ReduceMode reduce = ReduceMode::kAuto;             ///< whether reductions may be compressed
  bool checksum = false;
  std::uint64_t minBytes = 0;  ///< fewer bytes a rank go native
  std::uint64_t maxScratchBytes = 0;
  std::uint32_t verifyEvery =
      0;  ///< of so many compressed calls over NCCL one is verified; 0: none

  /// For a part of a call that was decided on as a whole.
  [[nodiscard]] AgreedSettings forPartOfCall(StrategyChoice decided) const noexcept {
    AgreedSettings settings = *this;
    settings.strategy = decided;
    settings.collectives = CollectiveSet::all();
    settings.minBytes = 0;
    return settings;
  }

  friend bool operator==(const AgreedSettings&, const AgreedSettings&) = default;
};

/// Bytes a tile in 1/256 of a byte, so that ranks share an integer.
using BytesPerTile256 = std::uint64_t;
inline constexpr std::uint64_t kPerTileUnit = 256;

/// Extra space that the frames of one call needed, for the rank and the chunk that needed most.
struct ExtraSpace {
  BytesPerTile256 narrow = 0;  ///< in the narrow layout, whatever layout the call used
  BytesPerTile256 wide = 0;    ///< the same without low halves

  friend bool operator==(const ExtraSpace&, const ExtraSpace&) = default;
};

/// What the ranks learnt from earlier calls of the same class (collective, datatype, size class) on
/// the same communicator. Call k of a class sees what calls 0 to k - 1 left: a lag of one call.
struct ClassStatistics {
  static constexpr std::uint32_t kWindow = 8;

  std::array<ExtraSpace, kWindow> recent{};  ///< a ring of the last observed calls
  std::uint32_t observed = 0;                ///< entries in use
  std::uint32_t next = 0;                    ///< the entry to be replaced
  std::uint64_t nativeStreak = 0;            ///< calls since the last observed one

  /// The most of each over the window; zeros when nothing was observed.
  [[nodiscard]] ExtraSpace largest() const noexcept;

  friend bool operator==(const ClassStatistics&, const ClassStatistics&) = default;
};

/// What one frame said about itself, in its header.
struct FrameFacts {
  FrameLayout layout = FrameLayout::kNarrow;
  std::uint64_t tileCount = 0;
  std::uint64_t extraBytes = 0;
  std::uint64_t lowTiles = 0;  ///< tiles whose low halves are stored
};

/// Collects what the frames of one call, of all ranks and chunks, needed. The order does not
/// matter.
class CallObservation {
 public:
  explicit CallObservation(const FrameGeometry& geometry) noexcept : geometry_(geometry) {}
  void add(const FrameFacts& frame) noexcept;
  [[nodiscard]] const ExtraSpace& extra() const noexcept { return extra_; }

 private:
  FrameGeometry geometry_;
  ExtraSpace extra_;
};

/// The statistics after a compressed call. What is older than a streak of native calls is
/// forgotten.
[[nodiscard]] ClassStatistics afterStaged(ClassStatistics statistics,
                                          const ExtraSpace& seen) noexcept;
/// The statistics after a native call.
[[nodiscard]] ClassStatistics afterNative(ClassStatistics statistics) noexcept;

/// For the sake of overlap a message is cut into up to so many chunks, of at least so many bytes.
struct OverlapGoal {
  std::uint64_t chunks = 32;
  std::uint64_t chunkBytes = std::uint64_t{1} << 20;
  /// Of a call whose frames all ranks get, where there is room for so many. What a rank hands on
  /// waits while its core is at work for others, so much must be on its way.
  std::uint64_t chunksInFlight = 8;
  /// Whether two chunks of a call, and never more, are in flight wherever it has more than one.
  bool isPipelined = false;
  /// A message goes in one chunk, or is not compressed.
  bool isWhole = false;

  friend bool operator==(const OverlapGoal&, const OverlapGoal&) = default;
};

/// Whether a collective adds elements up.
[[nodiscard]] constexpr bool isReduction(CollectiveKind collective) noexcept {
  return collective == CollectiveKind::kReduceScatter || collective == CollectiveKind::kAllReduce;
}

/// One call.
struct CallFacts {
  CollectiveKind collective = CollectiveKind::kAllGather;
  std::uint64_t elementCount = 0;  ///< of one rank's contribution, or of one message of a pair
  int rankCount = 1;
  bool hasFormat = false;  ///< whether the datatype has frames; `geometry` counts only then
  FrameGeometry geometry{};
  bool isScaledSum = false;  ///< reductions: whether frames can be reduced by this operation
  /// Reductions: whether native and compressed calls round alike on every transport.
  bool keepsRounding = false;
  bool isProfileGiven = false;  ///< the profile comes from a table, not from a measurement
  bool linkIsMemory = false;    ///< ranks read each other's memory: a message costs a copy
  /// Where what moves data runs on the processor that compresses it: how many times as fast as the
  /// link the codec must be. 0: it does not.
  double codecLeadNeeded = 0.0;
  bool compressionAgreed = true;  ///< false: the handshake found settings that differ
  /// Reductions: native ones are the transport's own, which take the ways of its all-gather.
  bool transportReduces = false;
  OverlapGoal overlap{};
  AgreedSettings settings{};
  ClassStatistics statistics{};
};

}  // namespace zipccl::policy
