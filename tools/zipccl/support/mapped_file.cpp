// SPDX-License-Identifier: Apache-2.0
//
// A regular file in memory.

#include "support/mapped_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string_view>
#include <system_error>
#include <utility>

#include "support/failure.hpp"

namespace zipccl::tools {
namespace {

/// Calls nothing but what a signal handler may.
extern "C" void endAfterBusError(int) {
  constexpr std::string_view kText =
      "zipccl: a file became shorter, or could not be read, while it was in use\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kText.data(), kText.size());
  ::_exit(static_cast<int>(ExitStatus::kFailure));
}

}  // namespace

MappedFile::MappedFile(const File& file) {
  // No mapping has a length of zero.
  if (file.sizeBytes() == 0) return;
  void* const start =
      ::mmap(nullptr, file.sizeBytes(), PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (start == MAP_FAILED) {
    throw Failure(file.path() + ": " + std::generic_category().message(errno));
  }
  // A hint, no more.
  static_cast<void>(::madvise(start, file.sizeBytes(), MADV_SEQUENTIAL));
  bytes_ = {static_cast<const std::byte*>(start), file.sizeBytes()};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void giveBack(std::span<const std::byte> part) noexcept {
  if (part.empty()) return;
  static const auto pageBytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  std::byte* const first = const_cast<std::byte*>(part.data());
  const std::size_t before = reinterpret_cast<std::uintptr_t>(first) % pageBytes;
  static_cast<void>(::madvise(first - before, part.size() + before, MADV_DONTNEED));
}

BusErrorGuard::BusErrorGuard() noexcept {
  struct sigaction action = {};
  action.sa_handler = endAfterBusError;
  ::sigaction(SIGBUS, &action, &before_);
}

BusErrorGuard::~BusErrorGuard() { ::sigaction(SIGBUS, &before_, nullptr); }

}  // namespace zipccl::tools
