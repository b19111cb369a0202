// SPDX-License-Identifier: Apache-2.0
//
// The MPI transport over a table of functions that stands in for MPI: one rank of two, whose peer
// and whose errors the test plays. It needs no MPI, so sanitizer builds run it too. And the loading
// of plugins that are missing or wrong.

#include "transport/mpi/mpi_functions.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "base/settings.hpp"
#include "base/text.hpp"
#include "support/out_of_memory.hpp"
#include "transport/mpi_library.hpp"
#include "transport/mpi_transport.hpp"

namespace zipccl::transport {
namespace {

using namespace std::chrono_literals;

constexpr int kFakeError = 17;
constexpr int kFakeTruncation = 15;

/// MPI as rank 0 of 2 sees it.
struct FakeMpi {
  struct Started {
    std::string what;
    const void* from = nullptr;
    void* to = nullptr;
    std::uint64_t bytes = 0;
    int peer = -1;
    int tag = -1;
    bool isCancelled = false;
  };

  int initialiseError = 0;
  int wasFinalised = 0;
  int didInitialise = 0;
  int mayThisThreadCall = 1;
  bool doesDuplicate = true;
  std::string failingCall;
  bool doesComplete = true;
  int testError = 0;
  std::uint64_t messageBytes = 0;
  bool isMessageSizeForced = false;

