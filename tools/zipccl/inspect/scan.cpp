// SPDX-License-Identifier: Apache-2.0
//
// Threads take pieces in their order; what they found is added up in that order too, so that sums
// of floating point do not depend on who was faster.

#include "inspect/scan.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "inspect/inputs.hpp"

namespace zipccl::tools::inspect {
namespace {

constexpr std::chrono::milliseconds kProgressPeriod{100};
/// How many pieces of each thread may wait for one that is slow.
constexpr std::uint64_t kMostAhead = 16;

struct Piece {
  std::uint64_t number = 0;
  std::size_t tensor = 0;
  std::span<const std::byte> bytes = {};
  bool isLast = false;  ///< of its tensor
};

/// The work, and what was found. All functions may be called by all threads.
class Exchange {
 public:
  Exchange(std::span<const InputTensor> tensors, const ScanPlan& plan, const TensorHandler& done)
      : tensors_(tensors), plan_(plan), done_(done), mostAhead_(kMostAhead * plan.threads) {}

  /// None when there is no more to do, or somebody failed.
  std::optional<Piece> next() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return error_ || nextNumber_ < nextAdded_ + mostAhead_; });
    if (error_ || nextTensor_ == tensors_.size()) return std::nullopt;
    const InputTensor& tensor = tensors_[nextTensor_];
    Piece piece = {.number = nextNumber_++, .tensor = nextTensor_};
    // Nothing in there is looked at: one empty piece is enough.
    const bool isSkipped = !tensor.datatype && !plan_.usesZstd;
    const std::uint64_t end = isSkipped ? nextByte_ : tensor.bytes.size();
    piece.bytes = tensor.bytes.subspan(nextByte_, std::min(kPieceBytes, end - nextByte_));
    nextByte_ += piece.bytes.size();
    piece.isLast = nextByte_ == end;
    if (piece.isLast) {
      ++nextTensor_;
      nextByte_ = 0;
    }
    return piece;
  }

  void add(const Piece& piece, const Statistics& statistics) {
    const std::lock_guard lock(mutex_);
    if (error_) return;
    try {
      addLocked(piece, statistics);
    } catch (...) {
      // Before another thread, which may wait for the lock, has anything handled.
      error_ = std::current_exception();
    }
    changed_.notify_all();
  }

  void fail(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
    changed_.notify_all();
  }

  void leave() {
    const std::lock_guard lock(mutex_);
    ++left_;
    changed_.notify_all();
  }

  /// Returns when all threads have left; throws what one of them threw.
  void wait() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kProgressPeriod, [this] { return left_ == plan_.threads; })) {
      const std::uint64_t doneBytes = doneBytes_;
      lock.unlock();
      if (plan_.progress) plan_.progress(doneBytes);
      lock.lock();
    }
    if (error_) std::rethrow_exception(error_);
  }

 private:
  struct Found {
    Piece piece;
    Statistics statistics;
  };

  void addLocked(const Piece& piece, const Statistics& statistics) {
    waiting_.emplace(piece.number, Found{piece, statistics});
    while (!waiting_.empty() && waiting_.begin()->first == nextAdded_) {
      const Found found = waiting_.extract(waiting_.begin()).mapped();
      ++nextAdded_;
      ofTensor_.add(found.statistics);
      doneBytes_ += found.piece.bytes.size();
      if (found.piece.isLast) done_(found.piece.tensor, std::exchange(ofTensor_, {}));
    }
  }

  std::span<const InputTensor> tensors_;
  const ScanPlan& plan_;
  const TensorHandler& done_;
  const std::uint64_t mostAhead_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::exception_ptr error_;
  unsigned left_ = 0;
  // What is given out next.
  std::size_t nextTensor_ = 0;
  std::uint64_t nextByte_ = 0;
  std::uint64_t nextNumber_ = 0;
  // What came back.
  std::map<std::uint64_t, Found> waiting_;
  std::uint64_t nextAdded_ = 0;
  std::uint64_t doneBytes_ = 0;
  Statistics ofTensor_;
};

void work(std::span<const InputTensor> tensors, const ScanPlan& plan, Exchange& exchange) {
  try {
    PieceMeter meter(plan.usesZstd);
    while (const std::optional<Piece> piece = exchange.next()) {
      exchange.add(*piece, meter.measure(tensors[piece->tensor].datatype, piece->bytes));
      if (plan.release != nullptr) plan.release(piece->bytes);
    }
  } catch (...) {
    exchange.fail(std::current_exception());
  }
  exchange.leave();
}

}  // namespace

PieceMeter::PieceMeter(bool usesZstd) : zstd_(usesZstd ? std::make_unique<Zstd>() : nullptr) {
  std::uint64_t mostBytes = 0;
  for (const codec::Datatype datatype :
       {codec::Datatype::kBfloat16, codec::Datatype::kFloat16, codec::Datatype::kFloat32}) {
    const std::uint64_t count = kPieceBytes / codec::elementBytes(datatype);
    mostBytes = std::max(mostBytes, codec::maxFrameBytes(datatype, count));
  }
  frame_ = HostBuffer(mostBytes);
}

Statistics PieceMeter::measure(std::optional<codec::Datatype> datatype,
                               std::span<const std::byte> bytes) {
  Statistics statistics;
  if (datatype) {
    codec::FrameSpec spec = {.datatype = *datatype};
    spec.elementCount = bytes.size() / codec::elementBytes(*datatype);
    statistics.encoded = codec::encode(spec, bytes.data(), frame_.bytes());
    measureElements(*datatype, bytes, frame_.bytes(), statistics);
  }
  if (zstd_ && !bytes.empty()) statistics.zstdBytes = zstd_->compressedBytes(bytes);
  return statistics;
}

void scan(std::span<const InputTensor> tensors, const ScanPlan& plan, const TensorHandler& done) {
  Exchange exchange(tensors, plan, done);
  std::vector<std::jthread> threads;
  try {
    for (unsigned n = 0; n < plan.threads; ++n) {
      threads.emplace_back([&] { work(tensors, plan, exchange); });
    }
  } catch (...) {
    exchange.fail(std::current_exception());
    throw;
  }
  exchange.wait();
}

}  // namespace zipccl::tools::inspect
