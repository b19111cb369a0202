// SPDX-License-Identifier: Apache-2.0
//
// Groups of calls.

#include "capi/group.hpp"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "capi/rethrow_cause.hpp"

namespace zipccl::capi {

Group& Group::ofThread() {
  thread_local Group group;
  return group;
}

Group::Calls& Group::callsOf(zipcclComm_t comm) {
  auto calls = std::find_if(calls_.begin(), calls_.end(),
                            [&](const Calls& each) { return each.comm == comm; });
  if (calls == calls_.end()) {
    calls = calls_.insert(calls_.end(), Calls{});
    calls->comm = comm;
  }
  return *calls;
}

void Group::add(zipcclComm_t comm, std::function<void(collectives::Communicator&)> collective) {
  callsOf(comm).collectives.push_back(std::move(collective));
}

void Group::add(zipcclComm_t comm, const collectives::PointToPoint& operation) {
  callsOf(comm).pointToPoints.push_back(operation);
}

void Group::add(zipcclComm_t comm, const NcclComm::Calls& calls) {
  overNccl_.push_back({comm, calls});
}

void Group::noteFailure(const Error& error) {
  if (isOpen() && !failure_) failure_ = error;
}

void Group::end() {
  expects(isOpen(), ErrorCode::kInvalidUsage, "there is no zipcclGroupStart that this would end");
  if (--depth_ != 0) return;
  const std::vector<Calls> calls = std::exchange(calls_, {});
  const std::vector<CallsOverNccl> overNccl = std::exchange(overNccl_, {});
  const std::optional<Error> failure = std::exchange(failure_, std::nullopt);
  if (failure) {
    throw Error(failure->code(), concat("nothing of the group was done: ", failure->message()),
                failure->where());
  }
  // First what returns when it is queued.
  std::exception_ptr failureOverNccl;
  try {
    runOverNccl(overNccl);
  } catch (const Error&) {
    failureOverNccl = std::current_exception();
  }
  runAll(calls);
  if (failureOverNccl != nullptr) std::rethrow_exception(failureOverNccl);
}

void Group::runOverNccl(const std::vector<CallsOverNccl>& calls) {
  NcclCalls together;
  for (const CallsOverNccl& each : calls) {
    expectAlive(each.comm);
    together.add(*each.comm->nccl, each.calls);
  }
  try {
    together.run();
  } catch (const Error& error) {
    for (const CallsOverNccl& each : calls) keepMessage(error.message(), each.comm);
    throw;
  }
}

void Group::run(const Calls& calls) {
  expectAlive(calls.comm);
  collectives::Communicator& communicator = *calls.comm->communicator;
  for (const auto& collective : calls.collectives) collective(communicator);
  if (!calls.pointToPoints.empty()) communicator.sendReceiveGroup(calls.pointToPoints);
}

void Group::runAll(const std::vector<Calls>& all) {
  // Communicators may be ranks of one group of ranks, which wait for each other.
  const bool isSerial = std::any_of(all.begin(), all.end(), [](const Calls& calls) {
    expectAlive(calls.comm);
    return !calls.comm->communicator->allowsConcurrency();
  });
  if (isSerial || all.size() <= 1) {
    for (const Calls& calls : all) run(calls);
    return;
  }
  std::vector<std::exception_ptr> exceptions(all.size());
  const auto runAt = [&](std::size_t i) {
    try {
      run(all[i]);
    } catch (const Error& error) {
      keepMessage(error.message(), all[i].comm);
      exceptions[i] = std::current_exception();
    } catch (...) {
      exceptions[i] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    threads.reserve(all.size());
    for (std::size_t i = 1; i < all.size(); ++i) threads.emplace_back(runAt, i);
    runAt(0);
  }
  rethrowCause(exceptions);
}

}  // namespace zipccl::capi
