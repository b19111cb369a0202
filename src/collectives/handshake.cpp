// SPDX-License-Identifier: Apache-2.0
//
// The handshake.

#include "collectives/handshake.hpp"

#include <zipccl/version.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/settings.hpp"
#include "base/text.hpp"
#include "codec/layout.hpp"
#include "transport/rank_list.hpp"

namespace zipccl::collectives {
namespace {

/// A field that must be equal on all ranks, and how its value reads.
struct Field {
  std::string_view name;
  std::string (*show)(const HandshakeRecord&);
};

std::string showVersion(const HandshakeRecord& record) {
  return concat(record.libraryVersion / 10000, '.', record.libraryVersion / 100 % 100, '.',
                record.libraryVersion % 100);
}

std::string showCollectives(const HandshakeRecord& record) {
  std::string names;
  for (std::size_t i = 0; i < kAllCollectiveKinds.size(); ++i) {
    if ((record.collectives >> i & 1U) == 0) continue;
    names += concat(names.empty() ? "" : ",", collectiveName(kAllCollectiveKinds[i]));
  }
  return names.empty() ? "none" : names;
}

std::string showStrategy(const HandshakeRecord& record) {
  if (record.strategy > static_cast<std::uint16_t>(StrategyChoice::kStaged)) {
    return concat("number ", record.strategy);
  }
  return std::string(strategyChoiceName(static_cast<StrategyChoice>(record.strategy)));
}

std::string showReduce(const HandshakeRecord& record) {
  if (record.reduce > static_cast<std::uint32_t>(ReduceMode::kOff)) {
    return concat("number ", record.reduce);
  }
  return std::string(reduceModeName(static_cast<ReduceMode>(record.reduce)));
}

// Ranks that do not share these cannot read the rest of each other's records.
constexpr std::array kProtocolFields = {
    Field{"the handshake's mark", [](const HandshakeRecord& r) { return concat(r.magic); }},
    Field{"the handshake's version",
          [](const HandshakeRecord& r) { return concat(r.protocolVersion); }},
};

constexpr std::array kSettingFields = {
    Field{"ZipCCL's version", showVersion},
    Field{"the format version", [](const HandshakeRecord& r) { return concat(r.formatVersion); }},
    Field{"strategy", showStrategy},
    Field{"the mode of reductions", showReduce},
    Field{"checksum", [](const HandshakeRecord& r) { return concat(r.checksum); }},
    Field{"the set of collectives to compress", showCollectives},
    Field{"the minimum of bytes", [](const HandshakeRecord& r) { return concat(r.minBytes); }},
    Field{"the bound of scratch",
          [](const HandshakeRecord& r) { return describeBytes(r.maxScratchBytes); }},
    Field{"the number of calls of which one is verified",
          [](const HandshakeRecord& r) { return concat(r.verifyEvery); }},
};

/// `strategy is staged on ranks 0 and 1, native on rank 2`; empty when all are equal.
std::string describeField(const Field& field, std::span<const HandshakeRecord> records) {
  std::vector<std::pair<std::string, std::vector<int>>> groups;
  for (std::size_t rank = 0; rank < records.size(); ++rank) {
    const std::string value = field.show(records[rank]);
    auto group = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& candidate) { return candidate.first == value; });
    if (group == groups.end()) group = groups.insert(groups.end(), {value, {}});
    group->second.push_back(static_cast<int>(rank));
  }
  if (groups.size() <= 1) return {};
  std::string text = concat(field.name, " is ");
  for (std::size_t i = 0; i < groups.size(); ++i) {
    text +=
        concat(i == 0 ? "" : ", ", groups[i].first, " on ", transport::listRanks(groups[i].second));
  }
  return text;
}

std::string describeFields(std::span<const Field> fields,
                           std::span<const HandshakeRecord> records) {
  std::string text;
  for (const Field& field : fields) {
    const std::string difference = describeField(field, records);
    if (!difference.empty()) text += concat(text.empty() ? "" : "; ", difference);
  }
  return text;
}

/// Another after each start of a machine; empty where it cannot be told.
std::string bootId() {
  std::string id;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::getline(file, id);
  return id;
}

std::uint32_t hashOf(std::string_view text) {
  std::uint64_t hash = 0;
  for (const char character : text) {
    std::uint64_t state = hash ^ static_cast<unsigned char>(character);
    hash = splitMix64(state);
  }
  return static_cast<std::uint32_t>(hash);
}

}  // namespace

HandshakeRecord makeRecord(const policy::AgreedSettings& settings,
                           const std::optional<policy::Profile>& profile) {
  HandshakeRecord record;
  record.libraryVersion = ZIPCCL_VERSION_CODE;
  record.formatVersion = codec::kFormatVersion;
  record.strategy = static_cast<std::uint16_t>(settings.strategy);
  record.reduce = static_cast<std::uint32_t>(settings.reduce);
  record.checksum = settings.checksum ? 1 : 0;
  record.verifyEvery = settings.verifyEvery;
  for (std::size_t i = 0; i < kAllCollectiveKinds.size(); ++i) {
    if (settings.collectives.contains(kAllCollectiveKinds[i])) record.collectives |= 1U << i;
  }
  record.minBytes = settings.minBytes;
  record.maxScratchBytes = settings.maxScratchBytes;
  // Machines may all be called localhost.
  record.host = hashOf(concat(shortHostName(), ' ', bootId()));
  if (profile) {
    record.hasProfile = 1;
    record.profile = *profile;
  }
  return record;
}

std::string describeDifferences(std::span<const HandshakeRecord> records) {
  std::string text = describeFields(kProtocolFields, records);
  return text.empty() ? describeFields(kSettingFields, records) : text;
}

Agreement agreeOn(std::span<const HandshakeRecord> records, int rank) {
  Agreement agreement;
  agreement.differences = describeDifferences(records);
  agreement.compressionAgreed = agreement.differences.empty();
  if (describeFields(kProtocolFields, records).empty()) {
    const auto least = std::min_element(records.begin(), records.end(),
                                        [](const HandshakeRecord& a, const HandshakeRecord& b) {
                                          return a.maxScratchBytes < b.maxScratchBytes;
                                        });
    agreement.leastScratchBytes = least->maxScratchBytes;
  }
  if (!agreement.compressionAgreed) {
    if (rank == 0) {
      logWarn("compression is off on a communicator of ", records.size(),
              " ranks because they differ: ", agreement.differences);
    }
    return agreement;
  }
  if (records[0].hasProfile != 0 && policy::isUsable(records[0].profile)) {
    agreement.profile = records[0].profile;
  }
  return agreement;
}

Agreement shakeHands(transport::Transport& transport, const HandshakeRecord& mine) {
  std::vector<HandshakeRecord> records(static_cast<std::size_t>(transport.rankCount()));
  transport.allGatherControl(std::as_bytes(std::span(&mine, 1)),
                             std::as_writable_bytes(std::span(records)));
  if (describeFields(kProtocolFields, records).empty()) {
    std::vector<std::uint32_t> hosts;
    hosts.reserve(records.size());
    for (const HandshakeRecord& record : records) hosts.push_back(record.host);
    transport.learnHosts(hosts);
  }
  return agreeOn(records, transport.rank());
}

}  // namespace zipccl::collectives
