// SPDX-License-Identifier: Apache-2.0
//
// Small pieces of text: numbers as the tables print them, names from untrusted files made
// printable, words for programs.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace zipccl::tools {

/// `value` with `decimals` digits after the point.
[[nodiscard]] std::string fixed(double value, int decimals);

/// Bytes for people: `16 MiB`, `1.5 GiB`, `100 B`.
[[nodiscard]] std::string humanBytes(std::uint64_t bytes);

/// `text` in printable ASCII: control characters, backslashes and bytes above 126 become \xNN. Cut
/// to `mostCharacters`, with "..." at the end where something is missing.
[[nodiscard]] std::string printable(std::string_view text, std::size_t mostCharacters = 120);

/// printable(text) in single quotes.
[[nodiscard]] std::string inQuotes(std::string_view text);

/// Bytes of "1048576", "64K", "1.5M", "2G", "1T": powers of 1024, any case, "MB" and "MiB" alike.
/// Throws UsageError that names the text when it is none or exceeds 2^62.
[[nodiscard]] std::uint64_t parseByteSize(std::string_view text);

/// `words` as exec(3) takes them: as long as they live and keep their lengths.
[[nodiscard]] std::vector<char*> argumentPointers(std::vector<std::string>& words);

}  // namespace zipccl::tools
