// SPDX-License-Identifier: Apache-2.0
//
// What the interposer tells `zipccl doctor`: a line of JSON for each thing that happens, appended
// to the file that ZIPCCL_REPORT names. Without that variable nothing is done.

#pragma once

namespace zipccl::preload {

/// The real NCCL was found.
void reportNccl(const char* path, const char* how, int version, bool isDisabled) noexcept;

/// The engine was loaded, or was not: `why` is not empty then.
void reportEngine(const char* path, const char* why) noexcept;

/// A communicator was made; `why` tells why the engine is not attached to it, or is empty.
void reportCommunicator(int ranks, int rank, const char* why) noexcept;

}  // namespace zipccl::preload
