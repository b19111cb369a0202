// SPDX-License-Identifier: Apache-2.0
//
// MappedFile over mmap().

#include "base/mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/unique_fd.hpp"

namespace zipccl {

namespace {

[[noreturn]] void failWithErrno(const char* verb, const std::string& path, int error) {
  fail(ErrorCode::kSystemError, "cannot ", verb, ' ', path, ": ", errnoText(error));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  // O_NONBLOCK: a named pipe is refused below, not waited for.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.isOpen()) failWithErrno("open", path, errno);
  struct stat status = {};
  if (::fstat(fd.get(), &status) != 0) failWithErrno("examine", path, errno);
  expects(S_ISREG(status.st_mode), ErrorCode::kSystemError, "cannot map ", path,
          ": not a regular file");
  const auto fileBytes = static_cast<std::size_t>(status.st_size);
  if (fileBytes == 0) return;
  void* data = ::mmap(nullptr, fileBytes, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) failWithErrno("map", path, errno);
  data_ = data;
  sizeBytes_ = fileBytes;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), sizeBytes_(std::exchange(other.sizeBytes_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  if (this != &other) {
    reset();
    data_ = std::exchange(other.data_, nullptr);
    sizeBytes_ = std::exchange(other.sizeBytes_, 0);
  }
  return *this;
}

MappedFile::~MappedFile() { reset(); }

void MappedFile::reset() noexcept {
  if (data_ != nullptr) ::munmap(data_, sizeBytes_);
  data_ = nullptr;
  sizeBytes_ = 0;
}

}  // namespace zipccl
