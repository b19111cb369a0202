// SPDX-License-Identifier: Apache-2.0
//
// The side channel between channels of one process, and against ends that are played by hand:
// strangers, peers that die, peers that break the protocol. All over loopback.

#include "transport/side_channel.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.hpp"
#include "support/sanitized.hpp"
#include "support/seeded_test.hpp"
#include "transport/side_wire.hpp"
#include "transport/tcp_socket.hpp"

namespace zipccl::transport {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using Bytes = std::shared_ptr<const std::vector<std::byte>>;

/// How long a machine under load may take for what ought to happen.
constexpr auto kPatience = 100s;

Bytes randomBytes(Random& random, std::uint64_t byteCount) {
  auto bytes = std::make_shared<std::vector<std::byte>>(byteCount);
  random.fill(*bytes);
  return bytes;
}

/// Mostly short, now and then some megabytes.
std::uint64_t randomByteCount(Random& random) {
  const std::uint64_t kind = random.below(10);
  if (kind == 0) return 0;
  if (kind < 5) return random.below(200);
  if (kind < 9) return random.below(std::uint64_t{100} << 10);
  return random.below(std::uint64_t{3} << 20);
}

/// The channels of all ranks in one process, which know each other.
class Mesh {
 public:
  explicit Mesh(int rankCount, const SideLimits& limits = {}) {
    for (int rank = 0; rank < rankCount; ++rank) {
      channels_.push_back(std::make_unique<SideChannel>(rank, rankCount, limits));
    }
    for (const auto& channel : channels_) channel->setPeers(addresses());
  }

  [[nodiscard]] SideChannel& operator[](int rank) {
    return *channels_[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] std::vector<SideAddress> addresses() const {
    std::vector<SideAddress> all;
    for (const auto& channel : channels_) all.push_back(channel->address());
    return all;
  }
  void destroy(int rank) { channels_[static_cast<std::size_t>(rank)].reset(); }

  /// Makes progress with all that are there until `isDone`; false when that takes too long.
  [[nodiscard]] bool driveUntil(const std::function<bool()>& isDone) {
    const auto end = Clock::now() + kPatience;
    while (!isDone()) {
      bool hasMoved = false;
      for (const auto& channel : channels_) {
        if (channel != nullptr) hasMoved = channel->progress() || hasMoved;
      }
      if (Clock::now() > end) return false;
      if (!hasMoved) std::this_thread::sleep_for(50us);
    }
    return true;
  }

  /// Until `to` has a message of `from`.
  [[nodiscard]] std::optional<SideMessage> await(int to, int from) {
    std::optional<SideMessage> message;
    EXPECT_TRUE(driveUntil([&] {
      message = (*this)[to].receive(from);
      return message.has_value();
    })) << "no message";
    return message;
  }

 private:
  std::vector<std::unique_ptr<SideChannel>> channels_;
};

class SideChannelTest : public zipccl::testing::SeededTest {
 protected:
  SideChannelTest() {
    ::setenv("NCCL_SOCKET_IFNAME", "=lo", 1);
    ::unsetenv("NCCL_SOCKET_FAMILY");
  }
  ~SideChannelTest() override { ::unsetenv("NCCL_SOCKET_IFNAME"); }

