#pragma once
// All memory of the host that the engine takes for a model, each share under the name of what it is
// for, within a limit. Memory itself comes from elsewhere: this counts it, and says no.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/units.hpp"

namespace rigcast::engine {

namespace detail {
struct RamAccounts;
}

/// Counted as long as it lives; may outlive the Ram it comes from.
class RamShare {
 public:
  RamShare() = default;
  ~RamShare() { give_back(); }
  RamShare(RamShare&& other) noexcept { swap(other); }
  RamShare& operator=(RamShare&& other) noexcept {
    give_back();
    swap(other);
    return *this;
  }

  std::size_t bytes() const { return bytes_; }

 private:
  friend class Ram;
  void give_back() noexcept;
  void swap(RamShare& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(item_, other.item_);
    std::swap(accounts_, other.accounts_);
  }

  std::size_t bytes_ = 0;
  std::size_t item_ = 0;  // in the accounts
  std::shared_ptr<detail::RamAccounts> accounts_;
};

/// A handle: copies count on the same account. For use by several threads.
class Ram {
 public:
  using Make = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

  /// nullopt: whatever is asked for is counted, and nothing refused.
  explicit Ram(std::optional<Bytes> limit = {});

  /// `item` goes on with "the": "weights", "KV cache". Throws ShortOfMemory when the limit has
  /// less: then nothing is counted, and what is given back can be taken again.
  RamShare take(std::size_t bytes, const std::string& item) const;
  /// What gives the same memory as `make`, counted until its last owner has left it.
  Make counted(std::string item, Make make) const;

  struct Item {
    std::string name;
    Bytes held;
    Bytes most;  // that was held at one time
  };
  /// In the order in which they were taken first, also those that hold nothing any more.
  std::vector<Item> items() const;
  Bytes held() const;
  std::optional<Bytes> limit() const;

 private:
  std::shared_ptr<detail::RamAccounts> accounts_;
};

}  // namespace rigcast::engine
