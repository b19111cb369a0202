// SPDX-License-Identifier: Apache-2.0
//
// Golden files on disk.

#include "golden/golden_files.hpp"

#include <fstream>
#include <iterator>
#include <stdexcept>

namespace zipccl::golden {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFolders[] = {"frames", "faults"};

}  // namespace

Bytes readFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  Bytes bytes(fs::file_size(path));
  in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  if (!in) throw std::runtime_error("cannot read all of " + path.string());
  return bytes;
}

void writeFile(const fs::path& path, const Bytes& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char*>(bytes.data()),
            static_cast<std::streamsize>(bytes.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

void writeFiles(const fs::path& folder, const Files& files) {
  for (const char* const name : kFolders) {
    fs::remove_all(folder / name);
    fs::create_directories(folder / name);
  }
  for (const auto& [path, bytes] : files) writeFile(folder / path, bytes);
}

std::vector<std::string> differences(const fs::path& folder, const Files& files) {
  std::vector<std::string> lines;
  for (const auto& [path, bytes] : files) {
    if (!fs::exists(folder / path)) {
      lines.push_back(path + " is missing");
    } else if (readFile(folder / path) != bytes) {
      lines.push_back(path + " differs");
    }
  }
  for (const char* const name : kFolders) {
    if (!fs::exists(folder / name)) continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / name)) {
      const std::string path = std::string(name) + "/" + entry.path().filename().string();
      if (!files.contains(path)) lines.push_back(path + " should not be there");
    }
  }
  return lines;
}

codec::DecodeStatus decodeWhole(const Bytes& frame, Bytes& elements) {
  elements.clear();
  codec::FrameHeader header;
  codec::DecodeStatus status = codec::readHeader(frame, header);
  if (status != codec::DecodeStatus::kOk) return status;
  // A header may promise far more than there is: nothing is allocated for that.
  if (frame.size() < header.staticBytes) return codec::DecodeStatus::kTruncated;
  elements.resize(header.spec.elementCount * codec::elementBytes(header.spec.datatype));
  status = codec::decodeFrame(frame, elements);
  if (status != codec::DecodeStatus::kOk) elements.clear();
  return status;
}

}  // namespace zipccl::golden
