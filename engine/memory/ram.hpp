#pragma once
// Accounts for all host memory that the engine uses for a model, each share under its purpose,
// within a limit. It allocates nothing: it counts, and refuses.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/memory/account.hpp"

namespace rigcast::engine {

using RamCharge = Charge;

/// A handle: copies count on the same account. For use by several threads.
class Ram {
 public:
  using Allocator = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
  using Item = Account::Item;

  /// limit nullopt: everything is counted, and nothing refused.
  explicit Ram(std::optional<Bytes> limit = {});

  /// Counts `bytes` for `item`, which texts name after "the": "weights", "KV cache". Throws
  /// ShortOfMemory when the limit has less left: then nothing is counted, and it may be tried again
  /// after something was released.
  RamCharge charge(std::size_t bytes, const std::string& item) const;
  /// An allocator that allocates with `make` and counts the memory until its last owner has
  /// released it.
  Allocator tracked(std::string item, Allocator make) const;

  /// Registers memory that is held but not needed: before anything is refused, `release` is
  /// called to release it. It must not allocate.
  void on_pressure(std::function<void()> release) const;

  /// All items, in the order of their first use, including those that hold nothing any more.
  std::vector<Item> items() const { return account_.items(); }
  Bytes held() const { return account_.held(); }
  std::optional<Bytes> limit() const { return account_.limit(); }

 private:
  struct ReleasableMemory;

  Account account_;
  std::shared_ptr<ReleasableMemory> releasable_;
};

}  // namespace rigcast::engine
