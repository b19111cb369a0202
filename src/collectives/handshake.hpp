// SPDX-License-Identifier: Apache-2.0
//
// The handshake: what the ranks of a new communicator tell each other, once, where all of them are
// anyway. It finds out whether they can compress together, and gives them one profile.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "policy/facts.hpp"
#include "policy/profile.hpp"
#include "transport/transport.hpp"

namespace zipccl::collectives {

/// What one rank says. The protocol is what the record holds, and how transports cut up what calls
/// move, native ones too: that must be alike even where compression is off. The size, and the place
/// of magic and protocol version, never change, so that versions that do not know each other can at
/// least say so.
struct HandshakeRecord {
  static constexpr std::uint32_t kMagic = 0x4853435AU;  ///< the bytes "ZCSH", read little-endian
  static constexpr std::uint32_t kProtocolVersion = 2;

  std::uint32_t magic = kMagic;
  std::uint32_t protocolVersion = kProtocolVersion;
  std::uint32_t libraryVersion = 0;  ///< ZIPCCL_VERSION_CODE: decisions may differ between releases
  std::uint32_t formatVersion = 0;
  std::uint16_t strategy = 0;  ///< a StrategyChoice
  std::uint16_t checksum = 0;
  std::uint32_t verifyEvery = 0;
  std::uint32_t collectives = 0;  ///< bit i: the i-th of kAllCollectiveKinds may be compressed
  std::uint32_t hasProfile = 0;
  std::uint64_t minBytes = 0;
  std::uint64_t maxScratchBytes = 0;
  policy::Profile profile{};
  std::uint32_t reduce = 0;  ///< a ReduceMode
  std::uint32_t host = 0;    ///< a hash that ranks of one host share; not compared
};
static_assert(sizeof(HandshakeRecord) == 256 && std::is_trivially_copyable_v<HandshakeRecord>);
static_assert(offsetof(HandshakeRecord, magic) == 0 &&
              offsetof(HandshakeRecord, protocolVersion) == 4);

/// This build's record with those settings.
[[nodiscard]] HandshakeRecord makeRecord(const policy::AgreedSettings& settings,
                                         const std::optional<policy::Profile>& profile);

/// In words, what differs between the records of ranks 0, 1, ..., and on which ranks: empty when
/// they agree. `strategy is staged on ranks 0 and 1, native on rank 2`.
[[nodiscard]] std::string describeDifferences(std::span<const HandshakeRecord> records);

/// What the ranks found.
struct Agreement {
  bool compressionAgreed = false;
  std::string differences;                 ///< why not
  std::optional<policy::Profile> profile;  ///< rank 0's, if it had a usable one
  /// The smallest bound of scratch that a rank has, 0 where not all can say: known to all ranks
  /// whether or not they agree on compression.
  std::uint64_t leastScratchBytes = 0;
};

/// What all ranks find in the records of ranks 0, 1, .... Where they differ, rank 0, if that is
/// `rank`, writes one warning to the log.
[[nodiscard]] Agreement agreeOn(std::span<const HandshakeRecord> records, int rank);

/// Exchanges `mine` with all ranks, and tells the transport which ranks share a host; all of them
/// get the same Agreement. Where they differ, rank 0
/// writes one warning to the log. Throws Error(kRemoteError) when a rank does not come within the
/// transport's timeout, and names it.
[[nodiscard]] Agreement shakeHands(transport::Transport& transport, const HandshakeRecord& mine);

}  // namespace zipccl::collectives
