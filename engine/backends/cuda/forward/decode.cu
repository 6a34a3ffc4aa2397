#include "engine/backends/cuda/forward/decode.cuh"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "engine/backends/cuda/forward/branch.cuh"
#include "engine/cuda/barrier_kernel.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/activations/quantize_activations.cuh"
#include "engine/kernels/cuda/attention/decode_attention.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/attention/most_splits.hpp"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"
#include "engine/kernels/cuda/matvec/experts_down.cuh"
#include "engine/kernels/cuda/matvec/gate_up.cuh"
#include "engine/kernels/cuda/matvec/matvec.cuh"
#include "engine/kernels/cuda/matvec/mlp_up.cuh"
#include "engine/kernels/cuda/matvec/router.cuh"
#include "engine/kernels/cuda/sampling/sample.cuh"

namespace rigcast::engine::cuda {
namespace {

bool needs_floats(const DeviceMatrix& m) {
  return m && (m.format == QuantFormat::kF32 || m.format == QuantFormat::kF16 ||
               m.format == QuantFormat::kBF16);
}

template <class... Matrices>
bool any_needs_floats(const Matrices&... matrices) {
  return (needs_floats(matrices) || ...);
}

// A branch that the next kernel adds to the hidden state, before it norms that: one kernel less
// than a sum of its own.
class PendingSum {
 public:
  void put(const Branch& branch) { sum_ = branch.rest(); }
  BranchSum take() { return std::exchange(sum_, {}); }
  // For all that reads the hidden state otherwise.
  void add(const ForwardContext& f) {
    if (const BranchSum sum = take(); sum.branch) add_branch(f.stream, {1, f.hidden()}, sum);
  }

