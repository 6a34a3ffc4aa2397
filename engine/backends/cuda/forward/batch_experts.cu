#include "engine/backends/cuda/forward/batch_experts.cuh"

#include <algorithm>
#include <span>

#include "engine/backends/cuda/forward/batch_products.cuh"
#include "engine/backends/cuda/forward/branch.cuh"
#include "engine/backends/cuda/forward/decode.cuh"
#include "engine/backends/cuda/weights/expert_groups.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"
#include "engine/kernels/cuda/hopper/tiled_experts.cuh"
#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"

namespace rigcast::engine::cuda {
namespace {

// Experts of so few rows are computed row by row: the groups of a grouped product would hold one
// token each.
constexpr int kFewExpertRows = 2;

// The weights of the experts that a grouped product computes.
struct GroupWeights {
  DeviceMatrixStack gate, up, down;
  GateFunction function;
};
// `gate`, `up` and `down`: the layer's, where they are; its biases stay where it has them.
GroupWeights weights_of(const DeviceLayer& w, const DeviceMatrixStack& gate,
                        const DeviceMatrixStack& up, const DeviceMatrixStack& down) {
  return {biased(gate.first ? gate : up, w.expert_gate_bias), biased(up, w.expert_up_bias),
          biased(down, w.expert_down_bias), w.gate_function};
}
GroupWeights weights_of(const DeviceLayer& w) {
  return weights_of(w, w.expert_gate, w.expert_up, w.expert_down);
}

void multiply_groups(const ForwardContext& f, const GroupWeights& w, const ExpertGroups& g) {
  const SmallBatchBuffers& v = f.buffers.small_batch;
  grouped_gate_up(w.gate, w.up, g, f.buffers.batch.x, v.gate_out, v.ffn_hidden, f.stream,
                  w.function);
  grouped_down(w.down, g, v.ffn_hidden, v.experts, f.stream);
}

// Multiplies groups by weights that are copied from the host for the chosen experts.
void multiply_copied(const ForwardContext& f, ExpertStream& copied, int layer,
                     const ExpertGroups& g) {
  const std::span<int> counts = copied.counts();
  RIGCAST_CUDA_CALL(cudaMemcpyAsync(counts.data(), g.counts, counts.size_bytes(),
                                    cudaMemcpyDeviceToHost, f.stream.get()));
  f.stream.wait();
  const auto groups_of = [&](int first, int end) {
    int groups = 0;
    for (int e = first; e < end; ++e)
      groups += (counts[std::size_t(e)] + g.group_tokens - 1) / g.group_tokens;
    return groups;
  };
  copied.stream_in(layer, counts, [&](const ArrivedExperts& here) {
    ExpertGroups own = g;
    own.groups += groups_of(0, here.first);
    own.at_most = groups_of(here.first, here.end);
    multiply_groups(f, weights_of(f.layer(layer), here.gate, here.up, here.down), own);
  });
}

// The F16 values that fit where the products of down go.
std::int64_t room_for_inputs(const ForwardContext& f) {
  const SmallBatchBuffers& v = f.buffers.small_batch;
  return 2 * std::int64_t(v.routed) * v.groups.chosen.used * f.hidden();
}

// The tokens of a group with which a batch's experts are computed tiled, where buffers have room
// for the inputs of a group, and for the results of gate and up of all; 0: they are not computed
// so.
int tokens_of_tiled_group(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  if (!supports_tiled_experts(w.first_of_experts(), w.expert_up, w.expert_down)) return 0;
  ExpertGroups g = f.buffers.small_batch.groups;
  g.tokens = tokens;
  g.group_tokens = tiled_group_tokens(tokens, g.chosen.used, g.experts);
  for (; g.group_tokens >= tiled_tokens(1); g.group_tokens /= 2)
    if (tiled_group_values(g, w.expert_up.first.rows) <= f.buffers.small_batch.tiled_room &&
        g.group_tokens * tiled_columns(f.hidden()) <= room_for_inputs(f))
      return g.group_tokens;
  return 0;
}

// Inputs are where the products of down go later: this has room for those of some groups, gate and
// up of which are computed before the inputs of the next are there.
void multiply_tiled(const ForwardContext& f, const GroupWeights& w, const ExpertGroups& g,
                    const float* rows) {
  const SmallBatchBuffers& v = f.buffers.small_batch;
  auto* const x = reinterpret_cast<__half*>(v.experts);
  auto* const ffn_hidden = reinterpret_cast<__half*>(v.gate_out);
  const std::int64_t of_group = g.group_tokens * tiled_columns(f.hidden());
  const int all = visited_groups(g), at_once = int(room_for_inputs(f) / of_group);
  for (int first = 0; first < all; first += at_once) {
    ExpertGroups part = g;
    part.first = first;
    part.at_most = at_once;
    tile_groups(f.stream, part, rows, f.hidden(), x);
    tiled_experts_gate_up(w.gate, w.up, part, x,
                          ffn_hidden + first * g.group_tokens * tiled_columns(w.up.first.rows),
                          f.stream, w.function);
  }
  tiled_experts_down(w.down, g, ffn_hidden, v.experts, f.stream);
}

// The norm of rows [first, first + tokens) of vectors.hidden, and the same at batch.x if `halves`.
// Without a weight: these rows as they are.
const float* norm_for_experts(const ForwardContext& f, const float* weight, int first, int tokens,
                              bool halves) {
  __half* const x = f.buffers.batch.x;
  const std::int64_t values = std::int64_t(tokens) * f.hidden();
  if (!weight) {
    if (halves) to_fp16(f.stream, f.hidden_row(first), values, x);
    return f.hidden_row(first);
  }
  if (halves) norm_rows(f, first, tokens, weight, {x, ValueType::kF16, f.hidden()});
  float* const normed = f.buffers.vectors.normed;
  norm_rows(f, first, tokens, weight, {normed, ValueType::kF32, f.hidden()});
  return normed;
}

// to[tokens][hidden] += rows times the weights of the shared expert
void add_weighted(const ForwardContext& f, const float* rows, int tokens, float* to) {
  ExpertGroups one;
  one.chosen = {nullptr, f.buffers.batch.shared_weights, 1};
  one.tokens = tokens;
  add_experts(one, rows, {to, f.hidden(), true}, f.stream);
}

// to += the shared expert of the rows at batch.x. The results of the others have been added: their
// memory is free.
void add_shared_expert(const ForwardContext& f, const DeviceLayer& w, int tokens, float* to) {
  if (!w.shared_router) return multiply_shared_expert(f, w, tokens, {to, true});
  float* const rows = f.buffers.small_batch.experts;
  multiply_shared_expert(f, w, tokens, {rows, false});
  add_weighted(f, rows, tokens, to);
}

// Chooses the experts of a batch's rows. The router reads F32: FP16 could change which are chosen.
void choose(const ForwardContext& f, const DeviceLayer& w, const float* rows,
            const ExpertGroups& g) {
  route_batch({w.router,
               choice_rule(f, w),
               f.buffers.small_batch.router_logits,
               nullptr,
               w.router_bias,
               {w.shared_router, f.buffers.batch.shared_weights}},
              rows, g, f.stream);
}

// small_batch.experts = the chosen experts' outputs of the rows at batch.x, or, tiled, of `rows`.
void multiply_chosen(const ForwardContext& f, ExpertStream* copied, int layer,
                     const ExpertGroups& g, const float* rows) {
  const DeviceLayer& w = f.layer(layer);
  if (rows)
    multiply_tiled(f, weights_of(w), g, rows);
  else if (copied)
    multiply_copied(f, *copied, layer, g);
  else
    multiply_groups(f, weights_of(w), g);
}

// Rows of vectors.hidden, and whether their experts' inputs are tiled.
struct ExpertRows {
  int first = 0, tokens = 0;
  bool tiled = false;
};

// Experts beside a dense FFN: that, the router and the experts read norms of their own, one after
// the other.
void experts_beside_ffn(const ForwardContext& f, ExpertStream* copied, int layer,
                        const ExpertRows& rows, const ExpertGroups& g) {
  const DeviceLayer& w = f.layer(layer);
  const int first = rows.first, tokens = rows.tokens;
  const ExpertsBeside beside(f, w, tokens);
  norm_rows(f, first, tokens, w.ffn_norm, {f.buffers.batch.x, ValueType::kF16, f.hidden()});
  multiply_shared_expert(f, w, tokens, {beside.dense(), false});
  choose(f, w, norm_for_experts(f, w.router_norm, first, tokens, false), g);
  const float* const normed = norm_for_experts(f, w.expert_norm, first, tokens, !rows.tiled);
  multiply_chosen(f, copied, layer, g, rows.tiled ? normed : nullptr);
  add_experts(g, f.buffers.small_batch.experts, {beside.chosen(), f.hidden(), false}, f.stream);
  const Branch branch(f, w.ffn_post_norm, first, w.scale);
  beside.sum(branch.to());
  branch.finish(tokens);
}

// Computes the experts of rows [first, first + tokens) of vectors.hidden.
void experts_by_grouped_gemm(const ForwardContext& f, ExpertStream* copied, int layer, int first,
                             int tokens) {
  const DeviceLayer& w = f.layer(layer);
  const SmallBatchBuffers& v = f.buffers.small_batch;
  ExpertGroups g = v.groups;
  g.tokens = tokens;
  g.group_tokens = copied ? 0 : tokens_of_tiled_group(f, w, tokens);
  const bool tiled = g.group_tokens > 0;
  if (!tiled) g.group_tokens = group_tokens_for(tokens, g.chosen.used, g.experts);
  if (w.experts_beside())
    return experts_beside_ffn(f, tiled ? nullptr : copied, layer, {first, tokens, tiled}, g);
  const bool shared = bool(w.shared_down);
  const float* const normed = norm_for_experts(f, w.ffn_norm, first, tokens, !tiled || shared);
  choose(f, w, normed, g);
  const Branch branch(f, w.ffn_post_norm, first, w.scale);
  const bool scales_input = f.hyper().routing.scales_input;
  if (scales_input) {  // the shared expert reads inputs as they are, so it goes first
    if (shared) add_shared_expert(f, w, tokens, branch.to());
    weigh_inputs(g, f.buffers.vectors.normed, f.hidden(), tiled ? nullptr : f.buffers.batch.x,
                 f.stream);
    g.chosen.weights = nullptr;
  }
  multiply_chosen(f, copied, layer, g, tiled ? normed : nullptr);
  add_experts(g, v.experts, {branch.to(), f.hidden(), branch.adds()}, f.stream);
  if (shared && !scales_input) add_shared_expert(f, w, tokens, branch.to());
  branch.finish(tokens);
}

// vectors.normed = the shared expert of the first rows of vectors.hidden
void shared_expert_apart(const ForwardContext& f, const DeviceLayer& w, int tokens) {
  float* const to = f.buffers.vectors.normed;
  const float* const x = norm_for_experts(f, w.ffn_norm, 0, tokens, true);
  if (w.shared_router)
    weigh_shared_expert({w.shared_router, f.buffers.batch.shared_weights}, x, f.hidden(), tokens,
                        f.stream);
  multiply_shared_expert(f, w, tokens, {to, false});
}

}  // namespace

void compute_experts_on_host(const ForwardContext& f, HostOffload& host, int layer,
                             const BatchRows& rows) {
  const DeviceLayer& w = f.layer(layer);
  const bool shared = bool(w.shared_down);
  float* const apart = f.buffers.vectors.normed;
  if (shared) shared_expert_apart(f, w, rows.tokens);
  host.compute_experts(layer, rows);
  if (!shared) return;
  if (w.shared_router) return add_weighted(f, apart, rows.tokens, rows.first);
  add_branch(f.stream, {rows.tokens, f.hidden()},
             {rows.first, apart, {}, f.hyper().residual_scale});
}

void queue_batch_experts(const ForwardContext& f, ExpertStream* copied, int layer, int tokens) {
  const DeviceLayer& w = f.layer(layer);
  const bool groups = uses_grouped_gemm(w) && (copied || tokens > kFewExpertRows);
  const int at_once = groups ? f.buffers.small_batch.routed : 1;
  for (int first = 0; first < tokens; first += at_once)
    if (groups)
      experts_by_grouped_gemm(f, copied, layer, first, std::min(at_once, tokens - first));
    else
      queue_experts(f, w, first);
}

}  // namespace rigcast::engine::cuda
