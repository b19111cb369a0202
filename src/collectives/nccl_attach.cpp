// SPDX-License-Identifier: Apache-2.0
//
// The handshake over NCCL, and the measurement of a profile.

#include "collectives/nccl_attach.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/random.hpp"
#include "base/settings.hpp"
#include "base/text.hpp"
#include "codec/layout.hpp"
#include "collectives/frame_check.hpp"
#include "collectives/handshake.hpp"
#include "collectives/tune_file.hpp"
#include "policy/cost_model.hpp"

namespace zipccl::collectives {
namespace {

using Clock = std::chrono::steady_clock;

/// A round costs NCCL some 25 us besides what its bytes need, and the codec works at the speed of
/// memory, so a few large chunks are best. ZIPCCL_TEST_CHUNKS=4x33554432 is for measurements that
/// show it; it must be equal on all ranks.
policy::OverlapGoal overlapGoal() {
  policy::OverlapGoal goal{.chunks = 4, .chunkBytes = std::uint64_t{32} << 20, .isPipelined = true};
  const char* const text = std::getenv("ZIPCCL_TEST_CHUNKS");
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  if (text != nullptr && std::sscanf(text, "%" SCNu64 "x%" SCNu64, &chunks, &bytes) == 2 &&
      chunks != 0 && bytes != 0) {
    goal.chunks = chunks;
    goal.chunkBytes = bytes;
  }
  return goal;
}

/// The ranks have just left the real init together: who is not here soon never comes.
constexpr std::chrono::milliseconds kLongestHandshake = std::chrono::seconds(60);

/// Exchanges of small records between the ranks of one communicator.
class Control {
 public:
  static constexpr std::uint64_t kMostBytes = 512;

  Control(NcclCommunicator& communicator, std::chrono::milliseconds timeout)
      : communicator_(communicator),
        timeout_(timeout),
        onDevice_(*communicator.device, bytesForAll()),
        onHost_(*communicator.device, bytesForAll()) {}

  /// The records of all ranks, in rank order. Throws Error(kRemoteError) when one does not come.
  template <class Record>
  [[nodiscard]] std::vector<Record> gather(const Record& mine) {
    static_assert(std::is_trivially_copyable_v<Record> && sizeof(Record) <= kMostBytes);
    NcclCommunicator& c = communicator_;
    const transport::StreamHandle stream = c.codecStream.get();
    std::memcpy(onHost_.data(), &mine, sizeof(Record));
    c.device->copy(onDevice_.data(), onHost_.data(), sizeof(Record), stream);
    std::byte* const all = onDevice_.data() + kMostBytes;
    c.link.allGather(onDevice_.data(), all, sizeof(Record), stream);
    const auto ranks = static_cast<std::size_t>(c.rankCount());
    c.device->copy(onHost_.data() + kMostBytes, all, ranks * sizeof(Record), stream);
    await();
    std::vector<Record> records(ranks);
    std::memcpy(records.data(), onHost_.data() + kMostBytes, ranks * sizeof(Record));
    return records;
  }

  /// The largest value of each over the ranks.
  template <std::size_t count>
  [[nodiscard]] std::array<double, count> slowest(const std::array<double, count>& mine) {
    std::array<double, count> most = mine;
    for (const std::array<double, count>& each : gather(mine)) {
      for (std::size_t i = 0; i < count; ++i) most[i] = std::max(most[i], each[i]);
    }
    return most;
  }

  /// Waits for what is on the codec's stream.
  void await() {
    NcclCommunicator& c = communicator_;
    c.device->record(c.encoded.get(), c.codecStream.get());
    c.await(c.encoded.get(), Clock::now() + timeout_);
  }

 private:
  [[nodiscard]] std::uint64_t bytesForAll() const {
    return kMostBytes * (static_cast<std::uint64_t>(communicator_.rankCount()) + 1);
  }

