#include "engine/kernels/ref/forward.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/base/error.hpp"
#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/ops.hpp"
#include "engine/kernels/ref/recurrent.hpp"
#include "engine/model/rope.hpp"

namespace rigcast::engine::ref {
namespace {

using Vector = std::vector<float>;

// Keys and values of one layer: for each token so far a row of all KV heads. Of a recurrent one,
// what was convolved of the tokens before, and the states of heads.
struct LayerCache {
  Vector keys;
  Vector values;
  Vector before, states;
};

// The state of one token during the forward pass.
struct Token {
  std::int64_t position = 0;
  std::array<Vector, kActivationCount> vectors;
  Vector router_logits;  // of the last layer that has experts
  Vector inputs;         // of every layer, one after the other

  Vector& operator[](Activation a) { return vectors[std::size_t(a)]; }
};

Vector product(const Matrix& m, const Vector& x) {
  Vector y(std::size_t(m.rows));
  matvec(m, x, y);
  return y;
}

Vector normed(const Vector& x, const Vector& weight, float eps) {
  Vector y(x.size());
  rms_norm(x, weight, eps, y);
  return y;
}

Vector layer_normed(const Vector& x, const Vector& weight, std::span<const float> bias, float eps) {
  Vector y(x.size());
  layer_norm(x, weight, bias, eps, y);
  return y;
}

void add(Vector& x, const Vector& other, float factor) {
  for (std::size_t i = 0; i < other.size(); ++i) x[i] += factor * other[i];
}

Vector scaled(Vector x, float factor) {
  for (float& v : x) v *= factor;
  return x;
}

Vector each(Vector x, float (*function)(float)) {
  for (float& v : x) v = function(v);
  return x;
}

// x * function(gate)
Vector gated(Vector x, const Vector& gate, float (*function)(float)) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= function(gate[i]);
  return x;
}

// Applies change(head) to each head of a vector of contiguous heads.
template <class Change>
Vector each_head(Vector heads, std::int64_t head_dim, const Change& change) {
  const auto width = std::size_t(head_dim);
  for (std::size_t begin = 0; begin < heads.size(); begin += width)
    change(std::span(heads).subspan(begin, width));
  return heads;
}

// The model's norm of what the last layer leaves.
Vector last_norm(const Model& m, const Vector& x) {
  const float eps = m.hyper.norm_eps;
  if (m.hyper.layer_norm) return layer_normed(x, m.final_norm, m.final_norm_bias, eps);
  Vector out = normed(x, m.final_norm, eps);
  add(out, m.final_norm_bias, 1);
  return out;
}

// Appends the token's key and value to the cache, unless it is another layer's, then attends with
// its query.
Vector attention(const Layer& layer, Token& token, Activation query, LayerCache& cache) {
  const AttentionShape& shape = layer.attention;
  Scores scores = {layer.score_scale(), layer.rule.softcap};
  const Vector& k = token[Activation::kKey];
  const Vector& v = layer.latent ? k : token[Activation::kValue];
  if (layer.rule.kv_layer < 0) {
    cache.keys.insert(cache.keys.end(), k.begin(), k.end());
    cache.values.insert(cache.values.end(), v.begin(), v.end());
  }
  const Vector& q = token[query];
  Vector out(q.size());
  const auto width = std::size_t(shape.head_dim);
  for (int head = 0; head < shape.heads; ++head) {
    const std::int64_t kv = head / shape.heads_per_kv_head() * shape.head_dim;
    const KvRows rows{cache.keys.data() + kv, cache.values.data() + kv, shape.kv_width()};
    if (!layer.sinks.empty()) scores.sink = layer.sinks[std::size_t(head)];
    attend(std::span(q).subspan(std::size_t(head) * width, width), rows,
           shape.first_attended(token.position), token.position + 1, scores,
           std::span(out).subspan(std::size_t(head) * width, width));
  }
  return out;
}

// Each head's first `columns` elements times its rows of m, which are `rows`; then what is left of
// the head, up to its `width`, if `rest`.
Vector by_head(const Matrix& m, const Vector& x, std::int64_t rows, std::int64_t width, bool rest) {
  Vector out;
  for (std::int64_t head = 0; head * width < std::int64_t(x.size()); ++head) {
    const auto begin = x.begin() + head * width;
    const Matrix own = {m.row(head * rows), m.format, m.columns, rows};
    const Vector y = product(own, Vector(begin, begin + m.columns));
    out.insert(out.end(), y.begin(), y.end());
    if (rest) out.insert(out.end(), begin + m.columns, begin + width);
  }
  return out;
}

// One half of every head of x.
Vector half_of_heads(const Vector& x, std::int64_t head_dim, bool second) {
  const auto width = std::size_t(head_dim);
  Vector out;
  for (std::size_t at = second ? width : 0; at < x.size(); at += 2 * width)
    out.insert(out.end(), x.begin() + std::ptrdiff_t(at), x.begin() + std::ptrdiff_t(at + width));
  return out;
}

Vector convolved(const Vector& x, const Vector& taps, LayerCache& cache) {
  cache.before.resize(taps.size() - x.size());
  return convolve(taps, x, cache.before);
}

// Two gates around a convolution; x has the three vectors.
Vector short_convolution(const Vector& x, const Vector& taps, LayerCache& cache) {
  const std::size_t width = x.size() / 3;
  Vector inner(x.begin(), x.begin() + std::ptrdiff_t(width));
  for (std::size_t i = 0; i < width; ++i) inner[i] *= x[2 * width + i];
  Vector out = convolved(inner, taps, cache);
  for (std::size_t i = 0; i < width; ++i) out[i] *= x[width + i];
  return out;
}

// Elements [first, first + width) of each group of x, one group after the other.
Vector of_groups(const Vector& x, std::int64_t groups, std::int64_t first, std::int64_t width) {
  Vector out;
  const auto stride = std::int64_t(x.size()) / groups;
  for (std::int64_t at = first; at < std::int64_t(x.size()); at += stride)
    out.insert(out.end(), x.begin() + at, x.begin() + at + width);
  return out;
}

// A group has a query, a key, values and gates.
Vector group_vectors(const MixerWidths& m, const Vector& x) {
  const std::int64_t values = m.inner_size / m.group_count;
  Vector out = of_groups(x, m.group_count, 0, m.state_size);
  for (const Vector& more : {of_groups(x, m.group_count, m.state_size, m.state_size),
                             of_groups(x, m.group_count, 2 * m.state_size, values)})
    out.insert(out.end(), more.begin(), more.end());
  return out;
}

// Heads share keys with their neighbours, or in turn: number h has those of group h modulo their
// number.
Vector delta_net(const Layer& layer, const LayerOp& op, Token& token, float eps,
                 LayerCache& cache) {
  const MixerWidths& m = layer.mixer;
  const Vector &decay = vector_of(layer, op.weights[0]), &bias = vector_of(layer, op.weights[1]);
  const auto width = std::size_t(m.state_size), groups = std::size_t(m.groups_width());
  Vector x = token[op.in];
  const auto part = [&](std::size_t at) { return std::span(x).subspan(at, width); };
  for (std::size_t at = 0; at < 2 * groups; at += width) normalise(part(at), eps);
  const auto heads = std::size_t(m.time_step_rank);
  cache.states.resize(heads * width * width);
  Vector out(heads * width);
  for (std::size_t h = 0; h < heads; ++h) {
    const auto count = std::size_t(m.group_count);
    const bool neighbours = op.kind == OpKind::kGroupedDeltaNet;
    const std::size_t group = (neighbours ? h / (heads / count) : h % count) * width;
    const float step = softplus(token[Activation::kAlpha][h] + bias[h]);
    delta_rule(std::span(cache.states).subspan(h * width * width, width * width), part(group),
               part(groups + group), part(2 * groups + h * width),
               {std::exp(decay[h] * step), sigmoid(token[Activation::kBeta][h])},
               1 / std::sqrt(float(width)), std::span(out).subspan(h * width, width));
  }
  return out;
}

Vector latent_norm(Vector x, const Vector& weight, float eps) {
  const std::span<float> latent(x.data(), weight.size());
  rms_norm(latent, weight, eps, latent);
  return x;
}

// `x` is z, then what is convolved (values, keys and queries), then time steps. Neighbouring heads
// share keys.
Vector mamba(const Layer& layer, const LayerOp& op, const Vector& x, LayerCache& cache) {
  const MixerWidths& m = layer.mixer;
  const auto weight = [&](std::size_t i) -> const Vector& {
    return vector_of(layer, op.weights[i]);
  };
  const auto inner = std::size_t(m.inner_size), width = std::size_t(m.state_size),
             groups = std::size_t(m.groups_width()), heads = std::size_t(m.time_step_rank);
  const auto begin = x.begin() + std::ptrdiff_t(inner);
  Vector mixed = convolved(Vector(begin, begin + m.convolved()), weight(0), cache);
  add(mixed, weight(1), 1);
  mixed = each(std::move(mixed), silu);
  cache.states.resize(inner * width);
  Vector out(inner);
  const std::size_t rows = inner / heads;
  for (std::size_t h = 0; h < heads; ++h) {
    const std::size_t key = inner + h / (heads / std::size_t(m.group_count)) * width;
    const auto all = std::span(mixed);
    const float step = softplus(x[inner + mixed.size() + h] + weight(3)[h]);
    delta_rule(std::span(cache.states).subspan(h * rows * width, rows * width),
               all.subspan(key + groups, width), all.subspan(key, width),
               all.subspan(h * rows, rows), {std::exp(weight(2)[h] * step), step, false}, 1,
               std::span(out).subspan(h * rows, rows));
    for (std::size_t i = h * rows; i < (h + 1) * rows; ++i) out[i] += weight(4)[h] * mixed[i];
  }
  return gated(std::move(out), x, silu);
}

// A norm of each group, whose weights are one after the other.
Vector group_rms_norm(const Layer& layer, const Vector& x, const Vector& weight, float eps) {
  Vector out(x.size());
  const std::size_t width = x.size() / std::size_t(layer.mixer.group_count);
  for (std::size_t at = 0; at < x.size(); at += width)
    rms_norm(std::span(x).subspan(at, width), std::span(weight).subspan(at, width), eps,
             std::span(out).subspan(at, width));
  return out;
}

// The three matrices of a gated FFN.
struct Ffn {
  Matrix gate, up, down;
};

// down (activation(gate x) * up x)
Vector gated_ffn(const Ffn& ffn, const Vector& x, float (*activation)(float)) {
  Vector inner = product(ffn.gate, x);
  const Vector factor = product(ffn.up, x);
  for (std::size_t i = 0; i < inner.size(); ++i) inner[i] = activation(inner[i]) * factor[i];
  return product(ffn.down, inner);
}

// down activation(up x + bias) + bias
template <class Activate>
Vector mlp(const Layer& layer, const LayerOp& op, const Vector& x, const Activate& activate) {
  Vector inner = product(matrix_of(layer, op.weights[0]), x);
  if (op.weights.size() > 2) add(inner, vector_of(layer, op.weights[2]), 1);
  for (float& v : inner) v = activate(v);
  Vector out = product(matrix_of(layer, op.weights[1]), inner);
  if (op.weights.size() > 3) add(out, vector_of(layer, op.weights[3]), 1);
  return out;
}

// projection (gelu(gate x) * the token's input of this layer)
Vector layer_input(const Model& model, const Layer& layer, const LayerOp& op, const Token& token,
                   const Vector& x) {
  Vector inner = product(matrix_of(layer, op.weights[0]), x);
  const std::size_t first = std::size_t(&layer - model.layers.data()) * inner.size();
  for (std::size_t i = 0; i < inner.size(); ++i)
    inner[i] = gelu(inner[i]) * token.inputs[first + i];
  return product(matrix_of(layer, op.weights[1]), inner);
}

// The inputs of all layers: half of each is the token's own, half is made of its embedding.
Vector inputs_of(const Model& model, std::int32_t token, const Vector& embedding) {
  if (!model.input_embedding) return {};
  const std::size_t width = model.input_norm.size();
  Vector own(std::size_t(model.input_embedding.columns));
  dequantize(model.input_embedding.format, model.input_embedding.row(token), own);
  Vector out = product(model.input_projection, embedding);
  const float scale = 1 / std::sqrt(float(embedding.size())), of_own = std::sqrt(float(width));
  for (float& v : out) v *= scale;
  for (std::size_t i = 0; i < out.size(); i += width) {
    const auto one = std::span(out).subspan(i, width);
    rms_norm(one, model.input_norm, model.hyper.norm_eps, one);
  }
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = (out[i] + of_own * own[i]) / std::sqrt(2.0f);
  return out;
}

// m x, plus the expert's part of a bias.
Vector biased(const MatrixStack& stack, int expert, const Vector& x, const Vector* bias) {
  Vector y = product(stack.at(expert), x);
  if (!bias) return y;
  const auto first = std::size_t(expert) * y.size();
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += (*bias)[first + i];
  return y;
}

float squared_relu(float x) { return x > 0 ? x * x : 0; }

// What an expert's down matrix reads.
Vector expert_inner(OpKind kind, Vector gate, const Vector& up) {
  for (std::size_t i = 0; i < up.size(); ++i) {
    if (kind == OpKind::kSquaredReluExperts) gate[i] = squared_relu(up[i]);
    if (kind == OpKind::kClampedExperts) gate[i] = clamped_swiglu(gate[i], up[i]);
    if (kind == OpKind::kExperts) gate[i] = silu(gate[i]) * up[i];
    if (kind == OpKind::kGeluExperts) gate[i] = gelu(gate[i]) * up[i];
  }
  return gate;
}

Vector experts(const Model& model, const Layer& layer, const LayerOp& op, Token& token) {
  const Vector& x = token[op.in];
  const bool scales_input = model.hyper.routing.scales_input;
  const bool has_gate = op.kind != OpKind::kSquaredReluExperts;
  const auto stack = [&](std::size_t i) { return stack_of(layer, op.weights[i]); };
  const MatrixStack gate = stack(1), up = stack(has_gate ? 2 : 1), down = stack(has_gate ? 3 : 2);
  const auto vector = [&](LayerWeight weight) {
    const bool has = std::ranges::find(op.weights, weight) != op.weights.end();
    return has ? &vector_of(layer, weight) : nullptr;
  };
  using enum LayerWeight;
  const bool routes_apart = op.kind == OpKind::kGeluExperts;
  token.router_logits =
      product(matrix_of(layer, op.weights[0]), routes_apart ? token[Activation::kRouted] : x);
  if (const Vector* bias = vector(kRouterBias)) add(token.router_logits, *bias, 1);
  const Vector* const selection = vector(kSelectionBias);
  const Vector* const scale = vector(kExpertScale);
  Vector sum(x.size());
  for (const ChosenExpert& chosen :
       choose_experts(token.router_logits, model.spec.moe->experts_used, model.hyper.routing,
                      selection ? std::span<const float>(*selection) : std::span<const float>())) {
    const int e = chosen.expert;
    const Vector in = scales_input ? scaled(x, chosen.weight) : x;
    const Vector inner = expert_inner(op.kind, biased(gate, e, in, vector(kExpertGateBias)),
                                      biased(up, e, in, vector(kExpertUpBias)));
    const Vector y = biased(down, e, inner, vector(kExpertDownBias));
    const float own = scale ? (*scale)[std::size_t(e)] : 1;
    add(sum, y, scales_input ? own : own * chosen.weight);
  }
  return sum;
}

Vector shared_expert(const Layer& layer, const LayerOp& op, const Vector& x) {
  const auto matrix = [&](std::size_t i) { return matrix_of(layer, op.weights[i]); };
  Vector y = gated_ffn({matrix(0), matrix(1), matrix(2)}, x, silu);
  if (op.weights.size() < 4) return y;
  const Vector& router = vector_of(layer, op.weights[3]);
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += double(router[i]) * double(x[i]);
  return scaled(std::move(y), sigmoid(float(sum)));
}

// The result of the operation, for op.out.
Vector result_of(const LayerOp& op, const Model& model, const Layer& layer, Token& token,
                 LayerCache& cache) {
  const Vector& x = token[op.in];
  const float eps = model.hyper.norm_eps;
  const auto matrix = [&](std::size_t i) { return matrix_of(layer, op.weights[i]); };
  const auto vector = [&]() -> const Vector& { return vector_of(layer, op.weights[0]); };
  const auto sum = [](Vector a, const Vector& b, float factor = 1) {
    add(a, b, factor);
    return a;
  };
  switch (op.kind) {
    case OpKind::kRmsNorm: return normed(x, vector(), eps);
    case OpKind::kHeadRmsNorm: {
      const Vector weight =
          op.weights.empty() ? Vector(std::size_t(layer.attention.head_dim), 1.0f) : vector();
      return each_head(x, layer.attention.head_dim,
                       [&](std::span<float> head) { rms_norm(head, weight, eps, head); });
    }
    case OpKind::kLayerNorm:
      return layer_normed(x, vector(),
                          op.weights.size() > 1 ? vector_of(layer, op.weights[1]) : Vector(), eps);
    case OpKind::kHeadLayerNorm: {
      std::span<const float> weights = vector();
      return each_head(x, layer.attention.head_dim, [&](std::span<float> head) {
        layer_norm(head, weights.first(head.size()), {}, eps, head);
        weights = weights.subspan(head.size());
      });
    }
    case OpKind::kLinear: return product(matrix(0), x);
    case OpKind::kAddBias: return sum(x, vector());
    case OpKind::kRope:
      return each_head(x, layer.attention.head_dim, [&](std::span<float> head) {
        rope(head, token.position, rotation_of(model, layer.rule.rope));
      });
    case OpKind::kLatentNorm: return latent_norm(x, vector(), eps);
    case OpKind::kRopeTail: {
      const LatentShape& latent = layer.latent;
      const bool query = op.in == Activation::kQuery;
      return each_head(x, query ? latent.query() : latent.row(), [&](std::span<float> head) {
        rope(head.last(std::size_t(latent.turned)), token.position,
             rotation_of(model, layer.rule.rope));
      });
    }
    case OpKind::kAbsorbKeys:
      return by_head(matrix(0), x, layer.latent.rank, layer.latent.query(), true);
    case OpKind::kExpandValues:
      return by_head(matrix(0), x, layer.latent.value, layer.latent.row(), false);
    case OpKind::kScaleByPosition: return scaled(x, temperature_at(model.hyper, token.position));
    case OpKind::kAttention: return attention(layer, token, op.in, cache);
    case OpKind::kGatedFfn: return gated_ffn({matrix(0), matrix(1), matrix(2)}, x, silu);
    case OpKind::kGeluFfn: return gated_ffn({matrix(0), matrix(1), matrix(2)}, x, gelu);
    case OpKind::kGeluMlp: return mlp(layer, op, x, gelu);
    case OpKind::kXieluMlp:
      return mlp(layer, op, x, [&](float v) { return xielu(v, layer.xielu); });
    case OpKind::kSquaredReluMlp: return mlp(layer, op, x, squared_relu);
    case OpKind::kLayerInput: return layer_input(model, layer, op, token, x);
    case OpKind::kExperts:
    case OpKind::kGeluExperts:
    case OpKind::kSquaredReluExperts:
    case OpKind::kClampedExperts: return experts(model, layer, op, token);
    case OpKind::kSquaredReluShared: return sum(token[op.out], mlp(layer, op, x, squared_relu));
    case OpKind::kAdd: return sum(token[op.out], x);
    case OpKind::kSharedExpert: return sum(token[op.out], shared_expert(layer, op, x));
    case OpKind::kAddResidual: return sum(token[op.out], x, model.hyper.residual_scale);
    case OpKind::kScale: return scaled(x, vector()[0]);
    case OpKind::kTakeQuery: return half_of_heads(x, layer.attention.head_dim, false);
    case OpKind::kTakeGate: return half_of_heads(x, layer.attention.head_dim, true);
    case OpKind::kSigmoidGate: return gated(token[op.out], x, sigmoid);
    case OpKind::kConvolve: return each(convolved(x, vector(), cache), silu);
    case OpKind::kShortConvolution: return short_convolution(x, vector(), cache);
    case OpKind::kTakeGroupVectors: return group_vectors(layer.mixer, x);
    case OpKind::kTakeGroupGates: {
      const MixerWidths& m = layer.mixer;
      const std::int64_t values = m.inner_size / m.group_count;
      return of_groups(x, m.group_count, 2 * m.state_size + values, values);
    }
    case OpKind::kTakeGroupBetas:
    case OpKind::kTakeGroupAlphas: {
      const MixerWidths& m = layer.mixer;
      const std::int64_t heads = m.time_step_rank / m.group_count;
      return of_groups(x, m.group_count, op.kind == OpKind::kTakeGroupBetas ? 0 : heads, heads);
    }
    case OpKind::kDeltaNet:
    case OpKind::kGroupedDeltaNet: return delta_net(layer, op, token, eps, cache);
    case OpKind::kMamba: return mamba(layer, op, x, cache);
    case OpKind::kGroupRmsNorm: return group_rms_norm(layer, x, vector(), eps);
    case OpKind::kGatedRmsNorm:
      return gated(each_head(token[op.out], layer.mixer.state_size,
                             [&](std::span<float> head) { rms_norm(head, vector(), eps, head); }),
                   x, silu);
  }
  RIGCAST_ASSERT(false);
}

Vector embedding_of(const Model& model, std::int32_t token) {
  RIGCAST_ASSERT(token >= 0 && token < model.embedding.rows);
  Vector x(std::size_t(model.embedding.columns));
  dequantize(model.embedding.format, model.embedding.row(token), x);
  return x;
}

// Calls after_layer(layer index, token) as each token leaves each layer.
template <class AfterLayer>
void walk(const Model& model, std::span<const std::int32_t> tokens, const AfterLayer& after_layer) {
  std::vector<LayerCache> caches(model.layers.size());
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    Token token{.position = std::int64_t(t), .vectors = {}, .router_logits = {}, .inputs = {}};
    token[Activation::kHidden] =
        scaled(embedding_of(model, tokens[t]), model.hyper.embedding_scale);
    token.inputs = inputs_of(model, tokens[t], token[Activation::kHidden]);
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const Layer& layer = model.layers[i];
      const int kv_layer = layer.rule.kv_layer;
      LayerCache& cache = caches[kv_layer < 0 ? i : std::size_t(kv_layer)];
      for (const LayerOp& op : layer.ops) token[op.out] = result_of(op, model, layer, token, cache);
      after_layer(i, token);
    }
  }
}

}  // namespace

