#include "engine/memory/ram.hpp"

#include <utility>

#include "core/error.hpp"
#include "core/unit_text.hpp"

namespace rigcast::engine {

RamShare Ram::take(std::size_t bytes, const std::string& item) const {
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