  NcclCommunicator& communicator_;
  std::chrono::milliseconds timeout_;
  transport::DeviceMemory onDevice_;
  transport::SharedMemory onHost_;
};

/// What is measured once for all communicators of a shape.
struct Measured {
  policy::Profile profile;
  std::uint64_t isKnown = 0;
  std::uint64_t isGiven = 0;  ///< by the tune file
};

// -------------------------------------------------------------------------------------------------

/// Sends a few bytes to every other rank and receives as many.
void exchangeWithAll(NcclCommunicator& c, std::byte* memory, std::uint64_t bytes) {
  transport::NcclGroup group(c.link.api());
  for (int step = 1; step < c.rankCount(); ++step) {
    const int to = (c.rank() + step) % c.rankCount();
    const int from = (c.rank() - step + c.rankCount()) % c.rankCount();
    c.link.send(memory, bytes, to, c.codecStream.get());
    c.link.receive(memory + static_cast<std::uint64_t>(step) * bytes, bytes, from,
                   c.codecStream.get());
  }
  const int result = group.end();
  expects(result == transport::kNcclSuccess, transport::errorCodeOf(result),
          "NCCL cannot exchange messages between all ranks");
}

/// To reach every peer costs NCCL memory and time, the more of them there are.
constexpr int kMostPeers = 16;

class Measurement {
 public:
  Measurement(NcclCommunicator& communicator, Control& control)
      : c_(communicator), control_(control), memory_(*communicator.device, memoryBytes()) {}

  [[nodiscard]] Measured run() {
    Measured measured;
    measureCodec(measured);
    measureLink(measured.profile.allGather, false, [&](std::uint64_t bytes) {
      c_.link.allGather(memory_.data(), memory_.data() + bytes, bytes, stream());
    });
    if (c_.rankCount() <= kMostPeers) {
      // A reduction is compressed by exchanges instead of the ways of the all-gather: on a link
      // that is now fast, now slow, that must not look better than it is.
      measureLink(measured.profile.exchange, true,
                  [&](std::uint64_t bytes) { exchangeWithAll(c_, memory_.data(), bytes); });
    }
    measured.isKnown = 1;
    return measured;
  }

 private:
  static constexpr std::uint64_t kSampleElements = std::uint64_t{1} << 22;
  static constexpr std::uint64_t kSampleBytes = 2 * kSampleElements;
  // Up to what a link needs for its full speed, which over TCP is much: what 8 MiB told of 64 was
  // off by a fifth.
  static constexpr std::array<std::uint64_t, 5> kLinkBytes = {1U << 12, 1U << 15, 1U << 19,
                                                              1U << 23, 1U << 25};
  static_assert(kLinkBytes.size() <= policy::LinkProfile::kMaxPoints);
  static constexpr std::uint64_t kMostGatheredBytes = std::uint64_t{128} << 20;
  static constexpr double kLinkBudgetUs = 100'000.0;

  [[nodiscard]] transport::StreamHandle stream() const { return c_.codecStream.get(); }
  [[nodiscard]] std::uint64_t shards() const {
    return static_cast<std::uint64_t>(c_.rankCount()) + 1;
  }
  [[nodiscard]] static std::uint64_t frameBytes() {
    return codec::maxFrameBytes(codec::Datatype::kBfloat16, kSampleElements) / 128 * 128 + 128;
  }
  [[nodiscard]] std::uint64_t memoryBytes() const {
    const std::uint64_t gathered = std::min(shards() * kLinkBytes.back(), kMostGatheredBytes);
    return std::max({2 * kSampleBytes + frameBytes(), gathered, shards() * kLinkBytes[1]});
  }

  /// How often something is timed; equal on all ranks where it takes all ranks.
  struct Repeats {
    int series = 4;
    int times = 4;

    [[nodiscard]] int pieces() const noexcept { return 1 + series * times; }
  };

  struct Time {
    double fastestUs = 0.0;
    double meanUs = 0.0;
    double allUs = 0.0;
  };

  /// One of `repeats.times` pieces of work that are put on the stream together, in the fastest of
  /// the series and on average, and all of them; the first piece, for which much may have to be set
  /// up, is not timed.
  Time time(const Repeats& repeats, const std::function<void()>& work) {
    work();
    control_.await();
    double fastestUs = 0.0;
    double sumUs = 0.0;
    for (int series = 0; series < repeats.series; ++series) {
      const Clock::time_point start = Clock::now();
      for (int i = 0; i < repeats.times; ++i) work();
      control_.await();
      const double us =
          std::chrono::duration<double, std::micro>(Clock::now() - start).count() / repeats.times;
      fastestUs = series == 0 ? us : std::min(fastestUs, us);
      sumUs += us;
    }
    return {std::max(fastestUs, 0.01), std::max(sumUs / repeats.series, 0.01),
            sumUs * repeats.times};
  }

