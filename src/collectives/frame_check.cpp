// SPDX-License-Identifier: Apache-2.0
//
// The checks of received frames.

#include "collectives/frame_check.hpp"

#include <string>

#include "base/error.hpp"
#include "codec/layout.hpp"
#include "collectives/datatype.hpp"

namespace zipccl::collectives {
namespace {

[[noreturn]] void failDamaged(const FramePlace& place, int peer, std::string_view what) {
  fail(ErrorCode::kRemoteError, "the frame of rank ", peer, " (", place.unit, ' ', place.call,
       ", chunk ", place.chunk, ") is damaged: ", what);
}

std::string describe(const codec::FrameSpec& spec) {
  return concat(spec.elementCount, " elements of ", datatypeName(datatypeOf(spec.datatype)),
                spec.layout == codec::Layout::kWide ? ", wide layout" : "", ", pool of ",
                spec.poolBytes, " bytes", spec.checksum ? ", checksum" : "");
}

}  // namespace

FrameReport readReport(std::span<const std::byte> headerBytes) noexcept {
  FrameReport report;
  codec::FrameHeader header;
  report.status = codec::readHeader(headerBytes, header);
  if (report.status != codec::DecodeStatus::kOk) return report;
  report.isSealIntact = isSealIntact(headerBytes);
  report.spec = header.spec;
  report.extraBytes = header.extraBytes;
  report.dynamicBytes = header.dynamicBytes;
  report.note = readNote(header.application);
  return report;
}

void checkReport(const FrameReport& report, const codec::FrameSpec& expected,
                 const FramePlace& place, int rank, int peer) {
  if (report.status != codec::DecodeStatus::kOk) {
    failDamaged(place, peer, codec::describe(report.status));
  }
  if (!report.isSealIntact) failDamaged(place, peer, "its header does not match its seal");
  expects(report.note.call == place.call && report.note.chunk == place.chunk,
          ErrorCode::kInvalidUsage, "rank ", peer, " is in chunk ", report.note.chunk, " of ",
          place.unit, ' ', report.note.call, " while rank ", rank, " is in chunk ", place.chunk,
          " of ", place.unit, ' ', place.call);
  expects(report.spec == expected, ErrorCode::kInvalidUsage, "rank ", peer, " sent a frame of ",
          describe(report.spec), " while rank ", rank, " expects ", describe(expected), " (",
          place.unit, ' ', place.call, ", chunk ", place.chunk, ')');
  if (report.note.lowTiles > report.spec.elementCount / codec::kTileElements) {
    failDamaged(place, peer, "it counts more tiles than it has");
  }
}

void checkStatus(codec::DecodeStatus status, const FramePlace& place, int peer) {
  if (status != codec::DecodeStatus::kOk) failDamaged(place, peer, codec::describe(status));
}

}  // namespace zipccl::collectives
