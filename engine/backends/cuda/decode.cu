// One token through all layers.

#include "engine/backends/cuda/state.cuh"
#include "engine/cuda/message.cuh"
#include "engine/kernels/cuda/activations/round.cuh"
#include "engine/kernels/cuda/kv/place.cuh"
#include "engine/kernels/cuda/matvec/matvec.cuh"
#include "engine/kernels/cuda/weights/dequantize.cuh"

namespace rigcast::engine::cuda {
namespace {

bool takes_floats(const Matrix& m) {
  return m && (m.format == QuantFormat::kF32 || m.format == QuantFormat::kF16 ||
               m.format == QuantFormat::kBF16);
}

template <class... Matrices>
bool any_takes_floats(const Matrices&... matrices) {
  return (takes_floats(matrices) || ...);
}

// The hidden state of row `row`, normed, in the forms that `floats` asks for.
void norm(State& s, const float* weight, bool floats, int row = 0) {
  const int hidden = int(s.spec().hidden);
  norm_and_round({s.vectors.hidden + std::int64_t(row) * hidden, hidden},
                 {weight, s.model->hyper.norm_eps}, s.vectors.rounded,
                 floats ? s.vectors.normed : nullptr, s.stream, Start::kEarly);
}

Inputs normed(const State& s) { return {s.vectors.rounded, s.vectors.normed}; }

// Where the FFN's middle goes, as `down` takes it.
Outputs middle(const State& s, const Matrix& down) {
  return takes_floats(down) ? Outputs{{}, s.token.middle}
                            : Outputs{s.token.middle_rounded, nullptr};
}

// The mix in the form that the output matrix takes.
Outputs mix(const State& s, bool floats) {
  return floats ? Outputs{{}, s.token.mixed} : Outputs{s.token.mixed_rounded};
}

void ask_host(State& s, std::initializer_list<MessagePart> parts) {
  send(s.stream, {parts.begin(), parts.size()}, s.host->mailbox.view());
}

// Of the host, whose message and, but for a token's last one, answer are queued.
void take_turn(State& s) {
  if (s.host->take_turn) s.host->take_turn();
}

void take_answer(State& s, std::initializer_list<AnswerUse> parts) {
  receive(s.stream, s.host->mailbox.view(), {parts.begin(), parts.size()});
  take_turn(s);
}

// The host's part of the context, as one more split.
void take_cold_part(State& s, int split) {
  const Partials& p = s.token.partials;
  const int heads = s.spec().heads, q = s.q_width();
  take_answer(s, {{p.o + std::int64_t(split) * q, q},
                  {p.m + std::int64_t(split) * heads, heads},
                  {p.l + std::int64_t(split) * heads, heads}});
}

void attend_here(State& s, int layer, int splits, bool floats) {
  const ModelSpec& m = s.spec();
  const int kept = s.cache.layer(layer);
  DecodeAttention attention{placement_of(s, layer), window_of(m, layer), true};
  ColdBlocks* const cold = s.cache.cold();
  const TokenCount of_host = s.cold_of_host();
  if (of_host > 0) ask_host(s, {{s.vectors.projected, s.q_width()}});
  attention.first_token = int(of_host);
  if (cold && cold->await(s.stream, kept)) {
    attention.settled = false;
    attention.start = Start::kAfter;
  }
  attend_partially(s.stream, attention, s.cache.view(layer), kept, splits, s.position(),
                   s.token.partials);
  if (cold) cold->done(s.stream, kept);
  if (of_host > 0) take_cold_part(s, splits++);
  merge_partials(s.stream, s.token.partials, splits, m.heads, int(m.head_dim), mix(s, floats));
}

void attend_on_host(State& s, bool floats) {
  const int q = s.q_width();
  ask_host(s, {{s.vectors.projected, q + 2 * s.kv_width()}});
  take_answer(s, {{s.token.mixed, q}});
  if (!floats) round_tokens({s.token.mixed, q}, s.token.mixed_rounded, s.stream, Start::kEarly);
}

void attention(State& s, int layer, int splits) {
  const DeviceLayer& w = s.weights.layers[std::size_t(layer)];
  const int q = s.q_width(), kv = s.kv_width();
  float* const projected = s.vectors.projected;
  norm(s, w.attention_norm, any_takes_floats(w.q, w.k, w.v));
  const MatvecJob projections[] = {
      {w.q, projected}, {w.k, projected + q}, {w.v, projected + q + kv}};
  matvec(projections, normed(s), s.stream, Start::kEarly);
  if (s.on_host().cache(layer))
    attend_on_host(s, takes_floats(w.output));
  else
    attend_here(s, layer, splits, takes_floats(w.output));
  const MatvecJob output{w.output, s.vectors.hidden, w.output_bias, s.vectors.hidden};
  matvec({&output, 1}, {s.token.mixed_rounded, s.token.mixed}, s.stream, Start::kEarly);
}

void ffn(State& s, const DeviceLayer& w) {
  norm(s, w.ffn_norm, any_takes_floats(w.gate, w.up));
  gate_up(w.gate, w.up, normed(s), middle(s, w.down), s.stream, Start::kEarly);
  const MatvecJob down{w.down, s.vectors.hidden, nullptr, s.vectors.hidden};
  matvec({&down, 1}, {s.token.middle_rounded, s.token.middle}, s.stream, Start::kEarly);
}

void choose_experts(State& s, const DeviceLayer& w) {
  const Router router{w.router, s.model->hyper.normalised_experts, s.token.router_logits,
                      s.token.arrivals};
  route(router, s.vectors.normed, s.token.chosen, s.stream, Start::kEarly);
}

void experts_on_host(State& s, const DeviceLayer& w) {
  const int hidden = int(s.spec().hidden), used = s.token.chosen.used;
  norm(s, w.ffn_norm, true);
  choose_experts(s, w);
  ask_host(
      s, {{s.vectors.normed, hidden}, {s.token.chosen.weights, used}, {s.token.chosen.ids, used}});
  take_answer(s, {{s.vectors.hidden, hidden, true}});
}

// Layers from `first` on that are the host's; gives the first that is not.
int layers_on_host(State& s, int first) {
  const int hidden = int(s.spec().hidden), end = s.on_host().end_of_layers(first);
  first == 0 ? ask_host(s, {}) : ask_host(s, {{s.vectors.hidden, hidden}});
  take_answer(s, {{s.vectors.hidden, hidden}});
  return end;
}

void choose(State& s, Choice choice) {
  const ArgmaxResult next{s.vectors.ids, s.next_id.on_device<std::int32_t>()};
  const int vocabulary = int(s.spec().vocabulary);
  if (choice == Choice::kLikeliest)
    argmax(s.stream, s.token.logits, vocabulary, s.token.argmax, next);
  else
    sample(s.stream, s.token.logits, vocabulary, s.token.sampling, next);
}

}  // namespace

void queue_experts(State& s, const DeviceLayer& w, int row) {
  norm(s, w.ffn_norm, true, row);
  choose_experts(s, w);
  experts_gate_up(w.expert_gate, w.expert_up, s.token.chosen, normed(s),
                  middle(s, w.expert_down.first), s.stream, Start::kEarly);
  float* const hidden = s.vectors.hidden + std::int64_t(row) * s.spec().hidden;
  experts_down(w.expert_down, s.token.chosen, {s.token.middle_rounded, s.token.middle},
               {hidden, hidden}, s.stream, Start::kEarly);
}

void queue_head(State& s, int row) {
  norm(s, s.weights.final_norm, takes_floats(s.weights.head), row);
  const MatvecJob head{s.weights.head, s.token.logits};
  matvec({&head, 1}, normed(s), s.stream, Start::kEarly);
}

void queue_token(State& s, int splits, Choice choice, Stages* stages) {
  const auto begin = [&](ActivityKind kind, int layer) {
    if (stages) stages->begin(kind, layer);
  };
  begin(ActivityKind::kEmbedding, -1);
  if (ColdBlocks* const cold = s.cache.cold())
    cold->begin_step(s.stream, s.cold_of_host() / s.cache.block_tokens(), true, stages);
  if (s.streams_tokens()) s.streams.layers->queue_begin();
  make_turns(s.stream, s.weights.frequencies, s.model->hyper.rope_dims / 2, 1, s.position(),
             s.vectors.turns);
  if (!s.on_host().embedding())
    gather_rows(s.weights.embedding, s.vectors.ids, 1, s.vectors.hidden, s.stream);
  for (int layer = 0; layer < s.spec().layers;) {
    if (s.on_host().layer(layer)) {
      begin(ActivityKind::kHandoff, layer);
      layer = layers_on_host(s, layer);
      continue;
    }
    if (s.on_host().streamed(layer)) {
      begin(ActivityKind::kFetchWeights, layer);
      s.streams.layers->take(layer);
    }
    const DeviceLayer& w = s.weights.layers[std::size_t(layer)];
    begin(ActivityKind::kAttention, layer);
    attention(s, layer, splits);
    begin(w.router ? ActivityKind::kExperts : ActivityKind::kFfn, layer);
    if (!w.router)
      ffn(s, w);
    else if (s.on_host().experts(layer))
      experts_on_host(s, w);
    else
      queue_experts(s, w, 0);
    ++layer;
  }
  if (s.on_host().head()) {
    begin(ActivityKind::kHandoff, -1);
    ask_host(s, {{s.vectors.hidden, int(s.spec().hidden)}});
    take_turn(s);
  } else {
    begin(ActivityKind::kHead, -1);
    queue_head(s, 0);
    begin(ActivityKind::kSample, -1);
    choose(s, choice);
  }
  advance(s.stream, s.position(), 1);
  if (s.streams_tokens()) s.streams.layers->queue_end();
  if (ColdBlocks* const cold = s.cache.cold()) cold->end_step(s.stream);
}

}  // namespace rigcast::engine::cuda
