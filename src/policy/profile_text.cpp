// SPDX-License-Identifier: Apache-2.0
//
// Profiles as text.

#include "policy/profile_text.hpp"

#include <charconv>
#include <cstdint>
#include <system_error>

#include "base/text.hpp"

namespace zipccl::policy {
namespace {

template <class Number>
bool parse(std::string_view text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string linkText(const LinkProfile& link) {
  std::string text;
  for (std::uint32_t i = 0; i < link.pointCount; ++i) {
    const LinkPoint& point = link.points[i];
    text += concat(i == 0 ? "" : ",", point.bytesPerRank, ':', point.elapsedUs);
  }
  return concat(text, '/', link.overlap);
}

/// What stands before `mark`, which goes too; all of it where there is none.
std::string_view takeUntil(std::string_view& text, char mark) {
  const std::size_t at = text.find(mark);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

bool parse(std::string_view text, LinkProfile& link) {
  std::string_view points = takeUntil(text, '/');
  if (!parse(text, link.overlap)) return false;
  while (!points.empty()) {
    if (link.pointCount == LinkProfile::kMaxPoints) return false;
    std::string_view point = takeUntil(points, ',');
    LinkPoint& parsed = link.points[link.pointCount++];
    if (!parse(takeUntil(point, ':'), parsed.bytesPerRank)) return false;
    if (!parse(point, parsed.elapsedUs)) return false;
  }
  return true;
}

bool parseField(std::string_view name, std::string_view value, Profile& profile) {
  if (name == "encode") return parse(value, profile.encodeGBps);
  if (name == "decode") return parse(value, profile.decodeGBps);
  if (name == "frame") return parse(value, profile.frameUs);
  LinkProfile* const link = name == "gather"     ? &profile.allGather
                            : name == "exchange" ? &profile.exchange
                                                 : nullptr;
  return link != nullptr && link->pointCount == 0 && parse(value, *link);
}

}  // namespace

std::string profileText(const Profile& profile) {
  std::string text = concat("encode=", profile.encodeGBps, " decode=", profile.decodeGBps,
                            " frame=", profile.frameUs, " gather=", linkText(profile.allGather));
  if (profile.exchange.pointCount != 0) text += concat(" exchange=", linkText(profile.exchange));
  return text;
}

std::optional<Profile> profileOfText(std::string_view text) {
  Profile profile;
  while (!text.empty()) {
    std::string_view field = takeUntil(text, ' ');
    if (field.empty()) continue;
    const std::string_view name = takeUntil(field, '=');
    if (!parseField(name, field, profile)) return std::nullopt;
  }
  if (!isUsable(profile)) return std::nullopt;
  return profile;
}

}  // namespace zipccl::policy
