// SPDX-License-Identifier: Apache-2.0
//
// Checks of gates.

#include "collectives/gate_check.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/shared_word.hpp"
#include "codec/bytes.hpp"
#include "codec/codec_testing.hpp"
#include "codec/layout.hpp"
#include "collectives/frame_check.hpp"

namespace zipccl::collectives::testing {
namespace {

using codec::kHeaderBytes;
using codec::kMostGateFrames;
using codec::kPieceBytes;
using codec::kWindowPieces;
using transport::DeviceMemory;

constexpr std::chrono::minutes kLimit{1};
constexpr std::byte kPoison{0xA5};

codec::HeaderBytes headerAt(const std::byte* at) { return codec::loadWord<codec::HeaderBytes>(at); }

std::uint64_t movedBytesOf(const DynamicPart& part, const std::byte* headerBytes) {
  if (part.part == nullptr) return 0;
  const codec::HeaderBytes header = headerAt(headerBytes);
  return codec::movedBytesOf(header.poolBytes, header.extraBytes, part.capacity);
}

std::uint64_t pieceCount(std::uint64_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

Bytes randomBytes(Random& random, std::uint64_t bytes) {
  Bytes made(bytes);
  random.fill(made);
  return made;
}

/// Says where two images differ first.
::testing::AssertionResult equalBytes(std::span<const std::byte> actual,
                                      std::span<const std::byte> expected) {
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure() << actual.size() << " bytes, not " << expected.size();
  }
  const auto [at, other] = std::mismatch(actual.begin(), actual.end(), expected.begin());
  if (at == actual.end()) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "byte " << at - actual.begin() << " of " << actual.size() << " is "
         << std::to_integer<int>(*at) << ", not " << std::to_integer<int>(*other);
}

/// The frames of one export and of the import that gets them.
struct GatePair {
  std::vector<DynamicPart> exported;
  std::vector<DynamicPart> imported;
  std::function<void()> moveRest;  ///< puts the way of the static parts on the stream
  std::function<void()> use;       ///< puts what follows the import on the stream
  Gate exportGate;
  Gate importGate;
};

/// Runs them as rounds do, one export ahead, with a thread that takes and one that gives.
void runGates(GateRig& rig, std::span<GatePair> pairs) {
  for (GatePair& pair : pairs) {
    pair.exportGate = rig.nextGate();
    pair.importGate = rig.nextGate();
  }
  std::vector<std::vector<Bytes>> taken(pairs.size());
  std::atomic<std::size_t> takenGates{0};
  std::thread taker([&] {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      taken[i] = rig.takeParts(pairs[i].exported, pairs[i].exportGate);
      takenGates = i + 1;
    }
  });
  std::thread giver([&] {
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      if (!rig.waitFor("a part to give", [&] { return takenGates > i; })) return;
      rig.giveParts(pairs[i].imported, pairs[i].importGate, taken[i]);
    }
  });
  const auto complete = [&](const GatePair& pair) {
    pair.moveRest();
    rig.codec().importDynamic(pair.imported, pair.importGate, rig.stream());
    pair.use();
  };
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    rig.codec().exportDynamic(pairs[i].exported, pairs[i].exportGate, rig.stream());
    if (i != 0) complete(pairs[i - 1]);
  }
  complete(pairs.back());
  taker.join();
  giver.join();
  rig.waitForStream("the gates");
}

/// Headers and parts that a test makes up, in two images: where they come from, where they go to.
class MadeFrames {
 public:
  /// Room for a frame of up to `capacity` bytes, of which the header says that it has `bytes`.
  void add(Random& random, std::uint64_t bytes, std::uint64_t capacity, bool isExported,
           bool isImported) {
    const std::uint64_t at = codec::alignUp(from_.size() + random.below(300), 128);
    // Parts of frames are aligned to 128, others are moved too.
    const std::uint64_t partAt =
        codec::alignUp(at + kHeaderBytes, 128) + (random.chance(0.2) ? random.below(128) : 0);
    from_.resize(partAt + capacity + random.below(200), kPoison);
    codec::HeaderBytes header{};
    const Bytes bits = randomBytes(random, sizeof header);
    std::memcpy(&header, bits.data(), sizeof header);
    header.poolBytes %= std::uint64_t{1} << 40;
    header.extraBytes = bytes != 0 ? header.poolBytes + bytes : random.below(header.poolBytes + 1);
    codec::storeWord(from_.data() + at, header);
    const Bytes content = randomBytes(random, std::min(bytes, capacity));
    std::copy(content.begin(), content.end(), from_.begin() + static_cast<std::ptrdiff_t>(partAt));
    frames_.push_back({at, partAt, bytes, capacity, isExported, isImported && isExported});
  }

