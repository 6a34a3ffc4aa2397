#include "engine/backends/cuda/forward/decode.cuh"

#include "core/base/error.hpp"
#include "engine/backends/cuda/forward/branch.cuh"
#include "engine/kernels/cuda/activations/elementwise.cuh"
#include "engine/kernels/cuda/activations/quantize_activations.cuh"
#include "engine/kernels/cuda/attention/decode_attention.cuh"
#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"
#include "engine/kernels/cuda/matvec/experts_down.cuh"
#include "engine/kernels/cuda/matvec/gate_up.cuh"
#include "engine/kernels/cuda/matvec/matvec.cuh"
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

// The norm of a row's hidden state, as F32 if `floats`, and quantized in any case. Without a
// weight: the hidden state as it is.
Inputs norm(const ForwardContext& f, const float* weight, bool floats, int row = 0) {
  const ActivationBuffers& v = f.buffers.vectors;
  const Tokens tokens{f.hidden_row(row), f.hidden()};
  if (!weight) {
    quantize_tokens(tokens, v.quantized, f.stream, Start::kEarly);
    return {v.quantized, tokens.x};
  }
  norm_and_quantize(tokens, {weight, f.hyper().norm_eps}, v.quantized, floats ? v.normed : nullptr,
                    f.stream, Start::kEarly);
  return {v.quantized, v.normed};
}

// The output for the FFN's hidden activations, in the form that `down` multiplies.
Outputs ffn_hidden_form(const DecodeBuffers& token, const DeviceMatrix& down) {
  return needs_floats(down) ? Outputs{{}, token.ffn_hidden}
                            : Outputs{token.ffn_hidden_quantized, nullptr};
}

// The attention output, in the form that the output matrix multiplies.
Outputs attn_out_form(const DecodeBuffers& token, bool floats) {
  return floats ? Outputs{{}, token.attn_out} : Outputs{token.attn_out_quantized};
}

// Receives the host's partial attention over cold blocks, as one more split.
void receive_cold_partials(const ForwardContext& f, HostOffload& host, const AttentionShape& a,
                           int split) {
  const Partials& p = f.buffers.token.partials;
  const int heads = a.heads, q = q_width(a);
  host.receive({{p.o + std::int64_t(split) * q, q},
                {p.m + std::int64_t(split) * heads, heads},
                {p.l + std::int64_t(split) * heads, heads}});
}

// Attention over the GPU's cache. The host attends to the oldest cold blocks at the same time.
void attend_on_gpu(const ForwardContext& f, KvState& kv, HostOffload* host, int layer, int splits) {
  const AttentionShape& a = f.layer(layer).attention;
  const DecodeBuffers& token = f.buffers.token;
  const int kept = kv.cache().layer(layer);
  DecodeAttention attention{new_token_inputs(f, layer), int(a.window), true};
  attention.cap = soft_cap(f, layer);
  const TokenCount of_host = kv.cold_of_host();
  if (of_host > 0) host->send({{f.buffers.vectors.projected, q_width(a)}});
  norm_wide_heads(f, layer, 1);  // the host has its own norm of what was sent
  attention.first_token = int(of_host);
  if (kv.await(kept)) {
    attention.inputs_ready = false;
    attention.start = Start::kAfter;
  }
  attend_partially(f.stream, attention, kv.cache().view(layer), kept, splits, token.position,
                   token.partials);
  kv.done(kept);
  if (of_host > 0) receive_cold_partials(f, *host, a, splits++);
  merge_partials(f.stream, token.partials, splits, a.heads, int(a.head_dim),
                 attn_out_form(token, needs_floats(f.layer(layer).output)), f.layer(layer).sinks);
}

void attend_on_host(const ForwardContext& f, HostOffload& host, int layer) {
  const DecodeBuffers& token = f.buffers.token;
  const AttentionShape& a = f.layer(layer).attention;
  const int q = q_width(a);
  host.send({{f.buffers.vectors.projected, qkv_width(a)}});
  host.receive({{token.attn_out, q}});
  if (!needs_floats(f.layer(layer).output))
    quantize_tokens({token.attn_out, q}, token.attn_out_quantized, f.stream, Start::kEarly);
}

