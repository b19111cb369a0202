// SPDX-License-Identifier: Apache-2.0
//
// Calls and groups. A call outside a group goes to the engine or to the real function at once. In a
// group, calls on communicators to which the engine is attached are kept, and made at the outermost
// GroupEnd: by the engine, as rounds of real groups, if it wants any of them, else as they are, in
// the group that the program's own GroupStart opened. All other calls go into that group at once.

#pragma once

#include <zipccl/nccl_engine.h>

#include <cstddef>

#include "real_nccl.hpp"

namespace zipccl::preload {

/// Whether a call of this thread is one that the hooks are to leave alone: NCCL calls some of its
/// own functions by their public names, and the engine may do so too.
[[nodiscard]] bool isInside() noexcept;

/// While it lives, isInside() is true in this thread.
class Inside {
 public:
  Inside() noexcept;
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside();
};

/// The real function of a call, with its arguments.
int callReal(const RealNccl& real, const zipcclNcclCall& call) noexcept;

/// Makes a collective, Send or Recv of the program.
int submit(const RealNccl& real, zipcclNcclCall call) noexcept;

int groupStart(const RealNccl& real) noexcept;
int groupEnd(const RealNccl& real) noexcept;
int groupSimulateEnd(const RealNccl& real, void* simInfo) noexcept;

/// After a real init that returned `result` and will have written, or has written, `count`
/// communicators from `comms` on: attaches the engine to them, at the end of the group if there is
/// one. Returns `result`.
int afterInit(const RealNccl& real, void* const* comms, int count, int result) noexcept;

/// After a real ncclCommWindowRegister that returned `result`; the window is there when the group
/// has ended. Returns `result`.
int afterWindow(void* comm, void* buffer, std::size_t bytes, void* const* window,
                int result) noexcept;

/// Whether a kept call of this thread uses the operation, which then is destroyed, by the real
/// function, after the group.
[[nodiscard]] bool destroyOpLater(int op, void* comm) noexcept;

}  // namespace zipccl::preload
