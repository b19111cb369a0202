// SPDX-License-Identifier: Apache-2.0
//
// Where the engine is that this process loaded.

#pragma once

#include <filesystem>

namespace zipccl::tools {

/// The path of libzipccl.so, without links. Throws Failure where it cannot be told.
[[nodiscard]] std::filesystem::path enginePath();

}  // namespace zipccl::tools
