// SPDX-License-Identifier: Apache-2.0
//
// Threads that sleep until a call has work for them.

#include "codec/thread_pool.hpp"

#include <algorithm>
#include <system_error>

#include "base/error.hpp"

namespace zipccl::codec {

CodecThreads::Pool::Pool(unsigned threadCount)
    : chunkExtra_(std::make_unique_for_overwrite<std::byte[]>(kChunkExtraBytes * threadCount)) {
  threads_.reserve(threadCount - 1);
  try {
    for (unsigned worker = 1; worker < threadCount; ++worker) {
      threads_.emplace_back([this, worker] { serve(worker); });
    }
  } catch (const std::system_error& error) {
    end();
    fail(ErrorCode::kSystemError, "the system started ", threads_.size(), " of ", threadCount - 1,
         " threads: ", error.what());
  } catch (...) {
    end();
    throw;
  }
}

CodecThreads::Pool::~Pool() { end(); }

void CodecThreads::Pool::end() noexcept {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  started_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool CodecThreads::Pool::tryRunErased(std::uint64_t mostWorkers, Call call,
                                      const void* work) noexcept {
  const std::unique_lock taken(taken_, std::try_to_lock);
  if (!taken.owns_lock()) return false;
  {
    const std::scoped_lock lock(mutex_);
    workers_ = static_cast<unsigned>(std::min<std::uint64_t>(mostWorkers, threadCount()));
    working_ = workers_ - 1;
    call_ = call;
    work_ = work;
    ++round_;
  }
  started_.notify_all();
  call(work, 0);
  std::unique_lock lock(mutex_);
  finished_.wait(lock, [this] { return working_ == 0; });
  return true;
}

void CodecThreads::Pool::serve(unsigned worker) noexcept {
  std::uint64_t served = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    started_.wait(lock, [&] { return ends_ || round_ != served; });
    if (ends_) return;
    served = round_;
    if (worker >= workers_) continue;
    const Call call = call_;
    const void* const work = work_;
    lock.unlock();
    call(work, worker);
    lock.lock();
    if (--working_ == 0) finished_.notify_one();
  }
}

namespace {

unsigned checkedCount(unsigned count) {
  expects(count >= 1 && count <= CodecThreads::kMost, "the codec takes 1 to ", CodecThreads::kMost,
          " threads, not ", count);
  return count;
}

}  // namespace

CodecThreads::CodecThreads(unsigned count) : pool_(std::make_unique<Pool>(checkedCount(count))) {}

CodecThreads::~CodecThreads() = default;

unsigned CodecThreads::count() const noexcept { return pool_->threadCount(); }

}  // namespace zipccl::codec
