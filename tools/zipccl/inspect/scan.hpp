// SPDX-License-Identifier: Apache-2.0
//
// Goes through all tensors piece by piece, in several threads, and hands over the statistics of
// each tensor in the order of the tensors. What it keeps does not depend on how large they are.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <zipccl/codec.hpp>

#include "inspect/statistics.hpp"
#include "inspect/zstd.hpp"
#include "support/host_buffer.hpp"

namespace zipccl::tools::inspect {

struct InputTensor;

/// What is encoded at once: whole groups of tiles of every datatype, so that the extra space of the
/// pieces adds up to that of the whole.
inline constexpr std::uint64_t kPieceBytes = std::uint64_t{1} << 20;

/// Encodes pieces and looks at them. For one thread.
class PieceMeter {
 public:
  /// With the size by zstd where `usesZstd`.
  explicit PieceMeter(bool usesZstd);

  /// `bytes` are up to kPieceBytes of a tensor whose datatype `datatype` is, if it is encoded.
  [[nodiscard]] Statistics measure(std::optional<codec::Datatype> datatype,
                                   std::span<const std::byte> bytes);

 private:
  std::unique_ptr<Zstd> zstd_;
  HostBuffer frame_;
};

struct ScanPlan {
  unsigned threads = 1;
  bool usesZstd = false;
  /// Called by any thread with a piece that is not looked at again, if it is set.
  void (*release)(std::span<const std::byte>) noexcept = nullptr;
  /// Called in the caller's thread some times a second with the bytes that are done.
  std::function<void(std::uint64_t)> progress;
};

/// Called once for each tensor, with its place in the list and its statistics; never by two threads
/// at once.
using TensorHandler = std::function<void(std::size_t, const Statistics&)>;

/// Throws what a thread threw.
void scan(std::span<const InputTensor> tensors, const ScanPlan& plan, const TensorHandler& done);

}  // namespace zipccl::tools::inspect