  void fillSample() {
    constexpr std::size_t kDrawn = std::size_t{1} << 16;
    transport::SharedMemory drawn(*c_.device, kDrawn * sizeof(std::uint16_t));
    auto* const values = reinterpret_cast<std::uint16_t*>(drawn.data());
    Random random(1);
    for (std::size_t i = 0; i < kDrawn; ++i) {
      const auto value = static_cast<float>(0.02 * random.normal());
      values[i] = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
    }
    constexpr std::uint64_t kDrawnBytes = kDrawn * sizeof(std::uint16_t);
    for (std::uint64_t at = 0; at < kSampleBytes; at += kDrawnBytes) {
      c_.device->copy(memory_.data() + at, drawn.data(), kDrawnBytes, stream());
    }
    control_.await();
  }

  void measureCodec(Measured& measured) {
    fillSample();
    const codec::FrameSpec spec{
        .elementCount = kSampleElements,
        .poolBytes = codec::defaultPoolBytes(codec::Datatype::kBfloat16, codec::Layout::kNarrow,
                                             kSampleElements)};
    std::byte* const decoded = memory_.data() + kSampleBytes;
    const std::span<std::byte> frame(decoded + kSampleBytes, frameBytes());
    const auto encode = [&](const codec::FrameSpec& of) {
      const EncodeJob job{.spec = of, .source = memory_.data(), .frame = frame, .note = {}};
      c_.codec->encode({&job, 1}, stream());
    };
    const double tinyUs = time({}, [&] {
                            encode({.elementCount = codec::kTileElements, .poolBytes = 128});
                          }).fastestUs;
    const double encodeUs = time({}, [&] { encode(spec); }).fastestUs;

    transport::SharedMemory shared(*c_.device,
                                   sizeof(codec::GateSlot) + sizeof(codec::DynamicWindow));
    auto* const slot = reinterpret_cast<codec::GateSlot*>(shared.data());
    auto* const window =
        reinterpret_cast<codec::DynamicWindow*>(shared.data() + sizeof(codec::GateSlot));
    std::uint64_t gates = 0;
    const codec::DynamicPart part{.header = frame.data(), .part = nullptr, .capacity = 0};
    const double gatesUs = time({}, [&] {
                             c_.codec->exportDynamic({&part, 1}, {slot, ++gates, window}, stream());
                             c_.codec->importDynamic({&part, 1}, {slot, ++gates, window}, stream());
                           }).fastestUs;
    const FrameReport report = readReport(slot->headers[0]);
    expects(report.status == codec::DecodeStatus::kOk && report.isSealIntact,
            ErrorCode::kInternalError,
            "the codec cannot read the frame that it made for its measurement");
    const std::uint64_t staticBytes = codec::staticBytes(spec);
    std::uint32_t* const status =
        c_.takeStatus({.call = 0, .chunk = 0, .unit = "measurement"}, c_.rank());
    const double decodeUs =
        time({}, [&] {
          const DecodeJob job{
              .spec = spec,
              .frame = {frame.first(staticBytes), frame.subspan(staticBytes, report.dynamicBytes)},
              .output = decoded,
              .status = status};
          c_.codec->decode({&job, 1}, stream());
        }).fastestUs;
    const std::array slowest = control_.slowest(std::array{tinyUs + gatesUs, encodeUs, decodeUs});
    measured.profile.frameUs = slowest[0];
    measured.profile.encodeGBps = static_cast<double>(kSampleBytes) / slowest[1] / 1000.0;
    measured.profile.decodeGBps = static_cast<double>(kSampleBytes) / slowest[2] / 1000.0;
  }

  /// `isCautious`: on average, not at best.
  void measureLink(policy::LinkProfile& link, bool isCautious,
                   const std::function<void(std::uint64_t)>& move) {
    link.overlap = 1.0F;  // the host's cores move nothing
    double spentUs = 0.0;
    for (const std::uint64_t bytes : kLinkBytes) {
      if (shards() * bytes > memory_.bytes()) return;
      // One point tells a latency and no bandwidth: so there are two whatever they cost.
      const bool isKnown = link.pointCount >= policy::LinkProfile::kLeastPoints;
      constexpr double kLongUs = 2000.0;  // what takes longer varies little
      constexpr double kVeryLongUs = 5000.0;
      const double expectedUs = isKnown ? policy::linkUs(link, bytes) : 0.0;
      const Repeats repeats = expectedUs > kVeryLongUs ? Repeats{1, 2}
                              : expectedUs > kLongUs   ? Repeats{2, 2}
                                                       : Repeats{};
      if (isKnown && spentUs + repeats.pieces() * expectedUs > kLinkBudgetUs) return;
      const Time taken = time(repeats, [&] { move(bytes); });
      const double us = isCautious ? taken.meanUs : taken.fastestUs;
      // Connections that the first piece made are not counted: the program's first call would have
      // made them, and on some links they take longer than all that is measured.
      const std::array slowest = control_.slowest(std::array{us, taken.allUs});
      spentUs += slowest[1];
      const double previousUs =
          link.pointCount == 0 ? 0.0 : link.points[link.pointCount - 1].elapsedUs;
      link.points[link.pointCount++] = {bytes, std::max(slowest[0], previousUs)};
    }
  }

