// SPDX-License-Identifier: Apache-2.0
//
// The collectives as this tool measures them.

#include "perf/collective.hpp"

#include <cstring>
#include <numeric>

#include "perf/datatype.hpp"
#include "perf/splits.hpp"
#include "support/failure.hpp"
#include "support/file.hpp"

namespace zipccl::tools::perf {
namespace {

void put(std::span<std::byte> to, std::span<const std::byte> from) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

class AllGather final : public Collective {
 public:
  using Collective::Collective;

  [[nodiscard]] std::uint64_t countsInSize() const override { return rankCount(); }
  [[nodiscard]] std::uint64_t receiveElements(std::uint64_t count, int) const override {
    return count * rankCount();
  }
  [[nodiscard]] std::optional<InPlace> inPlace(std::uint64_t count, int rank) const override {
    return InPlace{.sendAt = static_cast<std::uint64_t>(rank) * count};
  }
  void call(CollectiveCalls& communicator, int, const void* send, void* receive,
            std::uint64_t count) const override {
    communicator.allGather(send, receive, count, datatype());
  }
  void expect(const Messages& messages, std::uint64_t count, int,
              std::span<std::byte> received) const override {
    for (std::size_t rank = 0; rank < messages.size(); ++rank) {
      put(received.subspan(rank * count * bytesEach()), messages[rank]);
    }
  }
};

/// The two that add.
class Reducing : public Collective {
 public:
  using Collective::Collective;

  void expect(const Messages& messages, std::uint64_t count, int rank,
              std::span<std::byte> received) const override {
    reduceInOrder(datatype(), choice().operation, messages, firstElement(count, rank), received);
  }
  [[nodiscard]] SquaredError error(const Messages& messages, std::uint64_t count, int rank,
                                   std::span<const std::byte> received) const override {
    return errorOf(datatype(), choice().operation, messages, firstElement(count, rank), received);
  }

 protected:
  /// Of what `rank` gets.
  [[nodiscard]] virtual std::uint64_t firstElement(std::uint64_t count, int rank) const = 0;
};

class AllReduce final : public Reducing {
 public:
  using Reducing::Reducing;

  [[nodiscard]] std::optional<InPlace> inPlace(std::uint64_t, int) const override {
    return InPlace{};
  }
  void call(CollectiveCalls& communicator, int, const void* send, void* receive,
            std::uint64_t count) const override {
    communicator.allReduce(send, receive, count, datatype(), choice().operation);
  }

 private:
  [[nodiscard]] std::uint64_t firstElement(std::uint64_t, int) const override { return 0; }
};

class ReduceScatter final : public Reducing {
 public:
  using Reducing::Reducing;

  [[nodiscard]] std::uint64_t countsInSize() const override { return rankCount(); }
  [[nodiscard]] std::uint64_t sendElements(std::uint64_t count, int) const override {
    return count * rankCount();
  }
  [[nodiscard]] std::optional<InPlace> inPlace(std::uint64_t count, int rank) const override {
    return InPlace{.receiveAt = static_cast<std::uint64_t>(rank) * count};
  }
  void call(CollectiveCalls& communicator, int, const void* send, void* receive,
            std::uint64_t count) const override {
    communicator.reduceScatter(send, receive, count, datatype(), choice().operation);
  }

 private:
  [[nodiscard]] std::uint64_t firstElement(std::uint64_t count, int rank) const override {
    return static_cast<std::uint64_t>(rank) * count;
  }
};

/// Parts of equal size, or the same uneven parts on every rank.
class AllToAll final : public Collective {
 public:
  AllToAll(const CollectiveChoice& choice, zipcclDataType_t datatype, int ranks)
      : Collective(choice, datatype, ranks) {
    if (!choice.splits.empty()) {
      shares_ = shares(parseSplits(choice.splits, isRegularFile), ranks);
    }
  }

  [[nodiscard]] std::uint64_t countsInSize() const override { return rankCount(); }
  [[nodiscard]] std::uint64_t sendElements(std::uint64_t count, int) const override {
    return count * rankCount();
  }
  [[nodiscard]] std::uint64_t receiveElements(std::uint64_t count, int rank) const override {
    return parts(count)[static_cast<std::size_t>(rank)] * rankCount();
  }
  [[nodiscard]] std::vector<std::size_t> unevenParts(std::uint64_t count) const override {
    return shares_.empty() ? std::vector<std::size_t>{} : parts(count);
  }
  void call(CollectiveCalls& communicator, int rank, const void* send, void* receive,
            std::uint64_t count) const override {
    if (shares_.empty()) {
      communicator.allToAll(send, receive, count, datatype());
      return;
    }
    const std::vector<std::size_t> sendCounts = parts(count);
    const std::vector<std::size_t> receiveCounts(sendCounts.size(),
                                                 sendCounts[static_cast<std::size_t>(rank)]);
    communicator.allToAllv(send, sendCounts, receive, receiveCounts, datatype());
  }
  void expect(const Messages& messages, std::uint64_t count, int rank,
              std::span<std::byte> received) const override {
    const std::vector<std::size_t> sizes = parts(count);
    const std::size_t partBytes = sizes[static_cast<std::size_t>(rank)] * bytesEach();
    const std::size_t before =
        std::accumulate(sizes.begin(), sizes.begin() + rank, std::size_t{0}) * bytesEach();
    for (std::size_t from = 0; from < messages.size(); ++from) {
      put(received.subspan(from * partBytes), messages[from].subspan(before, partBytes));
    }
  }

