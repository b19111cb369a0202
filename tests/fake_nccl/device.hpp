// SPDX-License-Identifier: Apache-2.0
//
// What the fake NCCL needs of the fake device beyond fake_nccl.h: work that is made anew for each
// launch of a graph.

#pragma once

#include <functional>

#include "fake_nccl.h"

namespace zipccl::testing {

using Work = std::function<void()>;

/// Makes a piece of work at the moment at which it is enqueued: at once, or, when the stream is
/// captured, at each launch of the graph.
using WorkMaker = std::function<Work()>;

FAKE_API void enqueueWork(fakeStream_t stream, WorkMaker make);

/// The stream that NULL stands for on a device.
FAKE_API fakeStream_t resolveStream(fakeStream_t stream, int device);

}  // namespace zipccl::testing