  std::vector<std::pair<const void*, std::uint64_t>> parents;  // of duplicates
  std::vector<Started> started;                                // request n is started[n - 1]
  std::vector<MpiNotice> sentNotices;
  std::deque<std::vector<std::byte>> notices;  // to be received from rank 1
  int looksBeforeNotices = 0;
  int blockingGatherCount = 0;
  bool wasGatherInPlace = false;
  int freedCount = 0;
  std::vector<std::uint64_t> freed;  // as numbered by creation
  std::uint64_t createdCount = 0;
  int finaliseCount = 0;
};

FakeMpi* fake = nullptr;

int start(const char* what, const void* from, void* to, std::uint64_t bytes, int peer, int tag,
          ZipcclMpiHandle* request) {
  if (fake->failingCall == what) return kFakeError;
  fake->started.push_back({what, from, to, bytes, peer, tag, false});
  *request = {.storage = {fake->started.size(), 0}};
  if (tag == kMpiNoticeTag && std::string(what) == "send") {
    MpiNotice notice;
    std::memcpy(&notice, from, sizeof(notice));
    fake->sentNotices.push_back(notice);
  }
  return 0;
}

void copyText(const char* from, char* text, int roomBytes) {
  std::snprintf(text, static_cast<std::size_t>(roomBytes), "%s", from);
}

int testRequest(ZipcclMpiHandle* request, int* isDone, std::uint64_t* messageBytes) {
  *isDone = 0;
  *messageBytes = 0;
  if (request->storage[0] == 0) {
    *isDone = 1;
    return 0;
  }
  const FakeMpi::Started& started = fake->started[request->storage[0] - 1];
  const bool isData = started.tag != kMpiNoticeTag && started.what != "duplicate";
  if (isData && !fake->doesComplete && !started.isCancelled) return 0;
  *isDone = 1;
  *request = {};
  *messageBytes = isData && fake->isMessageSizeForced ? fake->messageBytes : started.bytes;
  return isData && !started.isCancelled ? fake->testError : 0;
}

int receiveAny(const ZipcclMpiHandle*, int, void* data, std::uint64_t* bytes, int* source) {
  *source = -1;
  if (fake->looksBeforeNotices > 0) {
    --fake->looksBeforeNotices;
    return 0;
  }
  if (fake->notices.empty()) return fake->failingCall == "receiveAny" ? kFakeError : 0;
  const std::vector<std::byte> notice = fake->notices.front();
  fake->notices.pop_front();
  std::memcpy(data, notice.data(), std::min<std::size_t>(*bytes, notice.size()));
  *bytes = notice.size();
  *source = 1;
  return 0;
}

const ZipcclMpiFunctions kFakeFunctions = {
    .version = kMpiPluginVersion,
    .structBytes = sizeof(ZipcclMpiFunctions),
    .initialise =
        [](int* didInitialise, int* wasFinalised) {
          *didInitialise = fake->didInitialise;
          *wasFinalised = fake->wasFinalised;
          return fake->initialiseError;
        },
    .mayThisThreadCall =
        [](int* answer) {
          *answer = fake->mayThisThreadCall;
          return 0;
        },
    .isFinalised =
        [](int* answer) {
          *answer = fake->wasFinalised;
          return 0;
        },
    .finalise =
        [] {
          ++fake->finaliseCount;
          return 0;
        },
    .errorText =
        [](int error, char* text, int roomBytes) {
          copyText(error == kFakeError ? "a fake error" : "", text, roomBytes);
        },
    .libraryVersion = [](char* text, int roomBytes) { copyText("fake MPI", text, roomBytes); },
    .isTruncation = [](int error) { return error == kFakeTruncation ? 1 : 0; },
    .startDuplicate =
        [](const void* parent, std::uint64_t parentBytes, ZipcclMpiHandle*,
           ZipcclMpiHandle* request) {
          fake->parents.emplace_back(parent, parentBytes);
          const int error = start(fake->doesDuplicate ? "duplicate" : "never", nullptr, nullptr, 0,
                                  -1, -1, request);
          return error;
        },
    .finishComm =
        [](ZipcclMpiHandle* comm, int* rank, int* rankCount) {
          comm->storage[0] = ++fake->createdCount;
          *rank = 0;
          *rankCount = 2;
          return 0;
        },
    .freeComm =
        [](ZipcclMpiHandle* comm) {
          ++fake->freedCount;
          fake->freed.push_back(comm->storage[0]);
          return 0;
        },
    .startSend =
        [](const ZipcclMpiHandle*, const void* data, std::uint64_t bytes, int peer, int tag,
           ZipcclMpiHandle* request) {
          return start("send", data, nullptr, bytes, peer, tag, request);
        },
    .startSynchronousSend =
        [](const ZipcclMpiHandle*, const void* data, std::uint64_t bytes, int peer, int tag,
           ZipcclMpiHandle* request) {
          return start("synchronous send", data, nullptr, bytes, peer, tag, request);
        },
    .startReceive =
        [](const ZipcclMpiHandle*, void* data, std::uint64_t bytes, int peer, int tag,
           ZipcclMpiHandle* request) {
          return start("receive", nullptr, data, bytes, peer, tag, request);
        },
    .startAllGather =
        [](const ZipcclMpiHandle*, const void* send, void* receive, std::uint64_t bytesPerRank,
           ZipcclMpiHandle* request) {
          fake->wasGatherInPlace = send == nullptr;
          return start("gather", send, receive, bytesPerRank, -1, -1, request);
        },
    .allGather =
        [](const ZipcclMpiHandle*, const void* send, void*, std::uint64_t) {
          ++fake->blockingGatherCount;
          fake->wasGatherInPlace = send == nullptr;
          return fake->failingCall == "allGather" ? kFakeError : 0;
        },
    .startBroadcast =
        [](const ZipcclMpiHandle*, void* buffer, std::uint64_t bytes, int root,
           ZipcclMpiHandle* request) {
          return start("broadcast", nullptr, buffer, bytes, root, -1, request);
        },
    .startBarrier =
        [](const ZipcclMpiHandle*, ZipcclMpiHandle* request) {
          return start("barrier", nullptr, nullptr, 0, -1, -1, request);
        },
    .testRequest = testRequest,
    .cancelRequest =
        [](ZipcclMpiHandle* request) {
          if (request->storage[0] != 0) {
            fake->started[request->storage[0] - 1].isCancelled = true;
          }
          return 0;
        },
    .receiveAny = receiveAny,
};

class MpiFunctions : public ::testing::Test {
 protected:
  void SetUp() override {
    mpi_ = std::make_unique<FakeMpi>();
    fake = mpi_.get();
  }
  void TearDown() override {
    transport_.reset();
    fake = nullptr;
  }

  Transport& transport(std::chrono::milliseconds timeout = 200ms) {
    if (transport_ == nullptr) transport_ = makeMpiTransport(kFakeFunctions, {.timeout = timeout});
    return *transport_;
  }

  static void arrive(const MpiNotice& notice) {
    std::vector<std::byte> bytes(sizeof(notice));
    std::memcpy(bytes.data(), &notice, sizeof(notice));
    fake->notices.push_back(bytes);
  }

  static MpiNotice failureNotice(ErrorCode code, int involved, const char* text) {
    MpiNotice notice;
    notice.kind = MpiNotice::Kind::kFailure;
    notice.code = static_cast<std::int32_t>(code);
    notice.involved[0] = involved;
    std::snprintf(notice.text, sizeof(notice.text), "%s", text);
    return notice;
  }

