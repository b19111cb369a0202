// SPDX-License-Identifier: Apache-2.0
//
// Bits a value of real tensors.

#include "codec/tensor_bits.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "codec/bytes.hpp"

namespace zipccl::codec::testing {
namespace {

using zipccl::testing::Tensor;

EncodeResult encodeAndCheck(const FrameSpec& spec, std::span<const std::byte> elements) {
  std::vector<std::byte> frame(maxFrameBytes(spec.datatype, spec.elementCount));
  const EncodeResult result = encode(spec, elements.data(), frame);
  std::vector<std::byte> output(elements.size());
  const DecodeStatus status = decodeFrame(std::span(frame).first(result.frameBytes()), output);
  if (status != DecodeStatus::kOk || !std::equal(output.begin(), output.end(), elements.begin())) {
    throw std::runtime_error("the elements did not come back");
  }
  return result;
}

double bitsOf(const EncodeResult& result, const FrameSpec& spec) {
  return 8.0 * static_cast<double>(result.frameBytes()) / static_cast<double>(spec.elementCount);
}

/// The share of elements whose 32-bit word (a 16-bit element in its upper half) is among those
/// wanted.
template <typename Predicate>
double shareOf(const Tensor& tensor, Predicate predicate) {
  std::uint64_t count = 0;
  for (std::uint64_t n = 0; n < tensor.elementCount; ++n) {
    const std::uint32_t word = tensor.dtype == "F32"
                                   ? loadWord<std::uint32_t>(tensor.bytes.data() + 4 * n)
                                   : loadWord<std::uint16_t>(tensor.bytes.data() + 2 * n) << 16;
    count += predicate(word) ? 1 : 0;
  }
  return static_cast<double>(count) / static_cast<double>(tensor.elementCount);
}

std::optional<Datatype> datatypeOf(const Tensor& tensor) {
  if (tensor.dtype == "BF16") return Datatype::kBfloat16;
  if (tensor.dtype == "F16") return Datatype::kFloat16;
  if (tensor.dtype == "F32") return Datatype::kFloat32;
  return std::nullopt;
}

const char* nameOf(Datatype datatype) {
  switch (datatype) {
    case Datatype::kBfloat16:
      return "bf16";
    case Datatype::kFloat16:
      return "fp16";
    case Datatype::kFloat32:
      return "fp32";
  }
  return "other";
}

TensorGoal goalOf(const Tensor& tensor, double zeroShare) {
  if (tensor.dtype == "F16") return {"fp16", std::nullopt};
  if (tensor.name.starts_with("ag.")) return {"parameters", 11.40};
  if (tensor.name.starts_with("act.")) return {"activations", 11.40};
  const bool hasLow = shareOf(tensor, [](std::uint32_t word) { return (word & 0xFFFF) != 0; }) > 0;
  if (hasLow) return {"accumulated gradients", std::nullopt};
  if (zeroShare > 0.25) return {"embedding gradients", 11.50};
  if (tensor.dtype == "F32") return {"widened gradients", 11.90};
  return {"bf16 gradients", 11.80};
}

}  // namespace

BitsPerValue bitsPerValue(const FrameSpec& spec, std::span<const std::byte> elements,
                          std::uint64_t learntExtraBytes) {
  FrameSpec first = spec;
  first.poolBytes = defaultPoolBytes(spec.datatype, spec.layout, spec.elementCount);
  FrameSpec steady = spec;
  steady.poolBytes =
      steadyPoolBytes(spec.datatype, spec.layout, spec.elementCount, learntExtraBytes);
  return {bitsOf(encodeAndCheck(first, elements), first),
          bitsOf(encodeAndCheck(steady, elements), steady)};
}

std::optional<TensorReport> reportOf(const Tensor& tensor) {
  const std::optional<Datatype> datatype = datatypeOf(tensor);
  if (!datatype || tensor.elementCount == 0) return std::nullopt;
  TensorReport report{};
  report.name = tensor.name;
  report.datatype = *datatype;
  report.elementCount = tensor.elementCount;
  report.zeroShare = shareOf(tensor, [](std::uint32_t word) { return (word << 1) == 0; });
  report.goal = goalOf(tensor, report.zeroShare);
  for (const Layout layout : {Layout::kNarrow, Layout::kWide}) {
    if (layout == Layout::kWide && report.datatype != Datatype::kFloat32) continue;
    const FrameSpec spec = {report.datatype, layout, tensor.elementCount, 0, true};
    const EncodeResult result = encodeAndCheck(spec, tensor.bytes);
    const BitsPerValue bits = bitsPerValue(spec, tensor.bytes, result.extraBytes);
    if (layout == Layout::kNarrow || bits.steady < report.bits.steady) {
      report.layout = layout;
      report.bits = bits;
      report.result = result;
    }
  }
  return report;
}

std::string toJson(const TensorReport& report) {
  nlohmann::ordered_json json = {
      {"tensor", report.name},
      {"kind", report.goal.kind},
      {"datatype", nameOf(report.datatype)},
      {"layout", report.layout == Layout::kWide ? "wide" : "narrow"},
      {"elements", report.elementCount},
      {"zeroShare", report.zeroShare},
      {"firstCallBits", report.bits.firstCall},
      {"steadyBits", report.bits.steady},
      {"escapeShare",
       static_cast<double>(report.result.escapes) / static_cast<double>(report.elementCount)},
      {"tiles", report.result.tiles},
      {"rawTiles", report.result.rawTiles},
      {"emptyTiles", report.result.emptyTiles},
      {"zeroCodeTiles", report.result.zeroCodeTiles},
      {"lowTiles", report.result.lowTiles},
  };
  if (report.goal.maxBits) json["goalBits"] = *report.goal.maxBits;
  return json.dump();
}

}  // namespace zipccl::codec::testing
