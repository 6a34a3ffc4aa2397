#include "perfmodel/step_grouping.hpp"

#include <algorithm>
#include <tuple>

#include "perfmodel/cost/roofline.hpp"
#include "perfmodel/runtimes/runtime_models.hpp"

namespace rigcast {
namespace {

// Only some layers prefetch. While the others compute, the link works until the runtime's buffers
// are full; the buffers of merged layers would hold more.
bool some_layers_stream(const std::vector<StepOp>& ops) {
  std::vector<int> fetching, layers;
  for (const StepOp& op : ops) {
    if (op.layer < 0) continue;
    if (layers.empty() || layers.back() != op.layer) layers.push_back(op.layer);
    if (op.prefetches() && (fetching.empty() || fetching.back() != op.layer))
      fetching.push_back(op.layer);
  }
  return !fetching.empty() && fetching.size() < layers.size();
}

// The larger of two sums is less than the sum of the larger ones: what merges is bound alike.
bool same_class(const StepContext& s, const StepOp& a, const StepOp& b) {
  const auto ahead = [](const StepOp& op) { return op.fetch ? 1 + int(op.fetch->early) : 0; };
  return a.kind == b.kind && a.device == b.device && a.from == b.from && a.tokens == b.tokens &&
         (a.handoffs > 0) == (b.handoffs > 0) && ahead(a) == ahead(b) &&
         a.host_part.has_value() == b.host_part.has_value() &&
         is_memory_bound(s, a.cost, a.device) == is_memory_bound(s, b.cost, b.device);
}

void merge_into(StepOp& a, const StepOp& b) {
  a.cost += b.cost;
  a.handoffs += b.handoffs;
  a.handoff_bytes += b.handoff_bytes;
  a.store += b.store;
  if (a.fetch) {
    a.fetch->bytes += b.fetch->bytes;
    a.fetch->equivalent_bytes += b.fetch->equivalent_bytes;
    a.fetch->start += b.fetch->start;
  }
  if (a.host_part) *a.host_part += *b.host_part;
}

}  // namespace

std::vector<int> alike_layers(const StepContext& s, const Placement& p, Phase phase) {
  const ModelSpec& m = s.model;
  const bool last_is_apart =
      phase == Phase::kPrefill && runtime_model(s.runtime).leaves_out_tokens();
  const auto kind = [&](int l) {
    return std::tuple(m.sees_all_tokens(l), m.has_kv(l), m.has_attention(l),
                      m.has_recurrent_mixer(l), m.has_ffn(l), m.is_moe_layer(l), m.head_dim_of(l),
                      m.has_kv(l) ? kv_bytes_per_token(m, l, s.kv.types) : 0.0,
                      last_is_apart && l + 1 == m.layers);
  };
  // A layer without a cache of its own reads another layer's: such layers also compare by their
  // predecessors.
  const auto alike = [&](int a, int b) {
    const auto x = std::size_t(a), y = std::size_t(b);
    const bool borrows = m.has_attention(a) && !m.has_kv(a);
    return !borrows && kind(a) == kind(b) && p.layers[x] == p.layers[y] &&
           s.tensors.layers[x] == s.tensors.layers[y];
  };
  std::vector<int> first, classes;
  for (int l = 0; l < m.layers; ++l) {
    const auto same = std::ranges::find_if(classes, [&](int c) { return alike(c, l); });
    first.push_back(same == classes.end() ? l : *same);
    if (same == classes.end()) classes.push_back(l);
  }
  return first;
}

std::vector<StepOp> group_layers(const StepContext& s, const std::vector<StepOp>& ops,
                                 StepGrouping grouping) {
  const int most = grouping.layers;
  if (most <= 1) return ops;
  const auto end_of_layer = [&](std::size_t i) {
    std::size_t j = i;
    while (j < ops.size() && ops[j].layer == ops[i].layer) ++j;
    return j;
  };
  std::vector<StepOp> out;
  const bool apart = some_layers_stream(ops);
  const auto mergeable = [&](const StepOp& a, const StepOp& b) {
    return same_class(s, a, b) && !(apart && a.prefetches());
  };
  std::size_t group = 0;  // where the open group starts in `out`
  int merged = 0;
  for (std::size_t i = 0; i < ops.size();) {
    const std::size_t j = end_of_layer(i);
    const bool same = merged > 0 && merged < most && out.size() - group == j - i &&
                      std::equal(ops.begin() + long(i), ops.begin() + long(j),
                                 out.begin() + long(group), mergeable);
    if (same) {
      for (std::size_t k = i; k < j; ++k) merge_into(out[group + k - i], ops[k]);
      ++merged;
    } else {
      group = out.size();
      out.insert(out.end(), ops.begin() + long(i), ops.begin() + long(j));
      merged = 1;
    }
    i = j;
  }
  return out;
}

}  // namespace rigcast