  template <class Call>
  static void expectError(Call call, ErrorCode code, const std::string& words) {
    try {
      call();
      ADD_FAILURE() << "no error; expected: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code) << error.what();
      EXPECT_NE(error.message().find(words), std::string::npos) << error.what();
    }
  }

  void gather(std::size_t bytes = 8) {
    std::vector<std::byte> send(bytes);
    std::vector<std::byte> receive(2 * bytes);
    transport().allGather(send.data(), receive.data(), bytes);
  }

  std::unique_ptr<FakeMpi> mpi_;
  std::unique_ptr<Transport> transport_;
};

TEST_F(MpiFunctions, ErrorsOfTheStartAreTold) {
  mpi_->initialiseError = kFakeError;
  expectError([&] { transport(); }, ErrorCode::kSystemError,
              "MPI_Init_thread failed: a fake error");
  mpi_->initialiseError = 0;
  mpi_->wasFinalised = 1;
  expectError([&] { transport(); }, ErrorCode::kSystemError, "MPI was finalised before");
  mpi_->wasFinalised = 0;
  mpi_->failingCall = "duplicate";
  expectError([&] { transport(); }, ErrorCode::kSystemError, "MPI_Comm_idup failed: a fake error");
}

TEST_F(MpiFunctions, AnErrorOfMpiIsStickyAndToldToThePeer) {
  transport();
  for (const char* const call : {"gather", "broadcast", "barrier", "send", "receive"}) {
    SCOPED_TRACE(call);
    TearDown();
    SetUp();
    Transport& one = transport();
    mpi_->failingCall = call;
    std::byte data[16] = {};
    const auto run = [&] {
      const std::string name = call;
      const SendMessage send{.peer = 1, .data = data, .bytes = 8};
      const ReceiveMessage receive{.peer = 1, .data = data, .bytes = 8};
      if (name == "gather") one.allGather(data, data + 8, 4);
      if (name == "broadcast") one.broadcast(data, 8, 1);
      if (name == "barrier") one.barrier();
      if (name == "send") one.exchange({&send, 1}, {});
      if (name == "receive") one.exchange({}, {&receive, 1});
    };
    expectError(run, ErrorCode::kSystemError, "failed on rank 0: a fake error");
    expectError([&] { one.barrier(); }, ErrorCode::kSystemError, "failed on rank 0: a fake error");
    EXPECT_TRUE(one.hasFailed());
    if (std::string(call) != "send") {
      ASSERT_EQ(mpi_->sentNotices.size(), 1u);
      EXPECT_EQ(mpi_->sentNotices[0].kind, MpiNotice::Kind::kFailure);
      EXPECT_EQ(mpi_->sentNotices[0].code, static_cast<int>(ErrorCode::kSystemError));
      EXPECT_EQ(mpi_->sentNotices[0].involved[0], 0);
      EXPECT_NE(std::string(mpi_->sentNotices[0].text).find("a fake error"), std::string::npos);
    }
  }
}

TEST_F(MpiFunctions, AnErrorWithoutTextHasItsNumber) {
  transport();
  mpi_->testError = 4711;
  expectError([&] { gather(); }, ErrorCode::kSystemError, "MPI error 4711");
}

TEST_F(MpiFunctions, SizesAreComparedOnReceipt) {
  for (const auto& [gotBytes, error] :
       std::vector<std::pair<std::uint64_t, int>>{{7, 0}, {9, kFakeTruncation}, {0, 0}}) {
    TearDown();
    SetUp();
    Transport& one = transport();
    mpi_->isMessageSizeForced = true;
    mpi_->messageBytes = gotBytes;
    mpi_->testError = error;
    std::byte data[8] = {};
    const ReceiveMessage receive{.peer = 1, .data = data, .bytes = 8};
    expectError(
        [&] {
          one.exchange({}, {&receive, 1});
        },
        ErrorCode::kInvalidUsage,
        concat("rank 1 sends ", gotBytes, " bytes to rank 0, which expects 8 bytes"));
    ASSERT_EQ(mpi_->sentNotices.size(), 1u);
    EXPECT_EQ(mpi_->sentNotices[0].involved[0], 0);
    EXPECT_EQ(mpi_->sentNotices[0].involved[1], 1);
  }
}

TEST_F(MpiFunctions, AFailureOfThePeerEndsTheWait) {
  struct Case {
    int involved;
    ErrorCode expected;
  };
  for (const Case& one : {Case{0, ErrorCode::kInvalidUsage}, Case{1, ErrorCode::kRemoteError}}) {
    TearDown();
    SetUp();
    transport(60s);
    mpi_->doesComplete = false;
    arrive(failureNotice(ErrorCode::kInvalidUsage, one.involved, "rank 1 says why"));
    expectError([&] { gather(); }, one.expected, "rank 1 says why");
    EXPECT_TRUE(mpi_->sentNotices.empty()) << "what the peer told is told back";
  }
}

TEST_F(MpiFunctions, ForeignNoticesAreIgnored) {
  transport(100ms);
  MpiNotice foreign = failureNotice(ErrorCode::kInvalidUsage, 0, "not ours");
  foreign.magic = 1;
  arrive(foreign);
  fake->notices.push_back(std::vector<std::byte>(12));
  mpi_->doesComplete = false;
  expectError([&] { gather(); }, ErrorCode::kRemoteError, "waited 0.100 s; rank 1 is not in it");
  EXPECT_TRUE(mpi_->notices.empty());
}

TEST_F(MpiFunctions, ATextWithoutEndIsCut) {
  transport(60s);
  MpiNotice notice = failureNotice(ErrorCode::kRemoteError, -1, "");
  std::memset(notice.text, 'x', sizeof(notice.text));
  arrive(notice);
  mpi_->doesComplete = false;
  expectError([&] { gather(); }, ErrorCode::kRemoteError, std::string(sizeof(notice.text), 'x'));
}

TEST_F(MpiFunctions, QuestionsAreAnswered) {
  Transport& one = transport();
  one.barrier();
  one.barrier();
  MpiNotice question;
  question.kind = MpiNotice::Kind::kQuestion;
  arrive(question);
  std::byte data[8] = {};
  mpi_->doesComplete = false;
  Request request = one.startBroadcast(data, 8, 1);
  EXPECT_FALSE(one.test(request));
  ASSERT_EQ(mpi_->sentNotices.size(), 1u);
  EXPECT_EQ(mpi_->sentNotices[0].kind, MpiNotice::Kind::kAnswer);
  EXPECT_EQ(mpi_->sentNotices[0].collectiveCount, 3u);
  mpi_->doesComplete = true;
  EXPECT_TRUE(one.test(request));
}

TEST_F(MpiFunctions, ATimeoutTellsWhoIsNotThere) {
  transport(50ms);
  mpi_->doesComplete = false;
  expectError([&] { gather(); }, ErrorCode::kRemoteError,
              "all-gather: rank 0 of 2 waited 0.050 s; rank 1 is not in it");
  ASSERT_EQ(mpi_->sentNotices.size(), 2u);
  EXPECT_EQ(mpi_->sentNotices[0].kind, MpiNotice::Kind::kQuestion);
  EXPECT_EQ(mpi_->sentNotices[1].kind, MpiNotice::Kind::kFailure);
}

TEST_F(MpiFunctions, APeerThatLeftIsNotWaitedForInVain) {
  Transport& one = transport(60s);
  MpiNotice leaving;
  leaving.kind = MpiNotice::Kind::kLeaving;
  leaving.collectiveCount = 1;
  leaving.sentCount = 1;
  leaving.receivedCount = 1;
  arrive(leaving);
  mpi_->doesComplete = false;
  std::byte data[8] = {};
  const SendMessage send{.peer = 1, .data = data, .bytes = 4};
  const ReceiveMessage receive{.peer = 1, .data = data + 4, .bytes = 4};
  // What it started before it left may still arrive.
  Request gathering = one.startBroadcast(data, 8, 1);
  Request exchanging = one.startExchange({&send, 1}, {&receive, 1});
  EXPECT_FALSE(one.test(gathering));
  EXPECT_FALSE(one.test(exchanging));
  EXPECT_FALSE(one.hasFailed());
  Request more = one.startExchange({}, {&receive, 1});
  expectError([&] { one.wait(more); }, ErrorCode::kRemoteError,
              "rank 1 left before it sent what rank 0 waits for");
}

TEST_F(MpiFunctions, APeerThatLeftBeforeACollectiveFailsIt) {
  transport(60s);
  MpiNotice leaving;
  leaving.kind = MpiNotice::Kind::kLeaving;
  arrive(leaving);
  mpi_->doesComplete = false;
  expectError([&] { gather(); }, ErrorCode::kRemoteError, "rank 1 left before it came");
}

TEST_F(MpiFunctions, AbortOfAnotherThreadIsSpreadByTheRanksOwn) {
  Transport& one = transport(60s);
  mpi_->doesComplete = false;
  std::thread other([&] {
    std::this_thread::sleep_for(50ms);
    one.abort("enough");
  });
  expectError([&] { gather(); }, ErrorCode::kRemoteError, "aborted: enough (rank 0)");
  other.join();
  ASSERT_EQ(mpi_->sentNotices.size(), 1u);
  EXPECT_EQ(std::string(mpi_->sentNotices[0].text), "aborted: enough (rank 0)");
  expectError([&] { one.barrier(); }, ErrorCode::kRemoteError, "aborted: enough (rank 0)");
  EXPECT_EQ(mpi_->sentNotices.size(), 1u);
}

TEST_F(MpiFunctions, OthersAreToldWithoutAnotherOperation) {
  Transport& one = transport();
  one.tellOthers();
  EXPECT_TRUE(mpi_->sentNotices.empty()) << "nothing has failed";
  one.abort("enough");
  EXPECT_TRUE(mpi_->sentNotices.empty()) << "abort() may come from a thread that must not use MPI";
  one.tellOthers();
  one.tellOthers();
  ASSERT_EQ(mpi_->sentNotices.size(), 1u);
  EXPECT_EQ(std::string(mpi_->sentNotices[0].text), "aborted: enough (rank 0)");
}

TEST_F(MpiFunctions, WhatCannotBeEndedKeepsItsBuffers) {
  std::byte data[16] = {};
  const SendMessage send{.peer = 1, .data = data, .bytes = 8};
  const ReceiveMessage receive{.peer = 1, .data = data + 8, .bytes = 8};
  const auto mayTouchAfter = [&](const auto& call) {
    TearDown();
    SetUp();
    Transport& one = transport(20ms);
    mpi_->doesComplete = false;
    expectError([&] { call(one); }, ErrorCode::kRemoteError, "waited 0.020 s");
    return one.mayStillTouchBuffers();
  };
  EXPECT_FALSE(transport().mayStillTouchBuffers());
  EXPECT_TRUE(mayTouchAfter([&](Transport& one) { one.allGather(data, data, 8); }));
  EXPECT_TRUE(mayTouchAfter([&](Transport& one) { one.broadcast(data, 8, 1); }));
  EXPECT_TRUE(mayTouchAfter([&](Transport& one) { one.exchange({&send, 1}, {}); }));
  EXPECT_FALSE(mayTouchAfter([&](Transport& one) {
    one.exchange({}, {&receive, 1});
  })) << "a receive can be cancelled";
  EXPECT_FALSE(mayTouchAfter([](Transport& one) { one.barrier(); })) << "a barrier has no buffers";
}

TEST_F(MpiFunctions, ReceivesAreCancelledAfterAFailure) {
  Transport& one = transport(60s);
  mpi_->doesComplete = false;
  std::byte data[8] = {};
  const ReceiveMessage receive{.peer = 1, .data = data, .bytes = 8};
  Request request = one.startExchange({}, {&receive, 1});
  arrive(failureNotice(ErrorCode::kRemoteError, -1, "over"));
  expectError([&] { one.wait(request); }, ErrorCode::kRemoteError, "over");
  EXPECT_TRUE(mpi_->started.back().isCancelled);
  EXPECT_FALSE(request.isActive());
}

/// The operation must not stay behind in the transport's lists.
TEST_F(MpiFunctions, AWaitThatMemoryRunsOutForGivesItsMessagesUp) {
  Transport& one = transport(20ms);
  std::byte data[8] = {};
  const ReceiveMessage receive{.peer = 0, .data = data, .bytes = 8};
  Request request = one.startExchange({}, {&receive, 1});
  const auto waitWithoutMemory = [&] {
    const zipccl::testing::OutOfMemory outOfMemory;
    one.wait(request);
  };
  EXPECT_THROW(waitWithoutMemory(), std::bad_alloc);
  EXPECT_TRUE(one.hasFailed()) << "the other ranks would wait in vain";
  EXPECT_FALSE(request.isActive());
}

TEST_F(MpiFunctions, MessagesToOneselfNeedNoMpi) {
  Transport& one = transport();
  const std::size_t startedCount = mpi_->started.size();
  const std::string first = "first message";
  const std::string second = "2nd";
  std::string gotFirst(first.size(), '?');
  std::string gotSecond(second.size(), '?');
  const SendMessage sends[] = {{.peer = 0, .data = first.data(), .bytes = first.size()},
                               {.peer = 0, .data = second.data(), .bytes = second.size()}};
  const ReceiveMessage receiveFirst{.peer = 0, .data = gotFirst.data(), .bytes = gotFirst.size()};
  const ReceiveMessage receiveSecond{
      .peer = 0, .data = gotSecond.data(), .bytes = gotSecond.size()};
  Request expecting = one.startExchange({}, {&receiveFirst, 1});
  EXPECT_FALSE(one.test(expecting));
  one.exchange(sends, {&receiveSecond, 1});
  EXPECT_TRUE(one.test(expecting));
  EXPECT_EQ(gotFirst, first);
  EXPECT_EQ(gotSecond, second);
  EXPECT_EQ(mpi_->started.size(), startedCount);
  const SendMessage wrong{.peer = 0, .data = first.data(), .bytes = 4};
  expectError(
      [&] {
        one.exchange({&wrong, 1}, {&receiveSecond, 1});
      },
      ErrorCode::kInvalidUsage, "rank 0 sends 4 bytes");
}

TEST_F(MpiFunctions, LargeAllGathersAreMpisOwnOnceAllHaveCome) {
  gather((std::size_t{1} << 20) - 1);
  EXPECT_EQ(mpi_->started.back().what, "gather");
  EXPECT_EQ(mpi_->blockingGatherCount, 0);
  gather(std::size_t{1} << 20);
  EXPECT_EQ(mpi_->started.back().what, "barrier");
  EXPECT_EQ(mpi_->blockingGatherCount, 1);
  mpi_->failingCall = "allGather";
  expectError([&] { gather(std::size_t{1} << 20); }, ErrorCode::kSystemError,
              "MPI_Allgather failed on rank 0: a fake error");
}

/// Where the other ranks' buffers lie is unknown, and MPI wants MPI_IN_PLACE of all or none.
TEST_F(MpiFunctions, GathersAreInPlaceWhateverTheBuffers) {
  Transport& one = transport();
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{1} << 20}) {
    std::vector<std::byte> data(2 * bytes, std::byte{0x11});
    const std::vector<std::byte> send(bytes, std::byte{0x22});
    one.allGather(data.data(), data.data(), bytes);
    EXPECT_TRUE(mpi_->wasGatherInPlace);
    EXPECT_EQ(data, std::vector<std::byte>(2 * bytes, std::byte{0x11}));
    mpi_->wasGatherInPlace = false;
    one.allGather(send.data(), data.data(), bytes);
    EXPECT_TRUE(mpi_->wasGatherInPlace);
    EXPECT_TRUE(std::equal(send.begin(), send.end(), data.begin()));
    EXPECT_EQ(data[bytes], std::byte{0x11});
  }
}

