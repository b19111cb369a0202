// SPDX-License-Identifier: Apache-2.0
//
// Decode statuses in English (docs/format.md section 9).

#include "zipccl/codec.hpp"

namespace zipccl::codec {

const char* describe(DecodeStatus status) noexcept {
  switch (status) {
    case DecodeStatus::kOk:
      return "The frame was decoded.";
    case DecodeStatus::kTruncated:
      return "The frame ends before its header, its static part or its dynamic part does.";
    case DecodeStatus::kBadMagic:
      return "The bytes do not begin with a frame's magic.";
    case DecodeStatus::kUnsupportedVersion:
      return "The frame has a format version that this decoder does not read.";
    case DecodeStatus::kUnsupportedCodec:
      return "The frame has a codec identifier that this decoder does not read.";
    case DecodeStatus::kBadDatatype:
      return "The header names no known datatype.";
    case DecodeStatus::kBadLayout:
      return "The header names no known layout, or the wide one for a 16-bit datatype.";
    case DecodeStatus::kBadTileSize:
      return "The header names a tile or group size other than the format's.";
    case DecodeStatus::kBadReserved:
      return "A reserved field of the header is set, or a checksum without its flag.";
    case DecodeStatus::kBadElementCount:
      return "The header names more elements than a frame may hold.";
    case DecodeStatus::kBadPoolBytes:
      return "The header's pool size is not a multiple of 128 or above its limit.";
    case DecodeStatus::kBadExtraBytes:
      return "The header's extra space is not a multiple of 16 or above its limit.";
    case DecodeStatus::kSpecMismatch:
      return "The frame has another datatype, layout, element count or pool size than agreed.";
    case DecodeStatus::kOutputTooSmall:
      return "The output buffer holds fewer elements than the frame.";
    case DecodeStatus::kBadDescriptor:
      return "A tile descriptor is not a valid one.";
    case DecodeStatus::kBadGroupOffset:
      return "A group's offset does not name a region inside the frame's extra space.";
    case DecodeStatus::kBadEscapeCount:
      return "A tile's codes hold another number of escapes than its descriptor says.";
    case DecodeStatus::kChecksumMismatch:
      return "The decoded elements do not give the frame's checksum.";
  }
  return "The status is not a known one.";
}

}  // namespace zipccl::codec
