// SPDX-License-Identifier: Apache-2.0
//
// The fake device: streams with a thread each, events, graphs, and the log of faults.

#include "device.hpp"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/random.hpp"

using zipccl::testing::Work;
using zipccl::testing::WorkMaker;

/// What a capture has seen so far; shared by the streams that take part in it.
struct fakeGraph {
  std::vector<WorkMaker> makers;
  std::vector<fakeStream*> streams;
};

struct fakeStream {
  fakeStream() : thread([this] { run(); }) {}

  ~fakeStream() {
    {
      const std::lock_guard lock(mutex);
      isEnding = true;
    }
    changed.notify_all();
    thread.join();
  }

  void push(Work work) {
    {
      const std::lock_guard lock(mutex);
      queue.push_back(std::move(work));
      ++enqueued;
    }
    changed.notify_all();
  }

  void synchronize() {
    std::unique_lock lock(mutex);
    const std::uint64_t target = enqueued;
    changed.wait(lock, [&] { return completed >= target; });
  }

  bool isIdle() {
    const std::lock_guard lock(mutex);
    return completed == enqueued;
  }

  void run();

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Work> queue;
  std::uint64_t enqueued = 0;
  std::uint64_t completed = 0;
  bool isEnding = false;
  std::shared_ptr<fakeGraph> capture;  // guarded by captureMutex()
  std::thread thread;                  // last: it uses the others
};

/// What one record of an event stands for. A wait is for the record of its time, whatever streams
/// the event is recorded on later, and whichever of them gets there first.
struct Point {
  std::mutex mutex;
  std::condition_variable changed;
  bool isReached = false;

  void reach() {
    const std::lock_guard lock(mutex);
    isReached = true;
    changed.notify_all();
  }
  void await() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return isReached; });
  }
};

struct fakeEvent {
  std::mutex mutex;
  std::shared_ptr<Point> last;         // null before the first record
  std::shared_ptr<fakeGraph> capture;  // guarded by captureMutex(): the last record was captured
};

namespace {

std::atomic<unsigned> jitterUs{0};
std::atomic<int> progressDelayMs{2};
std::atomic<bool> isIdleMode{false};
std::atomic<bool> isRendezvous{false};
std::atomic<bool> isTracing{false};
std::atomic<int> liveCommunicators{0};

thread_local int currentDevice = 0;

std::atomic<int>& timeLimitMs() {
  static std::atomic<int> limit{[] {
    const char* const set = std::getenv("FAKE_NCCL_TIME_LIMIT_MS");
    return set != nullptr ? std::atoi(set) : 60000;
  }()};
  return limit;
}

std::mutex& captureMutex() {
  static std::mutex mutex;
  return mutex;
}

/// Lines that several threads write; never destroyed, as streams may outlive main().
struct Lines {
  std::mutex mutex;
  std::string text;
  int count = 0;

  void add(const char* line) {
    const std::lock_guard lock(mutex);
    text += line;
    text += '\n';
    ++count;
  }
  const char* read() {
    thread_local std::string answer;
    const std::lock_guard lock(mutex);
    answer = text;
    return answer.c_str();
  }
  void clear() {
    const std::lock_guard lock(mutex);
    text.clear();
    count = 0;
  }
};

Lines& faults() {
  static Lines& lines = *new Lines();
  return lines;
}

Lines& trace() {
  static Lines& lines = *new Lines();
  return lines;
}

fakeStream& defaultStream(int device) {
  static std::mutex& mutex = *new std::mutex();
  static auto& streams = *new std::map<int, fakeStream*>();
  const std::lock_guard lock(mutex);
  fakeStream*& stream = streams[device];
  if (stream == nullptr) stream = new fakeStream();
  return *stream;
}

}  // namespace

