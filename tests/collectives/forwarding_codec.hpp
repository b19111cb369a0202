// SPDX-License-Identifier: Apache-2.0
//
// A codec that hands everything to the host codec: tests override what they want to see or change.

#pragma once

#include <memory>
#include <span>

#include "collectives/host_codec.hpp"

namespace zipccl::collectives::testing {

class ForwardingCodec : public FrameCodec {
 public:
  [[nodiscard]] transport::MemoryKind memoryKind() const noexcept override {
    return inner_->memoryKind();
  }
  [[nodiscard]] std::byte* allocate(std::uint64_t bytes) override {
    return inner_->allocate(bytes);
  }
  void release(std::byte* memory, std::uint64_t bytes) noexcept override {
    inner_->release(memory, bytes);
  }
  void encode(const codec::FrameSpec& spec, const void* source, std::span<std::byte> frame,
              FrameNote note, transport::StreamHandle stream) override {
    inner_->encode(spec, source, frame, note, stream);
  }
  void readReports(const std::byte* frames, std::uint64_t strideBytes,
                   std::span<FrameReport> reports, transport::StreamHandle stream) override {
    inner_->readReports(frames, strideBytes, reports, stream);
  }
  void decode(const codec::FrameSpec& expected, const FrameParts& frame,
              std::span<std::byte> output, codec::DecodeStatus* status,
              transport::StreamHandle stream) override {
    inner_->decode(expected, frame, output, status, stream);
  }
  void decodeReduce(Datatype datatype, std::uint64_t elementCount, std::span<const Addend> addends,
                    float factor, void* output, std::span<codec::DecodeStatus> statuses,
                    transport::StreamHandle stream) override {
    inner_->decodeReduce(datatype, elementCount, addends, factor, output, statuses, stream);
  }
  void reduce(Datatype datatype, const Reduction& reduction, std::span<const void* const> addends,
              std::uint64_t elementCount, void* output, transport::StreamHandle stream) override {
    inner_->reduce(datatype, reduction, addends, elementCount, output, stream);
  }
  void finish(transport::StreamHandle stream) override { inner_->finish(stream); }
  void copy(void* to, const void* from, std::uint64_t bytes,
            transport::StreamHandle stream) override {
    inner_->copy(to, from, bytes, stream);
  }
  void clear(std::byte* memory, std::uint64_t bytes, transport::StreamHandle stream) override {
    inner_->clear(memory, bytes, stream);
  }

 private:
  std::unique_ptr<FrameCodec> inner_ = makeHostCodec();
};

}  // namespace zipccl::collectives::testing
