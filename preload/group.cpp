// SPDX-License-Identifier: Apache-2.0
//
// What a thread has called since its GroupStart, and what becomes of it.

#include "group.hpp"

#include "array.hpp"
#include "comm_table.hpp"
#include "engine.hpp"

namespace zipccl::preload {
namespace {

/// A communicator that is being made: the place where the program will find it, and what stood
/// there when the call returned. NCCL writes it during the call; should it not, the place is read
/// at the end of the group.
struct PendingInit {
  void* const* place;
  void* comm;
};

struct PendingWindow {
  void* comm;
  void* buffer;
  std::size_t bytes;
  void* const* place;
};

struct PendingOp {
  int op;
  void* comm;
};

struct Group {
  Array<zipcclNcclCall> calls;
  Array<Attachment*> attachments;  ///< of the calls
  Array<PendingInit> inits;
  Array<PendingWindow> windows;
  Array<PendingOp> endedOps;
  bool isWanted;       ///< the engine wants a call
  bool isNonBlocking;  ///< an init said ncclInProgress
};

struct Thread {
  int inside;
  int depth;
  Group group;
};

// Not found through a function, which would need a library: the loader keeps room for a few of
// these.
[[gnu::tls_model("initial-exec")]] thread_local constinit Thread thread = {};

void forget(Group& group) noexcept {
  for (Attachment* const attachment : group.attachments) releaseAttachment(attachment);
  group.calls.clear();
  group.attachments.clear();
  group.inits.clear();
  group.windows.clear();
  group.endedOps.clear();
}

/// The group of this thread, which has none then.
Group takeGroup() noexcept {
  const Group group = thread.group;
  thread.group = Group{};
  return group;
}

/// Keeps the call with its entry of the side table. False if memory ran out.
bool keep(const zipcclNcclCall& call, Attached& attached) noexcept {
  Group& group = thread.group;
  if (!group.calls.push(call)) return false;
  Attachment* const attachment = attached.take();
  if (group.attachments.push(attachment)) return true;
  --group.calls.count;
  releaseAttachment(attachment);
  return false;
}

int submitInGroup(const RealNccl& real, const zipcclNcclCall& call, Attached& attached) noexcept {
  const zipcclNcclEngine& engine = Attached::engine();
  // A wrong call goes to the real function in the open group: what NCCL says of it, and what it
  // does to the group, is then NCCL's own.
  if (engine.check(&call) != kSuccess) return callReal(real, call);
  if (engine.wants(&call) != 0) thread.group.isWanted = true;
  return keep(call, attached) ? kSuccess : kSystemError;
}

void attachNew(const RealNccl& real, const Group& group) noexcept {
  Array<void*> comms = {};
  for (const PendingInit& init : group.inits) {
    void* const comm = init.comm != nullptr ? init.comm : *init.place;
    if (!comms.push(comm)) break;
  }
  if (comms.count != 0) attachAll(real, comms.items, static_cast<int>(comms.count));
  comms.clear();
}

void noteWindow(void* comm, void* buffer, std::size_t bytes, void* window) noexcept {
  if (window == nullptr) return;
  if (const Attached attached(comm); attached) {
    Attached::engine().windowRegistered(attached.get(), buffer, bytes, window);
  }
}

void destroyOps(const RealNccl& real, const Group& group) noexcept {
  for (const PendingOp& ended : group.endedOps) {
    if (const Attached attached(ended.comm); attached) {
      Attached::engine().redOpDestroyed(attached.get(), ended.op);
    }
    static_cast<void>(real.redOpDestroy(ended.op, ended.comm));
  }
}

}  // namespace

bool isInside() noexcept { return thread.inside != 0; }

Inside::Inside() noexcept { ++thread.inside; }
Inside::~Inside() { --thread.inside; }

int callReal(const RealNccl& real, const zipcclNcclCall& call) noexcept {
  const zipcclNcclApi& api = real.api;
  const void* const from = call.sendbuff;
  void* const to = call.recvbuff;
  switch (call.kind) {
    case zipcclNcclAllGather:
      return api.allGather(from, to, call.count, call.datatype, call.comm, call.stream);
    case zipcclNcclReduceScatter:
      return api.reduceScatter(from, to, call.count, call.datatype, call.op, call.comm,
                               call.stream);
    case zipcclNcclAllReduce:
      return api.allReduce(from, to, call.count, call.datatype, call.op, call.comm, call.stream);
    case zipcclNcclBroadcast:
      return api.broadcast(from, to, call.count, call.datatype, call.peer, call.comm, call.stream);
    case zipcclNcclReduce:
      return api.reduce(from, to, call.count, call.datatype, call.op, call.peer, call.comm,
                        call.stream);
    case zipcclNcclAlltoAll:
      return api.allToAll != nullptr
                 ? api.allToAll(from, to, call.count, call.datatype, call.comm, call.stream)
                 : kInvalidUsage;
    case zipcclNcclGather:
      return api.gather != nullptr ? api.gather(from, to, call.count, call.datatype, call.peer,
                                                call.comm, call.stream)
                                   : kInvalidUsage;
    case zipcclNcclScatter:
      return api.scatter != nullptr ? api.scatter(from, to, call.count, call.datatype, call.peer,
                                                  call.comm, call.stream)
                                    : kInvalidUsage;
    case zipcclNcclSend:
      return api.send(from, call.count, call.datatype, call.peer, call.comm, call.stream);
    case zipcclNcclRecv:
      return api.recv(to, call.count, call.datatype, call.peer, call.comm, call.stream);
    case zipcclNcclNumKinds:
      break;
  }
  return kInvalidUsage;
}

int submit(const RealNccl& real, zipcclNcclCall call) noexcept {
  if (real.isDisabled || thread.inside != 0) return callReal(real, call);
  const Inside inside;
  Attached attached(call.comm);
  if (!attached) return callReal(real, call);
  call.attached = attached.get();
  call.isGrouped = thread.depth != 0 ? 1 : 0;
  if (call.isGrouped != 0) return submitInGroup(real, call, attached);
  const zipcclNcclEngine& engine = Attached::engine();
  return engine.wants(&call) != 0 ? engine.run(&call, 1) : callReal(real, call);
}

int groupStart(const RealNccl& real) noexcept {
  if (real.isDisabled || thread.inside != 0) return real.api.groupStart();
  const Inside inside;
  const int result = real.api.groupStart();
  if (result == kSuccess) ++thread.depth;
  return result;
}

int groupEnd(const RealNccl& real) noexcept {
  if (real.isDisabled || thread.inside != 0) return real.api.groupEnd();
  const Inside inside;
  if (thread.depth == 0 || --thread.depth != 0) return real.api.groupEnd();

  Group group = takeGroup();
  if (!group.isWanted) {
    // The real group notes the first error and returns it at its end.
    for (const zipcclNcclCall& call : group.calls) static_cast<void>(callReal(real, call));
  }
  int result = real.api.groupEnd();
  if (result == kSuccess) {
    if (!group.isNonBlocking) attachNew(real, group);
    for (const PendingWindow& window : group.windows) {
      noteWindow(window.comm, window.buffer, window.bytes, *window.place);
    }
  }
  if (group.isWanted && (result == kSuccess || result == kInProgress)) {
    const int made = Attached::engine().run(group.calls.items, group.calls.count);
    if (made != kSuccess) result = made;
  }
  destroyOps(real, group);
  forget(group);
  return result;
}

int groupSimulateEnd(const RealNccl& real, void* simInfo) noexcept {
  if (real.groupSimulateEnd == nullptr) return kInvalidUsage;
  if (real.isDisabled || thread.inside != 0) return real.groupSimulateEnd(simInfo);
  const Inside inside;
  if (thread.depth == 0 || --thread.depth != 0) return real.groupSimulateEnd(simInfo);
  Group group = takeGroup();
  for (const zipcclNcclCall& call : group.calls) static_cast<void>(callReal(real, call));
  const int result = real.groupSimulateEnd(simInfo);
  destroyOps(real, group);
  forget(group);
  return result;
}

int afterInit(const RealNccl& real, void* const* comms, int count, int result) noexcept {
  if (comms == nullptr) return result;
  if (thread.depth == 0) {
    // ncclInProgress: when such a communicator is ready is known at another time on each rank, so
    // there is no call at which all ranks could shake hands.
    if (result == kSuccess) attachAll(real, comms, count);
    return result;
  }
  if (result == kInProgress) thread.group.isNonBlocking = true;
  if (result != kSuccess) return result;
  for (int i = 0; i < count; ++i) {
    // Out of memory: this rank stays native, which the other ranks find out.
    if (!thread.group.inits.push({comms + i, comms[i]})) break;
  }
  return result;
}

int afterWindow(void* comm, void* buffer, std::size_t bytes, void* const* window,
                int result) noexcept {
  if (result != kSuccess) return result;
  if (thread.depth == 0) {
    noteWindow(comm, buffer, bytes, *window);
  } else if (!thread.group.windows.push({comm, buffer, bytes, window})) {
    return kSystemError;
  }
  return result;
}

bool destroyOpLater(int op, void* comm) noexcept {
  for (const zipcclNcclCall& call : thread.group.calls) {
    const bool isReduction = call.kind == zipcclNcclReduceScatter ||
                             call.kind == zipcclNcclAllReduce || call.kind == zipcclNcclReduce;
    if (isReduction && call.comm == comm && call.op == op) {
      return thread.group.endedOps.push({op, comm});
    }
  }
  return false;
}

}  // namespace zipccl::preload
