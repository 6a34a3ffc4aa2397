#pragma once
// All memory of the GPU that the engine takes, each piece under the name of what it is for, within
// a limit.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/units.hpp"

namespace rigcast::engine::cuda {

namespace detail {
struct VramAccounts;
}

/// Memory of the GPU, given back with it; may outlive the Vram it comes from. Empty: no bytes.
class VramPiece {
 public:
  VramPiece() = default;
  ~VramPiece() { give_back(); }
  VramPiece(VramPiece&& other) noexcept { swap(other); }
  VramPiece& operator=(VramPiece&& other) noexcept {
    give_back();
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
  void give_back() noexcept;
  void swap(VramPiece& other) noexcept {
    std::swap(place_, other.place_);
    std::swap(bytes_, other.bytes_);
    std::swap(item_, other.item_);
    std::swap(accounts_, other.accounts_);
  }

  void* place_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t item_ = 0;  // in the accounts
  std::shared_ptr<detail::VramAccounts> accounts_;
};

/// For use by several threads.
class Vram {
 public:
  /// Makes `device` the current one of this thread. nullopt: as much as the card has. Throws
  /// MachineError where there is no such device.
  Vram(int device, std::optional<Bytes> limit);

  /// Not cleared; aligned to 256 bytes, and counted in steps of as many. `item` goes on with "the":
  /// "weights", "KV cache". Throws ShortOfMemory when the limit or the card has less: then nothing
  /// is taken, and what is given back can be taken again.
  VramPiece take(std::size_t bytes, const std::string& item);

  struct Item {
    std::string name;
    Bytes held;
    Bytes most;  // that was held at one time
  };
  /// In the order in which they were taken first, also those that hold nothing any more.
  std::vector<Item> items() const;
  Bytes held() const;
  Bytes most_held() const;
  /// Of the limit and of the card, whichever is less.
  Bytes free() const;
  std::optional<Bytes> limit() const;
  int device() const;

 private:
  std::shared_ptr<detail::VramAccounts> accounts_;
};

}  // namespace rigcast::engine::cuda
