// SPDX-License-Identifier: Apache-2.0
//
// The frame of test programs that run under mpirun: every rank runs all tests in the same order
// over one transport, and every rank fails when one does. Link the target zipccl_mpi_test_main and
// write tests with worldTransport().

#pragma once

#include <cstdint>

#include "transport/transport.hpp"

namespace zipccl::transport {

/// The transport over MPI_COMM_WORLD that all tests of the program share.
[[nodiscard]] Transport& worldTransport();

/// A fresh seed, the same on all ranks. A collective operation.
[[nodiscard]] std::uint64_t sharedSeed();

}  // namespace zipccl::transport
