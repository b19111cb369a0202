// SPDX-License-Identifier: Apache-2.0
//
// The recording engine: libzipccl.so of the tests, beside the interposer under test.

#include "recording_engine.h"

#include <zipccl/nccl_engine.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fake_nccl/arithmetic.hpp"
#include "fake_nccl/fake_nccl.h"
#include "transport/nccl_link.hpp"

using namespace zipccl::testing;

namespace {

struct Attached {
  const zipcclNcclApi* api = nullptr;
  void* comm = nullptr;
  int ranks = 0;
  int rank = 0;
  std::atomic<bool> isAborted{false};
};

std::atomic<int> attachCalls{0};
std::atomic<int> attachedCount{0};
std::atomic<int> detachedCount{0};
std::atomic<int> abortedCount{0};
std::atomic<int> wantedCount{0};
std::atomic<int> runCount{0};
std::atomic<int> callsInRunCount{0};
std::atomic<int> roundCount{0};
std::atomic<int> liveCount{0};
std::atomic<std::uint64_t> chunkElements{4096};
std::atomic<bool> isBlocking{false};
std::atomic<int> waitingCount{0};
std::atomic<int> asyncErrorValue{0};
std::atomic<bool> isFailing{false};
std::atomic<bool> isRefusing{false};

std::mutex notesMutex;
std::string& notesText() {
  static auto& text = *new std::string();
  return text;
}

void note(const std::string& line) {
  const std::lock_guard lock(notesMutex);
  notesText() += line + "\n";
}

Attached& of(void* attached) { return *static_cast<Attached*>(attached); }

const std::byte* at(const void* buffer, std::size_t bytes) {
  return static_cast<const std::byte*>(buffer) + bytes;
}
std::byte* at(void* buffer, std::size_t bytes) { return static_cast<std::byte*>(buffer) + bytes; }

/// All ranks find out that all are attached, by moving data, as the engine's handshake does.
void shakeHands(const zipcclNcclApi& api, const std::vector<Attached*>& all) {
  struct Hands {
    int own;
    std::vector<int> others;
    fakeStream_t stream;
  };
  std::vector<Hands> hands;
  for (const Attached* const each : all) {
    hands.push_back({each->rank, std::vector<int>(static_cast<std::size_t>(each->ranks), -1),
                     fakeStreamCreate()});
  }
  api.groupStart();
  for (std::size_t i = 0; i < all.size(); ++i) {
    api.allGather(&hands[i].own, hands[i].others.data(), 1, kNcclInt32, all[i]->comm,
                  hands[i].stream);
  }
  api.groupEnd();
  for (const Hands& each : hands) {
    fakeStreamDestroy(each.stream);
    for (std::size_t rank = 0; rank < each.others.size(); ++rank) {
      if (each.others[rank] != static_cast<int>(rank)) fakeFault("the handshake went wrong");
    }
  }
}

void attach(const zipcclNcclApi* api, void* const comms[], int count, void* attached[]) {
  ++attachCalls;
  if (isRefusing) return;
  std::vector<Attached*> all;
  for (int i = 0; i < count; ++i) {
    auto* const each = new Attached;
    each->api = api;
    each->comm = comms[i];
    api->commCount(comms[i], &each->ranks);
    api->commUserRank(comms[i], &each->rank);
    all.push_back(each);
    attached[i] = each;
    ++attachedCount;
    ++liveCount;
  }
  shakeHands(*api, all);
}

void detach(void* attached) {
  ++detachedCount;
  --liveCount;
  delete &of(attached);
}

void abortComm(void* attached) {
  ++abortedCount;
  of(attached).isAborted = true;
}

int wants(const zipcclNcclCall* call) {
  const bool isPair = call->kind == zipcclNcclSend || call->kind == zipcclNcclRecv;
  const bool isWanted = call->attached != nullptr && call->datatype == kNcclBfloat16 &&
                        call->count >= 64 && call->kind != zipcclNcclReduce &&
                        (!isPair || call->isGrouped != 0);
  if (isWanted) ++wantedCount;
  return isWanted ? 1 : 0;
}

int check(const zipcclNcclCall* call) {
  if (elementBytes(call->datatype) == 0) return kNcclInvalidArgument;
  const int ranks = of(call->attached).ranks;
  switch (call->kind) {
    case zipcclNcclBroadcast:
    case zipcclNcclReduce:
    case zipcclNcclGather:
    case zipcclNcclScatter:
    case zipcclNcclSend:
    case zipcclNcclRecv:
      return call->peer < 0 || call->peer >= ranks ? int{kNcclInvalidArgument} : kNcclSuccess;
    default:
      return kNcclSuccess;
  }
}

/// Whether the call is cut into chunks, which go in rounds.
bool isCut(const zipcclNcclCall& call) {
  switch (call.kind) {
    case zipcclNcclAllGather:
    case zipcclNcclAllReduce:
    case zipcclNcclBroadcast:
    case zipcclNcclAlltoAll:
    case zipcclNcclSend:
    case zipcclNcclRecv:
      return wants(&call) != 0;
    default:
      return false;
  }
}

/// Elements [from, from + count) of the call.
int makeChunk(const zipcclNcclCall& call, std::size_t from, std::size_t count) {
  const Attached& comm = of(call.attached);
  const zipcclNcclApi& api = *comm.api;
  const std::size_t size = elementBytes(call.datatype);
  int result = kNcclSuccess;
  const auto also = [&](int each) { result = result == kNcclSuccess ? each : result; };
  if (call.kind == zipcclNcclAllGather || call.kind == zipcclNcclAlltoAll) {
    const bool isGather = call.kind == zipcclNcclAllGather;
    for (int peer = 0; peer < comm.ranks; ++peer) {
      const std::size_t place = static_cast<std::size_t>(peer) * call.count + from;
      const void* const mine = at(call.sendbuff, (isGather ? from : place) * size);
      void* const theirs = at(call.recvbuff, place * size);
      if (isGather && peer == comm.rank && mine == theirs) continue;  // in place
      also(api.send(mine, count, call.datatype, peer, call.comm, call.stream));
      also(api.recv(theirs, count, call.datatype, peer, call.comm, call.stream));
    }
    return result;
  }
  zipcclNcclCall part = call;
  part.count = count;
  if (call.sendbuff != nullptr) part.sendbuff = at(call.sendbuff, from * size);
  if (call.recvbuff != nullptr) part.recvbuff = at(call.recvbuff, from * size);
  return zipccl::transport::callNative(api, part);
}

int waitForAbort(const zipcclNcclCall& call) {
  ++waitingCount;
  const Attached& comm = of(call.attached);
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!comm.isAborted && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  --waitingCount;
  if (!comm.isAborted) fakeFault("run() waited for ever");
  return kNcclRemoteError;
}

int run(const zipcclNcclCall* calls, std::size_t count) {
  ++runCount;
  callsInRunCount += static_cast<int>(count);
  if (isFailing) return kNcclRemoteError;
  if (isBlocking) return waitForAbort(calls[0]);
  const zipcclNcclApi& api = *of(calls[0].attached).api;
  std::size_t chunk = chunkElements;
  std::size_t most = 1;
  for (std::size_t i = 0; i < count; ++i) {
    if (isCut(calls[i])) most = std::max(most, (calls[i].count + chunk - 1) / chunk);
  }
  int result = kNcclSuccess;
  for (std::size_t round = 0; round < most && result == kNcclSuccess; ++round) {
    ++roundCount;
    result = api.groupStart();
    for (std::size_t i = 0; i < count && result == kNcclSuccess; ++i) {
      const zipcclNcclCall& call = calls[i];
      if (!isCut(call)) {
        if (round == 0) result = zipccl::transport::callNative(api, call);
        continue;
      }
      const std::size_t from = round * chunk;
      if (from < call.count) result = makeChunk(call, from, std::min(chunk, call.count - from));
    }
    const int ended = api.groupEnd();
    if (result == kNcclSuccess) result = ended;
  }
  return result;
}

int asyncError(void*, int real) { return asyncErrorValue != 0 ? asyncErrorValue.load() : real; }

const char* lastError(void*) {
  return asyncErrorValue != 0 || isFailing ? "the recording engine has failed" : nullptr;
}

void redOpCreated(void*, int, const void*, int datatype, int residence) {
  note("op created datatype=" + std::to_string(datatype) +
       " residence=" + std::to_string(residence));
}
void redOpDestroyed(void*, int) { note("op destroyed"); }
void windowRegistered(void*, void*, std::size_t bytes, void* window) {
  note("window registered bytes=" + std::to_string(bytes) +
       (window != nullptr ? "" : " without a window"));
}
void windowDeregistered(void*, void*) { note("window deregistered"); }

constexpr zipcclNcclEngine kEngine = {
    .size = sizeof(zipcclNcclEngine),
    .version = ZIPCCL_NCCL_ENGINE_VERSION,
    .attach = attach,
    .detach = detach,
    .abort = abortComm,
    .wants = wants,
    .check = check,
    .run = run,
    .asyncError = asyncError,
    .lastError = lastError,
    .redOpCreated = redOpCreated,
    .redOpDestroyed = redOpDestroyed,
    .windowRegistered = windowRegistered,
    .windowDeregistered = windowDeregistered,
};

constexpr recordingControl kControl = {
    .attachCalls = [] { return attachCalls.load(); },
    .attachedCommunicators = [] { return attachedCount.load(); },
    .detached = [] { return detachedCount.load(); },
    .aborted = [] { return abortedCount.load(); },
    .wanted = [] { return wantedCount.load(); },
    .runs = [] { return runCount.load(); },
    .callsInRuns = [] { return callsInRunCount.load(); },
    .rounds = [] { return roundCount.load(); },
    .live = [] { return liveCount.load(); },
    .reset =
        [] {
          for (std::atomic<int>* const count :
               {&attachCalls, &attachedCount, &detachedCount, &abortedCount, &wantedCount,
                &runCount, &callsInRunCount, &roundCount, &asyncErrorValue}) {
            *count = 0;
          }
          chunkElements = 4096;
          isBlocking = false;
          isFailing = false;
          isRefusing = false;
          const std::lock_guard lock(notesMutex);
          notesText().clear();
        },
    .setChunk = [](std::uint64_t elements) { chunkElements = elements; },
    .setBlocking = [](int value) { isBlocking = value != 0; },
    .isWaiting = [] { return waitingCount.load() != 0 ? 1 : 0; },
    .setAsyncError = [](int result) { asyncErrorValue = result; },
    .setFailing = [](int value) { isFailing = value != 0; },
    .setRefusing = [](int value) { isRefusing = value != 0; },
    .notes =
        [] {
          thread_local std::string answer;
          const std::lock_guard lock(notesMutex);
          answer = notesText();
          return answer.c_str();
        },
};

}  // namespace

extern "C" {

__attribute__((visibility("default"))) const zipcclNcclEngine* zipcclGetNcclEngine(
    std::uint32_t version) {
  return version == ZIPCCL_NCCL_ENGINE_VERSION ? &kEngine : nullptr;
}

__attribute__((visibility("default"))) const recordingControl* recordingEngineControl() {
  return &kControl;
}

}  // extern "C"
