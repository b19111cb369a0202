// SPDX-License-Identifier: Apache-2.0
//
// The header of a frame (docs/format.md section 3): writing it. Reading it is public, readHeader().

#pragma once

#include <cstddef>

#include "zipccl/codec.hpp"

namespace zipccl::codec {

/// Writes the kHeaderBytes bytes of a header for a valid `spec`.
void writeHeader(const FrameSpec& spec, std::uint64_t extraBytes, std::uint64_t checksum,
                 const ApplicationWords& application, std::byte* at) noexcept;

}  // namespace zipccl::codec