// token.attn_out = the attention output of a layer, from vectors.projected
void attend(const ForwardContext& f, KvState& kv, HostOffload* host, int layer, int splits) {
  if (f.model.host.cache(layer))
    attend_on_host(f, *host, layer);
  else
    attend_on_gpu(f, kv, host, layer, splits);
}

// vectors.projected = [q | k | v] of the normed hidden state
void project_qkv(const ForwardContext& f, const DeviceLayer& w) {
  const int q = q_width(w.attention), kv = kv_width(w.attention);
  float* const projected = f.buffers.vectors.projected;
  const Inputs x = norm(f, w.attention_norm, any_needs_floats(w.q, w.k, w.v));
  const MatvecJob projections[] = {
      {w.q, projected}, {w.k, projected + q}, {w.v, projected + q + kv}};
  matvec(projections, x, f.stream, Start::kEarly);
}

// hidden += output matrix times token.attn_out + bias
void add_attention_output(const ForwardContext& f, const DeviceLayer& w) {
  const DecodeBuffers& token = f.buffers.token;
  const Branch branch(f, w.attention_post_norm);
  const MatvecJob output{w.output, branch.to(), w.output_bias, branch.added_to()};
  matvec({&output, 1}, {token.attn_out_quantized, token.attn_out}, f.stream, Start::kEarly);
  branch.finish(1);
}

void ffn(const ForwardContext& f, const DeviceLayer& w) {
  const DecodeBuffers& token = f.buffers.token;
  const Inputs x = norm(f, w.ffn_norm, any_needs_floats(w.gate, w.up));
  gate_up(w.gate, w.up, x, ffn_hidden_form(token, w.down), f.stream, Start::kEarly,
          w.gate_function);
  const Branch branch(f, w.ffn_post_norm);
  const MatvecJob down{w.down, branch.to(), nullptr, branch.added_to()};
  matvec({&down, 1}, {token.ffn_hidden_quantized, token.ffn_hidden}, f.stream, Start::kEarly);
  branch.finish(1);
}

void choose_experts(const ForwardContext& f, const DeviceLayer& w, const float* x) {
  const DecodeBuffers& token = f.buffers.token;
  const Router router{w.router, f.hyper().routing.normalised, token.router_logits, token.arrivals,
                      w.router_bias};
  route(router, x, token.chosen, f.stream, Start::kEarly);
}

void run_experts_on_host(const ForwardContext& f, HostOffload& host, const DeviceLayer& w) {
  const ChosenExperts& chosen = f.buffers.token.chosen;
  const float* const x = norm(f, w.ffn_norm, true).floats;
  choose_experts(f, w, x);
  host.send({{x, f.hidden()}, {chosen.weights, chosen.used}, {chosen.ids, chosen.used}});
  const Branch branch(f, w.ffn_post_norm);
  host.receive({{branch.to(), f.hidden(), branch.adds()}});
  branch.finish(1);
}

// Runs consecutive host layers from `first` on; returns the first layer behind them.
int run_layers_on_host(const ForwardContext& f, HostOffload& host, int first) {
  float* const hidden = f.hidden_row(0);
  first == 0 ? host.send({}) : host.send({{hidden, f.hidden()}});
  host.receive({{hidden, f.hidden()}});
  return f.model.host.end_of_layers(first);
}