  NcclCommunicator& c_;
  Control& control_;
  transport::DeviceMemory memory_;
};

// -------------------------------------------------------------------------------------------------

/// Ranks that stand on one host have one number, the first of them.
using Shape = std::vector<std::size_t>;

Shape shapeOf(const std::vector<HandshakeRecord>& records) {
  Shape shape;
  for (const HandshakeRecord& record : records) {
    const auto first =
        std::find_if(records.begin(), records.end(),
                     [&](const HandshakeRecord& each) { return each.host == record.host; });
    shape.push_back(static_cast<std::size_t>(first - records.begin()));
  }
  return shape;
}

/// The word of the tune file for communicators of this shape.
std::string kindOf(const Shape& shape) {
  const std::set<std::size_t> hosts(shape.begin(), shape.end());
  return concat("nccl/ranks=", shape.size(), "/hosts=", hosts.size());
}

/// What this process has measured, by shape of communicator.
class MeasuredShapes {
 public:
  [[nodiscard]] Measured find(const Shape& shape) {
    const std::lock_guard lock(mutex_);
    const auto known = known_.find(shape);
    return known == known_.end() ? Measured{} : known->second;
  }
  void keep(const Shape& shape, const Measured& measured) {
    const std::lock_guard lock(mutex_);
    known_[shape] = measured;
  }

  /// Never destroyed: communicators may be attached until the process ends.
  [[nodiscard]] static MeasuredShapes& instance() {
    static MeasuredShapes* const shapes = new MeasuredShapes;
    return *shapes;
  }

