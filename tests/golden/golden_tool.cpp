// SPDX-License-Identifier: Apache-2.0
//
// Writes and checks the golden files, and decodes for the tests that compare decoders.

#include <CLI/CLI.hpp>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>

#include "golden/golden_files.hpp"

namespace {

namespace fs = std::filesystem;
namespace golden = zipccl::golden;

int check(const std::string& folder) {
  const auto lines = golden::differences(folder, golden::goldenFiles());
  for (const std::string& line : lines) std::cout << line << '\n';
  return lines.empty() ? 0 : 1;
}

void writeSample(const std::string& folder, std::uint64_t seed) {
  zipccl::Random random(seed);
  const auto frames = golden::frames(random);
  golden::writeFiles(folder, golden::filesOf(frames, golden::faults(random)));
}

void decodeAll(const std::string& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".zccl") continue;
    golden::Bytes elements;
    const auto status = golden::decodeWhole(golden::readFile(entry.path()), elements);
    if (status == zipccl::codec::DecodeStatus::kOk) {
      golden::writeFile(fs::path(entry.path()).replace_extension(".decoded"), elements);
    }
    std::cout << entry.path().filename().string() << ' ' << golden::nameOf(status) << '\n';
  }
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Golden files of the frame format");
  std::string writeTo;
  std::string checkIn;
  std::string sampleTo;
  std::string decodeIn;
  std::uint64_t seed = 0;
  bool example = false;
  auto* const actions = app.add_option_group("actions");
  actions->add_option("--write", writeTo, "Write the golden files into this folder");
  actions->add_option("--check", checkIn, "Compare the golden files in this folder");
  auto* const sample =
      actions->add_option("--sample", sampleTo, "Write files of the same kinds from another seed");
  actions->add_option("--decode-all", decodeIn,
                      "Decode each NAME.zccl of a folder into NAME.decoded and print its status");
  actions->add_flag("--example", example, "Print the listing of the worked example");
  actions->require_option(1);
  app.add_option("--seed", seed, "Seed of the sample")->needs(sample);
  CLI11_PARSE(app, argc, argv);

  try {
    if (!checkIn.empty()) return check(checkIn);
    if (!writeTo.empty()) golden::writeFiles(writeTo, golden::goldenFiles());
    if (!sampleTo.empty()) writeSample(sampleTo, seed);
    if (!decodeIn.empty()) decodeAll(decodeIn);
    if (example) std::cout << golden::listing(golden::workedExample().frame);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
