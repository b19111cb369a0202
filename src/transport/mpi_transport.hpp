// SPDX-License-Identifier: Apache-2.0
//
// The MPI transport: the ranks are the processes of MPI_COMM_WORLD, or some of them. MPI is touched
// by the plugin libzipccl_mpi.so alone, which is loaded here, so that a program starts where no MPI
// is installed.

#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transport/transport.hpp"

struct ZipcclMpiFunctions;

namespace zipccl::transport {

/// A communicator of the program, whose ranks are to be the transport's.
struct MpiParent {
  const void* handle = nullptr;  ///< an MPI_Comm
  std::size_t handleBytes = 0;   ///< its size
  std::string library;           ///< MPI_Get_library_version() of the MPI that the handle is of
};

struct MpiOptions {
  /// The timeout that the transport starts with; settings().timeout where absent. It covers the
  /// start itself, too.
  std::optional<std::chrono::milliseconds> timeout;
  std::optional<MpiParent> parent = {};  ///< MPI_COMM_WORLD where absent
};

/// Loads the plugin, initialises MPI where the program has not, and makes a transport over a
/// duplicate of the parent. Collective over the parent; may be called again for another transport,
/// with other ranks too.
///
/// Throws Error(kSystemError) where the parent is no communicator of the plugin's MPI,
/// Error(kSystemError) that tells what is missing and what to install where the plugin or
/// libmpi cannot be loaded or MPI was finalised; Error(kRemoteError) when the other ranks do not
/// come.
///
/// The transport differs from the interface's words in this:
///  - MPI is asked for MPI_THREAD_SERIALIZED: no two threads may use MPI transports, or MPI itself,
///  at
///    the same time. abort() is free of this.
///  - allGather() of 1 MiB a rank and more is MPI_Allgather itself once every rank has come, so
///  that
///    MPI's tuning holds; while it runs nothing can interrupt it. All else polls. One that is
///    started goes around a ring where it is large (decision 0013).
///  - A failure reaches the other ranks by a message, which they notice in their next call. A rank
///    whose transport was aborted by another thread sends it from its next call, from tellOthers(),
///    or when it is destroyed.
///  - Messages that do not fit are noticed by the receiver; a sender may have
///    returned, and gets the error in its next call. An all-gather or a broadcast with different
///    sizes fails or not as MPI has it, or at the time limit.
///  - MPI cannot cancel what is under way: after a failure, MPI may touch the buffers of operations
///    in flight while the program goes on to call MPI. Where mayStillTouchBuffers() says so, end
///    the program or keep the buffers.
///
/// MPI is finalised at exit if it was initialised here, once every rank has left every transport;
/// waiting for that has no limit, as MPI_Finalize has none. It is not where a transport failed or
/// still exists: then the other ranks could make it hang, and mpirun ends the job when the process
/// exits. A child of fork() leaves MPI alone: it belongs to the parent.
[[nodiscard]] std::unique_ptr<Transport> loadMpiTransport(const MpiOptions& options = {});

/// The files that are tried in turn as the plugin.
[[nodiscard]] std::vector<std::string> mpiPluginCandidates();

/// For tests: a transport over the given functions, which must outlive it, instead of the plugin's.
[[nodiscard]] std::unique_ptr<Transport> makeMpiTransport(const ZipcclMpiFunctions& functions,
                                                          const MpiOptions& options = {});

}  // namespace zipccl::transport
