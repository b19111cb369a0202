// SPDX-License-Identifier: Apache-2.0
//
// The GPU codec behind the collectives' interface: jobs of one datatype and layout share a launch.

#include "collectives/gpu_stream_codec.hpp"

#include <vector>
#include <zipccl/gpu_codec.hpp>

#include "base/error.hpp"
#include "gpu/compare.hpp"
#include "gpu/dynamic_gate.hpp"
#include "gpu/frame_headers.hpp"

namespace zipccl::collectives {
namespace {

gpu::StreamHandle gpuStream(transport::StreamHandle stream) {
  return static_cast<gpu::StreamHandle>(stream.native);
}

/// Calls `run(some)` for runs of neighbours that may share a launch.
template <class Job, class Run>
void forBatches(std::span<const Job> jobs, const Run& run) {
  std::size_t first = 0;
  while (first < jobs.size()) {
    const codec::FrameSpec& spec = jobs[first].spec;
    std::size_t end = first + 1;
    while (end < jobs.size() && end - first < gpu::kMaxBatchFrames &&
           jobs[end].spec.datatype == spec.datatype && jobs[end].spec.layout == spec.layout) {
      ++end;
    }
    run(spec, jobs.subspan(first, end - first));
    first = end;
  }
}

class GpuStreamCodec final : public StreamCodec {
 public:
  explicit GpuStreamCodec(transport::Device& device)
      : device_(device),
        workspace_(device, gpu::encodeWorkspaceBytes(gpu::kMaxBatchFrames)),
        isReady_(device) {
    const transport::OwnedStream stream(device);
    gpu::initEncodeWorkspace(workspace_.data(), gpuStream(stream.get()), gpu::kMaxBatchFrames);
    device.record(isReady_.get(), stream.get());
  }

  void encode(std::span<const EncodeJob> jobs, transport::StreamHandle stream) override {
    if (jobs.empty()) return;
    if (!wasReady_) device_.wait(stream, isReady_.get());
    wasReady_ = true;
    forBatches(jobs, [&](const codec::FrameSpec& spec, std::span<const EncodeJob> some) {
      items_.clear();
      for (const EncodeJob& job : some) {
        expects(!job.spec.checksum, "frames made on a GPU have no checksum");
        items_.push_back({.elementCount = job.spec.elementCount,
                          .poolBytes = job.spec.poolBytes,
                          .source = job.source,
                          .frame = job.frame.data(),
                          .frameCapacity = job.frame.size()});
      }
      gpu::encodeBatch(spec.datatype, spec.layout, items_, workspace_.data(), gpuStream(stream));
    });
    seals_.clear();
    for (const EncodeJob& job : jobs) {
      const bool hasLow = codec::elementFormat(job.spec.datatype).hasLowHalves;
      seals_.push_back({.frame = job.frame.data(),
                        .tileCount = hasLow ? job.spec.elementCount / codec::kTileElements : 0,
                        .call = job.note.call,
                        .chunk = job.note.chunk});
    }
    gpu::sealHeaders(seals_, gpuStream(stream));
  }

  void decode(std::span<const DecodeJob> jobs, transport::StreamHandle stream) override {
    forBatches(jobs, [&](const codec::FrameSpec& spec, std::span<const DecodeJob> some) {
      decodeItems_.clear();
      for (const DecodeJob& job : some) {
        decodeItems_.push_back({.elementCount = job.spec.elementCount,
                                .poolBytes = job.spec.poolBytes,
                                .staticPart = job.frame.staticPart.data(),
                                .dynamicPart = job.frame.dynamicPart.data(),
                                .dynamicCapacity = job.frame.dynamicPart.size(),
                                .output = job.output,
                                .status = job.status});
      }
      gpu::decodeBatch(spec.datatype, spec.layout, decodeItems_, gpuStream(stream));
    });
  }

  void decodeReduce(const ReduceJob& job, transport::StreamHandle stream) override {
    parts_.clear();
    for (const AddendFrame& addend : job.addends) {
      parts_.push_back({.staticPart = addend.frame.staticPart.data(),
                        .dynamicPart = addend.frame.dynamicPart.data(),
                        .dynamicCapacity = addend.frame.dynamicPart.size(),
                        .poolBytes = addend.poolBytes});
    }
    gpu::decodeReduce(job.spec, parts_, job.factor, job.output, job.status, gpuStream(stream));
  }

  void compare(const CompareJob& job, transport::StreamHandle stream) override {
    gpu::compareBytes(job.expected, job.found, job.bytes, job.verdict, gpuStream(stream));
  }

  void exportDynamic(std::span<const DynamicPart> parts, const Gate& gate,
                     transport::StreamHandle stream) override {
    gpu::exportDynamic(parts, gate, gpuStream(stream));
  }

  void importDynamic(std::span<const DynamicPart> parts, const Gate& gate,
                     transport::StreamHandle stream) override {
    gpu::importDynamic(parts, gate, gpuStream(stream));
  }

 private:
  transport::Device& device_;
  transport::DeviceMemory workspace_;
  transport::OwnedEvent isReady_;  ///< the workspace is
  bool wasReady_ = false;
  // Kept so that nothing is allocated on the common path.
  std::vector<gpu::EncodeItem> items_;
  std::vector<gpu::SealItem> seals_;
  std::vector<gpu::DecodeItem> decodeItems_;
  std::vector<gpu::FrameParts> parts_;
};

}  // namespace

std::unique_ptr<StreamCodec> makeGpuStreamCodec(transport::Device& device) {
  return std::make_unique<GpuStreamCodec>(device);
}

}  // namespace zipccl::collectives
