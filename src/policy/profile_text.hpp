// SPDX-License-Identifier: Apache-2.0
//
// A profile as one line of text, for files that people read and edit:
//
//   encode=1650.5 decode=1702 frame=9.5 gather=4096:21.5,8388608:360/1
//   exchange=4096:20,8388608:380/1
//
// Speeds in GB/s, times in us; of a link its points, bytes a rank and time, and its overlap. A
// profile without an exchange has none in its text.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "policy/profile.hpp"

namespace zipccl::policy {

/// Numbers in the fewest digits that give the same number back.
[[nodiscard]] std::string profileText(const Profile& profile);

/// Nothing where the text is no profile, or none that isUsable().
[[nodiscard]] std::optional<Profile> profileOfText(std::string_view text);

}  // namespace zipccl::policy
