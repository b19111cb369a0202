// SPDX-License-Identifier: Apache-2.0
//
// The program `zipccl`.

#include <unistd.h>

#include <iostream>

#include "command_line.hpp"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv, argv + argc);
  const bool isErrorTerminal = ::isatty(STDERR_FILENO) == 1;
  return static_cast<int>(
      zipccl::tools::runCommandLine(arguments, {std::cout, std::cerr, isErrorTerminal}));
}
