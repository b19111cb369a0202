// SPDX-License-Identifier: Apache-2.0
//
// One line, one write.

#include "notice.hpp"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace zipccl::preload {
namespace {

bool isSilenced() noexcept {
  const char* const level = getenv("ZIPCCL_DEBUG");
  return level != nullptr && (strcasecmp(level, "NONE") == 0 || strcasecmp(level, "VERSION") == 0);
}

}  // namespace

void warn(const char* where, int line, const char* format, ...) noexcept {
  if (isSilenced()) return;
  char host[256] = "unknown";
  static_cast<void>(gethostname(host, sizeof(host) - 1));
  host[strcspn(host, ".")] = '\0';
  char text[1024];
  constexpr int kRoom = sizeof(text) - 1;  // for the end of the line
  int length = std::snprintf(text, kRoom, "%s:%d:%ld [-1] preload/%s:%d ZIPCCL WARN ", host,
                             static_cast<int>(getpid()), syscall(SYS_gettid), where, line);
  length = std::clamp(length, 0, kRoom - 1);
  va_list arguments;
  va_start(arguments, format);
  const int more =
      std::vsnprintf(text + length, static_cast<size_t>(kRoom - length), format, arguments);
  va_end(arguments);
  length = std::clamp(length + std::max(more, 0), 0, kRoom - 1);
  for (int i = 0; i < length; ++i) {
    if (static_cast<unsigned char>(text[i]) < 0x20) text[i] = ' ';
  }
  text[length] = '\n';
  static_cast<void>(!write(STDERR_FILENO, text, static_cast<size_t>(length) + 1));
}

}  // namespace zipccl::preload
