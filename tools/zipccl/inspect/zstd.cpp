// SPDX-License-Identifier: Apache-2.0
//
// zstd, as this build found it.

#include "inspect/zstd.hpp"

#include <zstd.h>

#include <algorithm>
#include <new>
#include <vector>

#include "support/failure.hpp"

namespace zipccl::tools::inspect {
namespace {

constexpr int kLevel = 1;

struct Free {
  void operator()(ZSTD_CCtx* context) const noexcept { ZSTD_freeCCtx(context); }
};

}  // namespace

struct Zstd::State {
  std::unique_ptr<ZSTD_CCtx, Free> context{ZSTD_createCCtx()};
  std::vector<std::byte> output;
};

std::string Zstd::version() { return ZSTD_versionString(); }

Zstd::Zstd() : state_(std::make_unique<State>()) {
  if (!state_->context) throw std::bad_alloc();
}

Zstd::~Zstd() = default;

std::uint64_t Zstd::compressedBytes(std::span<const std::byte> bytes) {
  std::vector<std::byte>& output = state_->output;
  output.resize(std::max(output.size(), ZSTD_compressBound(bytes.size())));
  const std::size_t size = ZSTD_compressCCtx(state_->context.get(), output.data(), output.size(),
                                             bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(size) != 0) throw Failure(std::string("zstd: ") + ZSTD_getErrorName(size));
  return size;
}

}  // namespace zipccl::tools::inspect
