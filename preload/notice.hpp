// SPDX-License-Identifier: Apache-2.0
//
// The few words that are needed before the engine with its log is there, or because it is not. In
// the shape of NCCL's lines, to standard error.

#pragma once

namespace zipccl::preload {

/// Writes a warning unless ZIPCCL_DEBUG is NONE or VERSION. `where` is a file of the source tree.
[[gnu::format(printf, 3, 4)]] void warn(const char* where, int line, const char* format,
                                        ...) noexcept;

}  // namespace zipccl::preload

/// A macro for the sake of the place that it names.
#define ZIPCCL_WARN(...) ::zipccl::preload::warn(__FILE_NAME__, __LINE__, __VA_ARGS__)