TEST_F(MpiFunctions, AThreadThatMustNotUseMpiIsWarned) {
  const auto warningOf = [&](int mayCall) {
    mpi_->mayThisThreadCall = mayCall;
    ::testing::internal::CaptureStderr();
    static_cast<void>(makeMpiTransport(kFakeFunctions));
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warningOf(1), "");
  EXPECT_NE(warningOf(0).find("WARN MPI was initialised with a thread level below "
                              "MPI_THREAD_SERIALIZED"),
            std::string::npos);
}

TEST_F(MpiFunctions, DuplicatesTheProgramsCommunicator) {
  const int handle = 7;
  MpiParent parent{&handle, sizeof(handle), "fake MPI, and more than fits here"};
  static_cast<void>(makeMpiTransport(kFakeFunctions, {.timeout = 200ms, .parent = parent}));
  // Twice: for data, and for what is told beside it.
  const std::pair<const void*, std::uint64_t> expected{&handle, sizeof(handle)};
  EXPECT_EQ(mpi_->parents, (std::vector{expected, expected}));
  static_cast<void>(makeMpiTransport(kFakeFunctions, {.timeout = 200ms}));
  EXPECT_EQ(mpi_->parents.back().first, nullptr) << "MPI_COMM_WORLD";
}

TEST_F(MpiFunctions, RefusesACommunicatorOfAnotherMpi) {
  const int handle = 7;
  for (const char* library : {"another MPI", ""}) {
    try {
      static_cast<void>(makeMpiTransport(
          kFakeFunctions,
          {.timeout = 200ms, .parent = MpiParent{&handle, sizeof(handle), library}}));
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kSystemError);
      EXPECT_NE(error.message().find("was built against fake MPI"), std::string::npos)
          << error.message();
    }
  }
  EXPECT_TRUE(mpi_->parents.empty());
}

