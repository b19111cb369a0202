// SPDX-License-Identifier: Apache-2.0
//
// The verification of calls over NCCL.

#include "collectives/nccl_verifier.hpp"

#include <algorithm>
#include <string>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/shared_word.hpp"
#include "base/verdict.hpp"
#include "codec/layout.hpp"

namespace zipccl::collectives {
namespace {

constexpr std::uint64_t kAlignment = 128;

/// Verdicts are used in turn, so many that the comparison of the last use has long been done: a
/// pair has a few messages in flight at most.
std::size_t verdictCount(int rankCount) {
  return std::max<std::size_t>(2048, 32 * static_cast<std::size_t>(rankCount));
}

}  // namespace

NcclVerifier::NcclVerifier(transport::Device& device, int rank, int rankCount, std::uint32_t every)
    : device_(device),
      rank_(rank),
      rankCount_(rankCount),
      every_(every),
      messageCounts_(2 * static_cast<std::size_t>(rankCount)),
      verdicts_(device, verdictCount(rankCount) * sizeof(std::uint64_t)),
      uses_(verdictCount(rankCount)) {}

NcclVerifier::~NcclVerifier() {
  logInfo(LogSubsystem::kColl, "rank ", rank_, " of ", rankCount_, " verified ", comparedCount_,
          " results of compressed calls");
}

bool NcclVerifier::takesMessage(int peer, bool isOut) noexcept {
  return takes(messageCounts_[2 * static_cast<std::size_t>(peer) + (isOut ? 1 : 0)]);
}

std::byte* NcclVerifier::expect(const Result& result, const void* found, std::uint64_t bytes) {
  std::byte* const place = reserve(bytes, found);
  expected_.push_back({result, place, found, bytes});
  return place;
}

std::byte* NcclVerifier::reserve(std::uint64_t bytes, const void* like) {
  const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(like) % kAlignment;
  const std::uint64_t needed = codec::alignUp(offset + bytes, kAlignment);
  wantedBytes_ += needed;
  mostBytes_ = std::max(mostBytes_, wantedBytes_);
  if (blocks_.empty() || blocks_.back().bytes() - usedBytes_ < needed) {
    // What stands in the last block is still to be compared.
    blocks_.emplace_back(device_, mostBytes_);
    usedBytes_ = 0;
  }
  std::byte* const place = blocks_.back().data() + usedBytes_ + offset;
  usedBytes_ += needed;
  return place;
}

void NcclVerifier::compare(StreamCodec& codec, transport::StreamHandle stream) {
  for (const Expected& each : expected_) {
    codec.compare({.expected = each.expected,
                   .found = each.found,
                   .bytes = each.bytes,
                   .verdict = takeVerdict(each)},
                  stream);
  }
  comparedCount_ += expected_.size();
  expected_.clear();
  usedBytes_ = 0;
  wantedBytes_ = 0;
}

std::uint64_t* NcclVerifier::takeVerdict(const Expected& expected) {
  const std::lock_guard lock(mutex_);
  const std::size_t word = nextVerdict_++ % uses_.size();
  checkLocked(word);
  uses_[word] = {expected.result, expected.bytes};
  return &verdicts()[word];
}

void NcclVerifier::check() {
  const std::lock_guard lock(mutex_);
  for (std::size_t word = 0; word < uses_.size(); ++word) checkLocked(word);
}

void NcclVerifier::checkLocked(std::size_t word) {
  const std::uint64_t verdict = loadAcquire(verdicts()[word]);
  if (verdict == 0) return;
  const VerdictUse& use = uses_[word];
  const Result& result = use.result;
  const std::string words = concat(
      collectiveName(result.collective), " of ", result.elementCount, ' ',
      datatypeName(result.datatype),
      result.maker ? concat(" from rank ", *result.maker) : std::string(), " on rank ", rank_,
      " of ", rankCount_, " gave other bits compressed than natively: the first wrong byte is ",
      wrongByteOf(verdict), " of ", use.bytes);
  if (!wasSaid_) logWarn(words);
  wasSaid_ = true;
  fail(ErrorCode::kInternalError, words);
}

void NcclVerifier::freeRetired() {
  while (hasRetired()) blocks_.pop_front();
}

}  // namespace zipccl::collectives
