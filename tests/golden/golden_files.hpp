// SPDX-License-Identifier: Apache-2.0
//
// Golden files on disk.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "golden/golden_cases.hpp"

namespace zipccl::golden {

[[nodiscard]] Bytes readFile(const std::filesystem::path& path);
void writeFile(const std::filesystem::path& path, const Bytes& bytes);

/// Writes `files` below `folder`, where frames/ and faults/ are emptied first.
void writeFiles(const std::filesystem::path& folder, const Files& files);

/// What differs between `files` and those below `folder`: one line a difference. Looks at
/// manifest.json and at everything in frames/ and faults/.
[[nodiscard]] std::vector<std::string> differences(const std::filesystem::path& folder,
                                                   const Files& files);

/// Decodes a contiguous frame into exactly as many bytes as it says that it holds. `elements` is
/// what was decoded, empty when the frame was rejected.
[[nodiscard]] codec::DecodeStatus decodeWhole(const Bytes& frame, Bytes& elements);

}  // namespace zipccl::golden
