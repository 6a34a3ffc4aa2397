#pragma once
// Vectors whose first element begins a cache line.

#include <cstddef>
#include <new>
#include <vector>

namespace rigcast::engine::cpu {

template <class T>
struct CacheLineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  CacheLineAllocator() = default;
  template <class U>
  CacheLineAllocator(const CacheLineAllocator<U>&) {}

  T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
  void deallocate(T* p, std::size_t) { ::operator delete(p, kAlignment); }
  bool operator==(const CacheLineAllocator&) const { return true; }
};

template <class T>
using AlignedVector = std::vector<T, CacheLineAllocator<T>>;

/// Resizes `v` to at least `size` elements. It never shrinks, and elements keep their values.
template <class Vector>
void resize_at_least(Vector& v, std::size_t size) {
  if (v.size() < size) v.resize(size);
}

}  // namespace rigcast::engine::cpu