 private:
  std::mutex mutex_;
  std::map<Shape, Measured> known_;
};

void awaitReady(NcclCommunicator& communicator, std::chrono::milliseconds timeout) {
  const Clock::time_point deadline = Clock::now() + timeout;
  int state = communicator.link.asyncError();
  while (state == transport::kNcclInProgress && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    state = communicator.link.asyncError();
  }
  expects(state == transport::kNcclSuccess, ErrorCode::kInvalidUsage,
          "the communicator was not ready within the time limit");
}

/// Calls `use` on a new T. When that throws, T is never destroyed: its memory may belong to work
/// that never ends, and to free it would wait for that.
template <class T, class... Arguments, class Use>
auto withNew(const Use& use, Arguments&&... arguments) {
  auto owned = std::make_unique<T>(std::forward<Arguments>(arguments)...);
  try {
    return use(*owned);
  } catch (...) {
    static_cast<void>(owned.release());
    throw;
  }
}

/// Opens the side channel on all ranks. Where one of them cannot, none compresses: false.
bool connect(NcclCommunicator& communicator, Control& control) {
  constexpr auto kLongest = std::chrono::seconds(10);
  // Readers may come to a part however late.
  transport::SideLimits limits;
  limits.maxMessageBytes = std::uint64_t{1} << 32;
  limits.welcome = std::chrono::milliseconds(0);
  const auto warn = [&](const Error& error) {
    logWarn("rank ", communicator.rank(), " of ", communicator.rankCount(),
            " cannot reach the others beside NCCL, so the calls of this communicator stay native: ",
            error.what());
  };
  std::unique_ptr<transport::SideChannel> channel;
  transport::SideAddress address{};
  try {
    channel = std::make_unique<transport::SideChannel>(communicator.rank(),
                                                       communicator.rankCount(), limits);
    address = channel->address();
  } catch (const Error& error) {
    warn(error);
  }
  struct Opened {
    transport::SideAddress address;
    std::uint64_t isOpen = 0;
  };
  const std::vector<Opened> opened = control.gather(Opened{address, channel != nullptr ? 1U : 0U});
  const auto isOpen = [](const Opened& each) { return each.isOpen != 0; };
  if (!std::all_of(opened.begin(), opened.end(), isOpen)) return false;
  communicator.id = opened.front().address.token;
  std::uint64_t isConnected = 1;
  try {
    std::vector<transport::SideAddress> peers;
    peers.reserve(opened.size());
    for (const Opened& each : opened) peers.push_back(each.address);
    channel->setPeers(std::move(peers));
    channel->verify(Clock::now() + kLongest);
    communicator.startCourier(std::move(channel));
  } catch (const Error& error) {
    isConnected = 0;
    warn(error);
  }
  const std::vector<std::uint64_t> connected = control.gather(isConnected);
  return std::find(connected.begin(), connected.end(), 0U) == connected.end();
}

/// A file that cannot be used costs the measurement, and nothing else.
Measured readTuned(const std::string& path, const Shape& shape) {
  Measured tuned;
  try {
    if (const std::optional<policy::Profile> profile = TuneFile(path).find(kindOf(shape))) {
      tuned = {.profile = *profile, .isKnown = 1, .isGiven = 1};
    }
  } catch (const Error& error) {
    logWarn(error.what());
  }
  return tuned;
}

void keepTuned(const std::string& path, const Shape& shape, const policy::Profile& profile) {
  try {
    TuneFile(path).add(kindOf(shape), profile);
    logInfo(LogSubsystem::kTuning, "the tune file ", path, " has a profile for ", kindOf(shape));
  } catch (const Error& error) {
    logWarn(error.what());
  }
}

void shakeHands(NcclCommunicator& communicator, Control& control,
                const CommunicatorSettings& wanted) {
  const HandshakeRecord record = makeRecord(wanted.agreed, wanted.profile);
  const std::vector<HandshakeRecord> records = control.gather(record);
  const Agreement agreement = agreeOn(records, communicator.rank());
  communicator.isProfileGiven = agreement.profile.has_value();
  if (agreement.profile) communicator.profile = *agreement.profile;
  communicator.overlap = overlapGoal();
  if (!agreement.compressionAgreed || wanted.agreed.strategy == StrategyChoice::kNative) return;
  if (!connect(communicator, control)) return;
  if (!agreement.profile && wanted.agreed.strategy == StrategyChoice::kAuto) {
    MeasuredShapes& shapes = MeasuredShapes::instance();
    const Shape shape = shapeOf(records);
    const bool hasTuneFile = communicator.rank() == 0 && !wanted.tuneFile.empty();
    Measured known = shapes.find(shape);
    if (hasTuneFile && known.isKnown == 0) known = readTuned(wanted.tuneFile, shape);
    // Rank 0's knowledge counts: all must measure together, or none.
    Measured measured = control.gather(known)[0];
    if (measured.isKnown == 0) {
      measured = withNew<Measurement>([](Measurement& measurement) { return measurement.run(); },
                                      communicator, control);
      if (hasTuneFile) keepTuned(wanted.tuneFile, shape, measured.profile);
    }
    shapes.keep(shape, measured);
    communicator.profile = measured.profile;
    communicator.isProfileGiven = measured.isGiven != 0;
  }
  communicator.compressionAgreed = true;
}

}  // namespace

std::unique_ptr<NcclCommunicator> attachNccl(const zipcclNcclApi& api, void* comm,
                                             const CommunicatorSettings& settings) {
  if (transport::NcclLink(api, comm).rankCount() <= 1) return nullptr;
  std::unique_ptr<NcclCommunicator> communicator = NcclCommunicator::make(api, comm, settings);
  const std::shared_ptr<transport::Device> device = communicator->device;
  const transport::CurrentDevice current(*device);
  const std::chrono::milliseconds timeout = settings.timeout.count() == 0
                                                ? kLongestHandshake
                                                : std::min(settings.timeout, kLongestHandshake);
  // Other ranks may have agreed to compress, so it must not go native.
  const auto fail = [&](const Error& error) {
    logWarn("rank ", communicator->rank(), " of ", communicator->rankCount(),
            ": the handshake failed: ", error.what());
    communicator->fail(error);
  };
  try {
    awaitReady(*communicator, timeout);
    withNew<Control>([&](Control& control) { shakeHands(*communicator, control, settings); },
                     *communicator, timeout);
  } catch (const Error& error) {
    fail(error);
  } catch (const std::exception& error) {
    fail(Error(ErrorCode::kSystemError, error.what()));
  }
  return communicator;
}

}  // namespace zipccl::collectives
