// SPDX-License-Identifier: Apache-2.0
//
// UniqueFd: the owner of a file descriptor.

#pragma once

#include <unistd.h>

#include <utility>

namespace zipccl {

/// Owns one file descriptor and closes it. Move-only; empty when default-constructed.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;

  /// Takes over `fd`; a negative value makes an empty owner.
  explicit UniqueFd(int fd) noexcept : fd_(fd < 0 ? -1 : fd) {}

  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const noexcept { return fd_; }
  [[nodiscard]] bool isOpen() const noexcept { return fd_ >= 0; }

  /// Gives the descriptor away; the caller closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

  /// Closes what is owned. An error of close() is ignored: the descriptor is gone either way.
  void reset() noexcept {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  int fd_ = -1;
};

}  // namespace zipccl
