// SPDX-License-Identifier: Apache-2.0
//
// Groups: kept calls and jobs, and how they are made at the end. What belongs to non-blocking
// communicators is made by a thread in the background, some time later, as NCCL does it.

#include "group.hpp"

#include <chrono>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

#include "base/random.hpp"

namespace zipccl::testing {
namespace {

struct Group {
  int depth = 0;
  int error = kNcclSuccess;
  std::vector<std::pair<CommunicatorPtr, Call>> calls;
  std::vector<Job> jobs;
};

thread_local Group group;

std::shared_mutex& registryMutex() {
  static auto& mutex = *new std::shared_mutex();
  return mutex;
}

std::map<void*, CommunicatorPtr>& registry() {
  static auto& communicators = *new std::map<void*, CommunicatorPtr>();
  return communicators;
}

std::mutex& errorMutex() {
  static auto& mutex = *new std::mutex();
  return mutex;
}

std::string& errorText() {
  static auto& text = *new std::string();
  return text;
}

void pause() {
  const auto most = static_cast<std::uint64_t>(fakeNcclProgressDelayMs());
  Random random(freshSeed());
  std::this_thread::sleep_for(std::chrono::microseconds(random.below(1000 * most + 1)));
}

/// The result of all jobs, side by side.
int runJobs(std::vector<Job> jobs) {
  int result = kNcclSuccess;
  bool isInProgress = false;
  std::vector<std::thread> threads;
  std::vector<int> results(jobs.size(), kNcclSuccess);
  const int device = fakeGetDevice();
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    Job& job = jobs[i];
    if (!job.communicator->isBlocking()) {
      isInProgress = true;
      job.communicator->setState(kNcclInProgress);
      std::thread([job = std::move(job)] {
        pause();
        job.communicator->setState(job.work());
      }).detach();
    } else if (jobs.size() == 1) {
      results[i] = job.work();
    } else {
      threads.emplace_back([&, i] {
        fakeSetDevice(device);
        results[i] = jobs[i].work();
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
  for (const int each : results) result = result == kNcclSuccess ? each : result;
  return result == kNcclSuccess && isInProgress ? int{kNcclInProgress} : result;
}

int launchCalls(const std::vector<std::pair<CommunicatorPtr, Call>>& calls) {
  std::vector<std::pair<CommunicatorPtr, std::vector<Call>>> launches;
  for (const auto& [communicator, call] : calls) {
    auto launch = launches.begin();
    while (launch != launches.end() && launch->first != communicator) ++launch;
    if (launch == launches.end()) launch = launches.insert(launch, {communicator, {}});
    launch->second.push_back(call);
  }
  bool isInProgress = false;
  for (auto& [communicator, own] : launches) {
    if (communicator->isBlocking()) {
      communicator->launch(own);
      continue;
    }
    isInProgress = true;
    communicator->setState(kNcclInProgress);
    std::thread([communicator = communicator, own = std::move(own)] {
      pause();
      communicator->launch(own);
      communicator->setState(kNcclSuccess);
    }).detach();
  }
  return isInProgress ? kNcclInProgress : kNcclSuccess;
}

}  // namespace

CommunicatorPtr findCommunicator(void* handle) {
  const std::shared_lock lock(registryMutex());
  const auto found = registry().find(handle);
  return found == registry().end() ? nullptr : found->second;
}

void* publish(const CommunicatorPtr& communicator) {
  const std::unique_lock lock(registryMutex());
  registry()[communicator.get()] = communicator;
  return communicator.get();
}

bool retract(void* handle) {
  CommunicatorPtr last;  // freed outside the lock
  const std::unique_lock lock(registryMutex());
  const auto found = registry().find(handle);
  if (found == registry().end()) return false;
  last = found->second;
  registry().erase(found);
  return true;
}

void setLastError(std::string_view text) {
  const std::lock_guard lock(errorMutex());
  errorText() = text;
}

const char* lastError() {
  thread_local std::string answer;
  const std::lock_guard lock(errorMutex());
  answer = errorText();
  return answer.c_str();
}

bool isInGroup() { return group.depth > 0; }

int groupStart() {
  ++group.depth;
  return kNcclSuccess;
}

int groupFail(int result) {
  if (group.depth > 0 && group.error == kNcclSuccess) group.error = result;
  return result;
}

int submit(const CommunicatorPtr& communicator, const Call& call) {
  if (group.depth > 0) {
    group.calls.emplace_back(communicator, call);
    return kNcclSuccess;
  }
  return launchCalls({{communicator, call}});
}

int submit(Job job) {
  if (group.depth > 0) {
    group.jobs.push_back(std::move(job));
    return kNcclSuccess;
  }
  std::vector<Job> jobs;
  jobs.push_back(std::move(job));
  return runJobs(std::move(jobs));
}

int groupEnd() {
  if (group.depth == 0) {
    setLastError("ncclGroupEnd: not in a group call.");
    return kNcclInvalidUsage;
  }
  if (--group.depth > 0) return kNcclSuccess;
  const Group ended = std::exchange(group, Group());
  if (ended.error != kNcclSuccess) return ended.error;
  const int result = runJobs(ended.jobs);
  if (result != kNcclSuccess && result != kNcclInProgress) return result;
  const int launched = launchCalls(ended.calls);
  return launched == kNcclSuccess ? result : launched;
}

int groupSimulateEnd() {
  if (group.depth == 0) return kNcclInvalidUsage;
  if (--group.depth > 0) return kNcclSuccess;
  return std::exchange(group, Group()).error;
}

}  // namespace zipccl::testing