  void upload(GateRig& rig) {
    from_.resize(from_.size() + 128, kPoison);
    source_.emplace_back(rig.upload(from_));
    target_.emplace_back(rig.upload(Bytes(from_.size(), kPoison)));
  }

  [[nodiscard]] std::vector<DynamicPart> exported() const {
    return partsAt(source_.front().data(), &Frame::isExported);
  }
  [[nodiscard]] std::vector<DynamicPart> imported() const {
    return partsAt(target_.front().data(), &Frame::isImported);
  }

  void moveHeaders(GateRig& rig) const {
    for (const Frame& frame : frames_) {
      rig.device().copy(target_.front().data() + frame.at, source_.front().data() + frame.at,
                        kHeaderBytes, rig.stream());
    }
  }

  void expectHeaders(const codec::GateSlot& slot) const {
    for (std::size_t i = 0; i < frames_.size(); ++i) {
      EXPECT_TRUE(
          equalBytes(slot.headers[i], std::span(from_).subspan(frames_[i].at, kHeaderBytes)))
          << "header " << i;
    }
  }

  /// That headers and parts came, the first `mostPieces` pieces of these, and nothing else.
  void expectTarget(GateRig& rig, std::uint64_t mostPieces = ~std::uint64_t{0}) const {
    Bytes expected(from_.size(), kPoison);
    const auto copy = [&](std::uint64_t at, std::uint64_t bytes) {
      std::copy_n(from_.begin() + static_cast<std::ptrdiff_t>(at), bytes,
                  expected.begin() + static_cast<std::ptrdiff_t>(at));
    };
    for (const Frame& frame : frames_) {
      copy(frame.at, kHeaderBytes);
      if (!frame.isImported || frame.bytes > frame.capacity) continue;
      const std::uint64_t pieces = std::min(mostPieces, pieceCount(frame.bytes));
      mostPieces -= pieces;
      copy(frame.partAt, std::min(frame.bytes, pieces * kPieceBytes));
    }
    EXPECT_TRUE(equalBytes(rig.download(target_.front()), expected));
    EXPECT_TRUE(equalBytes(rig.download(source_.front()), from_)) << "exports change nothing";
  }

  [[nodiscard]] std::span<const std::byte> part(std::size_t i) const {
    return std::span(from_).subspan(frames_[i].partAt, frames_[i].bytes);
  }

 private:
  struct Frame {
    std::uint64_t at;
    std::uint64_t partAt;
    std::uint64_t bytes;
    std::uint64_t capacity;
    bool isExported;
    bool isImported;
  };

  /// The frames in `memory`; of those that `isMoved`, with the places of their parts.
  [[nodiscard]] std::vector<DynamicPart> partsAt(std::byte* memory, bool Frame::*isMoved) const {
    std::vector<DynamicPart> parts;
    for (const Frame& frame : frames_) {
      parts.push_back(
          {memory + frame.at, frame.*isMoved ? memory + frame.partAt : nullptr, frame.capacity});
    }
    return parts;
  }

  std::vector<Frame> frames_;
  Bytes from_;
  // None before the upload, then one.
  std::vector<DeviceMemory> source_;
  std::vector<DeviceMemory> target_;
};

std::uint64_t someBytes(Random& random, std::uint64_t mostBytes) {
  const std::uint64_t sizes[] = {0,
                                 0,
                                 0,
                                 1,
                                 15,
                                 16,
                                 17,
                                 random.below(1000),
                                 kPieceBytes - 1,
                                 kPieceBytes,
                                 kPieceBytes + 1,
                                 2 * kPieceBytes,
                                 kWindowPieces * kPieceBytes,
                                 random.below(3 * kPieceBytes),
                                 random.below(mostBytes + 1)};
  return std::min(sizes[random.below(std::size(sizes))], mostBytes);
}

}  // namespace