// Queues the layer's operations, on the GPU or on the host, as placed.
void queue_layer(State& s, int layer, int splits, StageListener* stages) {
  const ForwardContext f = s.forward();
  const DeviceLayer& w = f.layer(layer);
  for (const FusedBlock block : w.blocks) {
    if (stages) stages->begin(activity_of(block), layer);
    switch (block) {
      case FusedBlock::kAttention:
        project_qkv(f, w);
        attend(f, s.kv, s.host.get(), layer, splits);
        add_attention_output(f, w);
        break;
      case FusedBlock::kFfn: ffn(f, w); break;
      case FusedBlock::kExperts:
        s.on_host().experts(layer) ? run_experts_on_host(f, *s.host, w) : queue_experts(f, w, 0);
        break;
      case FusedBlock::kDeltaNet:
      case FusedBlock::kMamba:
      case FusedBlock::kShortConvolution: RIGCAST_ASSERT(!"a layer that a GPU computes");
    }
  }
}

void choose(const ForwardContext& f, SamplingMode choice) {
  const DecodeBuffers& token = f.buffers.token;
  const ArgmaxResult next{f.buffers.vectors.ids, f.buffers.next_id.on_device<std::int32_t>()};
  const int vocabulary = int(f.spec().vocabulary);
  if (choice == SamplingMode::kGreedy)
    argmax(f.stream, token.logits, vocabulary, token.argmax, next);
  else
    sample(f.stream, token.logits, vocabulary, token.sampling, next);
}

}  // namespace

void queue_experts(const ForwardContext& f, const DeviceLayer& w, int row) {
  const DecodeBuffers& token = f.buffers.token;
  const Inputs x = norm(f, w.ffn_norm, true, row);
  choose_experts(f, w, x.floats);
  experts_gate_up(biased(w.expert_gate, w.expert_gate_bias), biased(w.expert_up, w.expert_up_bias),
                  token.chosen, x, ffn_hidden_form(token, w.expert_down.first), f.stream,
                  Start::kEarly, w.gate_function);
  const Branch branch(f, w.ffn_post_norm, row);
  experts_down(biased(w.expert_down, w.expert_down_bias), token.chosen,
               {token.ffn_hidden_quantized, token.ffn_hidden}, {branch.added_to(), branch.to()},
               f.stream, Start::kEarly);
  branch.finish(1);
}

void queue_head(const ForwardContext& f, int row) {
  const DeviceMatrix& w = f.model.gpu.head;
  const Inputs x = norm(f, f.model.gpu.final_norm, needs_floats(w), row);
  float* const logits = f.buffers.token.logits;
  const MatvecJob head{w, logits};
  matvec({&head, 1}, x, f.stream, Start::kEarly);
  bound_logits(f.stream, logits, f.spec().vocabulary, logit_range(f));
}

void queue_token(State& s, int splits, SamplingMode choice, StageListener* stages) {
  const ForwardContext f = s.forward();
  const HostPlacement& on_host = s.on_host();
  LayerStream* const streamed = s.streamed.of_tokens();
  const auto begin = [&](ActivityKind kind, int layer) {
    if (stages) stages->begin(kind, layer);
  };
  begin(ActivityKind::kEmbedding, -1);
  s.kv.begin_token(stages);
  if (streamed) streamed->queue_begin();
  queue_rope_angles(f, 1, {f.buffers.token.position});
  if (!on_host.embedding()) embed(f, f.buffers.vectors.ids, 1);
  for (int layer = 0; layer < f.spec().layers;) {
    if (on_host.layer(layer)) {
      begin(ActivityKind::kHandoff, layer);
      layer = run_layers_on_host(f, *s.host, layer);
      continue;
    }
    if (on_host.streamed(layer)) {
      begin(ActivityKind::kFetchWeights, layer);
      streamed->acquire(layer);
    }
    queue_layer(s, layer++, splits, stages);
  }
  if (on_host.head()) {
    begin(ActivityKind::kHandoff, -1);
    s.host->send_last({{f.hidden_row(0), f.hidden()}});
  } else {
    begin(ActivityKind::kHead, -1);
    queue_head(f, 0);
    begin(ActivityKind::kSample, -1);
    choose(f, choice);
  }
  advance(f.stream, f.buffers.token.position, 1);
  if (streamed) streamed->queue_end();
  s.kv.end_token();
}

}  // namespace rigcast::engine::cuda