std::unique_ptr<MpiCommunicators> addTo(MpiLibrary& library, bool hasPeerLeft,
                                        std::uint64_t number = 0) {
  auto communicators = std::make_unique<MpiCommunicators>();
  communicators->hasLeft = {true, hasPeerLeft};
  communicators->data.storage[0] = communicators->control.storage[0] = number;
  library.addTransport(*communicators);
  return communicators;
}

/// Freeing is a collective call, so its order must not depend on when this rank saw what.
TEST_F(MpiFunctions, CommunicatorsAreFreedInTheOrderOfTheirCreation) {
  MpiLibrary library(kFakeFunctions);
  std::vector<std::unique_ptr<MpiCommunicators>> made;
  for (std::uint64_t number = 1; number <= 4; ++number) {
    made.push_back(addTo(library, number != 2, number));
  }
  library.retire(std::move(made[3]), false);
  library.retire(std::move(made[1]), false);
  library.retire(std::move(made[2]), false);
  library.sweep();
  EXPECT_EQ(mpi_->freed, std::vector<std::uint64_t>()) << "the first is in use";
  library.retire(std::move(made[0]), false);
  library.sweep();
  EXPECT_EQ(mpi_->freed, (std::vector<std::uint64_t>{1, 1})) << "rank 1 has not left the second";
  MpiNotice leaving;
  leaving.kind = MpiNotice::Kind::kLeaving;
  arrive(leaving);
  library.sweep();
  EXPECT_EQ(mpi_->freed, (std::vector<std::uint64_t>{1, 1, 2, 2, 3, 3, 4, 4}));
}

