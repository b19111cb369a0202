// SPDX-License-Identifier: Apache-2.0
//
// In place of zstd in a build that found none.

#include "inspect/zstd.hpp"
#include "support/failure.hpp"

namespace zipccl::tools::inspect {

struct Zstd::State {};

std::string Zstd::version() { return ""; }

Zstd::Zstd() { throw Failure("this zipccl was built without zstd"); }

Zstd::~Zstd() = default;

std::uint64_t Zstd::compressedBytes(std::span<const std::byte>) { return 0; }

}  // namespace zipccl::tools::inspect
