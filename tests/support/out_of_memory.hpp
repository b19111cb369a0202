// SPDX-License-Identifier: Apache-2.0
//
// Memory that runs out when a test says so: programs that use this get an operator new of their
// own.

#pragma once

namespace zipccl::testing {

/// While one lives, operator new throws std::bad_alloc in the thread that made it.
class OutOfMemory {
 public:
  OutOfMemory() noexcept;
  OutOfMemory(const OutOfMemory&) = delete;
  OutOfMemory& operator=(const OutOfMemory&) = delete;
  ~OutOfMemory();
};

}  // namespace zipccl::testing
