// SPDX-License-Identifier: Apache-2.0
//
// The host codec behind the collectives' interface.

#include "collectives/host_codec.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/error.hpp"
#include "codec/layout.hpp"
#include "collectives/frame_check.hpp"

namespace zipccl::collectives {
namespace {

constexpr std::align_val_t kBufferAlignment{128};

class HostCodec final : public FrameCodec {
 public:
  [[nodiscard]] transport::MemoryKind memoryKind() const noexcept override {
    return transport::MemoryKind::kHost;
  }

  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) override {
    void* memory = ::operator new(bytes, kBufferAlignment, std::nothrow);
    expects(memory != nullptr, ErrorCode::kSystemError, "no memory for ", bytes,
            " bytes of scratch");
    return static_cast<std::byte*>(memory);
  }

  void release(std::byte* memory, std::uint64_t) noexcept override {
    ::operator delete(memory, kBufferAlignment);
  }

  void encode(const codec::FrameSpec& spec, const void* source, std::span<std::byte> frame,
              FrameNote note, transport::StreamHandle) override {
    note.lowTiles = codec::encode(spec, source, frame).lowTiles;
    sealHeader(frame, note);
  }

  void readReports(const std::byte* frames, std::uint64_t strideBytes,
                   std::span<FrameReport> reports, transport::StreamHandle) override {
    for (FrameReport& report : reports) {
      report = readReport({frames, codec::kHeaderBytes});
      frames += strideBytes;
    }
  }

  void decode(const codec::FrameSpec& expected, const FrameParts& frame,
              std::span<std::byte> output, codec::DecodeStatus* status,
              transport::StreamHandle) override {
    *status = codec::decode(expected, frame.staticPart, frame.dynamicPart, output);
  }

  void decodeReduce(Datatype datatype, std::uint64_t elementCount, std::span<const Addend> addends,
                    float factor, void* output, std::span<codec::DecodeStatus> statuses,
                    transport::StreamHandle) override {
    std::fill(statuses.begin(), statuses.end(), codec::DecodeStatus::kOk);
    const codec::ReduceResult result = codec::decodeReduce(
        *codedDatatype(datatype), elementCount, addends, factor,
        {static_cast<std::byte*>(output), elementCount * elementBytes(datatype)});
    if (result.status != codec::DecodeStatus::kOk) statuses[result.addend] = result.status;
  }

  void reduce(Datatype datatype, const Reduction& reduction, std::span<const void* const> addends,
              std::uint64_t elementCount, void* output, transport::StreamHandle) override {
    reduceElements(datatype, reduction, addends, elementCount, output);
  }

  void finish(transport::StreamHandle) override {}

  void copy(void* to, const void* from, std::uint64_t bytes, transport::StreamHandle) override {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }

  void clear(std::byte* memory, std::uint64_t bytes, transport::StreamHandle) override {
    if (bytes != 0) std::memset(memory, 0, bytes);
  }
};

}  // namespace

std::unique_ptr<FrameCodec> makeHostCodec() { return std::make_unique<HostCodec>(); }

}  // namespace zipccl::collectives
