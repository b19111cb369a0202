// SPDX-License-Identifier: Apache-2.0
//
// nvCOMP's ANS codec at work on buffers of ours.

#include "perf_codec/nvcomp_codec.hpp"

#include <algorithm>

#include "perf_codec/gpu_timing.hpp"
#include "support/text.hpp"

namespace zipccl::tools::perf_codec {
namespace {

void check(Nvcomp::Status status, const char* what) {
  if (status == Nvcomp::Status::kSuccess) return;
  throw Failure(std::string("nvCOMP, ") + what + ": status " +
                std::to_string(static_cast<int>(status)));
}

template <class Item>
Item* itemsOf(const DeviceBuffer& buffer, std::uint64_t first) {
  return reinterpret_cast<Item*>(buffer.data()) + first;
}

}  // namespace

std::string NvcompSettings::describe() const {
  std::string text = "chunks of " + humanBytes(chunkBytes);
  if (histogramReductionLog2 != 0) {
    text += ", histogram of 1/" + std::to_string(1U << histogramReductionLog2);
  }
  return text;
}

std::vector<NvcompSettings> nvcompCandidates() {
  std::vector<NvcompSettings> candidates;
  for (const unsigned chunkKibibytes : {64U, 128U, 256U, 512U}) {
    for (const unsigned reductionLog2 : {0U, 3U, 6U}) {
      candidates.push_back(
          {std::size_t{chunkKibibytes} * 1024, static_cast<std::uint8_t>(reductionLog2)});
    }
  }
  return candidates;
}

NvcompCodec::NvcompCodec(const Nvcomp& library, const Stream& stream, codec::Datatype datatype,
                         const NvcompSettings& settings, const NvcompBuffers& buffers)
    : library_(library),
      stream_(stream),
      settings_(settings),
      sets_(buffers.sets),
      chunks_((buffers.bytes + settings.chunkBytes - 1) / settings.chunkBytes) {
  compressOptions_.elementType = decompressOptions_.elementType =
      codec::elementBytes(datatype) == 2 ? Nvcomp::kTypeFloat16 : Nvcomp::kTypeFloat32;
  compressOptions_.histogramReductionLog2 = settings.histogramReductionLog2;
  // What is named here lets it take its fastest kernel.
  decompressOptions_.statesPerLane = compressOptions_.statesPerLane = 2;
  decompressOptions_.skipsValidation = 1;

  std::size_t mostOutputBytes = 0;
  check(library_.compressGetMaxOutputChunkSize(settings.chunkBytes, compressOptions_,
                                               &mostOutputBytes),
        "asking for the largest chunk");
  const std::uint64_t strideBytes = aligned(mostOutputBytes);
  compressed_ = DeviceBuffer(sets_ * chunks_ * strideBytes);
  std::size_t tempBytes = 0;
  check(library_.compressGetTempSize(chunks_, settings.chunkBytes, compressOptions_, &tempBytes,
                                     buffers.bytes, stream_.get()),
        "asking for the compressor's memory");
  compressTemp_ = DeviceBuffer(tempBytes);
  check(library_.decompressGetTempSize(chunks_, settings.chunkBytes, decompressOptions_, &tempBytes,
                                       buffers.bytes, stream_.get()),
        "asking for the decompressor's memory");
  decompressTemp_ = DeviceBuffer(tempBytes);

  Pointers sources;
  Pointers outputs;
  Pointers compressed;
  Sizes bytes;
  for (std::uint64_t set = 0; set < sets_; ++set) {
    for (std::uint64_t at = 0; at < buffers.bytes; at += settings.chunkBytes) {
      sources.push_back(buffers.source(set) + at);
      outputs.push_back(buffers.output(set) + at);
      compressed.push_back(compressed_.data() + compressed.size() * strideBytes);
      bytes.push_back(std::min<std::uint64_t>(settings.chunkBytes, buffers.bytes - at));
    }
  }
  sourcePointers_ = upload(sources);
  sourceBytes_ = upload(bytes);
  compressedPointers_ = upload(compressed);
  compressedBytes_ = upload(Sizes(bytes.size()));
  outputPointers_ = upload(outputs);
  outputBytes_ = upload(Sizes(bytes.size()));
  const std::vector<Nvcomp::Status> statuses(bytes.size(), Nvcomp::Status::kSuccess);
  compressStatuses_ = upload(statuses);
  decompressStatuses_ = upload(statuses);
}

void NvcompCodec::compress(std::uint64_t call) const {
  const std::uint64_t first = firstChunk(call);
  check(library_.compressAsync(itemsOf<const void*>(sourcePointers_, first),
                               itemsOf<std::size_t>(sourceBytes_, first), settings_.chunkBytes,
                               chunks_, compressTemp_.data(), compressTemp_.bytes(),
                               itemsOf<void*>(compressedPointers_, first),
                               itemsOf<std::size_t>(compressedBytes_, first), compressOptions_,
                               itemsOf<Nvcomp::Status>(compressStatuses_, first), stream_.get()),
        "compressing");
}

void NvcompCodec::decompress(std::uint64_t call) const {
  const std::uint64_t first = firstChunk(call);
  check(
      library_.decompressAsync(
          itemsOf<const void*>(compressedPointers_, first),
          itemsOf<std::size_t>(compressedBytes_, first), itemsOf<std::size_t>(sourceBytes_, first),
          itemsOf<std::size_t>(outputBytes_, first), chunks_, decompressTemp_.data(),
          decompressTemp_.bytes(), itemsOf<void*>(outputPointers_, first), decompressOptions_,
          itemsOf<Nvcomp::Status>(decompressStatuses_, first), stream_.get()),
      "decompressing");
}

double NvcompCodec::compressedBytes() const {
  double sum = 0.0;
  for (const std::size_t bytes : download<std::size_t>(compressedBytes_)) {
    sum += static_cast<double>(bytes);
  }
  return sum;
}

std::uint64_t NvcompCodec::failedChunks() const {
  std::uint64_t failed = 0;
  for (const DeviceBuffer* statuses : {&compressStatuses_, &decompressStatuses_}) {
    const auto all = download<Nvcomp::Status>(*statuses);
    failed +=
        static_cast<std::uint64_t>(std::count_if(all.begin(), all.end(), [](Nvcomp::Status status) {
          return status != Nvcomp::Status::kSuccess;
        }));
  }
  return failed;
}

template <class Item>
DeviceBuffer NvcompCodec::upload(const std::vector<Item>& items) const {
  DeviceBuffer buffer(items.size() * sizeof(Item));
  perf_codec::check(cudaMemcpyAsync(buffer.data(), items.data(), buffer.bytes(),
                                    cudaMemcpyHostToDevice, stream_.get()),
                    "filling lists of chunks");
  stream_.synchronize();
  return buffer;
}

template <class Item>
std::vector<Item> NvcompCodec::download(const DeviceBuffer& buffer) const {
  std::vector<Item> items(buffer.bytes() / sizeof(Item));
  perf_codec::check(cudaMemcpyAsync(items.data(), buffer.data(), buffer.bytes(),
                                    cudaMemcpyDeviceToHost, stream_.get()),
                    "reading lists of chunks");
  stream_.synchronize();
  return items;
}

}  // namespace zipccl::tools::perf_codec