 private:
  /// Elements for each rank: together count * ranks.
  [[nodiscard]] std::vector<std::size_t> parts(std::uint64_t count) const {
    if (shares_.empty()) return std::vector<std::size_t>(rankCount(), count);
    return cut(shares_, count * rankCount());
  }

  std::vector<double> shares_;  ///< empty: equal parts
};

class Broadcast final : public Collective {
 public:
  using Collective::Collective;

  [[nodiscard]] std::optional<InPlace> inPlace(std::uint64_t, int) const override {
    return InPlace{};
  }
  void call(CollectiveCalls& communicator, int, const void* send, void* receive,
            std::uint64_t count) const override {
    communicator.broadcast(send, receive, count, datatype(), choice().root);
  }
  void expect(const Messages& messages, std::uint64_t, int,
              std::span<std::byte> received) const override {
    put(received, messages[static_cast<std::size_t>(choice().root)]);
  }
};

class Gather final : public Collective {
 public:
  using Collective::Collective;

  [[nodiscard]] std::uint64_t countsInSize() const override { return rankCount(); }
  [[nodiscard]] std::uint64_t receiveElements(std::uint64_t count, int rank) const override {
    return rank == choice().root ? count * rankCount() : 0;
  }
  [[nodiscard]] std::optional<InPlace> inPlace(std::uint64_t count, int rank) const override {
    return InPlace{.sendAt = rank == choice().root ? static_cast<std::uint64_t>(rank) * count : 0};
  }
  void call(CollectiveCalls& communicator, int, const void* send, void* receive,
            std::uint64_t count) const override {
    communicator.gatherTo(send, receive, count, datatype(), choice().root);
  }
  void expect(const Messages& messages, std::uint64_t count, int rank,
              std::span<std::byte> received) const override {
    if (rank != choice().root) return;
    for (std::size_t from = 0; from < messages.size(); ++from) {
      put(received.subspan(from * count * bytesEach()), messages[from]);
    }
  }
};

class Scatter final : public Collective {
 public:
  using Collective::Collective;

  [[nodiscard]] std::uint64_t countsInSize() const override { return rankCount(); }
  [[nodiscard]] std::uint64_t sendElements(std::uint64_t count, int) const override {
    return count * rankCount();
  }
  [[nodiscard]] std::optional<InPlace> inPlace(std::uint64_t count, int rank) const override {
    return InPlace{.receiveAt =
                       rank == choice().root ? static_cast<std::uint64_t>(rank) * count : 0};
  }
  void call(CollectiveCalls& communicator, int, const void* send, void* receive,
            std::uint64_t count) const override {
    communicator.scatterFrom(send, receive, count, datatype(), choice().root);
  }
  void expect(const Messages& messages, std::uint64_t count, int rank,
              std::span<std::byte> received) const override {
    const std::size_t partBytes = count * bytesEach();
    put(received, messages[static_cast<std::size_t>(choice().root)].subspan(
                      static_cast<std::size_t>(rank) * partBytes, partBytes));
  }
};

class SendRecv final : public Collective {
 public:
  using Collective::Collective;

  void call(CollectiveCalls& communicator, int rank, const void* send, void* receive,
            std::uint64_t count) const override {
    communicator.sendReceive(send, (rank + 1) % ranks(), receive, (rank + ranks() - 1) % ranks(),
                             count, datatype());
  }
  void expect(const Messages& messages, std::uint64_t, int rank,
              std::span<std::byte> received) const override {
    put(received, messages[static_cast<std::size_t>((rank + ranks() - 1) % ranks())]);
  }
};

}  // namespace

Collective::Collective(const CollectiveChoice& choice, zipcclDataType_t datatype, int ranks)
    : choice_(choice), datatype_(datatype), ranks_(ranks), bytesEach_(elementBytes(datatype)) {
  if (hasRoot(choice.name) && choice.root >= ranks) {
    throw UsageError("--root is " + std::to_string(choice.root) + ", but there are " +
                     std::to_string(ranks) + " ranks");
  }
  if (isReduction(choice.name) && !canCheckReduction(datatype)) {
    throw UsageError("a reduction of " + std::string(datatypeName(datatype)) +
                     "; bfloat16, half and float can be checked");
  }
}

std::unique_ptr<Collective> makeCollective(const CollectiveChoice& choice,
                                           zipcclDataType_t datatype, int ranks) {
  switch (choice.name) {
    case CollectiveName::kAllGather:
      return std::make_unique<AllGather>(choice, datatype, ranks);
    case CollectiveName::kAllReduce:
      return std::make_unique<AllReduce>(choice, datatype, ranks);
    case CollectiveName::kAllToAll:
      return std::make_unique<AllToAll>(choice, datatype, ranks);
    case CollectiveName::kBroadcast:
      return std::make_unique<Broadcast>(choice, datatype, ranks);
    case CollectiveName::kGather:
      return std::make_unique<Gather>(choice, datatype, ranks);
    case CollectiveName::kReduceScatter:
      return std::make_unique<ReduceScatter>(choice, datatype, ranks);
    case CollectiveName::kScatter:
      return std::make_unique<Scatter>(choice, datatype, ranks);
    case CollectiveName::kSendRecv:
      return std::make_unique<SendRecv>(choice, datatype, ranks);
  }
  throw Failure("an unknown collective");
}

}  // namespace zipccl::tools::perf
