#include "validation/runs/load/load_prompts.hpp"

#include <algorithm>

#include "core/base/error.hpp"
#include "engine/synth/counter_rng.hpp"

namespace rigcast::validation {

std::int32_t LoadPrompts::id(std::size_t request, std::size_t position) const {
  const std::uint64_t key = engine::mix_bits(seed_ + 0x9e3779b97f4a7c15 * (request + 1));
  return std::int32_t(engine::random_word(key, position) % std::uint64_t(vocabulary_));
}

std::vector<std::int32_t> LoadPrompts::next(const ServedRequest& request) {
  const std::size_t number = said_.size();
  std::vector<std::int32_t> ids;
  if (request.continues) {
    RIGCAST_ASSERT(*request.continues < number);
    const auto& before = said_[*request.continues];
    const auto shared = std::size_t(std::min(request.shared, request.prompt));
    ids.assign(before.begin(), before.begin() + std::ptrdiff_t(std::min(shared, before.size())));
  }
  while (TokenCount(ids.size()) < request.prompt) ids.push_back(id(number, ids.size()));
  said_.push_back(ids);
  return ids;
}

void LoadPrompts::add_answer(std::size_t request, std::span<const std::int32_t> ids) {
  said_[request].insert(said_[request].end(), ids.begin(), ids.end());
}

}  // namespace rigcast::validation
