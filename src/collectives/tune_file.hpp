// SPDX-License-Identifier: Apache-2.0
//
// ZIPCCL_TUNE_FILE: a file with a profile for each kind of communicator, one a line, after a word
// that names the kind. Lines that are empty or start with # do not count.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "policy/profile.hpp"

namespace zipccl::collectives {

class TuneFile {
 public:
  explicit TuneFile(std::string path) : path_(std::move(path)) {}

  /// The first profile of `kind`; none where there is no such line, or no file. Throws
  /// Error(kInvalidArgument) on a line that is neither a comment nor a profile, Error(kSystemError)
  /// where the file cannot be read.
  [[nodiscard]] std::optional<policy::Profile> find(std::string_view kind) const;

  /// Appends a line, in one piece, unless another process did; makes the file where there is none.
  /// Throws as find() does.
  void add(std::string_view kind, const policy::Profile& profile) const;

 private:
  std::string path_;
};

}  // namespace zipccl::collectives
