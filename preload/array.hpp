// SPDX-License-Identifier: Apache-2.0
//
// A growing array without the C++ library, on which the interposer must not depend.

#pragma once

#include <stdlib.h>
#include <string.h>

#include <cstddef>
#include <type_traits>

namespace zipccl::preload {

/// Plain values in memory of malloc(). It is plain itself, so that a thread_local one needs no
/// construction; whoever owns it calls clear() or gives it away.
template <class T>
struct Array {
  static_assert(std::is_trivially_copyable_v<T>);

  T* items;
  std::size_t count;
  std::size_t capacity;

  /// False if memory ran out.
  [[nodiscard]] bool push(const T& item) noexcept {
    if (count == capacity) {
      const std::size_t wanted = capacity == 0 ? 8 : 2 * capacity;
      void* const memory = realloc(items, wanted * sizeof(T));
      if (memory == nullptr) return false;
      items = static_cast<T*>(memory);
      capacity = wanted;
    }
    items[count++] = item;
    return true;
  }

  void clear() noexcept {
    free(items);
    items = nullptr;
    count = 0;
    capacity = 0;
  }

  [[nodiscard]] T* begin() const noexcept { return items; }
  [[nodiscard]] T* end() const noexcept { return items + count; }
};

}  // namespace zipccl::preload
