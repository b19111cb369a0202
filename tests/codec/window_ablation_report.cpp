// SPDX-License-Identifier: Apache-2.0
//
// window_ablation FOLDER: the table of docs/theory.md section 12, with the tensors of that folder
// (data). window_ablation FILE.safetensors...: the same for the tensors of other files.

#include <exception>
#include <filesystem>
#include <iostream>

#include "codec/window_ablation.hpp"

int main(int argc, char** argv) {
  namespace testing = zipccl::codec::testing;
  try {
    for (int i = 1; i < argc; ++i) {
      const auto rows = std::filesystem::is_directory(argv[i]) ? testing::ablationTable(argv[i])
                                                               : testing::ablationOfFile(argv[i]);
      for (const testing::AblationRow& row : rows) {
        std::cout << testing::toMarkdown(row) << '\n' << std::flush;
      }
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
