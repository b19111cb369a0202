// SPDX-License-Identifier: Apache-2.0
//
// Any bytes as a safetensors file and as the index of one: the readers must answer with a list or a
// Failure. What they accept lies inside the file, and its bytes can be had.

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "support/failure.hpp"
#include "tensors/safetensors.hpp"
#include "tensors/safetensors_index.hpp"

namespace {

using zipccl::tools::Failure;
using zipccl::tools::MappedFile;
using zipccl::tools::SafetensorsFile;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

/// A file that only memory knows, with a path.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "there is memory for a file");
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  void write(std::span<const std::uint8_t> bytes) const {
    require(::ftruncate(descriptor_, 0) == 0, "the file can be emptied");
    const ssize_t written = ::pwrite(descriptor_, bytes.data(), bytes.size(), 0);
    require(written == static_cast<ssize_t>(bytes.size()), "the file can be written");
  }

  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void requireBytes(const SafetensorsFile& file) {
  const MappedFile mapped = file.map();
  for (const zipccl::tools::Tensor& tensor : file.tensors()) {
    require(file.fileOffset(tensor) <= mapped.bytes().size() &&
                tensor.bytes() <= mapped.bytes().size() - file.fileOffset(tensor),
            "a tensor lies in its file");
    if (tensor.bytes() == 0) continue;
    for (const std::uint64_t place : {std::uint64_t{0}, tensor.bytes() - 1}) {
      std::array<std::byte, 1> byte{};
      file.read(tensor, place, byte);
      require(byte[0] == mapped.bytes()[file.fileOffset(tensor) + place],
              "a byte is the same when it is read and when it is mapped");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const MemoryFile memory;
  memory.write({data, size});
  try {
    requireBytes(SafetensorsFile(memory.path()));
  } catch (const Failure& failure) {
    require(failure.what()[0] != '\0', "a Failure has words");
  }
  try {
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    for (const auto& tensor : zipccl::tools::parseSafetensorsIndex(text)) {
      require(!tensor.file.empty() && tensor.file.find('/') == std::string::npos,
              "an index leads to files beside it only");
    }
  } catch (const Failure& failure) {
    require(failure.what()[0] != '\0', "a Failure has words");
  }
  return 0;
}