GateRig::GateRig(transport::Device& device, StreamCodec& codec)
    : device_(device),
      codec_(codec),
      stream_(device),
      reached_(device),
      shared_(device, sizeof(codec::DynamicWindow) + kSlots * sizeof(codec::GateSlot)),
      slots_(reinterpret_cast<codec::GateSlot*>(shared_.data() + sizeof(codec::DynamicWindow))),
      window_(reinterpret_cast<codec::DynamicWindow*>(shared_.data())),
      end_(*window_) {}

GateRig::~GateRig() {
  end_.abort();
  waitForStream("what the test left on it");
}

Gate GateRig::nextGate() {
  ++number_;
  return {.slot = slots_ + number_ % kSlots, .number = number_, .window = window_};
}

DeviceMemory GateRig::upload(std::span<const std::byte> content) {
  DeviceMemory memory(device_, std::max<std::size_t>(content.size(), 1));
  device_.copy(memory.data(), content.data(), content.size(), stream());
  waitForStream("an upload");
  return memory;
}

Bytes GateRig::download(const DeviceMemory& memory) {
  Bytes content(memory.bytes());
  device_.copy(content.data(), memory.data(), memory.bytes(), stream());
  waitForStream("a download");
  return content;
}

bool GateRig::waitFor(const char* what, const std::function<bool()>& isTrue) {
  const Deadline deadline(kLimit);
  while (!isTrue()) {
    if (loadAcquire(window_->isAborted) != 0) return false;
    if (deadline.hasPassed()) {
      ADD_FAILURE() << "waited too long for " << what;
      end_.abort();
      return false;
    }
    std::this_thread::yield();
  }
  return true;
}

void GateRig::waitForStream(const char* what) {
  Deadline deadline(kLimit);
  while (!isStreamDone()) {
    if (deadline.hasPassed()) {
      ADD_FAILURE() << "waited too long for the stream: " << what;
      end_.abort();
      deadline = Deadline();
    }
    std::this_thread::yield();
  }
}

bool GateRig::isStreamDone() {
  device_.record(reached_.get(), stream());
  for (int look = 0; look < 100; ++look) {
    if (device_.isReached(reached_.get())) return true;
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return false;
}

std::vector<Bytes> GateRig::takeParts(std::span<const DynamicPart> parts, const Gate& gate) {
  std::vector<Bytes> taken(parts.size());
  if (!waitFor("a gate", [&] { return WindowEnd::hasPassed(*gate.slot, gate.number); })) {
    return taken;
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::uint64_t bytes = movedBytesOf(parts[i], gate.slot->headers[i]);
    if (!waitFor("an exported part", [&] { return end_.take(taken[i], bytes); })) break;
  }
  return taken;
}

void GateRig::giveParts(std::span<const DynamicPart> parts, const Gate& gate,
                        std::span<const Bytes> contents) {
  if (!waitFor("a gate", [&] { return WindowEnd::hasPassed(*gate.slot, gate.number); })) return;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].part == nullptr) continue;
    ASSERT_EQ(movedBytesOf(parts[i], gate.slot->headers[i]), contents[i].size());
    std::uint64_t givenBytes = 0;
    if (!waitFor("room for a part", [&] { return end_.give(contents[i], givenBytes); })) return;
    EXPECT_EQ(givenBytes, contents[i].size());
  }
}

void checkParts(GateRig& rig, Random& random, std::uint64_t mostBytes) {
  const std::size_t gateCount = 1 + random.below(5);
  std::vector<MadeFrames> made(gateCount);
  std::vector<GatePair> pairs(gateCount);
  for (std::size_t i = 0; i < gateCount; ++i) {
    std::uint64_t leftBytes = mostBytes;
    const std::size_t frameCount =
        random.chance(0.2) ? kMostGateFrames : 1 + random.below(kMostGateFrames);
    const bool isQuiet = random.chance(0.2);
    for (std::size_t frame = 0; frame < frameCount; ++frame) {
      const std::uint64_t bytes = isQuiet ? 0 : someBytes(random, leftBytes);
      leftBytes -= bytes;
      std::uint64_t capacity = bytes + (random.chance(0.5) ? random.below(400) : 0);
      if (bytes != 0 && random.chance(0.1)) capacity = random.below(bytes);
      made[i].add(random, bytes, capacity, random.chance(0.9), random.chance(0.8));
    }
    made[i].upload(rig);
    pairs[i].exported = made[i].exported();
    pairs[i].imported = made[i].imported();
    pairs[i].moveRest = [&rig, &frames = made[i]] { frames.moveHeaders(rig); };
    pairs[i].use = [] {};
  }
  static_assert(GateRig::kSlots >= 2 * 5, "no slot is used twice before it has been read");
  runGates(rig, pairs);
  for (std::size_t i = 0; i < gateCount; ++i) {
    SCOPED_TRACE(::testing::Message() << "gate " << i << " of " << gateCount);
    made[i].expectHeaders(*pairs[i].exportGate.slot);
    made[i].expectHeaders(*pairs[i].importGate.slot);
    made[i].expectTarget(rig);
  }
  EXPECT_EQ(loadAcquire(rig.window().exported), loadAcquire(rig.window().taken));
  EXPECT_EQ(loadAcquire(rig.window().imported), loadAcquire(rig.window().given));
}

