// SPDX-License-Identifier: Apache-2.0
//
// The frames and the faulty frames that the golden files hold, made from a generator of random bits
// alone, so that one seed gives the same bytes on every machine: the committed files come from one
// fixed seed, and fresh seeds give fresh samples of every kind.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.hpp"
#include "zipccl/codec.hpp"

namespace zipccl::golden {

using Bytes = std::vector<std::byte>;

/// A frame as the scalar encoder writes it.
struct Frame {
  std::string name;
  std::string elementsName;  ///< frames of the same elements share the file that holds them
  codec::FrameSpec spec;
  Bytes elements;
  Bytes frame;
};

/// A byte string that a decoder rejects by its own header and content.
struct Fault {
  std::string name;
  codec::DecodeStatus status;
  Bytes frame;
};

/// At least one frame for each datatype, layout, kind of tile, use of the pool, and the checksum.
[[nodiscard]] std::vector<Frame> frames(Random& random);

/// At least one fault for each status that a frame can have by itself, that is all but kOk,
/// kSpecMismatch and kOutputTooSmall. Each has one fault only, or is named after the two whose
/// order it shows.
[[nodiscard]] std::vector<Fault> faults(Random& random);

/// The frame of docs/format.md section 11.
[[nodiscard]] Frame workedExample();

/// The hexadecimal listing of `frame` in docs/format.md section 11: 16 bytes a line after their
/// offset, and one `*` for all lines that repeat the one before it.
[[nodiscard]] std::string listing(const Bytes& frame);

/// "kOk", "kTruncated", ...
[[nodiscard]] std::string_view nameOf(codec::DecodeStatus status);
[[nodiscard]] std::optional<codec::DecodeStatus> statusOf(std::string_view name);

/// Paths below the folder of golden files, and what stands there; manifest.json lists all others.
using Files = std::map<std::string, Bytes>;
[[nodiscard]] Files filesOf(const std::vector<Frame>& frames, const std::vector<Fault>& faults);

/// The files that are committed.
[[nodiscard]] Files goldenFiles();

}  // namespace zipccl::golden
