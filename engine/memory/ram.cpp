#include "engine/memory/ram.hpp"

#include <mutex>
#include <utility>

#include "core/base/error.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast::engine {

struct Ram::Spares {
  std::mutex mutex;
  std::vector<std::function<void()>> give_back;
};

Ram::Ram(std::optional<Bytes> limit) : account_(limit), spares_(std::make_shared<Spares>()) {}

void Ram::when_short(std::function<void()> give_back) const {
  const std::lock_guard lock(spares_->mutex);
  spares_->give_back.push_back(std::move(give_back));
}

RamShare Ram::take(std::size_t bytes, const std::string& item) const {
  if (auto share = account_.take(bytes, item)) return *std::move(share);
  {
    const std::lock_guard lock(spares_->mutex);
    for (const auto& give_back : spares_->give_back) give_back();
  }
  if (auto share = account_.take(bytes, item)) return *std::move(share);
  throw ShortOfMemory("memory: " + text_gib(Bytes{double(bytes)}) + " asked for the " + item +
                      ", " + text_gib(account_.free().value_or(Bytes{})) + " free of a limit of " +
                      text_gib(account_.limit().value_or(Bytes{})) + account_.largest_text());
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

}  // namespace rigcast::engine