TEST_F(MpiFunctions, CommunicatorsAreKeptUntilAllHaveLeft) {
  const auto library = std::make_shared<MpiLibrary>(kFakeFunctions);
  library->retire(addTo(*library, false), false);
  library->sweep();
  EXPECT_EQ(mpi_->freedCount, 0);
  MpiNotice question;
  question.kind = MpiNotice::Kind::kQuestion;
  arrive(question);
  library->sweep();
  EXPECT_EQ(mpi_->freedCount, 0);
  MpiNotice leaving;
  leaving.kind = MpiNotice::Kind::kLeaving;
  arrive(leaving);
  library->sweep();
  EXPECT_EQ(mpi_->freedCount, 2);
  library->sweep();
  EXPECT_EQ(mpi_->freedCount, 2);
}

TEST_F(MpiFunctions, MpiIsFinalisedOnlyWhereItCannotHang) {
  const auto make = [this](bool didInitialise) {
    mpi_->didInitialise = didInitialise ? 1 : 0;
    return std::make_shared<MpiLibrary>(kFakeFunctions);
  };
  const auto addAndRetire = [](MpiLibrary& library, bool hasFailed, bool hasPeerLeft) {
    library.retire(addTo(library, hasPeerLeft), hasFailed);
  };
  EXPECT_TRUE(make(true)->finalise());
  EXPECT_EQ(mpi_->finaliseCount, 1);
  EXPECT_FALSE(make(false)->finalise()) << "the program initialised MPI";

  const auto library = make(true);
  std::unique_ptr<MpiCommunicators> communicators = addTo(*library, false);
  EXPECT_FALSE(library->finalise()) << "a transport exists";
  library->retire(std::move(communicators), false);
  MpiNotice leaving;
  leaving.kind = MpiNotice::Kind::kLeaving;
  arrive(leaving);
  mpi_->looksBeforeNotices = 50;
  EXPECT_TRUE(library->finalise()) << "a peer that takes its time is waited for";
  EXPECT_EQ(mpi_->looksBeforeNotices, 0);
  EXPECT_EQ(mpi_->finaliseCount, 2);

  const auto failedHere = make(true);
  addAndRetire(*failedHere, true, true);
  EXPECT_FALSE(failedHere->finalise()) << "a transport failed";

  const auto failedThere = make(true);
  addAndRetire(*failedThere, false, false);
  arrive(failureNotice(ErrorCode::kRemoteError, -1, "late"));
  mpi_->looksBeforeNotices = 5;
  EXPECT_FALSE(failedThere->finalise()) << "the peer failed";

  const auto tooLate = make(true);
  mpi_->wasFinalised = 1;
  EXPECT_FALSE(tooLate->finalise());
  EXPECT_EQ(mpi_->finaliseCount, 2);
}

