#pragma once
// All memory of the host that the engine takes for a model, each share under the name of what it is
// for, within a limit. Memory itself comes from elsewhere: this counts it, and says no.

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/memory/account.hpp"

namespace rigcast::engine {

using RamShare = Share;

/// A handle: copies count on the same account. For use by several threads.
class Ram {
 public:
  using Make = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;
  using Item = Account::Item;

  /// nullopt: whatever is asked for is counted, and nothing refused.
  explicit Ram(std::optional<Bytes> limit = {});

  /// `item` goes on with "the": "weights", "KV cache". Throws ShortOfMemory when the limit has
  /// less: then nothing is counted, and what is given back can be taken again.
  RamShare take(std::size_t bytes, const std::string& item) const;
  /// What gives the same memory as `make`, counted until its last owner has left it.
  Make counted(std::string item, Make make) const;

  /// What is taken but needed by nobody: `give_back` is called, by whoever takes, before anything
  /// is refused. It must not take.
  void when_short(std::function<void()> give_back) const;

  /// In the order in which they were taken first, also those that hold nothing any more.
  std::vector<Item> items() const { return account_.items(); }
  Bytes held() const { return account_.held(); }
  std::optional<Bytes> limit() const { return account_.limit(); }

 private:
  struct Spares;

  Account account_;
  std::shared_ptr<Spares> spares_;
};

}  // namespace rigcast::engine
