// SPDX-License-Identifier: Apache-2.0
//
// The handshake over NCCL, right after the real init, when all ranks are there anyway.

#pragma once

#include <zipccl/nccl_engine.h>

#include <memory>

#include "collectives/communicator.hpp"
#include "collectives/nccl_communicator.hpp"

namespace zipccl::collectives {

/// Makes the communicator behind `comm`, and tells its ranks apart from those of other settings or
/// versions; with the strategy auto, and where rank 0 brought no profile, links and codec are
/// measured, once in a process for each shape of communicator. Every rank does the same, and
/// several communicators of one process in threads of their own.
///
/// Null where there is nothing to compress: one rank only. Throws Error where the communicator
/// cannot be made. One that could not shake hands has failed (asyncError()).
[[nodiscard]] std::unique_ptr<NcclCommunicator> attachNccl(const zipcclNcclApi& api, void* comm,
                                                           const CommunicatorSettings& settings);

}  // namespace zipccl::collectives
