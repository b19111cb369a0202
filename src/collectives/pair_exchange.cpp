// SPDX-License-Identifier: Apache-2.0
//
// The exchange between pairs of ranks.

#include "collectives/pair_exchange.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "collectives/frame_geometry.hpp"
#include "policy/chunks.hpp"

namespace zipccl::collectives {
namespace {

using transport::ReceiveMessage;
using transport::Request;
using transport::SendMessage;

constexpr std::size_t kStaticPart = 0;
constexpr std::size_t kDynamicPart = 1;
constexpr std::size_t kParts = 2;

template <class Message>
std::uint64_t bytesOf(const Message& message) {
  return message.elementCount * elementBytes(message.datatype);
}

}  // namespace

PairExchange::PairExchange(Engine& engine, CollectiveKind collective,
                           std::span<const OutMessage> sends, std::span<const InMessage> receives,
                           transport::StreamHandle stream, std::optional<StrategyChoice> strategy)
    : engine_(engine),
      stream_(stream),
      collective_(collective),
      strategy_(strategy),
      sends_(sends),
      receives_(receives),
      requests_(engine.requests) {
  outcome_.decision.reason = policy::Reason::kNothingToSend;
  addPairs();
  requests_.resize((outgoing_.size() + incoming_.size()) * kInFlight * kParts);
  statuses_.resize(incoming_.size());
}

FramePlace PairExchange::placeOfFrame(const Item& item) {
  return {.call = item.messageNumber, .chunk = item.chunk, .unit = "message"};
}

CallOutcome PairExchange::run() {
  advance();
  copyOwnMessages();
  while (!isDone()) {
    // To send comes first: peers wait for it.
    if (startOneSend() || takeComplete()) {
      poll();
    } else {
      const std::size_t place = engine_.transport.waitAny(requests_);
      invariant(place != requests_.size(), "an exchange that is not done waits for nothing");
    }
    advance();
  }
  return outcome_;
}

void PairExchange::addPairs() {
  for (std::size_t i = 0; i < sends_.size(); ++i) {
    outcome_.inputBytes += bytesOf(sends_[i]);
    if (sends_[i].elementCount != 0 && sends_[i].peer != engine_.rank()) {
      addToPair(outgoing_, true, sends_[i].peer, i);
    }
  }
  for (std::size_t i = 0; i < receives_.size(); ++i) {
    if (receives_[i].elementCount != 0 && receives_[i].peer != engine_.rank()) {
      addToPair(incoming_, false, receives_[i].peer, i);
    }
  }
  // Each sends to its right neighbour first, and takes from its left one, so that not all ranks
  // work for one.
  const int ranks = engine_.rankCount();
  const auto distance = [&](const Pair& pair) {
    const int step = pair.peer - engine_.rank();
    return ((pair.isOut ? step : -step) + ranks) % ranks;
  };
  std::size_t place = 0;
  for (std::vector<Pair>* pairs : {&outgoing_, &incoming_}) {
    std::sort(pairs->begin(), pairs->end(),
              [&](const Pair& a, const Pair& b) { return distance(a) < distance(b); });
    for (Pair& pair : *pairs) pair.place = place++;
  }
}

void PairExchange::addToPair(std::vector<Pair>& pairs, bool isOut, int peer, std::size_t message) {
  auto pair =
      std::find_if(pairs.begin(), pairs.end(), [&](const Pair& each) { return each.peer == peer; });
  if (pair == pairs.end()) {
    pair = pairs.insert(pairs.end(), Pair{});
    pair->peer = peer;
    pair->isOut = isOut;
  }
  pair->messages.push_back(message);
}

void PairExchange::copyOwnMessages() {
  const int self = engine_.rank();
  const auto isOwn = [self](const auto& message) {
    return message.peer == self && message.elementCount != 0;
  };
  auto receive = std::find_if(receives_.begin(), receives_.end(), isOwn);
  for (const OutMessage& send : sends_) {
    if (!isOwn(send)) continue;
    expects(receive != receives_.end() && bytesOf(send) == bytesOf(*receive),
            ErrorCode::kInvalidUsage, "rank ", self, " sends ", bytesOf(send),
            " bytes to itself and expects ", receive == receives_.end() ? 0 : bytesOf(*receive));
    if (receive->data != send.data) {
      engine_.codec.copy(receive->data, send.data, bytesOf(send), stream_);
    }
    receive = std::find_if(receive + 1, receives_.end(), isOwn);
  }
  expects(receive == receives_.end(), ErrorCode::kInvalidUsage, "rank ", self,
          " expects more from itself than it sends");
}

bool PairExchange::isDone() const {
  const auto isPairDone = [](const Pair& pair) { return pair.isDone(); };
  return std::all_of(outgoing_.begin(), outgoing_.end(), isPairDone) &&
         std::all_of(incoming_.begin(), incoming_.end(), isPairDone);
}

void PairExchange::poll() {
  for (Request& request : requests_) static_cast<void>(engine_.transport.test(request));
}

void PairExchange::advance() {
  for (Pair& pair : outgoing_) {
    while (pair.finishedCount != pair.startedCount && isItemComplete(pair, pair.finishedCount)) {
      finishOldest(pair);
    }
  }
  for (Pair& pair : incoming_) {
    for (;;) {
      for (std::uint64_t i = pair.finishedCount; i != pair.startedCount; ++i) readHeader(pair, i);
      startDynamicParts(pair);
      if (!pair.mayStart()) break;
      startReceive(pair);
    }
  }
}

bool PairExchange::startOneSend() {
  for (std::size_t step = 0; step < outgoing_.size(); ++step) {
    Pair& pair = outgoing_[(nextSender_ + step) % outgoing_.size()];
    if (!pair.mayStart()) continue;
    nextSender_ = (nextSender_ + step + 1) % outgoing_.size();
    startSend(pair);
    return true;
  }
  return false;
}

PairHistory& PairExchange::historyOf(const Pair& pair) const {
  PeerHistories& peer = engine_.peers[static_cast<std::size_t>(pair.peer)];
  return pair.isOut ? peer.sent : peer.received;
}

Datatype PairExchange::datatypeOf(const Pair& pair, std::size_t message) const {
  const std::size_t at = pair.messages[message];
  return pair.isOut ? sends_[at].datatype : receives_[at].datatype;
}

std::uint64_t PairExchange::elementCountOf(const Pair& pair, std::size_t message) const {
  const std::size_t at = pair.messages[message];
  return pair.isOut ? sends_[at].elementCount : receives_[at].elementCount;
}

void PairExchange::beginMessage(Pair& pair) {
  const Datatype datatype = datatypeOf(pair, pair.message);
  const std::uint64_t elementCount = elementCountOf(pair, pair.message);
  std::optional<ClassKey> key;
  if (codedDatatype(datatype)) key = classOf(collective_, datatype, elementCount);
  const PairHistory::Message message = historyOf(pair).begin(key);
  pair.plan = engine_.planMessage(collective_, datatype, elementCount, message.entry, strategy_);
  pair.hasPlan = true;
  pair.messageNumber = message.number;
  pair.nextChunk = 0;

  policy::Decision& decision = pair.plan.decision;
  const std::uint64_t bytes = elementCount * elementBytes(datatype);
  if (collective_ == CollectiveKind::kSendRecv && decision.chunkCount == 1 &&
      chunkFrame(datatype, pair.plan.facts, decision, elementCount, 0).staticBytes == bytes) {
    // A Send outside a group, which is never staged, must not pass for this one.
    decision = {.reason = policy::Reason::kNothingSaved};
  }
  const bool isStaged = decision.strategy == policy::Strategy::kStaged;
  const bool wasStaged = outcome_.decision.strategy == policy::Strategy::kStaged;
  if (isStaged != wasStaged ? isStaged : bytes > decidedBytes_) {
    outcome_.decision = decision;
    decidedBytes_ = bytes;
  }
  if (isStaged && pair.isOut) outcome_.stagedInputBytes += bytes;
}

PairExchange::Item& PairExchange::beginItem(Pair& pair) {
  if (!pair.hasPlan) beginMessage(pair);
  const policy::Decision& decision = pair.plan.decision;
  Item& item = pair.item(pair.startedCount);
  item = Item{};
  item.message = pair.message;
  item.messageNumber = pair.messageNumber;
  item.chunk = pair.nextChunk;
  item.isStaged = decision.strategy == policy::Strategy::kStaged;
  if (item.isStaged) {
    item.frame = chunkFrame(datatypeOf(pair, pair.message), pair.plan.facts, decision,
                            elementCountOf(pair, pair.message), item.chunk);
    ++outcome_.chunks;
  }
  item.isLast = !item.isStaged || item.chunk + 1 == decision.chunkCount;
  ++pair.startedCount;
  if (item.isLast) {
    ++pair.message;
    pair.hasPlan = false;
  } else {
    ++pair.nextChunk;
  }
  return item;
}

void PairExchange::startSend(Pair& pair) {
  const std::uint64_t number = pair.startedCount;
  Item& item = beginItem(pair);
  const OutMessage& message = sends_[pair.messages[item.message]];
  SendMessage part{.peer = pair.peer,
                   .data = message.data,
                   .bytes = bytesOf(message),
                   .isBesideWork = item.isStaged};
  if (item.isStaged) {
    const std::span<std::byte> slot = slotOf(pair, number);
    const auto* source = static_cast<const std::byte*>(message.data) +
                         item.frame.firstElement * elementBytes(message.datatype);
    engine_.codec.encode(item.frame.spec, source, slot,
                         {.call = item.messageNumber, .chunk = item.chunk}, stream_);
    engine_.codec.readReports(slot.data(), 0, {&item.report, 1}, stream_);
    item.isHeaderKnown = true;
    outcome_.encodedBytes += item.frame.staticBytes + item.report.dynamicBytes;
    outcome_.plainBytes += item.frame.sourceBytes;
    part.data = slot.data();
    part.bytes = item.frame.staticBytes;
  }
  requests_[placeOf(pair, number, kStaticPart)] =
      engine_.transport.startExchange({&part, 1}, {}, stream_);
  startDynamicParts(pair);
}

void PairExchange::startReceive(Pair& pair) {
  const std::uint64_t number = pair.startedCount;
  const Item& item = beginItem(pair);
  const InMessage& message = receives_[pair.messages[item.message]];
  ReceiveMessage part{.peer = pair.peer,
                      .data = message.data,
                      .bytes = bytesOf(message),
                      .isBesideWork = item.isStaged};
  if (item.isStaged) {
    part.data = slotOf(pair, number).data();
    part.bytes = item.frame.staticBytes;
  }
  requests_[placeOf(pair, number, kStaticPart)] =
      engine_.transport.startExchange({}, {&part, 1}, stream_);
}

void PairExchange::readHeader(Pair& pair, std::uint64_t number) {
  Item& item = pair.item(number);
  if (!item.isStaged || item.isHeaderKnown ||
      requests_[placeOf(pair, number, kStaticPart)].isActive()) {
    return;
  }
  engine_.codec.readReports(slotOf(pair, number).data(), 0, {&item.report, 1}, stream_);
  checkReport(item.report, item.frame.spec, placeOfFrame(item), engine_.rank(), pair.peer);
  item.isHeaderKnown = true;
}

void PairExchange::startDynamicParts(Pair& pair) {
  for (std::uint64_t number = pair.finishedCount; number != pair.startedCount; ++number) {
    Item& item = pair.item(number);
    // Requests need not complete in the order of their start, but the sender's parts follow it.
    if (item.isStaged && !item.isHeaderKnown) return;
    const bool isItsTurn = item.isLast || number + 1 != pair.startedCount;
    if (!item.hasDynamicPart() || item.isDynamicStarted || !isItsTurn) continue;
    item.isDynamicStarted = true;
    outcome_.hadDynamicPart = true;
    std::byte* const data = slotOf(pair, number).data() + item.frame.staticBytes;
    const SendMessage send{pair.peer, data, item.report.dynamicBytes, true};
    const ReceiveMessage receive{pair.peer, data, item.report.dynamicBytes, true};
    requests_[placeOf(pair, number, kDynamicPart)] =
        pair.isOut ? engine_.transport.startExchange({&send, 1}, {}, stream_)
                   : engine_.transport.startExchange({}, {&receive, 1}, stream_);
  }
}

void PairExchange::observe(Pair& pair, const Item& item) {
  const policy::FrameGeometry geometry = frameGeometry(item.frame.spec.datatype);
  if (item.chunk == 0) pair.observation.emplace(geometry);
  const policy::FrameFacts facts{.layout = item.frame.spec.layout == codec::Layout::kWide
                                               ? policy::FrameLayout::kWide
                                               : policy::FrameLayout::kNarrow,
                                 .tileCount = item.frame.tileCount(geometry),
                                 .extraBytes = item.report.extraBytes,
                                 .lowTiles = item.report.note.lowTiles};
  pair.observation->add(facts);
  policy::CallObservation call(geometry);
  call.add(facts);
  outcome_.extraSeen.narrow = std::max(outcome_.extraSeen.narrow, call.extra().narrow);
  outcome_.extraSeen.wide = std::max(outcome_.extraSeen.wide, call.extra().wide);
}

bool PairExchange::isItemComplete(const Pair& pair, std::uint64_t number) const {
  const Item& item = pair.items[number % kInFlight];
  if (requests_[placeOf(pair, number, kStaticPart)].isActive()) return false;
  if (!item.isStaged) return true;
  if (!item.isHeaderKnown) return false;
  return !item.hasDynamicPart() ||
         (item.isDynamicStarted && !requests_[placeOf(pair, number, kDynamicPart)].isActive());
}

bool PairExchange::isOldestComplete(const Pair& pair) const {
  return pair.finishedCount != pair.startedCount && isItemComplete(pair, pair.finishedCount);
}

FrameParts PairExchange::frameOf(const Pair& pair, const Item& item) const {
  const std::span<const std::byte> slot = slotOf(pair, pair.finishedCount);
  return {slot.first(item.frame.staticBytes),
          slot.subspan(item.frame.staticBytes, item.report.dynamicBytes)};
}

bool PairExchange::takeComplete() {
  for (Pair& pair : incoming_) {
    if (!isOldestComplete(pair)) continue;
    const Item& item = pair.item(pair.finishedCount);
    if (item.isStaged) {
      const InMessage& message = receives_[pair.messages[item.message]];
      auto* target = static_cast<std::byte*>(message.data) +
                     item.frame.firstElement * elementBytes(message.datatype);
      codec::DecodeStatus& status = statuses_[pair.place - outgoing_.size()];
      engine_.codec.decode(item.frame.spec, frameOf(pair, item), {target, item.frame.sourceBytes},
                           &status, stream_);
      engine_.codec.finish(stream_);
      checkFrame(pair, status);
    }
    finishOldest(pair);
    return true;
  }
  return false;
}

void PairExchange::checkFrame(Pair& pair, codec::DecodeStatus status) {
  checkStatus(status, placeOfFrame(pair.item(pair.finishedCount)), pair.peer);
}

void PairExchange::finishOldest(Pair& pair) {
  const Item& item = pair.item(pair.finishedCount);
  ++pair.finishedCount;
  if (item.isStaged) observe(pair, item);
  if (!item.isLast) return;
  if (item.isStaged) {
    historyOf(pair).endStaged(item.messageNumber, pair.observation->extra());
  } else {
    historyOf(pair).endNative(item.messageNumber);
  }
}

std::size_t PairExchange::placeOf(const Pair& pair, std::uint64_t item, std::size_t part) const {
  return (pair.place * kInFlight + item % kInFlight) * kParts + part;
}

void PairExchange::reserveScratch() {
  slotBytes_ = slotBytesNeeded();
  const std::uint64_t slotsBytes = (outgoing_.size() + incoming_.size()) * kInFlight * slotBytes_;
  scratch_ = engine_.scratch.reserve(slotsBytes).first(slotsBytes);
}

std::uint64_t PairExchange::slotBytesNeeded() const {
  std::uint64_t mostBytes = 0;
  const auto add = [&](const auto& message) {
    const std::optional<codec::Datatype> coded = codedDatatype(message.datatype);
    if (!coded || message.peer == engine_.rank()) return;
    const policy::FrameGeometry geometry = frameGeometry(*coded);
    const policy::ChunkPlan plan =
        policy::planChunks(collective_, geometry, engine_.rankCount(),
                           engine_.settings.maxScratchBytes, message.elementCount);
    if (plan.chunkCount == 0) return;
    mostBytes = std::max(mostBytes, policy::frameBoundBytes(geometry, plan.chunkElements));
  };
  for (const OutMessage& message : sends_) add(message);
  for (const InMessage& message : receives_) add(message);
  // The bound leaves room for this: it holds a frame rounded up.
  return mostBytes / kSlotAlignment * kSlotAlignment;
}

std::span<std::byte> PairExchange::slotOf(const Pair& pair, std::uint64_t item) {
  if (scratch_.empty()) reserveScratch();
  return scratch_.subspan((pair.place * kInFlight + item % kInFlight) * slotBytes_, slotBytes_);
}

std::span<const std::byte> PairExchange::slotOf(const Pair& pair, std::uint64_t item) const {
  return scratch_.subspan((pair.place * kInFlight + item % kInFlight) * slotBytes_, slotBytes_);
}

}  // namespace zipccl::collectives
