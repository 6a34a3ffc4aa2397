#include "engine/memory/ram.hpp"

#include <mutex>
#include <utility>

#include "core/base/error.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast::engine {

struct Ram::ReleasableMemory {
  std::mutex mutex;
  std::vector<std::function<void()>> release;
};

Ram::Ram(std::optional<Bytes> limit)
    : account_(limit), releasable_(std::make_shared<ReleasableMemory>()) {}

void Ram::on_pressure(std::function<void()> release) const {
  const std::lock_guard lock(releasable_->mutex);
  releasable_->release.push_back(std::move(release));
}

RamCharge Ram::charge(std::size_t bytes, const std::string& item) const {
  if (auto charge = account_.charge(bytes, item)) return *std::move(charge);
  {
    const std::lock_guard lock(releasable_->mutex);
    for (const auto& release : releasable_->release) release();
  }
  if (auto charge = account_.charge(bytes, item)) return *std::move(charge);
  throw ShortOfMemory("memory: " + text_gib(Bytes{double(bytes)}) + " asked for the " + item +
                      ", " + text_gib(account_.free().value_or(Bytes{})) + " free of a limit of " +
                      text_gib(account_.limit().value_or(Bytes{})) + account_.largest_text());
}

Ram::Allocator Ram::tracked(std::string item, Allocator make) const {
  struct TrackedBlock {
    RamCharge charge;
    std::shared_ptr<std::byte> memory;
  };
  return [ram = *this, item = std::move(item), make = std::move(make)](std::size_t bytes) {
    RamCharge charge = ram.charge(bytes, item);
    auto memory = make(bytes);
    std::byte* const begin = memory.get();
    const auto both =
        std::make_shared<TrackedBlock>(TrackedBlock{std::move(charge), std::move(memory)});
    return std::shared_ptr<std::byte>(both, begin);
  };
}

}  // namespace rigcast::engine
