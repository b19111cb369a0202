// SPDX-License-Identifier: Apache-2.0
//
// The device's end of a dynamic window (codec/dynamic_window.hpp).

#pragma once

#include <span>

#include "codec/dynamic_window.hpp"
#include "zipccl/gpu_codec.hpp"

namespace zipccl::gpu {

/// Writes the headers of `parts` to the gate's slot, then its number; then, of each frame in their
/// order that has a dynamic part and a place for it (codec::movedBytesOf), puts the part into the
/// window, as the host takes pieces out. Ordered on `stream`, which goes on when the last piece has
/// been put there; without dynamic parts at once. Where the window is aborted it waits no more.
///
/// At most codec::kMostGateFrames parts; `parts`, host memory, may go when the call returns. Slot
/// and window are host memory that the device reaches by the same address, aligned to 128. Gates of
/// one window are ordered among each other. Throws Error(kInvalidArgument),
/// Error(kUnhandledCudaError).
void exportDynamic(std::span<const codec::DynamicPart> parts, const codec::Gate& gate,
                   StreamHandle stream);

/// The same headers and number; then gets each of these parts from the host and writes it to its
/// place. The work that follows on `stream` finds them there, unless the window is aborted.
void importDynamic(std::span<const codec::DynamicPart> parts, const codec::Gate& gate,
                   StreamHandle stream);

}  // namespace zipccl::gpu
