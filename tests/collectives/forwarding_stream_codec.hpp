// SPDX-License-Identifier: Apache-2.0
//
// A codec of streams that hands everything to another: tests override what they want to change.

#pragma once

#include <memory>
#include <span>
#include <utility>

#include "collectives/stream_codec.hpp"

namespace zipccl::collectives::testing {

class ForwardingStreamCodec : public StreamCodec {
 public:
  explicit ForwardingStreamCodec(std::unique_ptr<StreamCodec> inner) : inner_(std::move(inner)) {}

  void encode(std::span<const EncodeJob> jobs, transport::StreamHandle stream) override {
    inner_->encode(jobs, stream);
  }
  void decode(std::span<const DecodeJob> jobs, transport::StreamHandle stream) override {
    inner_->decode(jobs, stream);
  }
  void decodeReduce(const ReduceJob& job, transport::StreamHandle stream) override {
    inner_->decodeReduce(job, stream);
  }
  void compare(const CompareJob& job, transport::StreamHandle stream) override {
    inner_->compare(job, stream);
  }
  void exportDynamic(std::span<const DynamicPart> parts, const Gate& gate,
                     transport::StreamHandle stream) override {
    inner_->exportDynamic(parts, gate, stream);
  }
  void importDynamic(std::span<const DynamicPart> parts, const Gate& gate,
                     transport::StreamHandle stream) override {
    inner_->importDynamic(parts, gate, stream);
  }

 private:
  std::unique_ptr<StreamCodec> inner_;
};

}  // namespace zipccl::collectives::testing
