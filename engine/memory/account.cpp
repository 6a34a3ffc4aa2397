#include "engine/memory/account.hpp"

#include <algorithm>
#include <functional>
#include <mutex>

#include "core/text/unit_text.hpp"

namespace rigcast::engine {
namespace {

constexpr std::size_t kItemsInText = 3;

Bytes quantity(std::uint64_t bytes) { return Bytes{double(bytes)}; }

}  // namespace

namespace detail {

struct Accounts {
  struct Item {
    std::string name;
    std::uint64_t held = 0;
    std::uint64_t most = 0;
  };

  std::optional<std::uint64_t> limit;
  mutable std::mutex mutex;
  std::vector<Item> items;
  std::uint64_t held = 0;
  std::uint64_t most = 0;

  std::size_t item(const std::string& name) {
    const auto at = std::ranges::find(items, name, &Item::name);
    if (at != items.end()) return std::size_t(at - items.begin());
    items.push_back({name});
    return items.size() - 1;
  }
  void add(std::size_t index, std::uint64_t bytes) {
    Item& i = items[index];
    i.held += bytes;
    held += bytes;
    i.most = std::max(i.most, i.held);
    most = std::max(most, held);
  }
  void take_off(std::size_t index, std::uint64_t bytes) {
    items[index].held -= bytes;
    held -= bytes;
  }
  std::uint64_t free() const { return *limit > held ? *limit - held : 0; }
};

}  // namespace detail

Account::Account(std::optional<Bytes> limit) : accounts_(std::make_shared<detail::Accounts>()) {
  if (limit) accounts_->limit = std::uint64_t(std::max(0.0, limit->value));
}

std::optional<Charge> Account::charge(std::size_t bytes, const std::string& item) const {
  Charge charge;
  if (bytes == 0) return charge;
  const std::lock_guard lock(accounts_->mutex);
  if (accounts_->limit && bytes > accounts_->free()) return std::nullopt;
  charge.item_ = accounts_->item(item);
  charge.bytes_ = bytes;
  charge.accounts_ = accounts_;
  accounts_->add(charge.item_, bytes);
  return charge;
}

void Charge::release() noexcept {
  if (!accounts_) return;
  {
    const std::lock_guard lock(accounts_->mutex);
    accounts_->take_off(item_, bytes_);
  }
  bytes_ = 0;
  accounts_.reset();
}

std::vector<Account::Item> Account::items() const {
  const std::lock_guard lock(accounts_->mutex);
  std::vector<Item> out;
  for (const auto& i : accounts_->items)
    out.push_back({i.name, quantity(i.held), quantity(i.most)});
  return out;
}

Bytes Account::held() const {
  const std::lock_guard lock(accounts_->mutex);
  return quantity(accounts_->held);
}

Bytes Account::peak_held() const {
  const std::lock_guard lock(accounts_->mutex);
  return quantity(accounts_->most);
}

std::optional<Bytes> Account::limit() const {
  return accounts_->limit ? std::optional(quantity(*accounts_->limit)) : std::nullopt;
}

std::optional<Bytes> Account::free() const {
  const std::lock_guard lock(accounts_->mutex);
  return accounts_->limit ? std::optional(quantity(accounts_->free())) : std::nullopt;
}

std::string Account::largest_text() const {
  std::vector<Item> all = items();
  std::ranges::stable_sort(all, std::greater<>(), [](const Item& i) { return i.held.value; });
  std::string text;
  for (std::size_t i = 0; i < std::min(all.size(), kItemsInText) && all[i].held.value > 0; ++i)
    text += (i == 0 ? "; taken: " : ", ") + all[i].name + " " + text_gib(all[i].held);
  return text;
}

}  // namespace rigcast::engine
