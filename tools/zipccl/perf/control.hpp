// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a run talk to each other about the run itself.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace zipccl::tools::perf {

/// One rank's end, used by one thread; abort() by any. What is given and got is small. Throws
/// Failure, and CallFailure where another rank has failed.
class Control {
 public:
  Control() = default;
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;
  virtual ~Control() = default;

  [[nodiscard]] virtual int rank() const = 0;
  [[nodiscard]] virtual int rankCount() const = 0;

  /// Gives `mine` to all ranks: those of rank i come to the i-th part of `all`.
  virtual void gatherBytes(std::span<const std::byte> mine, std::span<std::byte> all) = 0;

  /// Returns on all ranks at about the same time.
  virtual void startTogether() { barrier(); }

  /// Throws where it is known that another rank has left.
  virtual void expectAll() {}

  /// Ends what other ranks wait for.
  virtual void abort() noexcept = 0;

  template <class Item>
  [[nodiscard]] std::vector<Item> gather(const Item& mine) {
    static_assert(std::is_trivially_copyable_v<Item>);
    std::vector<Item> all(static_cast<std::size_t>(rankCount()));
    gatherBytes(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)));
    return all;
  }

  /// Returns once all ranks have called it.
  void barrier() { static_cast<void>(gather(std::uint64_t{0})); }
};

}  // namespace zipccl::tools::perf