void fakeStream::run() {
  zipccl::Random random(zipccl::freshSeed());
  std::unique_lock lock(mutex);
  for (;;) {
    changed.wait(lock, [this] { return isEnding || !queue.empty(); });
    if (queue.empty()) return;
    Work work = std::move(queue.front());
    queue.pop_front();
    lock.unlock();
    if (const unsigned most = jitterUs; most != 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(most + 1)));
    }
    work();
    work = nullptr;  // what it holds ends before anybody hears that it is done
    lock.lock();
    ++completed;
    changed.notify_all();
  }
}

namespace zipccl::testing {

fakeStream_t resolveStream(fakeStream_t stream, int device) {
  return stream != nullptr ? stream : &defaultStream(device);
}

void enqueueWork(fakeStream_t stream, WorkMaker make) {
  stream = resolveStream(stream, currentDevice);
  {
    const std::lock_guard lock(captureMutex());
    if (stream->capture != nullptr) {
      stream->capture->makers.push_back(std::move(make));
      return;
    }
  }
  stream->push(make());
}

}  // namespace zipccl::testing

namespace {
std::mutex injectedMutex;
std::map<void*, int>& injectedErrors() {
  static auto& errors = *new std::map<void*, int>();
  return errors;
}

std::shared_ptr<Point> lastPoint(fakeEvent_t event) {
  const std::lock_guard lock(event->mutex);
  return event->last;
}

}  // namespace

