#pragma once
// Bytes of one memory, each share under the name of what it is for, within a limit. Memory itself
// comes from elsewhere: this counts it, and says no.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/units.hpp"

namespace rigcast::engine {

namespace detail {
struct Accounts;
}

/// Counted as long as it lives; may outlive the account that it comes from.
class Share {
 public:
  Share() = default;
  ~Share() { give_back(); }
  Share(Share&& other) noexcept { swap(other); }
  Share& operator=(Share&& other) noexcept {
    give_back();
    swap(other);
    return *this;
  }

  std::size_t bytes() const { return bytes_; }

 private:
  friend class Account;
  void give_back() noexcept;
  void swap(Share& other) noexcept {
    std::swap(bytes_, other.bytes_);
    std::swap(item_, other.item_);
    std::swap(accounts_, other.accounts_);
  }

  std::size_t bytes_ = 0;
  std::size_t item_ = 0;  // in the accounts
  std::shared_ptr<detail::Accounts> accounts_;
};

/// A handle: copies count on the same account. For use by several threads.
class Account {
 public:
  /// nullopt: whatever is asked for is counted, and nothing refused.
  explicit Account(std::optional<Bytes> limit = {});

  /// `item` is said in texts behind "the": "weights", "KV cache". nullopt when the limit has less:
  /// then nothing is counted, and what is given back can be taken again.
  std::optional<Share> take(std::size_t bytes, const std::string& item) const;

  struct Item {
    std::string name;
    Bytes held;
    Bytes most;  // that was held at one time
  };
  /// In the order in which they were taken first, also those that hold nothing any more.
  std::vector<Item> items() const;
  Bytes held() const;
  Bytes most_held() const;
  std::optional<Bytes> limit() const;
  /// Of the limit; nullopt: there is none.
  std::optional<Bytes> free() const;
  /// "; taken: weights 4.60 GiB, KV cache 1.00 GiB", the largest first; empty: nothing is taken.
  std::string largest_text() const;

 private:
  std::shared_ptr<detail::Accounts> accounts_;
};

}  // namespace rigcast::engine
