// SPDX-License-Identifier: Apache-2.0
//
// nvCOMP, NVIDIA's library of compressors, as far as its ANS codec is measured beside ours. It is
// loaded when it is asked for and never needed; its headers, which may not be part of an open
// source tree, are not used. What is declared here are facts of its documented C interface,
// version 6.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

struct CUstream_st;

namespace zipccl::tools::perf_codec {

/// The library, loaded.
class Nvcomp {
 public:
  /// Loads `path`, or where that is empty `libnvcomp.so.6` by the dynamic linker's search. Throws
  /// Failure when there is none or none of version 6.
  explicit Nvcomp(const std::string& path);

  /// Such as `6.0.0`.
  [[nodiscard]] const std::string& version() const noexcept { return version_; }
  /// The file that was loaded.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

  using Stream = CUstream_st*;
  enum class Status : int { kSuccess = 0 };

  // Element types, and the one algorithm.
  static constexpr int kTypeFloat16 = 10;  ///< of all 16-bit formats
  static constexpr int kTypeFloat32 = 11;

  /// nvcompBatchedANSCompressOpts_t
  struct CompressOptions {
    int algorithm = 0;  ///< rANS
    int elementType = kTypeFloat16;
    std::uint8_t maxSubChunkCount = 0;  ///< 0: 8
    std::uint8_t statesPerLane = 0;     ///< 0: 2
    std::uint8_t histogramReductionLog2 = 0;
    char reserved[53] = {};
  };
  static_assert(sizeof(CompressOptions) == 64);

  /// nvcompBatchedANSDecompressOpts_t
  struct DecompressOptions {
    int backend = 0;  ///< the best one
    int elementType = kTypeFloat16;
    std::uint8_t maxSubChunkCount = 0;
    std::uint8_t statesPerLane = 0;
    std::uint8_t skipsValidation = 0;
    char reserved[53] = {};
  };
  static_assert(sizeof(DecompressOptions) == 64);

  // Its functions, by their names without nvcompBatchedANS. Sizes and pointers of chunks lie in
  // device memory where the name begins with `device`.
  using CompressGetTempSize = Status (*)(std::size_t chunks, std::size_t mostChunkBytes,
                                         CompressOptions, std::size_t* tempBytes,
                                         std::size_t totalBytes, Stream);
  using CompressGetMaxOutputChunkSize = Status (*)(std::size_t mostChunkBytes, CompressOptions,
                                                   std::size_t* mostOutputBytes);
  using CompressAsync = Status (*)(const void* const* deviceInputs,
                                   const std::size_t* deviceInputBytes, std::size_t mostChunkBytes,
                                   std::size_t chunks, void* deviceTemp, std::size_t tempBytes,
                                   void* const* deviceOutputs, std::size_t* deviceOutputBytes,
                                   CompressOptions, Status* deviceStatuses, Stream);
  using DecompressGetTempSize = Status (*)(std::size_t chunks, std::size_t mostChunkBytes,
                                           DecompressOptions, std::size_t* tempBytes,
                                           std::size_t totalBytes, Stream);
  using DecompressAsync = Status (*)(const void* const* deviceInputs,
                                     const std::size_t* deviceInputBytes,
                                     const std::size_t* deviceOutputCapacities,
                                     std::size_t* deviceOutputBytes, std::size_t chunks,
                                     void* deviceTemp, std::size_t tempBytes,
                                     void* const* deviceOutputs, DecompressOptions,
                                     Status* deviceStatuses, Stream);

  CompressGetTempSize compressGetTempSize = nullptr;
  CompressGetMaxOutputChunkSize compressGetMaxOutputChunkSize = nullptr;
  CompressAsync compressAsync = nullptr;
  DecompressGetTempSize decompressGetTempSize = nullptr;
  DecompressAsync decompressAsync = nullptr;

 private:
  struct Close {
    void operator()(void* handle) const noexcept;
  };

  std::unique_ptr<void, Close> library_;
  std::string path_;
  std::string version_;
};

}  // namespace zipccl::tools::perf_codec