extern "C" {

void fakeSetDevice(int device) { currentDevice = device; }
int fakeGetDevice() { return currentDevice; }
int fakeDeviceCount() {
  const char* const count = std::getenv("FAKE_DEVICES");
  return count == nullptr ? 0 : std::atoi(count);
}

fakeStream_t fakeStreamCreate() { return new fakeStream(); }

void fakeStreamDestroy(fakeStream_t stream) { delete stream; }

void fakeStreamSynchronize(fakeStream_t stream) {
  if (fakeStreamIsCapturing(stream) != 0) {
    fakeFault("a stream that is captured was waited for");
    return;
  }
  zipccl::testing::resolveStream(stream, currentDevice)->synchronize();
}

int fakeStreamIsIdle(fakeStream_t stream) {
  return zipccl::testing::resolveStream(stream, currentDevice)->isIdle() ? 1 : 0;
}

void fakeStreamEnqueue(fakeStream_t stream, void (*work)(void*), void* argument) {
  zipccl::testing::enqueueWork(stream,
                               [=]() -> Work { return [work, argument] { work(argument); }; });
}

fakeEvent_t fakeEventCreate() { return new fakeEvent(); }

void fakeEventDestroy(fakeEvent_t event) {
  fakeEventSynchronize(event);
  delete event;
}

void fakeEventRecord(fakeEvent_t event, fakeStream_t stream) {
  stream = zipccl::testing::resolveStream(stream, currentDevice);
  {
    const std::lock_guard lock(captureMutex());
    event->capture = stream->capture;
    if (event->capture != nullptr) return;
  }
  const auto point = std::make_shared<Point>();
  {
    const std::lock_guard lock(event->mutex);
    event->last = point;
  }
  stream->push([point] { point->reach(); });
}

void fakeStreamWaitEvent(fakeStream_t stream, fakeEvent_t event) {
  stream = zipccl::testing::resolveStream(stream, currentDevice);
  {
    const std::lock_guard lock(captureMutex());
    if (event->capture != nullptr && stream->capture != event->capture) {
      // The stream joins the capture; the order of calls is one that the graph allows.
      stream->capture = event->capture;
      stream->capture->streams.push_back(stream);
    }
    if (event->capture != nullptr) return;
  }
  const std::shared_ptr<Point> point = lastPoint(event);
  if (point == nullptr) return;
  zipccl::testing::enqueueWork(stream, [point]() -> Work { return [point] { point->await(); }; });
}

void fakeEventSynchronize(fakeEvent_t event) {
  {
    const std::lock_guard lock(captureMutex());
    if (event->capture != nullptr) {
      fakeFault("an event of a captured stream was waited for");
      return;
    }
  }
  if (const std::shared_ptr<Point> point = lastPoint(event)) point->await();
}

int fakeEventIsDone(fakeEvent_t event) {
  const std::shared_ptr<Point> point = lastPoint(event);
  if (point == nullptr) return 1;
  const std::lock_guard lock(point->mutex);
  return point->isReached ? 1 : 0;
}

void fakeStreamBeginCapture(fakeStream_t stream) {
  stream = zipccl::testing::resolveStream(stream, currentDevice);
  const std::lock_guard lock(captureMutex());
  stream->capture = std::make_shared<fakeGraph>();
  stream->capture->streams.push_back(stream);
}

fakeGraph_t fakeStreamEndCapture(fakeStream_t stream) {
  stream = zipccl::testing::resolveStream(stream, currentDevice);
  const std::lock_guard lock(captureMutex());
  const std::shared_ptr<fakeGraph> captured = stream->capture;
  if (captured == nullptr) {
    fakeFault("the capture of a stream was ended that is not captured");
    return nullptr;
  }
  for (fakeStream* const each : captured->streams) each->capture = nullptr;
  auto* const graph = new fakeGraph();
  graph->makers = std::move(captured->makers);
  return graph;
}

int fakeStreamIsCapturing(fakeStream_t stream) {
  stream = zipccl::testing::resolveStream(stream, currentDevice);
  const std::lock_guard lock(captureMutex());
  return stream->capture != nullptr ? 1 : 0;
}

void fakeGraphLaunch(fakeGraph_t graph, fakeStream_t stream) {
  for (const WorkMaker& make : graph->makers) {
    zipccl::testing::resolveStream(stream, currentDevice)->push(make());
  }
}

void fakeGraphDestroy(fakeGraph_t graph) { delete graph; }

void fakeSetJitterUs(unsigned microseconds) { jitterUs = microseconds; }

void fakeFault(const char* text) {
  std::fprintf(stderr, "fake device: fault: %s\n", text);
  faults().add(text);
}

int fakeFaultCount() {
  const std::lock_guard lock(faults().mutex);
  return faults().count;
}

const char* fakeFaultText() { return faults().read(); }
void fakeFaultsClear() { faults().clear(); }

void fakeNcclSetTimeLimitMs(int milliseconds) { timeLimitMs() = milliseconds; }
int fakeNcclTimeLimitMs() { return timeLimitMs(); }
void fakeNcclSetRendezvous(int isOn) { isRendezvous = isOn != 0; }
int fakeNcclIsRendezvous() { return isRendezvous ? 1 : 0; }
void fakeNcclSetProgressDelayMs(int milliseconds) { progressDelayMs = milliseconds; }
int fakeNcclProgressDelayMs() { return progressDelayMs; }

void fakeNcclSetAsyncError(void* comm, int result) {
  const std::lock_guard lock(injectedMutex);
  if (result == 0) {
    injectedErrors().erase(comm);
  } else {
    injectedErrors()[comm] = result;
  }
}

int fakeNcclInjectedError(void* comm) {
  const std::lock_guard lock(injectedMutex);
  const auto found = injectedErrors().find(comm);
  return found == injectedErrors().end() ? 0 : found->second;
}

void fakeNcclSetIdle(int isIdle) { isIdleMode.store(isIdle != 0, std::memory_order_relaxed); }
int fakeNcclIsIdle() { return isIdleMode.load(std::memory_order_relaxed) ? 1 : 0; }

void fakeNcclTrace(int isOn) {
  if (isOn != 0) trace().clear();
  isTracing = isOn != 0;
}
int fakeNcclIsTracing() { return isTracing.load(std::memory_order_relaxed) ? 1 : 0; }
const char* fakeNcclTraceText() { return trace().read(); }
void fakeNcclTraceAdd(const char* line) { trace().add(line); }

int fakeNcclLiveCommunicators() { return liveCommunicators; }
void fakeNcclCountCommunicator(int change) { liveCommunicators += change; }

}  // extern "C"
