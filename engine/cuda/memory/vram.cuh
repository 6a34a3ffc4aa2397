#pragma once
// All memory of the GPU that the engine takes, each piece under the name of what it is for, within
// a limit.

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

/// The GPU's memory is what does not suffice.
class ShortOfVram : public ShortOfMemory {
 public:
  using ShortOfMemory::ShortOfMemory;
};

/// Memory of the GPU, given back with it; may outlive the Vram it comes from. Empty: no bytes.
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
    std::swap(share_, other.share_);
  }

  void* place_ = nullptr;
  std::size_t bytes_ = 0;
  Share share_;  // given back when the memory has been
};

/// For use by several threads.
class Vram {
 public:
  /// Makes `device` the current one of this thread. nullopt: as much as the card has. Throws
  /// MachineError where there is no such device.
  Vram(int device, std::optional<Bytes> limit);

  /// Not cleared; aligned to 256 bytes, and counted in steps of as many. `item` goes on with "the":
  /// "weights", "KV cache". Throws ShortOfVram when the limit or the card has less: then nothing is
  /// taken, and what is given back can be taken again.
  VramPiece take(std::size_t bytes, const std::string& item);

  using Item = Account::Item;
  /// In the order in which they were taken first, also those that hold nothing any more.
  std::vector<Item> items() const { return account_.items(); }
  Bytes held() const { return account_.held(); }
  Bytes most_held() const { return account_.most_held(); }
  /// Of the limit and of the card, whichever is less.
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
