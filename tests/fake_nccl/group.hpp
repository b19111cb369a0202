// SPDX-License-Identifier: Apache-2.0
//
// Groups of the fake library: what a thread has called since its ncclGroupStart.

#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "communicator.hpp"

namespace zipccl::testing {

using CommunicatorPtr = std::shared_ptr<Communicator>;

/// The communicator behind a handle, or none.
[[nodiscard]] CommunicatorPtr findCommunicator(void* handle);

/// Makes a handle of it. The handle of a communicator is the same for all its life.
void* publish(const CommunicatorPtr& communicator);
/// Ends the handle; false when it was none.
bool retract(void* handle);

/// Words of the last error, for ncclGetLastError.
void setLastError(std::string_view text);
[[nodiscard]] const char* lastError();

/// Work that waits for other ranks, such as an init: of a group all of it runs side by side.
struct Job {
  CommunicatorPtr communicator;
  std::function<int()> work;
};

int groupStart();
int groupEnd();
int groupSimulateEnd();
[[nodiscard]] bool isInGroup();

/// Reports an error of a call: in a group it becomes the group's.
int groupFail(int result);

/// Carries out a call or a job: at the end of the group, or now if there is none.
int submit(const CommunicatorPtr& communicator, const Call& call);
int submit(Job job);

}  // namespace zipccl::testing