std::vector<std::vector<float>> hidden_states(const Model& model,
                                              std::span<const std::int32_t> tokens) {
  std::vector<Vector> states;
  walk(model, tokens, [&](std::size_t layer, Token& token) {
    if (layer + 1 == model.layers.size()) states.push_back(token[Activation::kHidden]);
  });
  return states;
}

std::vector<std::vector<std::vector<float>>> router_logits(const Model& model,
                                                           std::span<const std::int32_t> tokens) {
  std::vector<std::vector<Vector>> logits(model.layers.size());
  walk(model, tokens, [&](std::size_t layer, Token& token) {
    if (model.spec.is_moe_layer(int(layer))) logits[layer].push_back(token.router_logits);
  });
  return logits;
}

std::vector<std::vector<float>> forward(const Model& model, std::span<const std::int32_t> tokens) {
  const Hyperparameters& h = model.hyper;
  std::vector<Vector> logits;
  for (const Vector& x : hidden_states(model, tokens)) {
    logits.push_back(product(model.head, last_norm(model, x)));
    if (!model.head_bias.empty()) add(logits.back(), model.head_bias, 1);
    logits.back() = scaled(std::move(logits.back()), h.logit_scale);
    for (float& logit : logits.back()) logit = soft_cap(logit, h.logit_softcap);
  }
  return logits;
}

}  // namespace rigcast::engine::ref
