#pragma once
// Allocates and accounts for all GPU memory of the engine, each piece under its purpose, within a
// limit.

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "engine/memory/account.hpp"

namespace rigcast::engine::cuda {

/// GPU memory is exhausted.
class ShortOfVram : public ShortOfMemory {
 public:
  using ShortOfMemory::ShortOfMemory;
};

/// A piece of GPU memory, freed with its owner; may outlive the Vram that it comes from. Empty: no
/// bytes.
class VramPiece {
 public:
  VramPiece() = default;
  ~VramPiece() { free(); }
  VramPiece(VramPiece&& other) noexcept { swap(other); }
  VramPiece& operator=(VramPiece&& other) noexcept {
    VramPiece old;
    old.swap(*this);
    swap(other);
    return *this;
  }

  std::size_t bytes() const { return bytes_; }
  template <class T = std::byte>
  T* as() const {
    return static_cast<T*>(place_);
  }

 private:
  friend class Vram;
  void free() noexcept;
  void swap(VramPiece& other) noexcept {
    std::swap(place_, other.place_);
    std::swap(bytes_, other.bytes_);
    std::swap(charge_, other.charge_);
  }

  void* place_ = nullptr;
  std::size_t bytes_ = 0;
  Charge charge_;  // released after the memory
};

/// For use by several threads.
class Vram {
 public:
  /// Makes `device` the current GPU of this thread. limit nullopt: all of the card. Throws
  /// MachineError if there is no such device.
  Vram(int device, std::optional<Bytes> limit);

  /// Allocates `bytes`, uninitialised, aligned to 256 bytes and counted in multiples of it. Texts
  /// name `item` after "the": "weights", "KV cache". Throws ShortOfVram when the limit or the card
  /// has less left: then nothing is allocated, and it may be tried again after something was freed.
  VramPiece allocate(std::size_t bytes, const std::string& item);

  using Item = Account::Item;
  /// All items, in the order of their first use, including those that hold nothing any more.
  std::vector<Item> items() const { return account_.items(); }
  Bytes held() const { return account_.held(); }
  Bytes peak_held() const { return account_.peak_held(); }
  /// Free bytes of the limit or of the card, whichever is less.
  Bytes free() const;
  std::optional<Bytes> limit() const { return account_.limit(); }
  int device() const { return device_; }

 private:
  struct Card {
    Bytes free, all;
  };
  Card card() const;
  ShortOfVram shortage(std::size_t bytes, const std::string& item, Bytes free) const;

  int device_ = 0;
  Account account_;
  std::unique_ptr<std::mutex> taking_ = std::make_unique<std::mutex>();
};

}  // namespace rigcast::engine::cuda
