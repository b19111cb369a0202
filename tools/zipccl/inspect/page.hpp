// SPDX-License-Identifier: Apache-2.0
//
// The page that `--html` writes: one file of HTML, with its style, its program and its data inside,
// that needs nothing from anywhere.

#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "inspect/pictures.hpp"
#include "inspect/report.hpp"

namespace zipccl::tools::inspect {

/// Collects what the page shows, tensor by tensor.
class PageBuilder {
 public:
  /// The most tensors that the page lists, the largest; of as many it has pictures.
  static constexpr std::size_t kMostTensors = 2000;

  /// Of `tensors` the largest will be listed.
  explicit PageBuilder(const std::vector<InputTensor>& tensors);

  /// The tensor at `place` of the list.
  void add(std::size_t place, const TensorSummary& tensor, const Statistics& statistics);

  /// ASCII.
  [[nodiscard]] std::string text(const Report& report) const;

 private:
  struct Pictures {
    Picture absolute;
    std::optional<Picture> relative;
  };

  std::vector<bool> isListed_;
  std::map<std::size_t, Pictures> pictures_;       ///< by place
  std::map<std::string, Statistics> ofDatatypes_;  ///< by dtype
};

}  // namespace zipccl::tools::inspect