namespace {

/// Frames of one gate from elements to elements.
class CodedFrames {
 public:
  CodedFrames(GateRig& rig, Random& random, std::uint64_t mostElements)
      : rig_(rig), statusWords_(rig.device(), kMostGateFrames * sizeof(std::uint32_t)) {
    const std::size_t frameCount = 1 + random.below(kMostGateFrames);
    Bytes source;
    std::uint64_t frameBytes = 0;
    std::uint64_t leftElements = mostElements;
    for (std::size_t i = 0; i < frameCount; ++i) {
      const codec::testing::Format& format =
          codec::testing::kFormats[random.below(std::size(codec::testing::kFormats))];
      Frame frame;
      frame.spec = codec::testing::specOf(format, random.below(leftElements / 3 + 2));
      leftElements -= std::min(leftElements, frame.spec.elementCount);
      const std::uint64_t mostPool =
          codec::maxPoolBytes(format.datatype, format.layout, frame.spec.elementCount);
      const double kind = random.uniform();
      if (kind < 0.5) frame.spec.poolBytes = 0;
      if (kind > 0.7) frame.spec.poolBytes = random.below(mostPool / 128 + 1) * 128;
      frame.note = {.call = random(), .chunk = i};
      frame.sourceAt = codec::alignUp(source.size(), 128);
      const Bytes elements = codec::testing::elementsOf(
          format.datatype,
          codec::testing::mixedWords(format.datatype, random, frame.spec.elementCount));
      frame.elementBytes = elements.size();
      source.resize(frame.sourceAt, kPoison);
      source.insert(source.end(), elements.begin(), elements.end());
      frame.frameAt = frameBytes;
      frame.frameBytes = codec::maxFrameBytes(format.datatype, frame.spec.elementCount);
      frameBytes = codec::alignUp(frameBytes + frame.frameBytes, 128);
      frames_.push_back(frame);
    }
    source.resize(source.size() + 128, kPoison);
    elements_ = source;
    buffers_.emplace_back(rig.upload(source));
    for (int i = 0; i < 2; ++i) buffers_.emplace_back(rig.upload(Bytes(frameBytes, kPoison)));
    buffers_.emplace_back(rig.upload(Bytes(source.size(), kPoison)));
  }

  void encode() {
    std::vector<EncodeJob> jobs;
    for (const Frame& frame : frames_) {
      jobs.push_back({.spec = frame.spec,
                      .source = source().data() + frame.sourceAt,
                      .frame = {made().data() + frame.frameAt, frame.frameBytes},
                      .note = frame.note});
    }
    rig_.codec().encode(jobs, rig_.stream());
  }

  [[nodiscard]] std::vector<DynamicPart> partsOf(const DeviceMemory& memory) const {
    std::vector<DynamicPart> parts;
    for (const Frame& frame : frames_) {
      std::byte* const at = memory.data() + frame.frameAt;
      const std::uint64_t staticBytes = codec::staticBytes(frame.spec);
      parts.push_back({at, at + staticBytes, frame.frameBytes - staticBytes});
    }
    return parts;
  }
  [[nodiscard]] const DeviceMemory& made() const { return buffers_[1]; }
  [[nodiscard]] const DeviceMemory& come() const { return buffers_[2]; }

  void moveStaticParts() {
    for (const Frame& frame : frames_) {
      rig_.device().copy(come().data() + frame.frameAt, made().data() + frame.frameAt,
                         codec::staticBytes(frame.spec), rig_.stream());
    }
  }

