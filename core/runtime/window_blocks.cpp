#include "core/runtime/window_blocks.hpp"

#include <algorithm>
#include <cmath>

namespace rigcast {
namespace {

// As many layers as there are of the rarer kind. Kinds that are about as large make one group each.
double layers_of_group(double all, double windows) {
  constexpr double kAlike = 1.25;
  const double more = std::max(all, windows), less = std::min(all, windows);
  return more < kAlike * less ? more : less;
}

}  // namespace

std::size_t WindowBlocks::of(TokenCount request, TokenCount block) const {
  if (window <= 0) return 0;
  const auto blocks = [block](TokenCount tokens) { return (tokens + block - 1) / block; };
  return std::size_t(std::ceil(double(std::min(blocks(request), blocks(window) + 1)) * per_block));
}

WindowBlocks window_blocks(const ModelSpec& model, const SchedulerPolicy& policy) {
  double all = 0, windows = 0;
  for (int l = 0; l < model.layers; ++l)
    if (model.has_kv(l)) ++(model.sees_all_tokens(l) ? all : windows);
  if (!policy.window_blocks || policy.ram_cache > 0_B || all == 0 || windows == 0) return {};
  const double group = layers_of_group(all, windows);
  const double groups = std::ceil(all / group);
  return {model.window->tokens, std::ceil(windows / group) / groups, groups * group / all};
}

}  // namespace rigcast