  /// One message each way, whole and right.
  void expectWorks(Mesh& mesh, int one, int other) {
    for (const auto& [from, to] : {std::pair(one, other), std::pair(other, one)}) {
      const Bytes bytes = randomBytes(random_, 1 + random_.below(5000));
      const SideTag tag{random_(), random_()};
      mesh[from].send(to, tag, bytes);
      const std::optional<SideMessage> message = mesh.await(to, from);
      ASSERT_TRUE(message.has_value());
      EXPECT_EQ(message->tag, tag);
      EXPECT_TRUE(message->bytes == *bytes);
    }
  }
};

void expectMentions(const Error& error, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(error.message().find(word), std::string::npos)
        << "\"" << word << "\" is not in: " << error.message();
  }
}

/// What `work` throws.
template <class Work>
std::optional<Error> errorOf(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// What progress() throws, in the end.
std::optional<Error> errorOfProgress(SideChannel& channel) {
  return errorOf([&] {
    for (const auto end = Clock::now() + kPatience; Clock::now() < end;) {
      if (!channel.progress()) channel.waitBriefly(1ms);
    }
  });
}

// ------------------------------------------------------------------- ends that are played by hand

IpAddress ipOf(const SideAddress& address) { return {address.family, address.bytes, 0}; }

UniqueFd connectTo(const SideAddress& address) {
  UniqueFd fd = openSocket(address.family);
  const int error = startConnect(fd.get(), ipOf(address), address.port);
  EXPECT_TRUE(error == 0 || error == EINPROGRESS) << error;
  const auto end = Clock::now() + kPatience;
  sockaddr_storage peer{};
  for (;;) {
    socklen_t bytes = sizeof(peer);
    if (::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &bytes) == 0) return fd;
    if (Clock::now() > end) break;
    std::this_thread::sleep_for(100us);
  }
  ADD_FAILURE() << "cannot connect";
  return fd;
}

template <class T>
std::span<const std::byte> bytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// For few bytes, for which there is room.
void write(const UniqueFd& fd, std::span<const std::byte> bytes) {
  EXPECT_EQ(sendSome(fd.get(), bytes).bytes, bytes.size());
}

/// Closing resets the connection instead of ending it.
void resetOnClose(const UniqueFd& fd) {
  const linger now{1, 0};
  EXPECT_EQ(::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
}

bool hasEnded(const UniqueFd& fd) {
  std::array<std::byte, 256> bytes{};
  for (;;) {
    const Transfer transfer = receiveSome(fd.get(), bytes);
    if (transfer.state == Transfer::State::kBlocked) return false;
    if (transfer.state != Transfer::State::kMoved) return true;
  }
}

SideHello helloFrom(int rank, const SideAddress& to) {
  SideHello hello;
  hello.rank = rank;
  hello.token = to.token;
  return hello;
}

/// A channel of rank 0 of two ranks, and the other end of its connections, played by hand.
class Duel {
 public:
  explicit Duel(const SideLimits& limits = {}) : channel(0, 2, limits) {
    address = channel.address();
    address.token ^= 0x1234;
    listener = openListener(ipOf(address), address.port);
    channel.setPeers({channel.address(), address});
  }

  /// Waits, with progress, for `bytes` bytes.
  template <class T>
  [[nodiscard]] T read(const UniqueFd& fd) {
    T value;
    const auto into = std::as_writable_bytes(std::span(&value, 1));
    std::size_t byteCount = 0;
    EXPECT_TRUE(driveUntil([&] {
      byteCount += receiveSome(fd.get(), into.subspan(byteCount)).bytes;
      return byteCount == sizeof(T);
    }));
    return value;
  }

  /// Connects as rank 1 and is welcomed.
  [[nodiscard]] UniqueFd connect() {
    UniqueFd fd = connectTo(channel.address());
    write(fd, bytesOf(helloFrom(1, channel.address())));
    SideWelcome expected;
    expected.token = address.token;
    EXPECT_EQ(read<SideWelcome>(fd), expected);
    return fd;
  }

  /// Accepts the next connection and reads its hello.
  [[nodiscard]] UniqueFd accept() {
    UniqueFd fd;
    EXPECT_TRUE(driveUntil([&] {
      fd = acceptOne(listener.get());
      return fd.isOpen();
    }));
    EXPECT_EQ(read<SideHello>(fd), helloFrom(0, address));
    return fd;
  }

  void welcome(const UniqueFd& fd) {
    SideWelcome welcome;
    welcome.rank = 1;
    welcome.token = channel.address().token;
    write(fd, bytesOf(welcome));
  }

  [[nodiscard]] bool driveUntil(const std::function<bool()>& isDone) {
    for (const auto end = Clock::now() + kPatience; Clock::now() < end;) {
      channel.progress();
      if (isDone()) return true;
      channel.waitBriefly(100us);
    }
    return false;
  }

  SideChannel channel;
  SideAddress address;  ///< of rank 1
  UniqueFd listener;    ///< of rank 1
};

// ------------------------------------------------------------------------------- what ought to be

TEST_F(SideChannelTest, AddressesAreOnesOwn) {
  static_assert(std::is_trivially_copyable_v<SideAddress> && sizeof(SideAddress) <= 64);
  EXPECT_FALSE(SideAddress().isPresent());
  const SideChannel one(0, 2);
  const SideChannel other(1, 2);
  EXPECT_TRUE(one.address().isPresent());
  EXPECT_NE(one.address().port, other.address().port);
  EXPECT_NE(one.address().token, other.address().token);
  EXPECT_NE(one.address().token, 0u);
  EXPECT_TRUE(ipOf(one.address()).isLoopback());
}

/// What all ranks are to send, and have received so far.
class Traffic {
 public:
  Traffic(int rankCount, Random& random) : rankCount_(rankCount) {
    for (int from = 0; from < rankCount; ++from) {
      for (int to = 0; to < rankCount; ++to) {
        if (from == to) continue;
        const std::uint64_t count = random.below(zipccl::testing::kIsSanitized ? 4 : 10);
        for (std::uint64_t i = 0; i < count; ++i) {
          order_.emplace_back(from, to);
          messages_[{from, to}].push_back(
              {SideTag{random(), i}, randomBytes(random, randomByteCount(random))});
        }
      }
    }
    std::shuffle(order_.begin(), order_.end(), random);
  }

  [[nodiscard]] bool isAllSent() const { return sentCount_ == order_.size(); }
  [[nodiscard]] bool isAllReceived() const { return receivedCount_ == order_.size(); }

  void sendNext(Mesh& mesh) {
    const std::pair<int, int> pair = order_[sentCount_++];
    const Planned& planned = messages_[pair][sent_[pair]++];
    mesh[pair.first].send(pair.second, planned.tag, planned.bytes);
  }

  void receiveAll(Mesh& mesh) {
    for (int from = 0; from < rankCount_; ++from) {
      for (int to = 0; to < rankCount_; ++to) {
        while (from != to) {
          const std::optional<SideMessage> message = mesh[to].receive(from);
          if (!message) break;
          check({from, to}, *message);
        }
      }
    }
  }

  /// Whether nobody else keeps the bytes.
  [[nodiscard]] bool isReleased() const {
    return std::all_of(messages_.begin(), messages_.end(), [](const auto& pair) {
      return std::all_of(pair.second.begin(), pair.second.end(),
                         [](const Planned& planned) { return planned.bytes.use_count() == 1; });
    });
  }

 private:
  struct Planned {
    SideTag tag;
    Bytes bytes;
  };

  void check(std::pair<int, int> pair, const SideMessage& message) {
    SCOPED_TRACE(::testing::Message() << "from " << pair.first << " to " << pair.second);
    const std::size_t place = received_[pair]++;
    ASSERT_LT(place, sent_[pair]) << "a message that nobody sent";
    EXPECT_EQ(message.tag, messages_[pair][place].tag);
    EXPECT_TRUE(message.bytes == *messages_[pair][place].bytes);
    ++receivedCount_;
  }

  int rankCount_;
  std::vector<std::pair<int, int>> order_;
  std::map<std::pair<int, int>, std::vector<Planned>> messages_;
  std::map<std::pair<int, int>, std::size_t> sent_;
  std::map<std::pair<int, int>, std::size_t> received_;
  std::size_t sentCount_ = 0;
  std::size_t receivedCount_ = 0;
};

TEST_F(SideChannelTest, AllPairsKeepOrderAndBits) {
  for (int rankCount = 1; rankCount <= 8; ++rankCount) {
    SCOPED_TRACE(::testing::Message() << rankCount << " ranks");
    Traffic traffic(rankCount, random_);
    Mesh mesh(rankCount);
    ASSERT_TRUE(mesh.driveUntil([&] {
      for (std::uint64_t i = random_.below(10); i > 0 && !traffic.isAllSent(); --i) {
        traffic.sendNext(mesh);
      }
      if (random_.chance(0.5)) traffic.receiveAll(mesh);
      return traffic.isAllSent() && traffic.isAllReceived();
    }));
    for (int rank = 0; rank < rankCount; ++rank) {
      EXPECT_FALSE(mesh[rank].hasUnsent());
      EXPECT_FALSE(mesh[rank].progress());
    }
    traffic.receiveAll(mesh);
    EXPECT_TRUE(traffic.isAllReceived()) << "more came than was sent";
    EXPECT_TRUE(traffic.isReleased());
  }
}

TEST_F(SideChannelTest, RanksAsThreadsVerifySendAndLeave) {
  constexpr int kRankCount = 6;
  constexpr std::uint64_t kMessageCount = 12;
  const std::uint64_t seed = random_();
  const auto planned = [&](int from, int to, std::uint64_t number) {
    Random random(seed, static_cast<std::uint64_t>(from * 64 + to) * 1000 + number);
    return randomBytes(random, randomByteCount(random));
  };
  std::vector<std::unique_ptr<SideChannel>> channels;
  std::vector<SideAddress> addresses;
  for (int rank = 0; rank < kRankCount; ++rank) {
    channels.push_back(std::make_unique<SideChannel>(rank, kRankCount));
    addresses.push_back(channels.back()->address());
  }
  const auto run = [&](int rank) {
    std::unique_ptr<SideChannel> channel = std::move(channels[static_cast<std::size_t>(rank)]);
    Random random(seed, static_cast<std::uint64_t>(rank));
    std::this_thread::sleep_for(std::chrono::milliseconds(random.below(100)));
    channel->setPeers(addresses);
    channel->verify(Clock::now() + kPatience);
    std::vector<std::uint64_t> received(kRankCount);
    const auto end = Clock::now() + kPatience;
    std::uint64_t sent = 0;
    std::uint64_t waiting = kMessageCount * (kRankCount - 1);
    while (sent < kMessageCount || waiting > 0) {
      for (int peer = 0; sent < kMessageCount && peer < kRankCount; ++peer) {
        if (peer != rank) channel->send(peer, {seed, sent}, planned(rank, peer, sent));
      }
      sent = std::min(sent + 1, kMessageCount);
      if (!channel->progress()) channel->waitBriefly(1ms);
      for (int peer = 0; peer < kRankCount; ++peer) {
        if (peer == rank) continue;
        while (const std::optional<SideMessage> message = channel->receive(peer)) {
          const std::uint64_t number = received[static_cast<std::size_t>(peer)]++;
          EXPECT_EQ(message->tag, (SideTag{seed, number}));
          EXPECT_TRUE(message->bytes == *planned(peer, rank, number));
          --waiting;
        }
      }
      ASSERT_LT(Clock::now(), end);
    }
    EXPECT_TRUE(channel->flush(Clock::now() + kPatience));
    // Leaves while others are still at work: what it sent must arrive.
    channel.reset();
  };
  std::vector<std::optional<Error>> errors(kRankCount);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRankCount; ++rank) {
    threads.emplace_back(
        [&, rank] { errors[static_cast<std::size_t>(rank)] = errorOf([&] { run(rank); }); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::optional<Error>& error : errors) EXPECT_FALSE(error) << error->what();
}

TEST_F(SideChannelTest, SixtyFourChannelsInOneProcess) {
  constexpr int kRankCount = 64;
  Mesh mesh(kRankCount);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRankCount; ++rank) {
    threads.emplace_back([&mesh, rank] {
      const std::optional<Error> error =
          errorOf([&] { mesh[rank].verify(Clock::now() + kPatience); });
      EXPECT_FALSE(error) << error->what();
    });
  }
  for (std::thread& thread : threads) thread.join();
  // One who hears from all, one who tells all, and pairs at random.
  for (int rank = 1; rank < kRankCount; ++rank) expectWorks(mesh, 0, rank);
  for (int i = 0; i < 200; ++i) {
    const int one = static_cast<int>(random_.below(kRankCount));
    const int other = static_cast<int>(random_.below(kRankCount));
    if (one != other) expectWorks(mesh, one, other);
  }
}

TEST_F(SideChannelTest, SeveralPeersShareBytes) {
  Mesh mesh(4);
  const Bytes bytes = randomBytes(random_, std::uint64_t{2} << 20);
  for (int peer = 1; peer < 4; ++peer) mesh[0].send(peer, {1, 2}, bytes);
  EXPECT_EQ(bytes.use_count(), 4);
  for (int peer = 1; peer < 4; ++peer) {
    const std::optional<SideMessage> message = mesh.await(peer, 0);
    ASSERT_TRUE(message.has_value());
    EXPECT_TRUE(message->bytes == *bytes);
  }
  EXPECT_EQ(bytes.use_count(), 1);
}

TEST_F(SideChannelTest, FlushWaitsForThePeerAndNoLonger) {
  Mesh mesh(2);
  const Bytes bytes = randomBytes(random_, 100);
  EXPECT_TRUE(mesh[0].flush(Clock::now()));
  mesh[0].send(1, {}, bytes);
  EXPECT_TRUE(mesh[0].hasUnsent());
  EXPECT_FALSE(mesh[0].flush(Clock::now() + 20ms)) << "the peer has not even looked";
  EXPECT_TRUE(mesh[0].hasUnsent());
  std::thread peer([&] {
    while (!mesh[1].receive(0)) {
      if (!mesh[1].progress()) mesh[1].waitBriefly(1ms);
    }
  });
  EXPECT_TRUE(mesh[0].flush(Clock::now() + kPatience));
  EXPECT_FALSE(mesh[0].hasUnsent());
  peer.join();
}

TEST_F(SideChannelTest, WaitBrieflyEndsWhenSomethingComes) {
  Mesh mesh(2);
  expectWorks(mesh, 0, 1);
  const auto start = Clock::now();
  mesh[1].waitBriefly(3ms);
  EXPECT_GE(Clock::now() - start, 3ms) << "there was nothing";
  mesh[0].send(1, {}, randomBytes(random_, 10));
  mesh[0].progress();
  mesh[1].waitBriefly(std::chrono::hours(1));
  mesh[1].progress();
  EXPECT_TRUE(mesh[1].receive(0).has_value());
}

TEST_F(SideChannelTest, HoldsWhatIsNotTakenWithinABound) {
  constexpr std::uint64_t kMessageBytes = std::uint64_t{256} << 10;
  constexpr int kMessageCount = 100;
  SideLimits limits;
  limits.maxHeldBytes = std::uint64_t{1} << 20;
  Mesh mesh(2, limits);
  std::vector<Bytes> sent;
  for (int i = 0; i < kMessageCount; ++i) {
    sent.push_back(randomBytes(random_, kMessageBytes));
    mesh[0].send(1, {0, static_cast<std::uint64_t>(i)}, sent.back());
  }
  int quietRounds = 0;
  ASSERT_TRUE(mesh.driveUntil([&] {
    const bool hasMoved = mesh[0].progress() || mesh[1].progress();
    quietRounds = hasMoved ? 0 : quietRounds + 1;
    return quietRounds == 200;
  }));
  int heldCount = 0;
  int receivedCount = 0;
  const auto take = [&] {
    const std::optional<SideMessage> message = mesh[1].receive(0);
    if (!message) return false;
    EXPECT_EQ(message->tag.chunk, static_cast<std::uint64_t>(receivedCount));
    EXPECT_TRUE(message->bytes == *sent[static_cast<std::size_t>(receivedCount)]);
    ++receivedCount;
    return true;
  };
  while (take()) ++heldCount;
  EXPECT_GE(heldCount, 1);
  EXPECT_LE(heldCount, 4);
  ASSERT_TRUE(mesh.driveUntil([&] {
    take();
    return receivedCount == kMessageCount;
  }));
}

TEST_F(SideChannelTest, AMessageMayBeLongerThanWhatIsHeld) {
  SideLimits limits;
  limits.maxHeldBytes = random_.below(2);
  Mesh mesh(2, limits);
  for (int i = 0; i < 3; ++i) expectWorks(mesh, 0, 1);
  const Bytes bytes = randomBytes(random_, std::uint64_t{5} << 20);
  mesh[0].send(1, {}, bytes);
  const std::optional<SideMessage> message = mesh.await(1, 0);
  ASSERT_TRUE(message.has_value());
  EXPECT_TRUE(message->bytes == *bytes);
}

TEST_F(SideChannelTest, WrongArgumentsAreRefused) {
  const auto codeOf = [](auto work) {
    const std::optional<Error> error = errorOf(work);
    return error ? error->code() : ErrorCode::kSuccess;
  };
  EXPECT_EQ(codeOf([] { SideChannel(-1, 2); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeOf([] { SideChannel(2, 2); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeOf([] { SideChannel(0, 0); }), ErrorCode::kInvalidArgument);

  SideLimits limits;
  limits.maxMessageBytes = 1000;
  SideChannel zero(0, 2, limits);
  const SideChannel one(1, 2);
  const Bytes bytes = randomBytes(random_, 1000);
  EXPECT_EQ(codeOf([&] { zero.send(1, {}, bytes); }), ErrorCode::kInvalidUsage);
  EXPECT_FALSE(zero.progress());
  EXPECT_EQ(codeOf([&] { zero.setPeers({zero.address()}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeOf([&] { zero.setPeers({zero.address(), {}}); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeOf([&] {
              zero.setPeers({one.address(), zero.address()});
            }),
            ErrorCode::kInvalidArgument);
  zero.setPeers({zero.address(), one.address()});
  EXPECT_EQ(codeOf([&] {
              zero.setPeers({zero.address(), one.address()});
            }),
            ErrorCode::kInvalidUsage);
  for (const int peer : {-1, 0, 2}) {
    EXPECT_EQ(codeOf([&] { zero.send(peer, {}, bytes); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(codeOf([&] { static_cast<void>(zero.receive(peer)); }), ErrorCode::kInvalidArgument);
    EXPECT_EQ(codeOf([&] { static_cast<void>(zero.isClosed(peer)); }), ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(codeOf([&] { zero.send(1, {}, nullptr); }), ErrorCode::kInvalidArgument);
  EXPECT_EQ(codeOf([&] { zero.send(1, {}, randomBytes(random_, 1001)); }),
            ErrorCode::kInvalidArgument);
  EXPECT_FALSE(zero.hasUnsent());
  EXPECT_EQ(codeOf([&] { zero.send(1, {}, bytes); }), ErrorCode::kSuccess);
}

TEST_F(SideChannelTest, OneRankAloneIsVerified) {
  SideChannel channel(0, 1);
  channel.setPeers({channel.address()});
  channel.verify(Clock::now());
  EXPECT_FALSE(channel.progress());
}

TEST_F(SideChannelTest, OverIpv6) {
  ::setenv("NCCL_SOCKET_FAMILY", "AF_INET6", 1);
  ::unsetenv("NCCL_SOCKET_IFNAME");
  const std::vector<NetworkInterface> interfaces = listNetworkInterfaces();
  if (errorOf([&] { static_cast<void>(chooseNetworkInterface(interfaces, readSocketRules())); })) {
    GTEST_SKIP() << "no interface has an address of IPv6 beside loopback";
  }
  Mesh mesh(2);
  ::unsetenv("NCCL_SOCKET_FAMILY");
  EXPECT_EQ(mesh[0].address().family, AF_INET6);
  expectWorks(mesh, 0, 1);
}

// -------------------------------------------------------------------------------------- strangers

TEST_F(SideChannelTest, StrangersDoNoHarm) {
  Mesh mesh(2);
  const SideAddress& address = mesh[0].address();
  std::vector<UniqueFd> strangers;
  const auto connectWith = [&](std::span<const std::byte> bytes) {
    strangers.push_back(connectTo(address));
    if (!bytes.empty()) write(strangers.back(), bytes);
  };
  // Noise of any length that is at least a hello's.
  for (int i = 0; i < 20; ++i) {
    connectWith(*randomBytes(random_, sizeof(SideHello) + random_.below(3000)));
  }
  // A hello with one thing wrong.
  for (int i = 0; i < 6; ++i) {
    SideHello hello = helloFrom(1, address);
    if (i == 0) hello.magic ^= 1;
    if (i == 1) hello.version += 1;
    if (i == 2) hello.token ^= std::uint64_t{1} << random_.below(64);
    if (i == 3) hello.rank = 0;
    if (i == 4) hello.rank = 2;
    if (i == 5) hello.rank = -1;
    connectWith(bytesOf(hello));
  }
  EXPECT_TRUE(
      mesh.driveUntil([&] { return std::all_of(strangers.begin(), strangers.end(), hasEnded); }));
  // Half a hello and then the end, in order or not.
  for (const bool isReset : {false, true}) {
    const UniqueFd fd = connectTo(address);
    write(fd, bytesOf(helloFrom(1, address)).first(1 + random_.below(sizeof(SideHello) - 1)));
    if (isReset) resetOnClose(fd);
  }
  // Others hold on to their connections.
  const UniqueFd silent = connectTo(address);
  const UniqueFd half = connectTo(address);
  write(half, bytesOf(helloFrom(1, address)).first(11));
  expectWorks(mesh, 0, 1);
  EXPECT_FALSE(mesh[0].isClosed(1));
}

TEST_F(SideChannelTest, SilentStrangersAreDismissed) {
  SideLimits limits;
  limits.hello = 50ms;
  Mesh mesh(2, limits);
  const UniqueFd silent = connectTo(mesh[0].address());
  const UniqueFd half = connectTo(mesh[0].address());
  write(half, bytesOf(helloFrom(1, mesh[0].address())).first(23));
  EXPECT_TRUE(mesh.driveUntil([&] { return hasEnded(silent) && hasEnded(half); }));
  expectWorks(mesh, 0, 1);
}

TEST_F(SideChannelTest, ACrowdOfStrangersMakesRoom) {
  Mesh mesh(2);
  std::vector<UniqueFd> crowd;
  for (int i = 0; i < 150; ++i) {
    crowd.push_back(connectTo(mesh[0].address()));
    mesh[0].progress();
  }
  const auto endedCount = [&] { return std::count_if(crowd.begin(), crowd.end(), hasEnded); };
  EXPECT_TRUE(mesh.driveUntil([&] { return endedCount() >= 150 - 66; }));
  EXPECT_EQ(endedCount(), 150 - 66) << "64 more than there are ranks may stay";
  EXPECT_TRUE(hasEnded(crowd.front()));
  EXPECT_FALSE(hasEnded(crowd.back()));
  expectWorks(mesh, 0, 1);
}

TEST_F(SideChannelTest, ASecondConnectionOfARankIsRefusedOnceTheFirstIsUsed) {
  Duel duel;
  const UniqueFd unused = duel.connect();
  const UniqueFd first = duel.connect();
  EXPECT_TRUE(duel.driveUntil([&] { return hasEnded(unused); })) << "replaced";
  write(first, bytesOf(sealedHeader(0, 1, 2)));
  std::optional<SideMessage> message;
  ASSERT_TRUE(duel.driveUntil([&] { return (message = duel.channel.receive(1)).has_value(); }));
  EXPECT_EQ(message->tag, (SideTag{1, 2}));
  const UniqueFd second = connectTo(duel.channel.address());
  write(second, bytesOf(helloFrom(1, duel.channel.address())));
  EXPECT_TRUE(duel.driveUntil([&] { return hasEnded(second); }));
  write(first, bytesOf(sealedHeader(0, 3, 4)));
  ASSERT_TRUE(duel.driveUntil([&] { return (message = duel.channel.receive(1)).has_value(); }));
  EXPECT_EQ(message->tag, (SideTag{3, 4}));
}

// -------------------------------------------------------------------- connections that end or
// break

TEST_F(SideChannelTest, APeerThatLeavesInOrderIsClosedOnceAllIsReceived) {
  Mesh mesh(3);
  expectWorks(mesh, 0, 1);
  expectWorks(mesh, 1, 2);
  const Bytes bytes = randomBytes(random_, 300000);
  mesh[1].send(0, {7, 8}, bytes);
  ASSERT_TRUE(mesh.driveUntil([&] { return !mesh[1].hasUnsent(); }));
  mesh.destroy(1);
  EXPECT_FALSE(mesh[0].isClosed(1)) << "a message has not been received";
  const std::optional<SideMessage> message = mesh.await(0, 1);
  ASSERT_TRUE(message.has_value());
  EXPECT_TRUE(message->bytes == *bytes);
  EXPECT_TRUE(mesh.driveUntil([&] { return mesh[0].isClosed(1) && mesh[2].isClosed(1); }));
  EXPECT_FALSE(mesh[0].receive(1).has_value());
  EXPECT_FALSE(mesh[0].isClosed(2)) << "it has never connected";
  expectWorks(mesh, 0, 2);
}

TEST_F(SideChannelTest, AnEndInsideAMessageIsAnError) {
  for (const bool isReset : {false, true}) {
    for (const std::size_t byteCount :
         {std::size_t{1}, sizeof(SideMessageHeader) - 1, sizeof(SideMessageHeader),
          sizeof(SideMessageHeader) + 1 + random_.below(998), sizeof(SideMessageHeader) + 999}) {
      SCOPED_TRACE(::testing::Message() << byteCount << " bytes, " << isReset);
      Duel duel;
      UniqueFd fd = duel.connect();
      std::vector<std::byte> bytes(sizeof(SideMessageHeader) + 1000);
      std::memcpy(bytes.data(), bytesOf(sealedHeader(1000, 1, 1)).data(),
                  sizeof(SideMessageHeader));
      write(fd, bytesOf(sealedHeader(0, 5, 6)));
      write(fd, std::span(bytes).first(byteCount));
      // A reset may overtake what has not been read.
      std::optional<SideMessage> message;
      ASSERT_TRUE(duel.driveUntil([&] { return (message = duel.channel.receive(1)).has_value(); }));
      for (int i = 0; i < 10; ++i) duel.channel.progress();
      if (isReset) resetOnClose(fd);
      fd.reset();
      const std::optional<Error> error = errorOfProgress(duel.channel);
      ASSERT_TRUE(error.has_value());
      EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
      expectMentions(*error, {"rank 1 at 127.0.0.1:" + std::to_string(duel.address.port), "rank 0",
                              "in the middle of a message"});
      // It sticks.
      const std::optional<Error> again = errorOf([&] { duel.channel.progress(); });
      ASSERT_TRUE(again.has_value());
      EXPECT_EQ(again->message(), error->message());
      EXPECT_TRUE(errorOf([&] { duel.channel.send(1, {}, randomBytes(random_, 1)); }).has_value());
      EXPECT_FALSE(duel.channel.receive(1).has_value());
    }
  }
}

TEST_F(SideChannelTest, AMessageBeyondTheLimitIsAnErrorBeforeItIsRead) {
  SideLimits limits;
  limits.maxMessageBytes = 5000;
  Duel duel(limits);
  const UniqueFd fd = duel.connect();
  write(fd, bytesOf(sealedHeader(5001, 0, 0)));
  const std::optional<Error> error = errorOfProgress(duel.channel);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
  expectMentions(*error, {"rank 1", "5001 bytes", "5000 bytes"});
}

TEST_F(SideChannelTest, ADamagedHeaderIsAnError) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    Duel duel;
    const UniqueFd fd = duel.connect();
    const SideMessageHeader header = sealedHeader(random_.below(5000), random_(), random_());
    std::vector<std::byte> bytes(sizeof(header));
    std::memcpy(bytes.data(), &header, sizeof(header));
    const std::uint64_t bit = random_.below(8 * sizeof(header));
    bytes[bit / 8] ^= std::byte{1} << (bit % 8);
    write(fd, bytes);
    const std::optional<Error> error = errorOfProgress(duel.channel);
    ASSERT_TRUE(error.has_value()) << "bit " << bit;
    EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
    expectMentions(*error, {"rank 1", "header", "damaged"});
    EXPECT_FALSE(duel.channel.receive(1).has_value());
  }
}

TEST_F(SideChannelTest, MemoryGrowsWithWhatComesNotWithWhatIsAnnounced) {
  SideLimits limits;
  limits.maxMessageBytes = ~std::uint64_t{0};
  Duel duel(limits);
  UniqueFd fd = duel.connect();
  write(fd, bytesOf(sealedHeader(std::uint64_t{1} << 60, 0, 0)));
  write(fd, *randomBytes(random_, 1000));
  for (int i = 0; i < 100; ++i) duel.channel.progress();
  fd.reset();
  const std::optional<Error> error = errorOfProgress(duel.channel);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
}

TEST_F(SideChannelTest, APeerThatIsGoneWithMessagesUnsentIsAnError) {
  Mesh mesh(3);
  expectWorks(mesh, 0, 1);
  mesh[0].send(1, {}, randomBytes(random_, std::uint64_t{64} << 20));
  for (int i = 0; i < 20; ++i) mesh[0].progress();
  if (!mesh[0].hasUnsent()) GTEST_SKIP() << "this system takes 64 MiB at once";
  mesh.destroy(1);
  const std::optional<Error> error = errorOfProgress(mesh[0]);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
  expectMentions(*error, {"rank 1 at 127.0.0.1:", "is gone", "rank 0"});
  const std::optional<Error> again = errorOf([&] { mesh[0].send(2, {}, randomBytes(random_, 1)); });
  ASSERT_TRUE(again.has_value());
  EXPECT_EQ(again->message(), error->message());
}

TEST_F(SideChannelTest, WritingToAConnectionThatIsGoneRaisesNoSignal) {
  std::uint16_t port = 0;
  SideAddress address = SideChannel(0, 1).address();
  const UniqueFd listener = openListener(ipOf(address), port);
  address.port = port;
  const UniqueFd fd = connectTo(address);
  UniqueFd other;
  const auto end = Clock::now() + kPatience;
  while (!other.isOpen() && Clock::now() < end) other = acceptOne(listener.get());
  resetOnClose(other);
  other.reset();
  // The first finds the reset, the second writes to a connection that is known to be gone.
  for (int i = 0; i < 2; ++i) {
    Transfer transfer;
    while (transfer.state != Transfer::State::kBroken && Clock::now() < end) {
      transfer = sendSome(fd.get(), bytesOf(address));
    }
    EXPECT_EQ(transfer.state, Transfer::State::kBroken);
  }
}

TEST_F(SideChannelTest, APeerThatIsGoneIsAnErrorOnlyForWhoSends) {
  Mesh mesh(2);
  expectWorks(mesh, 0, 1);
  mesh.destroy(1);
  ASSERT_TRUE(mesh.driveUntil([&] { return mesh[0].isClosed(1); }));
  for (int i = 0; i < 100; ++i) {
    mesh[0].progress();
    std::this_thread::sleep_for(100us);
  }
  const std::optional<Error> error = errorOf([&] {
    for (const auto end = Clock::now() + kPatience; Clock::now() < end;) {
      mesh[0].send(1, {}, randomBytes(random_, 1));
      mesh[0].progress();
    }
  });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
  expectMentions(*error, {"rank 1", "is gone"});
}

TEST_F(SideChannelTest, AReceiverThatTalksBreaksTheProtocol) {
  Duel duel;
  duel.channel.send(1, {}, randomBytes(random_, 10));
  const UniqueFd fd = duel.accept();
  duel.welcome(fd);
  const SideMessageHeader header = duel.read<SideMessageHeader>(fd);
  EXPECT_EQ(header.bytes, 10u);
  write(fd, bytesOf(header));
  const std::optional<Error> error = errorOfProgress(duel.channel);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
  expectMentions(*error, {"rank 1", "protocol"});
}

// ------------------------------------------------------------------------------------- connecting

TEST_F(SideChannelTest, ARefusedConnectIsTriedAgain) {
  Duel duel;
  duel.listener.reset();
  const Bytes bytes = randomBytes(random_, 77);
  duel.channel.send(1, {}, bytes);
  for (const auto end = Clock::now() + 100ms; Clock::now() < end;) {
    duel.channel.progress();
    duel.channel.waitBriefly(5ms);
  }
  // The same port again.
  UniqueFd listener = openSocket(duel.address.family);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(duel.address.port);
  std::memcpy(&address.sin_addr, duel.address.bytes.data(), sizeof(address.sin_addr));
  const int yes = 1;
  ASSERT_EQ(::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), 0);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    GTEST_SKIP() << "another program took the port";
  }
  ASSERT_EQ(::listen(listener.get(), 5), 0);
  duel.listener = std::move(listener);
  const UniqueFd fd = duel.accept();
  duel.welcome(fd);
  EXPECT_EQ(duel.read<SideMessageHeader>(fd).bytes, 77u);
  EXPECT_TRUE(duel.driveUntil([&] { return !duel.channel.hasUnsent(); }));
}

TEST_F(SideChannelTest, AConnectionThatEndsBeforeTheWelcomeIsMadeAgain) {
  Duel duel;
  duel.channel.send(1, {}, randomBytes(random_, 77));
  duel.accept().reset();
  {
    const UniqueFd fd = duel.accept();
    resetOnClose(fd);
  }
  {
    const UniqueFd fd = duel.accept();
    SideWelcome half;
    write(fd, bytesOf(half).first(9));
  }
  EXPECT_TRUE(duel.channel.hasUnsent());
  const UniqueFd fd = duel.accept();
  duel.welcome(fd);
  EXPECT_EQ(duel.read<SideMessageHeader>(fd).bytes, 77u);
}

TEST_F(SideChannelTest, NothingIsSentToWhoDoesNotProveThatItIsTheRank) {
  SideLimits limits;
  limits.connect = 300ms;
  Duel duel(limits);
  duel.channel.send(1, {}, randomBytes(random_, 77));
  std::vector<UniqueFd> accepted;
  const std::optional<Error> error = errorOf([&] {
    for (int i = 0;; ++i) {
      accepted.push_back(duel.accept());
      SideWelcome welcome;
      welcome.rank = 1;
      welcome.token = duel.channel.address().token;
      if (i % 4 == 0) welcome.token ^= std::uint64_t{1} << random_.below(64);
      if (i % 4 == 1) welcome.rank = 0;
      if (i % 4 == 2) welcome.version += 1;
      if (i % 4 == 3) welcome.magic = SideHello::kMagic;
      write(accepted.back(), bytesOf(welcome));
    }
  });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
  expectMentions(*error, {"rank 0 at 127.0.0.1:", "rank 1 at 127.0.0.1:", "not that rank",
                          "NCCL_SOCKET_IFNAME"});
  EXPECT_GE(accepted.size(), 2u);
  for (const UniqueFd& fd : accepted) {
    std::byte byte{};
    EXPECT_NE(receiveSome(fd.get(), std::span(&byte, 1)).state, Transfer::State::kMoved);
  }
}

TEST_F(SideChannelTest, APeerThatRefusesForTooLongIsAnError) {
  SideLimits limits;
  limits.connect = 100ms;
  Duel duel(limits);
  duel.listener.reset();
  duel.channel.send(1, {}, randomBytes(random_, 77));
  const auto start = Clock::now();
  const std::optional<Error> error = errorOfProgress(duel.channel);
  EXPECT_GE(Clock::now() - start, 90ms);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
  expectMentions(*error, {"rank 0 at 127.0.0.1:", "rank 1 at 127.0.0.1:", "0.100 s",
                          "Connection refused", "NCCL_SOCKET_IFNAME", "=lo"});
}

TEST_F(SideChannelTest, APeerThatNeverAnswersIsAnErrorInTheEnd) {
  SideLimits limits;
  limits.welcome = 100ms;
  Duel duel(limits);
  duel.channel.send(1, {}, randomBytes(random_, 77));
  const std::optional<Error> error = errorOfProgress(duel.channel);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
  expectMentions(*error, {"rank 1", "does not answer", "0.100 s"});
}

TEST_F(SideChannelTest, VerifyEndsByItsDeadline) {
  Mesh mesh(3);
  const auto start = Clock::now();
  const std::optional<Error> error = errorOf([&] { mesh[0].verify(Clock::now() + 100ms); });
  EXPECT_GE(Clock::now() - start, 100ms);
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
  const auto name = [&](int rank) {
    return "rank " + std::to_string(rank) +
           " at 127.0.0.1:" + std::to_string(mesh[rank].address().port);
  };
  expectMentions(*error, {name(0) + " (lo)", name(1), "does not answer",
                          name(2) + " has not connected", "NCCL_SOCKET_IFNAME", "=lo"});
}

TEST_F(SideChannelTest, VerifyTellsWhyAPeerCannotBeReached) {
  Mesh mesh(2);
  mesh.destroy(1);
  const std::optional<Error> error = errorOf([&] { mesh[0].verify(Clock::now() + 100ms); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ErrorCode::kRemoteError);
  expectMentions(*error, {"cannot reach rank 1", "Connection refused", "NCCL_SOCKET_IFNAME"});
}

TEST_F(SideChannelTest, VerifyFailsOnlyWhereTheRingIsBroken) {
  // Rank 1 has a wrong address of rank 2, so rank 1 and rank 2 fail and rank 0 does not.
  std::vector<std::unique_ptr<SideChannel>> channels;
  std::vector<SideAddress> addresses;
  for (int rank = 0; rank < 3; ++rank) {
    channels.push_back(std::make_unique<SideChannel>(rank, 3));
    addresses.push_back(channels.back()->address());
  }
  std::vector<std::optional<Error>> errors(3);
  std::vector<std::thread> threads;
  std::atomic<bool> isDone = false;
  for (int rank = 0; rank < 3; ++rank) {
    std::vector<SideAddress> known = addresses;
    if (rank == 1) known[2].token ^= 1;
    channels[static_cast<std::size_t>(rank)]->setPeers(known);
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto limit = rank == 0 ? std::chrono::milliseconds(kPatience) : 500ms;
      errors[rank] = errorOf([&] { channels[rank]->verify(Clock::now() + limit); });
      if (rank == 0) isDone = true;
      // Rank 0 may be late, and needs both.
      while (!isDone) {
        static_cast<void>(errorOf([&] { channels[rank]->progress(); }));
        std::this_thread::sleep_for(100us);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_FALSE(errors[0]) << errors[0]->what();
  ASSERT_TRUE(errors[1] && errors[2]);
  expectMentions(*errors[1], {"cannot reach rank 2"});
  expectMentions(*errors[2], {"rank 1", "has not connected"});
}

// ------------------------------------------------------------------- descriptors and other
// processes

std::set<int> openDescriptors() {
  std::set<int> all;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    all.insert(std::stoi(entry.path().filename().string()));
  }
  // Without that of the listing.
  std::erase_if(all, [](int fd) { return ::fcntl(fd, F_GETFD) < 0; });
  return all;
}

TEST_F(SideChannelTest, DescriptorsAreClosedOnExecAndInTheEnd) {
  const std::set<int> before = openDescriptors();
  {
    Mesh mesh(3);
    expectWorks(mesh, 0, 1);
    expectWorks(mesh, 1, 2);
    int newCount = 0;
    for (const int fd : openDescriptors()) {
      if (before.contains(fd)) continue;
      EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0) << fd;
      ++newCount;
    }
    EXPECT_EQ(newCount, 3 * 2 + 4 * 2) << "a listener and a poller a rank, two ends a connection";
  }
  EXPECT_EQ(openDescriptors(), before);
}

/// While one lives, this process gets no descriptor beyond those that it has.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const UniqueFd next(::dup(0));
    const rlimit none{static_cast<rlim_t>(next.get()), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;
  ~NoDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_F(SideChannelTest, LackOfDescriptorsIsAnErrorThatPasses) {
#if defined(__clang__)
  if (zipccl::testing::kIsSanitized)
    GTEST_SKIP() << "Clang's sanitizer looks at objects by a pipe of its own";
#endif
  const auto expectLack = [](const std::optional<Error>& error) {
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code(), ErrorCode::kSystemError);
    expectMentions(*error, {"Too many open files", "ulimit -n"});
  };
  Mesh mesh(2);
  const Bytes bytes = randomBytes(random_, 1000);
  {
    const NoDescriptors none;
    // Listing the interfaces needs one too.
    const std::optional<Error> error = errorOf([] { SideChannel(0, 1); });
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(error->code(), ErrorCode::kSystemError);
    expectMentions(*error, {"Too many open files"});
    mesh[0].send(1, {}, bytes);
    expectLack(errorOf([&] { mesh[0].progress(); }));
  }
  mesh[0].progress();
  {
    const NoDescriptors none;
    const auto end = Clock::now() + kPatience;
    expectLack(errorOf([&] {
      while (Clock::now() < end) mesh[1].progress();
    }));
  }
  const std::optional<SideMessage> message = mesh.await(1, 0);
  ASSERT_TRUE(message.has_value());
  EXPECT_TRUE(message->bytes == *bytes);
}

/// A child that lives until it is told to end.
class Child {
 public:
  /// The child runs `work` first.
  template <class Work>
  explicit Child(Work work) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    UniqueFd readEnd(ends[0]);
    end_ = UniqueFd(ends[1]);
    pid_ = ::fork();
    if (pid_ != 0) return;
    end_.reset();
    work();
    char byte = 0;
    while (::read(readEnd.get(), &byte, 1) < 0 && errno == EINTR) {
    }
    ::_exit(0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  void end() {
    if (!end_.isOpen()) return;
    end_.reset();
    int status = 0;
    EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
    EXPECT_EQ(status, 0);
  }

 private:
  UniqueFd end_;
  pid_t pid_ = 0;
};

TEST_F(SideChannelTest, AForkedChildThatDestroysItsCopyHarmsNobody) {
  if (zipccl::testing::kIsThreadSanitized) GTEST_SKIP() << "it does not like fork()";
  Mesh mesh(2);
  expectWorks(mesh, 0, 1);
  Child child([&] {
    mesh.destroy(0);
    mesh.destroy(1);
  });
  child.end();
  for (int i = 0; i < 3; ++i) expectWorks(mesh, 0, 1);
  EXPECT_FALSE(mesh[0].isClosed(1));
}

TEST_F(SideChannelTest, AnEndIsSeenThoughAForkedChildHasCopies) {
  if (zipccl::testing::kIsThreadSanitized) GTEST_SKIP() << "it does not like fork()";
  Mesh mesh(2);
  expectWorks(mesh, 0, 1);
  const Child child([] {});
  const SideAddress gone = mesh[1].address();
  mesh.destroy(1);
  EXPECT_TRUE(mesh.driveUntil([&] { return mesh[0].isClosed(1); }));
  const UniqueFd fd = openSocket(gone.family);
  const int error = startConnect(fd.get(), ipOf(gone), gone.port);
  EXPECT_EQ(error == EINPROGRESS ? connectResult(fd.get()) : error, ECONNREFUSED)
      << "it still listens";
}

}  // namespace
}  // namespace zipccl::transport