 private:
  BranchSum sum_;
};

// The norm of a row's hidden state, as F32 if `floats`, and quantized in any case. Without a
// weight: the hidden state as it is.
Inputs norm(const ForwardContext& f, const Norm& by, bool floats, PendingSum& pending,
            int row = 0) {
  const ActivationBuffers& v = f.buffers.vectors;
  const Tokens tokens{f.hidden_row(row), f.hidden()};
  if (!by.weight) {
    quantize_tokens(tokens, v.quantized, f.stream, Start::kEarly, pending.take());
    return {v.quantized, tokens.x};
  }
  norm_and_quantize(tokens, by, v.quantized, floats ? v.normed : nullptr, f.stream, Start::kEarly,
                    pending.take());
  return {v.quantized, v.normed};
}
Inputs norm(const ForwardContext& f, const float* weight, bool floats, PendingSum& pending,
            int row = 0) {
  return norm(f, Norm{weight, f.hyper().norm_eps}, floats, pending, row);
}

// The output for the FFN's hidden activations from `first` on, in the form that `down` multiplies.
Outputs ffn_hidden_form(const DecodeBuffers& token, const DeviceMatrix& down,
                        std::int64_t first = 0) {
  const QuantizedActivations& r = token.ffn_hidden_quantized;
  return needs_floats(down)
             ? Outputs{{}, token.ffn_hidden + first}
             : Outputs{{r.q + first, r.scale + first / 32, r.sum16 + first / 16}, nullptr};
}

// The attention output, in the form that the output matrix multiplies.
Outputs attn_out_form(const DecodeBuffers& token, bool floats) {
  return floats ? Outputs{{}, token.attn_out} : Outputs{token.attn_out_quantized};
}

// A gate is multiplied with floats.
bool attends_in_floats(const DeviceLayer& w) { return w.attention_gate || needs_floats(w.output); }

// Receives the host's partial attention over cold blocks, as one more split.
void receive_cold_partials(const ForwardContext& f, HostOffload& host, const AttentionShape& a,
                           int split) {
  const Partials& p = f.buffers.token.partials;
  const int heads = a.heads, q = q_width(a);
  host.receive({{p.o + std::int64_t(split) * q, q},
                {p.m + std::int64_t(split) * heads, heads},
                {p.l + std::int64_t(split) * heads, heads}});
}

int most_splits(const AttentionShape& a, const KvState& kv) {
  return most_attention_splits(a.kv_heads, int(a.head_dim), device_facts().multiprocessors,
                               kv.cache().holds_fp16());
}

// Attention over the GPU's cache. The host attends to the oldest cold blocks at the same time.
void attend_on_gpu(const ForwardContext& f, KvState& kv, HostOffload* host, int layer, int splits) {
  const AttentionShape& a = f.layer(layer).attention;
  splits = std::min(splits, most_splits(a, kv));
  const DecodeBuffers& token = f.buffers.token;
  const int source = cached_layer(f.layer(layer).rule, layer);
  const int kept = kv.cache().layer(source);
  DecodeAttention attention{new_token_inputs(f, layer), window_of(a), true};
  attention.cap = soft_cap(f, layer);
  attention.max_tokens = max_tokens_of_splits(
      splits, a.kv_heads, int(a.head_dim), device_facts().multiprocessors, kv.cache().holds_fp16());
  const TokenCount of_host = kv.cold_of_host();
  if (of_host > 0) host->send({{f.buffers.vectors.projected, q_width(a)}});
  norm_wide_heads(f, layer, 1);  // the host has its own norm of what was sent
  attention.first_token = int(of_host);
  if (kv.await(kept)) {
    attention.inputs_ready = false;
    attention.start = Start::kAfter;
  }
  if (source != layer) attention.inputs_ready = false;  // an earlier layer stores the new token
  const Cache cache = kv.cache().view(source);
  const MergedHeads merged{attn_out_form(token, attends_in_floats(f.layer(layer))),
                           f.layer(layer).sinks, token.attention_arrivals};
  if (of_host > 0)
    attend_partially(f.stream, attention, cache, 0, splits, token.position, token.partials);
  else
    attend_and_merge(f.stream, attention, cache, 0, splits, token.position, token.partials, merged);
  kv.done(kept);
  if (of_host == 0) return;
  receive_cold_partials(f, *host, a, splits++);
  merge_partials(f.stream, token.partials, splits, a.heads, int(a.head_dim), merged.out,
                 merged.sinks);
}

void attend_on_host(const ForwardContext& f, HostOffload& host, int layer) {
  const DecodeBuffers& token = f.buffers.token;
  const AttentionShape& a = f.layer(layer).attention;
  const int q = q_width(a);
  host.send({{f.buffers.vectors.projected, projected_width(a, f.layer(layer).rule)}});
  host.receive({{token.attn_out, q}});
  if (!attends_in_floats(f.layer(layer)))
    quantize_tokens({token.attn_out, q}, token.attn_out_quantized, f.stream, Start::kEarly);
}

// token.attn_out = the attention output of a layer, from vectors.projected
void attend(const ForwardContext& f, KvState& kv, HostOffload* host, int layer, int splits) {
  if (f.model.host.cache(layer))
    attend_on_host(f, *host, layer);
  else
    attend_on_gpu(f, kv, host, layer, splits);
  const DeviceLayer& w = f.layer(layer);
  if (!w.attention_gate) return;
  const Outputs out = attn_out_form(f.buffers.token, needs_floats(w.output));
  multiply_by_gates(f.stream, gated_rows(f, w), f.buffers.token.attn_out,
                    {out.quantized, out.floats});
}

// vectors.projected = [q | k | v] of the normed hidden state
void project_qkv(const ForwardContext& f, const DeviceLayer& w, PendingSum& pending) {
  const int q = int(w.q.rows), kv = kv_width(w.attention);
  float* const projected = w.attention_gate ? f.buffers.vectors.mixed : f.buffers.vectors.projected;
  const bool floats = any_needs_floats(w.q, w.k, w.v) ||
                      (w.parallel_ffn && any_needs_floats(w.gate, w.up)) ||
                      (w.parallel_mixer && any_needs_floats(w.mixer_in));
  const Inputs x = norm(f, attention_norm(f, w), floats, pending);
  const MatvecJob projections[] = {
      {w.q, projected}, {w.k, projected + q}, {w.v, projected + q + kv}};
  matvec(std::span(projections).first(w.v ? 3 : w.k ? 2 : 1), x, f.stream, Start::kEarly);
  if (w.attention_gate) take_queries(f.stream, gated_rows(f, w), 1, f.buffers.vectors.projected);
}

// hidden += output matrix times x + bias
void add_attention_output(const ForwardContext& f, const DeviceLayer& w, const Inputs& x,
                          PendingSum& pending) {
  const Branch branch(f, w.attention_post_norm);
  const MatvecJob output{w.output, branch.to(), w.output_bias, branch.added_to()};
  matvec({&output, 1}, x, f.stream, Start::kEarly);
  pending.put(branch);
}

Inputs attention_output(const ForwardContext& f) {
  return {f.buffers.token.attn_out_quantized, f.buffers.token.attn_out};
}

// The projections of latent attention: queries, which may be compressed first, and the row.
void project_latent(const ForwardContext& f, const DeviceLayer& w, PendingSum& pending) {
  const DecodeBuffers& token = f.buffers.token;
  const LatentPlaces at = latent_places(w, f.buffers.vectors.projected, 1);
  const DeviceMatrix& first = first_of_queries(w);
  const Inputs x = norm(f, attention_norm(f, w), any_needs_floats(first, w.kv_a), pending);
  const MatvecJob projections[] = {{first, at.first}, {w.kv_a, at.rows}};
  matvec(projections, x, f.stream, Start::kEarly);
  if (!w.q_a) return;
  norm_and_quantize({at.first, int(w.q_a.rows)}, {w.q_a_norm, f.hyper().norm_eps},
                    token.attn_out_quantized, token.attn_out, f.stream, Start::kEarly);
  const MatvecJob queries{w.q_b, at.queries};
  matvec({&queries, 1}, attention_output(f), f.stream, Start::kEarly);
}

// Attention over latent rows. Its values are where the FFN's hidden activations will be.
void latent_attention(const ForwardContext& f, KvState& kv, HostOffload* host, int layer,
                      int splits, PendingSum& pending) {
  const DecodeBuffers& token = f.buffers.token;
  const DeviceLayer& w = f.layer(layer);
  project_latent(f, w, pending);
  const LatentRows rows = latent_inputs(f, layer, 1);
  const LatentToken memory{{token.attn_out_quantized, token.attn_out},
                           {token.ffn_hidden_quantized, token.ffn_hidden},
                           f.buffers.vectors.queries,
                           token.partials};
  if (f.model.host.cache(layer)) {
    float* const message = f.buffers.vectors.projected;
    write_latent_token(f.stream, w, rows, memory, f.buffers.vectors.normed, message);
    host->send({{message, qkv_width(w.attention)}});
    host->receive({{token.attn_out, q_width(w.attention)}});
    take_latent_token(f.stream, w, memory);
  } else {
    const int kept = kv.cache().layer(layer);
    if (kv.await(kept)) launch_barrier_kernel(f.stream);
    attend_latent_token(f.stream, w, rows, {kv.cache().view(layer), 0, {token.position}}, splits,
                        memory);
    kv.done(kept);
  }
  add_attention_output(f, w, {token.ffn_hidden_quantized, token.ffn_hidden}, pending);
}

// What the FFN reads: a norm, or, beside attention, the norm that this has read, which no kernel
// since has overwritten.
Inputs ffn_inputs(const ForwardContext& f, const DeviceLayer& w, PendingSum& pending) {
  const ActivationBuffers& v = f.buffers.vectors;
  if (w.parallel_ffn) return {v.quantized, v.normed};
  return norm(f, w.ffn_norm, any_needs_floats(w.gate, w.up), pending);
}

// hidden += a recurrent layer's mixer of the normed hidden state
void mixer(State& s, const ForwardContext& f, int layer, PendingSum& pending) {
  const DeviceLayer& w = f.layer(layer);
  const DecodeBuffers& token = f.buffers.token;
  const ActivationBuffers& v = f.buffers.vectors;
  // Beside attention it reads the norm that this has read.
  const Inputs x =
      w.parallel_mixer
          ? Inputs{v.quantized, v.normed}
          : norm(f, attention_norm(f, w),
                 any_needs_floats(w.mixer_in, w.mixer_gate, w.mixer_alpha, w.mixer_beta), pending);
  float* to = f.buffers.vectors.mixed;
  std::vector<MatvecJob> jobs;
  for (const DeviceMatrix* m : {&w.mixer_in, &w.mixer_gate, &w.mixer_alpha, &w.mixer_beta}) {
    if (*m) jobs.push_back({*m, to});
    to += m->rows;
  }
  const std::size_t first = std::min(jobs.size(), kMaxJobs);
  matvec(std::span(jobs).first(first), x, f.stream, Start::kEarly);
  matvec(std::span(jobs).subspan(first), x, f.stream, Start::kEarly);
  const Outputs mixed = attn_out_form(token, needs_floats(w.mixer_out));
  mix_apart(f.stream, w, mixer_inputs(f, s.states, layer), {1, token.position, token.state},
            {mixed.quantized, mixed.floats});
  const Branch branch(f, w.attention_post_norm);
  const MatvecJob output{w.mixer_out, branch.to(), nullptr, branch.added_to()};
  matvec({&output, 1}, {token.attn_out_quantized, token.attn_out}, f.stream, Start::kEarly);
  pending.put(branch);
}

void ffn(const ForwardContext& f, const DeviceLayer& w, PendingSum& pending) {
  const DecodeBuffers& token = f.buffers.token;
  const Inputs x = ffn_inputs(f, w, pending);
  const Outputs hidden = ffn_hidden_form(token, w.down);
  if (w.gate)
    gate_up(w.gate, w.up, x, hidden, f.stream, Start::kEarly, w.gate_function);
  else
    mlp_up(w.up, w.up_bias, x, hidden, w.mlp_function, f.stream, Start::kEarly);
  const Branch branch(f, w.ffn_post_norm, 0, w.scale);
  const MatvecJob down{w.down, branch.to(), w.down_bias, branch.added_to()};
  matvec({&down, 1}, {token.ffn_hidden_quantized, token.ffn_hidden}, f.stream, Start::kEarly);
  pending.put(branch);
}

// Makes the inputs of all layers from the token's embedding, vectors.hidden.
void make_inputs(const ForwardContext& f) {
  const DeviceMatrix& w = f.model.gpu.input_projection;
  PendingSum none;
  const Inputs x = norm(f, Norm{}, false, none);
  const MatvecJob job{w, f.buffers.vectors.layer_inputs};
  matvec({&job, 1}, x, f.stream, Start::kEarly);
  finish_inputs(f, f.buffers.vectors.ids, 1);
}

// Adds what the token's input of the layer does.
void layer_input(const ForwardContext& f, const DeviceLayer& w, int layer, PendingSum& pending) {
  const DecodeBuffers& token = f.buffers.token;
  const Inputs x = norm(f, Norm{}, false, pending);
  const float* const input =
      f.buffers.vectors.layer_inputs + std::int64_t(layer) * w.input_gate.rows;
  mlp_up(w.input_gate, nullptr, x, ffn_hidden_form(token, w.input_projection), MlpFunction{},
         f.stream, Start::kEarly, input);
  const Branch branch(f, w.input_norm, 0, w.input_scale);
  const MatvecJob projection{w.input_projection, branch.to(), nullptr, branch.added_to()};
  matvec({&projection, 1}, {token.ffn_hidden_quantized, token.ffn_hidden}, f.stream, Start::kEarly);
  pending.put(branch);
}

void choose_experts(const ForwardContext& f, const DeviceLayer& w, const float* x) {
  const DecodeBuffers& token = f.buffers.token;
  const Router router{w.router,       choice_rule(f, w), token.router_logits,
                      token.arrivals, w.router_bias,     {w.shared_router, token.shared_weight}};
  route(router, x, token.chosen, f.stream, Start::kEarly);
}

SharedExpert shared_expert(const ForwardContext& f, const DeviceLayer& w) {
  return {w.first_of_shared(), w.shared_up, w.shared_down,
          w.shared_router ? f.buffers.token.shared_weight : nullptr};
}

// Both halves of the shared expert by themselves, where they do not join those of the chosen: its
// hidden activations from `first` on, and what they add to the branch.
void shared_gate_up(const ForwardContext& f, const DeviceLayer& w, const SharedExpert& shared,
                    const Inputs& x, std::int64_t first) {
  gate_up(shared.gate, shared.up, x, ffn_hidden_form(f.buffers.token, shared.down, first), f.stream,
          Start::kEarly, w.gate_function, shared.weight);
}
void add_shared_down(const ForwardContext& f, const SharedExpert& shared, std::int64_t first,
                     float* to, const float* added_to) {
  const DecodeBuffers& token = f.buffers.token;
  const QuantizedActivations& r = token.ffn_hidden_quantized;
  const MatvecJob down{shared.down, to, nullptr, added_to};
  matvec({&down, 1},
         {{r.q + first, r.scale + first / 32, r.sum16 + first / 16}, token.ffn_hidden + first},
         f.stream, Start::kEarly);
}

void run_experts_on_host(const ForwardContext& f, HostOffload& host, const DeviceLayer& w,
                         PendingSum& pending) {
  const ChosenExperts& chosen = f.buffers.token.chosen;
  const Inputs x = norm(f, w.ffn_norm, true, pending);
  choose_experts(f, w, x.floats);
  host.send({{x.floats, f.hidden()}, {chosen.weights, chosen.used}, {chosen.ids, chosen.used}});
  const Branch branch(f, w.ffn_post_norm, 0, w.scale);
  const SharedExpert shared = shared_expert(f, w);
  if (shared) {  // while the host computes the others
    shared_gate_up(f, w, shared, x, 0);
    add_shared_down(f, shared, 0, branch.to(), branch.added_to());
  }
  host.receive({{branch.to(), f.hidden(), shared || branch.adds()}});
  pending.put(branch);
}

// Experts of a row's hidden state beside a dense FFN, of other norms of it. The router's is before
// the experts', which may be left as floats alone.
void experts_beside_ffn(const ForwardContext& f, const DeviceLayer& w, int row,
                        PendingSum& pending) {
  const DecodeBuffers& token = f.buffers.token;
  const ExpertsBeside beside(f, w, 1);
  const SharedExpert dense = shared_expert(f, w);
  PendingSum none;
  const Inputs x = norm(f, w.ffn_norm, any_needs_floats(dense.gate, dense.up), pending, row);
  shared_gate_up(f, w, dense, x, 0);
  add_shared_down(f, dense, 0, beside.dense(), nullptr);
  choose_experts(f, w, norm(f, w.router_norm, true, none, row).floats);
  const Inputs own = norm(f, w.expert_norm, true, none, row);
  experts_gate_up(w.expert_gate, w.expert_up, token.chosen, own,
                  ffn_hidden_form(token, w.expert_down.first), f.stream, Start::kEarly,
                  w.gate_function);
  experts_down(w.expert_down, token.chosen, {token.ffn_hidden_quantized, token.ffn_hidden},
               {nullptr, beside.chosen()}, f.stream, Start::kEarly, DeviceMatrix{});
  const Branch branch(f, w.ffn_post_norm, row, w.scale);
  beside.sum(branch.to());
  pending.put(branch);
}

// Adds the experts' output of a row's hidden state.
void experts(const ForwardContext& f, const DeviceLayer& w, int row, PendingSum& pending) {
  if (w.experts_beside()) return experts_beside_ffn(f, w, row, pending);
  const DecodeBuffers& token = f.buffers.token;
  const Inputs x = norm(f, w.ffn_norm, true, pending, row);
  choose_experts(f, w, x.floats);
  const SharedExpert shared = shared_expert(f, w);
  const DeviceMatrixStack& first = w.first_of_experts();
  const DeviceMatrix& down = w.expert_down.first;
  const std::int64_t of_shared = std::int64_t(token.chosen.used) * down.columns;
  const bool downs_join = shared && shared.down.format == down.format;
  const bool scales_input = f.hyper().routing.scales_input;
  const bool joins = shared && needs_floats(shared.down) == needs_floats(down) &&
                     w.gate_function == GateFunction::kSilu &&  // which that of a joined one is
                     joins_gate_up(shared, first, w.expert_up);
  experts_gate_up(biased(first, w.expert_gate_bias), biased(w.expert_up, w.expert_up_bias),
                  token.chosen, x, ffn_hidden_form(token, down), f.stream, Start::kEarly,
                  w.gate_function, joins ? shared : SharedExpert{},
                  scales_input ? token.chosen.weights : nullptr);
  if (shared && !joins) shared_gate_up(f, w, shared, x, of_shared);
  const Branch branch(f, w.ffn_post_norm, row, w.scale);
  ChosenExperts summed = token.chosen;
  if (scales_input) summed.weights = nullptr;  // they are in what is summed
  experts_down(biased(w.expert_down, w.expert_down_bias), summed,
               {token.ffn_hidden_quantized, token.ffn_hidden}, {branch.added_to(), branch.to()},
               f.stream, Start::kEarly, downs_join ? shared.down : DeviceMatrix{});
  if (shared && !downs_join) add_shared_down(f, shared, of_shared, branch.to(), branch.to());
  pending.put(branch);
}

// Runs consecutive host layers from `first` on; returns the first layer behind them.
int run_layers_on_host(const ForwardContext& f, HostOffload& host, int first) {
  float* const hidden = f.hidden_row(0);
  first == 0 ? host.send({}) : host.send({{hidden, f.hidden()}});
  host.receive({{hidden, f.hidden()}});
  return f.model.host.end_of_layers(first);
}

// Queues the layer's operations, on the GPU or on the host, as placed.
void queue_layer(State& s, int layer, int splits, PendingSum& pending, StageListener* stages) {
  const ForwardContext f = s.forward();
  const DeviceLayer& w = f.layer(layer);
  for (const FusedBlock block : w.blocks) {
    if (stages) stages->begin(activity_of(block), layer);
    switch (block) {
      case FusedBlock::kLayerInput: layer_input(f, w, layer, pending); break;
      case FusedBlock::kAttention:
        if (w.latent) {
          latent_attention(f, s.kv, s.host.get(), layer, splits, pending);
          break;
        }
        project_qkv(f, w, pending);
        attend(f, s.kv, s.host.get(), layer, splits);
        add_attention_output(f, w, attention_output(f), pending);
        break;
      case FusedBlock::kFfn: ffn(f, w, pending); break;
      case FusedBlock::kExperts:
        s.on_host().experts(layer) ? run_experts_on_host(f, *s.host, w, pending)
                                   : experts(f, w, 0, pending);
        break;
      case FusedBlock::kDeltaNet:
      case FusedBlock::kMamba:
      case FusedBlock::kShortConvolution: mixer(s, f, layer, pending); break;
    }
  }
}

void choose(const ForwardContext& f, SamplingMode choice) {
  const DecodeBuffers& token = f.buffers.token;
  const ArgmaxResult next{f.buffers.vectors.ids, f.buffers.next_ids.on_device<std::int32_t>(),
                          token.position};
  const int vocabulary = int(f.spec().vocabulary);
  if (choice == SamplingMode::kGreedy)
    argmax(f.stream, token.logits, vocabulary, token.argmax, next);
  else
    sample(f.stream, token.logits, vocabulary, token.sampling, next);
}

}  // namespace

void queue_ffn(const ForwardContext& f, const DeviceLayer& w) {
  PendingSum pending;
  ffn(f, w, pending);
  pending.add(f);
}

void queue_experts(const ForwardContext& f, const DeviceLayer& w, int row) {
  PendingSum pending;
  experts(f, w, row, pending);
  pending.add(f);
}

namespace {

void head(const ForwardContext& f, int row, PendingSum& pending) {
  const DeviceMatrix& w = f.model.gpu.head;
  const Inputs x = norm(f, final_norm(f), needs_floats(w), pending, row);
  float* const logits = f.buffers.token.logits;
  const MatvecJob product{w, logits, f.model.gpu.head_bias};
  matvec({&product, 1}, x, f.stream, Start::kEarly);
  bound_logits(f.stream, logits, f.spec().vocabulary, logit_range(f));
}

}  // namespace

void queue_head(const ForwardContext& f, int row) {
  PendingSum none;
  head(f, row, none);
}

int splits_of_token(const State& s, TokenCount tokens) {
  if (s.spec().mla) return latent_splits(int(tokens), s.spec().heads, s.device.multiprocessors);
  int splits = 1;
  for (int layer = 0; layer < s.spec().layers; ++layer) {
    const AttentionShape& a = s.model.layer(layer).attention;
    splits =
        std::max(splits, attention_splits(int(tokens), a.kv_heads, int(a.head_dim),
                                          s.device.multiprocessors, s.kv.cache().holds_fp16()));
  }
  return splits;
}

void queue_token(State& s, int splits, SamplingMode choice, StageListener* stages) {
  const ForwardContext f = s.forward();
  const HostPlacement& on_host = s.on_host();
  LayerStream* const streamed = s.streamed.of_tokens();
  const auto begin = [&](ActivityKind kind, int layer) {
    if (stages) stages->begin(kind, layer);
  };
  PendingSum pending;
  begin(ActivityKind::kEmbedding, -1);
  s.kv.begin_token(stages);
  if (streamed) streamed->queue_begin();
  queue_rope_angles(f, 1, {f.buffers.token.position});
  if (!on_host.embedding()) embed(f, f.buffers.vectors.ids, 1);
  if (f.model.gpu.input_projection) make_inputs(f);
  for (int layer = 0; layer < f.spec().layers;) {
    if (on_host.layer(layer)) {
      begin(ActivityKind::kHandoff, layer);
      pending.add(f);
      layer = run_layers_on_host(f, *s.host, layer);
      continue;
    }
    if (on_host.streamed(layer)) {
      begin(ActivityKind::kFetchWeights, layer);
      streamed->acquire(layer);
    }
    queue_layer(s, layer++, splits, pending, stages);
  }
  if (on_host.head()) {
    begin(ActivityKind::kHandoff, -1);
    pending.add(f);
    s.host->send_last({{f.hidden_row(0), f.hidden()}});
  } else {
    begin(ActivityKind::kHead, -1);
    head(f, 0, pending);
    begin(ActivityKind::kSample, -1);
    choose(f, choice);
  }
  advance(f.stream, f.buffers.token.position, 1);
  if (streamed) streamed->queue_end();
  s.kv.end_token();
}

}  // namespace rigcast::engine::cuda
