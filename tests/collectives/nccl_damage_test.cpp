// SPDX-License-Identifier: Apache-2.0
//
// Headers that were damaged on their way, over a fake NCCL: of a frame, which NCCL carries, and of
// a message of the side channel. Who reads it says so, and fails.

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/nccl_communicator.hpp"
#include "collectives/test_settings.hpp"
#include "fake_nccl.h"
#include "fake_nccl_fixture.hpp"
#include "forwarding_stream_codec.hpp"
#include "log_capture.hpp"
#include "nccl_ranks.hpp"
#include "transport/host_stream_device.hpp"
#include "transport/side_wire.hpp"

namespace zipccl::collectives::testing {
namespace {

/// The bit of the next header on the side channel that is to arrive flipped; or none.
constexpr int kNoBit = -1;
std::atomic<int> bitOfNextHeader{kNoBit};

/// Whether it is a message of a side channel from its first byte on.
bool beginsMessage(const msghdr& message) {
  return message.msg_iovlen == 2 &&
         message.msg_iov[0].iov_len == sizeof(transport::SideMessageHeader) &&
         message.msg_iov[1].iov_len != 0;
}

/// Flips a bit in the header of the next frame of another rank, before anybody reads it.
class DamagingCodec final : public ForwardingStreamCodec {
 public:
  DamagingCodec(std::unique_ptr<StreamCodec> codec, transport::Device& device)
      : ForwardingStreamCodec(std::move(codec)),
        device_(static_cast<transport::HostStreamDevice&>(device)) {}

  void plant(std::uint64_t bit) { bit_ = bit; }

  void importDynamic(std::span<const codec::DynamicPart> parts, const codec::Gate& gate,
                     transport::StreamHandle stream) override {
    if (bit_ && !parts.empty()) {
      auto* const at = const_cast<std::byte*>(parts.front().header) + *bit_ / 8;
      device_.enqueue(stream, [at, bit = *bit_] { *at ^= std::byte{1} << (bit % 8); });
      bit_.reset();
    }
    ForwardingStreamCodec::importDynamic(parts, gate, stream);
  }

 private:
  transport::HostStreamDevice& device_;
  std::optional<std::uint64_t> bit_;
};

class NcclDamage : public zipccl::testing::FakeNcclTest<20> {
 protected:
  static void plant(NcclRank& rank, std::uint64_t bit) {
    auto damaging = std::make_unique<DamagingCodec>(std::move(rank.communicator->codec),
                                                    *rank.communicator->device);
    damaging->plant(bit);
    rank.communicator->codec = std::move(damaging);
  }

  static void onTwoRanks(const std::function<void(NcclRank&)>& work) {
    const std::vector<CommunicatorSettings> settings(2, testSettings());
    onNcclRanks(settings, work);
  }

  /// A message from rank 0 to rank 1 with a dynamic part.
  static void sendOne(NcclRank& rank, std::uint64_t seed) {
    const NcclTestCall test{.content = Content::kRandomBits, .seed = seed};
    const std::array calls = {messageCall(rank, test, rank.rank == 0, 1 - rank.rank)};
    rank.runGroup(calls);
  }

  /// What the rank has to complain of; the courier may be a little behind the stream.
  static std::string awaitError(const NcclRank& rank) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::string found = rank.error();
    while (found.empty() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      found = rank.error();
    }
    return found;
  }