/// Runs `body` in a child of fork() and returns what it returns, which is below 64; ends a child
/// that hangs, with -1.
template <class Body>
int inForkedChild(Body body) {
  const pid_t child = ::fork();
  if (child == 0) std::_Exit(body());
  int status = 0;
  for (int i = 0; i < 500 && ::waitpid(child, &status, WNOHANG) == 0; ++i) {
    std::this_thread::sleep_for(10ms);
  }
  if (!WIFEXITED(status)) {
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    return -1;
  }
  return WEXITSTATUS(status);
}

TEST_F(MpiFunctions, AForkedChildLeavesMpiAlone) {
  mpi_->didInitialise = 1;
  const auto library = std::make_shared<MpiLibrary>(kFakeFunctions);
  library->retire(addTo(*library, false), false);
  Transport& one = transport();
  EXPECT_EQ(inForkedChild([&] {
              const bool isFinalised = library->finalise();
              transport_.reset();
              const bool isTold = !mpi_->sentNotices.empty();
              return (isFinalised ? 1 : 0) + (isTold ? 2 : 0) + mpi_->finaliseCount * 4 +
                     mpi_->freedCount * 8;
            }),
            0);
  EXPECT_FALSE(one.hasFailed());
  EXPECT_EQ(inForkedChild([&] {
              try {
                library->requireUsable();
                return 1;
              } catch (const Error& error) {
                return error.message().find("belongs to the parent") == std::string::npos ? 2 : 0;
              }
            }),
            0);
  library->requireUsable();
}

