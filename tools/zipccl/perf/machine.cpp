// SPDX-License-Identifier: Apache-2.0
//
// Asks the system about itself.

#include "perf/machine.hpp"

#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <array>
#include <ctime>
#include <fstream>
#include <limits>
#include <thread>

#include "support/text.hpp"

namespace zipccl::tools::perf {
namespace {

std::string readCpuModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(':');
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) {
      return printable(line.substr(line.find_first_not_of(" \t", colon + 1)));
    }
  }
  return "unknown";
}

int usableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

std::vector<std::string> findInstructionSets() {
  std::vector<std::string> sets;
#if defined(__x86_64__)
  __builtin_cpu_init();
  const auto add = [&sets](int has, const char* name) {
    if (has != 0) sets.emplace_back(name);
  };
  add(__builtin_cpu_supports("sse4.2"), "sse4.2");
  add(__builtin_cpu_supports("avx2"), "avx2");
  add(__builtin_cpu_supports("bmi2"), "bmi2");
  add(__builtin_cpu_supports("avx512f"), "avx512f");
  add(__builtin_cpu_supports("avx512bw"), "avx512bw");
  add(__builtin_cpu_supports("avx512vbmi"), "avx512vbmi");
#endif
  return sets;
}

}  // namespace

Machine thisMachine() {
  Machine machine;
  machine.cpuModel = readCpuModel();
  machine.cores = usableCores();
  machine.instructionSets = findInstructionSets();
  utsname names = {};
  if (::uname(&names) == 0) {
    machine.system = std::string(names.sysname) + " " + names.release;
    machine.hostName = names.nodename;
  }
  return machine;
}

std::uint64_t physicalMemoryBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long pageBytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || pageBytes <= 0) return std::numeric_limits<std::uint64_t>::max();
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(pageBytes);
}

std::string utcNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  ::gmtime_r(&now, &parts);
  std::array<char, 32> text{};
  const std::size_t length = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return {text.data(), length};
}

}  // namespace zipccl::tools::perf
