#include "perfmodel/cost/attention_mask.hpp"

#include <algorithm>
#include <limits>

#include "perfmodel/cost/kernel_cost.hpp"

namespace rigcast {
namespace {

constexpr Hertz kDefaultClock{3e9};  // assumed for a CPU whose clock is not known

}  // namespace

double mask_pairs(const StepContext& s, const Batch& batch) {
  if (s.runtime.prefill.mask_cycles.value <= 0) return 0;
  const ModelSpec& m = s.model;
  bool full = false, windowed = false;
  for (int l = 0; l < m.layers; ++l) {
    if (!m.has_kv(l)) continue;
    (m.sees_all_tokens(l) ? full : windowed) = true;
  }
  double pairs = 0;
  for (const Sequence& q : batch.sequences) {
    const TokenCount cells = read_cells(q.length(), batch.kv_padding);
    if (full) pairs += double(q.tokens) * double(cells);
    if (windowed && m.window)
      pairs += double(q.tokens) *
               double(std::min(cells,
                               read_cells(m.window->tokens + s.settings.ubatch, batch.kv_padding)));
  }
  return pairs;
}

Seconds mask_time(const StepContext& s, double pairs) {
  const RuntimeProfile::Prefill& rules = s.runtime.prefill;
  const double latest = std::numeric_limits<double>::infinity();
  if (s.settings.build_year.value_or(latest) >= rules.mask_until.value) return {};
  return Seconds{pairs * rules.mask_cycles.value /
                 clock_of_one_core(s.rig.cpu).value_or(kDefaultClock).value};
}

}  // namespace rigcast
