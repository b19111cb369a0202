// SPDX-License-Identifier: Apache-2.0
//
// Of the exceptions of several ranks, the one to tell the caller.

#pragma once

#include <exception>
#include <span>

namespace zipccl::capi {

/// Throws the first exception that tells of a cause, rather than of another rank's failure; one
/// that does where there is no other; nothing where all are null.
void rethrowCause(std::span<const std::exception_ptr> exceptions);

}  // namespace zipccl::capi
