// SPDX-License-Identifier: Apache-2.0
//
// The order of messages in an all-gather around a ring: pure arithmetic, the same for every rank.
// Each rank gives its right neighbour its own block and then what its left neighbour gave it, so
// that no link ever carries more than one message at a time each way, and none carries a block
// twice. Blocks go in pieces: a rank hands a piece on while the next one is on its way to it.

#pragma once

#include <algorithm>
#include <cstdint>

namespace zipccl::transport {

/// What one rank of `rankCount` > 1 sends to its right neighbour and receives from its left one,
/// each in the order of these numbers: 0 to pieceCount() - 1.
class RingSchedule {
 public:
  /// Where a piece stands among the blocks of all ranks.
  struct Piece {
    std::uint64_t at = 0;
    std::uint64_t bytes = 0;

    friend bool operator==(const Piece&, const Piece&) = default;
  };

  /// `blockBytes` and `pieceBytes` are not 0.
  RingSchedule(int rank, int rankCount, std::uint64_t blockBytes, std::uint64_t pieceBytes) noexcept
      : rank_(static_cast<std::uint64_t>(rank)),
        rankCount_(static_cast<std::uint64_t>(rankCount)),
        blockBytes_(blockBytes),
        pieceBytes_(pieceBytes),
        piecesOfBlock_(blockBytes / pieceBytes + (blockBytes % pieceBytes != 0 ? 1 : 0)) {}

  [[nodiscard]] int right() const noexcept { return static_cast<int>((rank_ + 1) % rankCount_); }
  [[nodiscard]] int left() const noexcept { return static_cast<int>(leftRank()); }

  [[nodiscard]] std::uint64_t blockBytes() const noexcept { return blockBytes_; }

  [[nodiscard]] std::uint64_t pieceCount() const noexcept {
    return (rankCount_ - 1) * piecesOfBlock_;
  }

  [[nodiscard]] Piece sent(std::uint64_t number) const noexcept { return sentBy(rank_, number); }
  [[nodiscard]] Piece received(std::uint64_t number) const noexcept {
    return sentBy(leftRank(), number);
  }

  /// How many pieces must have been received before this one can be sent.
  [[nodiscard]] std::uint64_t receivedBefore(std::uint64_t number) const noexcept {
    return number < piecesOfBlock_ ? 0 : number - piecesOfBlock_ + 1;
  }

 private:
  [[nodiscard]] std::uint64_t leftRank() const noexcept {
    return (rank_ + rankCount_ - 1) % rankCount_;
  }

  [[nodiscard]] Piece sentBy(std::uint64_t rank, std::uint64_t number) const noexcept {
    const std::uint64_t block = (rank + rankCount_ - number / piecesOfBlock_) % rankCount_;
    const std::uint64_t inBlock = number % piecesOfBlock_ * pieceBytes_;
    return {block * blockBytes_ + inBlock, std::min(pieceBytes_, blockBytes_ - inBlock)};
  }

  std::uint64_t rank_;
  std::uint64_t rankCount_;
  std::uint64_t blockBytes_;
  std::uint64_t pieceBytes_;
  std::uint64_t piecesOfBlock_;
};

}  // namespace zipccl::transport
