// SPDX-License-Identifier: Apache-2.0
//
// nvCOMP's ANS codec at work on buffers of ours: in chunks, all in one call, as its documentation
// wants it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>
#include <zipccl/codec.hpp>

#include "perf_codec/cuda.hpp"
#include "perf_codec/nvcomp.hpp"

namespace zipccl::tools::perf_codec {

struct NvcompSettings {
  std::size_t chunkBytes = 0;
  /// The histogram is made of a share of 1 / 2^this of the values: faster, and a little larger.
  std::uint8_t histogramReductionLog2 = 0;

  /// In words.
  [[nodiscard]] std::string describe() const;
};

/// What is tried to find out with which settings it is fastest.
[[nodiscard]] std::vector<NvcompSettings> nvcompCandidates();

/// Inputs and outputs that it works on: `sets` of them, each of `bytes` bytes.
struct NvcompBuffers {
  std::uint64_t sets = 0;
  std::uint64_t bytes = 0;
  std::function<std::byte*(std::uint64_t set)> source;
  std::function<std::byte*(std::uint64_t set)> output;
};

/// Compresses and decompresses sets of buffers, ordered on a stream. Throws Failure.
class NvcompCodec {
 public:
  NvcompCodec(const Nvcomp& library, const Stream& stream, codec::Datatype datatype,
              const NvcompSettings& settings, const NvcompBuffers& buffers);

  /// The input of set `call` modulo the number of sets.
  void compress(std::uint64_t call) const;
  /// What compress() made of that set, into its output.
  void decompress(std::uint64_t call) const;

  /// Bytes of all chunks of all sets together, as compress() left them. Waits.
  [[nodiscard]] double compressedBytes() const;
  /// Chunks for which compress() or decompress() reported a failure the last time. Waits.
  [[nodiscard]] std::uint64_t failedChunks() const;

 private:
  using Pointers = std::vector<void*>;
  using Sizes = std::vector<std::size_t>;

  [[nodiscard]] std::uint64_t firstChunk(std::uint64_t call) const noexcept {
    return call % sets_ * chunks_;
  }
  template <class Item>
  [[nodiscard]] DeviceBuffer upload(const std::vector<Item>& items) const;
  template <class Item>
  [[nodiscard]] std::vector<Item> download(const DeviceBuffer& buffer) const;

  const Nvcomp& library_;
  const Stream& stream_;
  NvcompSettings settings_;
  Nvcomp::CompressOptions compressOptions_;
  Nvcomp::DecompressOptions decompressOptions_;
  std::uint64_t sets_;
  std::uint64_t chunks_;  ///< of a set
  DeviceBuffer compressed_;
  DeviceBuffer compressTemp_;
  DeviceBuffer decompressTemp_;
  // One entry for each chunk of each set.
  DeviceBuffer sourcePointers_;
  DeviceBuffer sourceBytes_;
  DeviceBuffer compressedPointers_;
  DeviceBuffer compressedBytes_;
  DeviceBuffer outputPointers_;
  DeviceBuffer outputBytes_;
  DeviceBuffer compressStatuses_;
  DeviceBuffer decompressStatuses_;
};

}  // namespace zipccl::tools::perf_codec
