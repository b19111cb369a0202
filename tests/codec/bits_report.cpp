// SPDX-License-Identifier: Apache-2.0
//
// bits_report FILE.safetensors...: one line of JSON for each tensor that has a frame format, with
// the bits a value that it takes. Exit status 1 when a tensor misses the goal of its kind or does
// not come back.

#include <exception>
#include <iostream>

#include "codec/tensor_bits.hpp"

int main(int argc, char** argv) {
  namespace testing = zipccl::codec::testing;
  bool allMet = true;
  try {
    for (int i = 1; i < argc; ++i) {
      const zipccl::testing::SafetensorsFile file(argv[i]);
      for (const zipccl::testing::Tensor& tensor : file.tensors()) {
        const auto report = testing::reportOf(tensor);
        if (!report) continue;
        std::cout << testing::toJson(*report) << '\n';
        if (report->meetsGoal()) continue;
        allMet = false;
        std::cerr << argv[i] << ": " << tensor.name << " misses its goal\n";
      }
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return allMet ? 0 : 1;
}