/// Loads the plugin from `folder` in a new process, since settings are read once.
void loadFrom(const std::string& folder) {
  ::setenv("ZIPCCL_PLUGIN_DIR", folder.c_str(), 1);
  try {
    static_cast<void>(loadMpiTransport());
    std::fprintf(stderr, "loaded\n");
  } catch (const Error& error) {
    std::fprintf(stderr, "code %d: %s\n", static_cast<int>(error.code()), error.message().c_str());
  }
  std::_Exit(3);
}

class MpiPluginDeathTest : public ::testing::Test {
 protected:
  void SetUp() override { ::testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(MpiPluginDeathTest, AMissingPluginIsToldWithAllPlaces) {
  EXPECT_EXIT(loadFrom("/no/such/folder"), ::testing::ExitedWithCode(3),
              "code 2: there is no MPI plugin libzipccl_mpi.so: tried "
              "/no/such/folder/libzipccl_mpi.so, .*libopenmpi-dev.*ZIPCCL_PLUGIN_DIR");
}

TEST_F(MpiPluginDeathTest, APluginOfAnotherVersionIsRefused) {
  EXPECT_EXIT(loadFrom(ZIPCCL_WRONG_VERSION_DIR), ::testing::ExitedWithCode(3),
              "code 2: the MPI plugin .* has version 999, this ZipCCL needs version 3");
}

TEST_F(MpiPluginDeathTest, AMissingMpiIsToldWithWhatToInstall) {
  EXPECT_EXIT(loadFrom(ZIPCCL_ABSENT_MPI_DIR), ::testing::ExitedWithCode(3),
              "code 2: the MPI plugin .* cannot be loaded: libzipccl_absent_mpi.so.*openmpi-bin");
}

TEST(MpiPlugin, TheFolderOfTheSettingIsLookedAtFirst) {
  const std::vector<std::string> candidates = mpiPluginCandidates();
  ASSERT_GE(candidates.size(), 3u);
  if (!settings().pluginDirectory.empty()) {
    EXPECT_EQ(candidates.front(), settings().pluginDirectory + "/libzipccl_mpi.so");
  }
  EXPECT_EQ(candidates.back(), "libzipccl_mpi.so");
}

}  // namespace
}  // namespace zipccl::transport