  void decode() {
    std::vector<DecodeJob> jobs;
    for (const Frame& frame : frames_) {
      const std::byte* const at = come().data() + frame.frameAt;
      const std::uint64_t staticBytes = codec::staticBytes(frame.spec);
      jobs.push_back({.spec = frame.spec,
                      .frame = {.staticPart = {at, staticBytes},
                                .dynamicPart = {at + staticBytes, frame.frameBytes - staticBytes}},
                      .output = buffers_[3].data() + frame.sourceAt,
                      .status = statuses() + jobs.size()});
    }
    rig_.codec().decode(jobs, rig_.stream());
  }

  void expectDecoded(const codec::GateSlot& slot) {
    for (std::size_t i = 0; i < frames_.size(); ++i) {
      const FrameReport report = readReport(slot.headers[i]);
      EXPECT_EQ(report.status, codec::DecodeStatus::kOk) << "frame " << i;
      EXPECT_TRUE(report.isSealIntact) << "frame " << i;
      EXPECT_EQ(report.spec, frames_[i].spec) << "frame " << i;
      EXPECT_EQ(report.note.call, frames_[i].note.call) << "frame " << i;
      EXPECT_EQ(statuses()[i], 0U) << "frame " << i;
    }
    EXPECT_TRUE(equalBytes(rig_.download(buffers_[3]), elements_));
  }

 private:
  struct Frame {
    codec::FrameSpec spec;
    FrameNote note;
    std::uint64_t sourceAt = 0;
    std::uint64_t elementBytes = 0;
    std::uint64_t frameAt = 0;
    std::uint64_t frameBytes = 0;
  };

  [[nodiscard]] const DeviceMemory& source() const { return buffers_[0]; }
  [[nodiscard]] std::uint32_t* statuses() const {
    return reinterpret_cast<std::uint32_t*>(statusWords_.data());
  }

  GateRig& rig_;
  transport::SharedMemory statusWords_;
  std::vector<Frame> frames_;
  Bytes elements_;                     ///< of all frames, between poisoned bytes
  std::vector<DeviceMemory> buffers_;  ///< elements, frames made, frames come, elements
};

}  // namespace

void checkFrames(GateRig& rig, Random& random, std::uint64_t mostElements) {
  std::vector<std::unique_ptr<CodedFrames>> coded;
  std::vector<GatePair> pairs(1 + random.below(4));
  for (GatePair& pair : pairs) {
    coded.push_back(std::make_unique<CodedFrames>(rig, random, mostElements));
    CodedFrames& frames = *coded.back();
    pair.exported = frames.partsOf(frames.made());
    pair.imported = frames.partsOf(frames.come());
    pair.moveRest = [&frames] { frames.moveStaticParts(); };
    pair.use = [&frames] { frames.decode(); };
    frames.encode();
  }
  runGates(rig, pairs);
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "gate " << i << " of " << pairs.size());
    coded[i]->expectDecoded(*pairs[i].exportGate.slot);
    coded[i]->expectDecoded(*pairs[i].importGate.slot);
  }
  EXPECT_EQ(loadAcquire(rig.window().exported), loadAcquire(rig.window().imported));
}

void checkPartsWithoutRoom(GateRig& rig, Random& random) {
  MadeFrames made;
  made.add(random, 3 * kPieceBytes, 3 * kPieceBytes - 1, true, true);
  made.add(random, 1, 0, true, true);
  made.add(random, 0, 100, true, true);
  made.add(random, ~std::uint64_t{0} >> 1, 5000, true, true);
  made.upload(rig);
  const Gate out = rig.nextGate();
  const Gate in = rig.nextGate();
  rig.codec().exportDynamic(made.exported(), out, rig.stream());
  made.moveHeaders(rig);
  rig.codec().importDynamic(made.imported(), in, rig.stream());
  rig.waitForStream("gates that have nothing to move");
  EXPECT_TRUE(WindowEnd::hasPassed(*in.slot, in.number));
  EXPECT_FALSE(WindowEnd::hasPassed(*in.slot, in.number + 1));
  made.expectHeaders(*out.slot);
  made.expectHeaders(*in.slot);
  made.expectTarget(rig);
  EXPECT_EQ(loadAcquire(rig.window().exported), 0U);
  EXPECT_EQ(loadAcquire(rig.window().imported), 0U);
}

