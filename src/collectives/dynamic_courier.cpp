// SPDX-License-Identifier: Apache-2.0
//
// The courier of dynamic parts.

#include "collectives/dynamic_courier.hpp"

#include <exception>
#include <span>
#include <utility>

#include "base/log.hpp"
#include "collectives/courier_thread.hpp"

namespace zipccl::collectives {

DynamicCourier::DynamicCourier(transport::Device& device,
                               std::unique_ptr<transport::SideChannel> channel, int rank,
                               std::function<void(const Error&)> onFailure)
    : rank_(rank),
      onFailure_(std::move(onFailure)),
      windowMemory_(device, sizeof(codec::DynamicWindow)),
      slots_(device, kSlots * sizeof(codec::GateSlot)),
      window_(windowOf()),
      channel_(std::move(channel)) {
  CourierThread::instance().add(this);
}

DynamicCourier::~DynamicCourier() {
  if (CourierThread::instance().remove(this)) flush();
}

void DynamicCourier::flush() {
  DynamicCourier* self = this;
  if (CourierThread::drain({&self, 1})) return;
  logWarn("rank ", rank_,
          " leaves a communicator, and its peers have not taken all that they need of it");
}

bool DynamicCourier::owes() const {
  const std::lock_guard lock(mutex_);
  if (hasEnded()) return false;
  return channel_->hasUnsent() ||
         (!tickets_.empty() && tickets_.front().isRead && tickets_.front().isExport);
}

codec::DynamicWindow& DynamicCourier::windowOf() const noexcept {
  return *reinterpret_cast<codec::DynamicWindow*>(windowMemory_.data());
}

codec::GateSlot& DynamicCourier::slotOf(std::uint64_t number) const noexcept {
  // Numbers begin with 1: slots are zeroed.
  return reinterpret_cast<codec::GateSlot*>(slots_.data())[number % kSlots];
}

bool DynamicCourier::mayOpen() const {
  const std::lock_guard lock(mutex_);
  return tickets_.size() < kSlots;
}

codec::Gate DynamicCourier::openExport(std::vector<GateFrame> frames) {
  return open(std::move(frames), true);
}

codec::Gate DynamicCourier::openImport(std::vector<GateFrame> frames) {
  return open(std::move(frames), false);
}

codec::Gate DynamicCourier::open(std::vector<GateFrame> frames, bool isExport) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    invariant(tickets_.size() < kSlots && frames.size() <= codec::kMostGateFrames,
              "a gate is opened that there is no room for");
    number = ++gateCount_;
    if (!hasEnded()) {
      tickets_.push_back({.number = number, .isExport = isExport, .frames = std::move(frames)});
    }
  }
  CourierThread::instance().wake();
  return {.slot = &slotOf(number), .number = number, .window = &windowOf()};
}

bool DynamicCourier::isBusy() const {
  const std::lock_guard lock(mutex_);
  return !hasEnded() && (!tickets_.empty() || channel_->hasUnsent());
}

bool DynamicCourier::progress() {
  const std::lock_guard lock(mutex_);
  if (hasEnded()) return false;
  try {
    return progressLocked();
  } catch (const Error& error) {
    failLocked(error);
  } catch (const std::exception& error) {
    failLocked(Error(ErrorCode::kSystemError,
                     concat("rank ", rank_, " cannot move a dynamic part: ", error.what())));
  }
  return true;
}

bool DynamicCourier::progressLocked() {
  bool hasMoved = false;
  while (!tickets_.empty() && progressTicket(tickets_.front())) {
    hasMoved = true;
    passed_.push_back(std::move(tickets_.front()));
    tickets_.pop_front();
  }
  const bool isWaiting = !tickets_.empty() && tickets_.front().isRead;
  if (isWaiting || channel_->hasUnsent()) hasMoved |= channel_->progress();
  return hasMoved;
}

bool DynamicCourier::progressTicket(Ticket& ticket) {
  if (!ticket.isRead) {
    if (!WindowEnd::hasPassed(slotOf(ticket.number), ticket.number)) return false;
    readHeaders(ticket);
    ticket.isRead = true;
  }
  for (; ticket.next != ticket.frames.size(); ++ticket.next) {
    const GateFrame& frame = ticket.frames[ticket.next];
    if (frame.report.dynamicBytes == 0) continue;
    if (ticket.isExport ? !exportPart(frame) : !importPart(frame)) return false;
  }
  return true;
}

void DynamicCourier::readHeaders(Ticket& ticket) {
  const codec::GateSlot& slot = slotOf(ticket.number);
  for (std::size_t i = 0; i < ticket.frames.size(); ++i) {
    GateFrame& frame = ticket.frames[i];
    frame.report = readReport(slot.headers[i]);
    checkReport(frame.report, frame.spec, frame.place, rank_, frame.maker);
  }
}

bool DynamicCourier::exportPart(const GateFrame& frame) {
  if (!window_.take(taken_, frame.report.dynamicBytes)) return false;
  const auto part = std::make_shared<const std::vector<std::byte>>(std::exchange(taken_, {}));
  const transport::SideTag tag{.call = frame.place.call, .chunk = frame.place.chunk};
  for (const int reader : frame.readers) channel_->send(reader, tag, part);
  sentBytes_.fetch_add(part->size() * frame.readers.size(), std::memory_order_relaxed);
  return true;
}

bool DynamicCourier::importPart(const GateFrame& frame) {
  if (!arriving_) {
    arriving_ = channel_->receive(frame.maker);
    if (!arriving_) {
      expects(!channel_->isClosed(frame.maker), ErrorCode::kRemoteError, "rank ", frame.maker,
              " left before rank ", rank_, " had all of ", frame.place.unit, ' ', frame.place.call);
      return false;
    }
    expects(arriving_->tag.call == frame.place.call && arriving_->tag.chunk == frame.place.chunk &&
                arriving_->bytes.size() == frame.report.dynamicBytes,
            ErrorCode::kInternalError, "rank ", frame.maker, " sent ", arriving_->bytes.size(),
            " bytes of chunk ", arriving_->tag.chunk, " of ", arriving_->tag.call, ", where rank ",
            rank_, " expects ", frame.report.dynamicBytes, " of chunk ", frame.place.chunk, " of ",
            frame.place.unit, ' ', frame.place.call);
  }
  if (!window_.give(arriving_->bytes, givenBytes_)) return false;
  arriving_.reset();
  givenBytes_ = 0;
  return true;
}

void DynamicCourier::tellObservers() {
  std::deque<Ticket> passed;
  {
    const std::lock_guard lock(mutex_);
    passed.swap(passed_);
  }
  for (const Ticket& ticket : passed) {
    for (const GateFrame& frame : ticket.frames) {
      if (frame.observer) frame.observer->observe(frame.spec, frame.report, frame.maker);
    }
  }
}

void DynamicCourier::failLocked(const Error& error) {
  hasFailed_ = true;
  logWarn("rank ", rank_, ": ", error.what());
  window_.abort();
  onFailure_(error);
}

void DynamicCourier::abort() noexcept {
  isAborted_.store(true, std::memory_order_release);
  window_.abort();
}

}  // namespace zipccl::collectives