  static void expectDamage(const NcclRank& rank, const std::string& words) {
    const std::string found = awaitError(rank);
    EXPECT_NE(found.find(words), std::string::npos) << found;
    EXPECT_NE(found.find(" is damaged"), std::string::npos) << found;
    // It sticks.
    EXPECT_THROW(rank.communicator->throwIfFailed(), Error);
    EXPECT_EQ(rank.error(), found);
  }
};

TEST_F(NcclDamage, OfAHeaderOnTheSideChannelIsAnErrorOfItsReader) {
  for (int repeat = 0; repeat < 25; ++repeat) {
    const std::uint64_t seed = random_();
    const int bit = static_cast<int>(random_.below(8 * sizeof(transport::SideMessageHeader)));
    SCOPED_TRACE("bit " + std::to_string(bit));
    const int saidBefore = countInLog(" is damaged");
    bitOfNextHeader = bit;
    onTwoRanks([&](NcclRank& rank) {
      sendOne(rank, seed);
      if (rank.rank == 0) {
        EXPECT_EQ(rank.error(), "");
      } else {
        expectDamage(rank, "the header of a message of rank 0 ");
      }
    });
    EXPECT_EQ(bitOfNextHeader, kNoBit) << "no message went";
    EXPECT_EQ(countInLog(" is damaged") - saidBefore, 1);
  }
}

TEST_F(NcclDamage, OfAFramesHeaderIsAnErrorOfItsReader) {
  for (int repeat = 0; repeat < 25; ++repeat) {
    const std::uint64_t seed = random_();
    const std::uint64_t bit = random_.below(8 * codec::kHeaderBytes);
    SCOPED_TRACE("bit " + std::to_string(bit));
    onTwoRanks([&](NcclRank& rank) {
      if (rank.rank == 1) plant(rank, bit);
      sendOne(rank, seed);
      if (rank.rank == 0) {
        EXPECT_EQ(rank.error(), "");
      } else {
        expectDamage(rank, "the frame of rank 0 ");
      }
    });
  }
}

/// As where NCCL fails on one rank, others may wait for what that would have sent, until they are
/// told to stop.
TEST_F(NcclDamage, LeavesNobodyInAWaitThatAnAbortDoesNotEnd) {
  constexpr zipcclNcclKind kKinds[] = {zipcclNcclAllGather, zipcclNcclAlltoAll,
                                       zipcclNcclReduceScatter, zipcclNcclAllReduce};
  for (int repeat = 0; repeat < 12; ++repeat) {
    const NcclTestCall call{.kind = kKinds[repeat % std::size(kKinds)],
                            .content = Content::kRandomBits,
                            .seed = random_()};
    SCOPED_TRACE("kind " + std::to_string(call.kind));
    std::atomic<bool> isFound = false;
    onTwoRanks([&](NcclRank& rank) {
      if (rank.rank == 1) plant(rank, random_.below(8 * codec::kHeaderBytes));
      try {
        run(rank, {call});
      } catch (const Error&) {
        EXPECT_TRUE(rank.communicator->asyncError().has_value());
      }
      while (fakeStreamIsIdle(rank.stream) == 0 && !isFound) {
        if (rank.communicator->asyncError()) isFound = true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      if (rank.rank == 1) {
        const std::string found = awaitError(rank);
        EXPECT_NE(found.find(" is damaged"), std::string::npos) << found;
        isFound = true;
      }
      while (!isFound) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      rank.communicator->abort();
      EXPECT_NE(rank.error(), "");
    });
  }
}

}  // namespace
}  // namespace zipccl::collectives::testing

/// In front of the system's, for what this program links.
extern "C" ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  using namespace zipccl::collectives::testing;
  using Function = ssize_t (*)(int, const msghdr*, int);
  static const auto next = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "sendmsg"));
  if (!beginsMessage(*message)) return next(fd, message, flags);
  const int bit = bitOfNextHeader.exchange(kNoBit);
  if (bit == kNoBit) return next(fd, message, flags);
  std::array<std::byte, sizeof(zipccl::transport::SideMessageHeader)> header;
  std::memcpy(header.data(), message->msg_iov[0].iov_base, header.size());
  header[static_cast<std::size_t>(bit) / 8] ^= std::byte{1} << (bit % 8);
  std::array<iovec, 2> parts = {iovec{header.data(), header.size()}, message->msg_iov[1]};
  msghdr damaged = *message;
  damaged.msg_iov = parts.data();
  return next(fd, &damaged, flags);
}
