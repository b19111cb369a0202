// SPDX-License-Identifier: Apache-2.0
//
// Lines of JSON, each appended by one write, so that those of several processes do not mix.

#include "report.hpp"

#include <fcntl.h>
#include <link.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>

#include "image.hpp"
#include "real_nccl.hpp"

namespace zipccl::preload {
namespace {

const char* reportFile() noexcept {
  const char* const path = secure_getenv("ZIPCCL_REPORT");
  return path != nullptr && path[0] != '\0' ? path : nullptr;
}

/// Paths may hold what JSON must not.
void escape(char* out, size_t outBytes, const char* text) noexcept {
  size_t at = 0;
  for (; *text != '\0' && at + 2 < outBytes; ++text) {
    const bool isSpecial = *text == '"' || *text == '\\';
    if (isSpecial) out[at++] = '\\';
    out[at++] = static_cast<unsigned char>(*text) < 0x20 ? ' ' : *text;
  }
  out[at] = '\0';
}

[[gnu::format(printf, 1, 2)]] void write(const char* format, ...) noexcept {
  const char* const path = reportFile();
  if (path == nullptr) return;
  char line[4096];
  constexpr int kRoom = sizeof(line) - 2;
  int length = std::snprintf(line, kRoom, "{\"pid\": %d, ", static_cast<int>(getpid()));
  va_list arguments;
  va_start(arguments, format);
  length += std::vsnprintf(line + length, static_cast<size_t>(kRoom - length), format, arguments);
  va_end(arguments);
  length = std::clamp(length, 0, kRoom - 1);
  line[length++] = '}';
  line[length++] = '\n';
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  static_cast<void>(!::write(file, line, static_cast<size_t>(length)));
  close(file);
}

int findMapped(dl_phdr_info* info, size_t, void* argument) noexcept {
  if (info->dlpi_name == nullptr || strcmp(info->dlpi_name, ownPath()) == 0) return 0;
  const char* const slash = strrchr(info->dlpi_name, '/');
  if (strncmp(slash != nullptr ? slash + 1 : info->dlpi_name, "libnccl.so", 10) != 0) return 0;
  escape(static_cast<char*>(argument), 1024, info->dlpi_name);
  return 1;
}

/// What a process leaves: whether it had NCCL, and whether a hook was ever called.
[[gnu::destructor]] void reportEnd() noexcept {
  if (reportFile() == nullptr) return;
  char program[1024] = {};
  char escaped[1024] = {};
  if (readlink("/proc/self/exe", program, sizeof(program) - 1) > 0) {
    escape(escaped, sizeof(escaped), program);
  }
  char nccl[1024] = {};
  dl_iterate_phdr(findMapped, nccl);
  write("\"event\": \"end\", \"program\": \"%s\", \"nccl\": \"%s\", \"called\": %s", escaped, nccl,
        resolvedNccl.load() != nullptr ? "true" : "false");
}

}  // namespace

void reportNccl(const char* path, const char* how, int version, bool isDisabled) noexcept {
  if (reportFile() == nullptr) return;
  char escaped[1024];
  escape(escaped, sizeof(escaped), path);
  write("\"event\": \"nccl\", \"path\": \"%s\", \"how\": \"%s\", \"version\": %d, \"disabled\": %s",
        escaped, how, version, isDisabled ? "true" : "false");
}

void reportEngine(const char* path, const char* why) noexcept {
  if (reportFile() == nullptr) return;
  char escapedPath[1024];
  char escapedWhy[1024];
  escape(escapedPath, sizeof(escapedPath), path);
  escape(escapedWhy, sizeof(escapedWhy), why);
  write("\"event\": \"engine\", \"path\": \"%s\", \"why\": \"%s\"", escapedPath, escapedWhy);
}

void reportCommunicator(int ranks, int rank, const char* why) noexcept {
  if (reportFile() == nullptr) return;
  char escaped[512];
  escape(escaped, sizeof(escaped), why);
  write("\"event\": \"communicator\", \"ranks\": %d, \"rank\": %d, \"why\": \"%s\"", ranks, rank,
        escaped);
}

}  // namespace zipccl::preload
