// SPDX-License-Identifier: Apache-2.0
//
// A regular file that is read by position.

#include "support/file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "support/failure.hpp"

namespace zipccl::tools {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

File::File(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK a pipe without a writer would block here for ever.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) throw Failure(path_ + ": " + reason(errno));
  struct stat status = {};
  const int error = ::fstat(descriptor_, &status) == 0 ? 0 : errno;
  if (error != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw Failure(path_ + ": " + (error != 0 ? reason(error) : "not a regular file"));
  }
  sizeBytes_ = static_cast<std::uint64_t>(status.st_size);
}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      sizeBytes_(other.sizeBytes_) {}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void File::read(std::uint64_t offset, std::span<std::byte> into) const {
  constexpr std::size_t kMostBytesAtOnce = std::size_t{1} << 30;
  while (!into.empty()) {
    const ssize_t got = ::pread(descriptor_, into.data(), std::min(into.size(), kMostBytesAtOnce),
                                static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Failure(path_ + ": " + reason(errno));
    if (got == 0) throw Failure(path_ + ": the file ends at byte " + std::to_string(offset));
    into = into.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
}

bool isRegularFile(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

}  // namespace zipccl::tools
