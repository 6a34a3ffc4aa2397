#include "engine/memory/ram.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "core/error.hpp"
#include "core/unit_text.hpp"

namespace rigcast::engine {
namespace {

constexpr std::size_t kItemsInText = 3;

Bytes quantity(std::uint64_t bytes) { return Bytes{double(bytes)}; }

}  // namespace

namespace detail {

struct RamAccounts {
  struct Item {
    std::string name;
    std::uint64_t held = 0;
    std::uint64_t most = 0;
  };

  std::optional<std::uint64_t> limit;
  mutable std::mutex mutex;
  std::vector<Item> items;
  std::uint64_t held = 0;

  std::size_t item(const std::string& name) {
    const auto at = std::ranges::find(items, name, &Item::name);
    if (at != items.end()) return std::size_t(at - items.begin());
    items.push_back({name});
    return items.size() - 1;
  }
  std::uint64_t free() const { return *limit > held ? *limit - held : 0; }
};

}  // namespace detail

namespace {

using detail::RamAccounts;

// "; taken: weights 4.60 GiB, KV cache 1.00 GiB", the largest first.
std::string largest_items(std::vector<RamAccounts::Item> items) {
  std::ranges::stable_sort(items, std::greater<>(), &RamAccounts::Item::held);
  std::string text;
  for (std::size_t i = 0; i < std::min(items.size(), kItemsInText) && items[i].held > 0; ++i)
    text += (i == 0 ? "; taken: " : ", ") + items[i].name + " " + text_gib(quantity(items[i].held));
  return text;
}

ShortOfMemory shortage(const RamAccounts& accounts, std::size_t bytes, const std::string& item) {
  return ShortOfMemory("memory: " + text_gib(quantity(bytes)) + " asked for the " + item + ", " +
                       text_gib(quantity(accounts.free())) + " free of a limit of " +
                       text_gib(quantity(*accounts.limit)) + largest_items(accounts.items));
}

}  // namespace

Ram::Ram(std::optional<Bytes> limit) : accounts_(std::make_shared<RamAccounts>()) {
  if (limit) accounts_->limit = std::uint64_t(std::max(0.0, limit->value));
}

RamShare Ram::take(std::size_t bytes, const std::string& item) const {
  RamShare share;
  if (bytes == 0) return share;
  RamAccounts& accounts = *accounts_;
  const std::lock_guard lock(accounts.mutex);
  if (accounts.limit && bytes > accounts.free()) throw shortage(accounts, bytes, item);
  share.item_ = accounts.item(item);
  share.bytes_ = bytes;
  share.accounts_ = accounts_;
  RamAccounts::Item& taken = accounts.items[share.item_];
  taken.held += bytes;
  taken.most = std::max(taken.most, taken.held);
  accounts.held += bytes;
  return share;
}

void RamShare::give_back() noexcept {
  if (!accounts_) return;
  {
    const std::lock_guard lock(accounts_->mutex);
    accounts_->items[item_].held -= bytes_;
    accounts_->held -= bytes_;
  }
  bytes_ = 0;
  accounts_.reset();
}

Ram::Make Ram::counted(std::string item, Make make) const {
  struct Counted {
    RamShare share;
    std::shared_ptr<std::byte> memory;
  };
  return [ram = *this, item = std::move(item), make = std::move(make)](std::size_t bytes) {
    RamShare share = ram.take(bytes, item);
    auto memory = make(bytes);
    std::byte* const begin = memory.get();
    const auto both = std::make_shared<Counted>(Counted{std::move(share), std::move(memory)});
    return std::shared_ptr<std::byte>(both, begin);
  };
}

std::vector<Ram::Item> Ram::items() const {
  const std::lock_guard lock(accounts_->mutex);
  std::vector<Item> out;
  for (const auto& i : accounts_->items)
    out.push_back({i.name, quantity(i.held), quantity(i.most)});
  return out;
}

Bytes Ram::held() const {
  const std::lock_guard lock(accounts_->mutex);
  return quantity(accounts_->held);
}

std::optional<Bytes> Ram::limit() const {
  return accounts_->limit ? std::optional(quantity(*accounts_->limit)) : std::nullopt;
}

}  // namespace rigcast::engine
