#pragma once
// Accounts for the bytes of one memory, each charge under its purpose, within a limit. It allocates
// nothing: it counts, and refuses.

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

/// A charge is counted as long as it lives; it may outlive its account.
class Charge {
 public:
  Charge() = default;
  ~Charge() { release(); }
  Charge(Charge&& other) noexcept { swap(other); }
  Charge& operator=(Charge&& other) noexcept {
    release();
    swap(other);
    return *this;
  }

  std::size_t bytes() const { return bytes_; }

 private:
  friend class Account;
  void release() noexcept;
  void swap(Charge& other) noexcept {
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
  /// limit nullopt: everything is counted, and nothing refused.
  explicit Account(std::optional<Bytes> limit = {});

  /// Counts `bytes` for `item`, which texts name after "the": "weights", "KV cache". nullopt if the
  /// limit has less left: then nothing is counted, and it may be tried again after something was
  /// released.
  std::optional<Charge> charge(std::size_t bytes, const std::string& item) const;

  struct Item {
    std::string name;
    Bytes held;
    Bytes most;  // the largest sum held at one time
  };
  /// All items, in the order of their first use, including those that hold nothing any more.
  std::vector<Item> items() const;
  Bytes held() const;
  Bytes peak_held() const;
  std::optional<Bytes> limit() const;
  /// What is left of the limit; nullopt: there is no limit.
  std::optional<Bytes> free() const;
  /// A text such as "; taken: weights 4.60 GiB, KV cache 1.00 GiB", the largest first; empty if
  /// nothing is held.
  std::string largest_text() const;

 private:
  std::shared_ptr<detail::Accounts> accounts_;
};

}  // namespace rigcast::engine
