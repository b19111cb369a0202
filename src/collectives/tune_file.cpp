// SPDX-License-Identifier: Apache-2.0
//
// The tune file. Several processes may read it and append to it at once: a line without its end is
// one that is being written, and who appends holds a lock.

#include "collectives/tune_file.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"
#include "policy/profile_text.hpp"

namespace zipccl::collectives {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 20;

constexpr std::string_view kHeading =
    "# Profiles of ZipCCL, one for each kind of communicator: speeds in GB/s, times in us.\n";

[[noreturn]] void failOn(const std::string& path, const char* what, int error) {
  fail(ErrorCode::kSystemError, "the tune file ", path, " cannot be ", what, ": ", errnoText(error),
       ". ZIPCCL_TUNE_FILE names it");
}

std::string readAll(const UniqueFd& file, const std::string& path) {
  std::string text;
  std::string piece(16384, '\0');
  while (true) {
    const ssize_t got =
        ::pread(file.get(), piece.data(), piece.size(), static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) failOn(path, "read", errno);
    if (got == 0) return text;
    text.append(piece, 0, static_cast<std::size_t>(got));
    expects(text.size() <= kMostBytes, ErrorCode::kInvalidArgument, "the tune file ", path,
            " has more than ", kMostBytes, " bytes: it is none. ZIPCCL_TUNE_FILE names it");
  }
}

std::optional<policy::Profile> findIn(std::string_view text, std::string_view kind,
                                      const std::string& path) {
  std::optional<policy::Profile> found;
  for (std::size_t line = 1;; ++line) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return found;
    const std::string_view words = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (words.empty() || words.starts_with('#')) continue;
    const std::size_t space = std::min(words.find(' '), words.size());
    const std::optional<policy::Profile> profile = policy::profileOfText(words.substr(space));
    expects(profile.has_value(), ErrorCode::kInvalidArgument, "line ", line, " of the tune file ",
            path, " is no profile: '", words.substr(0, 60),
            "'. Correct it, or remove the file, and it is made anew");
    if (!found && words.substr(0, space) == kind) found = profile;
  }
}

}  // namespace

std::optional<policy::Profile> TuneFile::find(std::string_view kind) const {
  const UniqueFd file(::open(path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.isOpen()) {
    if (errno == ENOENT) return std::nullopt;
    failOn(path_, "read", errno);
  }
  return findIn(readAll(file, path_), kind, path_);
}

void TuneFile::add(std::string_view kind, const policy::Profile& profile) const {
  const UniqueFd file(::open(path_.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0644));
  if (!file.isOpen()) failOn(path_, "written", errno);
  // Where a file system has no locks two processes may add a line each, of which the first counts.
  while (::flock(file.get(), LOCK_EX) != 0 && errno == EINTR) {
  }
  const std::string there = readAll(file, path_);
  if (findIn(there, kind, path_)) return;
  // Nobody is writing now: a line without its end is one whose writer died.
  const std::size_t whole = there.rfind('\n') + 1;
  if (whole != there.size() && ::ftruncate(file.get(), static_cast<off_t>(whole)) != 0) {
    failOn(path_, "written", errno);
  }
  std::string line(whole == 0 ? kHeading : "");
  line += concat(kind, ' ', policy::profileText(profile), '\n');
  const ssize_t written = ::write(file.get(), line.data(), line.size());
  if (written < 0) failOn(path_, "written", errno);
  expects(static_cast<std::size_t>(written) == line.size(), ErrorCode::kSystemError,
          "the tune file ", path_, " took ", written, " of ", line.size(),
          " bytes: is there room on its disk?");
}

}  // namespace zipccl::collectives