namespace {

/// Some parts that are more pieces than a window holds.
void addLargeParts(MadeFrames& made, Random& random) {
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t bytes = 3 * kPieceBytes + random.below(2 * kPieceBytes);
    made.add(random, bytes, bytes, true, true);
  }
}

/// That the gate waits, and goes on by an abort.
void expectEndsByAbort(GateRig& rig) {
  EXPECT_FALSE(rig.isStreamDone());
  rig.end().abort();
  rig.waitForStream("a gate whose window is aborted");
}

}  // namespace

void checkAbortOfExport(GateRig& rig, Random& random) {
  MadeFrames made;
  addLargeParts(made, random);
  made.upload(rig);
  const Gate gate = rig.nextGate();
  rig.codec().exportDynamic(made.exported(), gate, rig.stream());
  // It is waited for after as many pieces as are taken here.
  const std::uint64_t pieces = random.below(4);
  Bytes taken;
  const std::span<const std::byte> part = made.part(0);
  const std::uint64_t bytes = std::min(part.size(), pieces * kPieceBytes);
  EXPECT_TRUE(rig.waitFor("pieces", [&] { return rig.end().take(taken, bytes); }));
  EXPECT_TRUE(equalBytes(taken, part.first(bytes)));
  const std::uint64_t most = pieces + kWindowPieces;
  EXPECT_TRUE(
      rig.waitFor("a full window", [&] { return loadAcquire(rig.window().exported) >= most; }));
  expectEndsByAbort(rig);
  EXPECT_EQ(loadAcquire(rig.window().exported), most);
  made.expectHeaders(*gate.slot);
}

void checkAbortOfImport(GateRig& rig, Random& random) {
  MadeFrames made;
  addLargeParts(made, random);
  made.upload(rig);
  const Gate gate = rig.nextGate();
  made.moveHeaders(rig);
  rig.codec().importDynamic(made.imported(), gate, rig.stream());
  const std::uint64_t pieces = random.below(4);
  const std::span<const std::byte> part = made.part(0);
  std::uint64_t givenBytes = 0;
  EXPECT_TRUE(rig.waitFor("room", [&] {
    return rig.end().give(part.first(std::min(part.size(), pieces * kPieceBytes)), givenBytes);
  }));
  EXPECT_TRUE(
      rig.waitFor("an import", [&] { return loadAcquire(rig.window().imported) >= pieces; }));
  EXPECT_TRUE(
      rig.waitFor("headers", [&] { return WindowEnd::hasPassed(*gate.slot, gate.number); }));
  expectEndsByAbort(rig);
  EXPECT_EQ(loadAcquire(rig.window().imported), pieces);
  made.expectHeaders(*gate.slot);
  made.expectTarget(rig, pieces);
}

void checkGatesAfterAbort(GateRig& rig, Random& random) {
  rig.end().abort();
  MadeFrames made;
  addLargeParts(made, random);
  made.upload(rig);
  const Gate out = rig.nextGate();
  const Gate in = rig.nextGate();
  rig.codec().exportDynamic(made.exported(), out, rig.stream());
  made.moveHeaders(rig);
  rig.codec().importDynamic(made.imported(), in, rig.stream());
  rig.waitForStream("gates behind an abort");
  EXPECT_TRUE(WindowEnd::hasPassed(*out.slot, out.number));
  EXPECT_TRUE(WindowEnd::hasPassed(*in.slot, in.number));
  made.expectHeaders(*out.slot);
  made.expectHeaders(*in.slot);
  made.expectTarget(rig, 0);
}

void checkNumbersOfFrames(GateRig& rig) {
  const Gate none = rig.nextGate();
  EXPECT_FALSE(WindowEnd::hasPassed(*none.slot, none.number));
  rig.codec().exportDynamic({}, none, rig.stream());
  rig.waitForStream("a gate without frames");
  EXPECT_TRUE(WindowEnd::hasPassed(*none.slot, none.number));
  const Gate tooMany = rig.nextGate();
  const std::vector<DynamicPart> parts(kMostGateFrames + 1);
  EXPECT_THROW(rig.codec().exportDynamic(parts, tooMany, rig.stream()), Error);
  EXPECT_THROW(rig.codec().importDynamic(parts, tooMany, rig.stream()), Error);
  rig.waitForStream("nothing");
  EXPECT_FALSE(WindowEnd::hasPassed(*tooMany.slot, tooMany.number));
}

}  // namespace zipccl::collectives::testing
