// SPDX-License-Identifier: Apache-2.0
//
// ZIPCCL_VERIFY: which compressed calls of a communicator are made natively too, where the native
// results stand, and what the comparisons found.
//
// The native form of a call stands in the group that carries its first chunk, and writes to memory
// of this class: nothing of the compressed form is decoded before that group is done, so calls in
// place still find their input. Comparisons follow the decoding on the codec's stream, and the
// caller's stream waits for both.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "base/collective_kind.hpp"
#include "collectives/datatype.hpp"
#include "collectives/stream_codec.hpp"
#include "transport/device.hpp"

namespace zipccl::collectives {

/// What one rank of a communicator verifies. check() is for any thread at any time, the rest for
/// the one that makes calls, with the device current.
class NcclVerifier {
 public:
  /// Of `every` compressed calls, one.
  NcclVerifier(transport::Device& device, int rank, int rankCount, std::uint32_t every);
  NcclVerifier(const NcclVerifier&) = delete;
  NcclVerifier& operator=(const NcclVerifier&) = delete;
  ~NcclVerifier();

  /// Counts a compressed call of all ranks, or a compressed message to or from `peer`; whether it
  /// is to be verified. Every rank counts the same calls, and both ends of a pair the same
  /// messages, so they find the same.
  [[nodiscard]] bool takesCollective() noexcept { return takes(collectiveCount_); }
  [[nodiscard]] bool takesMessage(int peer, bool isOut) noexcept;

  /// A result of a call.
  struct Result {
    CollectiveKind collective = CollectiveKind::kAllGather;
    Datatype datatype = Datatype::kBfloat16;
    std::uint64_t elementCount = 0;  ///< as the program passed it
    std::optional<int> maker;        ///< of a message: who sent it
  };

  /// Where the native form is to leave `bytes` bytes that `found`, the caller's, should then hold
  /// too: at the same place modulo 128. Valid until compare().
  [[nodiscard]] std::byte* expect(const Result& result, const void* found, std::uint64_t bytes);

  /// Compares all that was expected, on `stream`, on which the last of it has been decoded.
  void compare(StreamCodec& codec, transport::StreamHandle stream);

  [[nodiscard]] std::uint64_t comparedCount() const noexcept { return comparedCount_; }

  /// Throws what comparisons that are done found, and says it in the log once:
  /// Error(kInternalError).
  void check();

  /// There is a block that no later call uses. It may be freed once the device has done what was
  /// compared.
  [[nodiscard]] bool hasRetired() const noexcept { return blocks_.size() > 1; }
  void freeRetired();

 private:
  struct Expected {
    Result result;
    const std::byte* expected = nullptr;
    const void* found = nullptr;
    std::uint64_t bytes = 0;
  };
  struct VerdictUse {
    Result result;
    std::uint64_t bytes = 0;
  };

  [[nodiscard]] bool takes(std::uint64_t& count) const noexcept { return count++ % every_ == 0; }
  [[nodiscard]] std::byte* reserve(std::uint64_t bytes, const void* like);
  [[nodiscard]] std::uint64_t* takeVerdict(const Expected& expected);
  void checkLocked(std::size_t word);
  [[nodiscard]] std::uint64_t* verdicts() const noexcept {
    return reinterpret_cast<std::uint64_t*>(verdicts_.data());
  }

  transport::Device& device_;
  int rank_;
  int rankCount_;
  std::uint64_t every_;
  std::uint64_t collectiveCount_ = 0;
  std::vector<std::uint64_t> messageCounts_;  ///< of each peer, received and sent

  std::deque<transport::DeviceMemory> blocks_;  ///< the last one is in use
  std::uint64_t usedBytes_ = 0;                 ///< of it
  std::uint64_t wantedBytes_ = 0;               ///< since the last comparison
  std::uint64_t mostBytes_ = 0;                 ///< that were ever wanted
  std::vector<Expected> expected_;
  std::uint64_t comparedCount_ = 0;

  transport::SharedMemory verdicts_;
  std::size_t nextVerdict_ = 0;

  std::mutex mutex_;  ///< guards what follows
  std::vector<VerdictUse> uses_;
  bool wasSaid_ = false;
};

}  // namespace zipccl::collectives
