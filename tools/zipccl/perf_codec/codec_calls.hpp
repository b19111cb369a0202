// SPDX-License-Identifier: Apache-2.0
//
// The calls of the host codec that are measured and checked. They stand apart so that a program of
// the tests can put a faulty codec in their place and see the fault reported.

#pragma once

#include <cstddef>
#include <span>
#include <zipccl/codec.hpp>

namespace zipccl::tools::perf_codec {

/// As codec::encode().
void encodeOnHost(const codec::FrameSpec& spec, std::span<const std::byte> source,
                  std::span<std::byte> frame);

/// As codec::decode().
[[nodiscard]] codec::DecodeStatus decodeOnHost(const codec::FrameSpec& spec,
                                               std::span<const std::byte> staticPart,
                                               std::span<const std::byte> dynamicPart,
                                               std::span<std::byte> output) noexcept;

}  // namespace zipccl::tools::perf_codec
