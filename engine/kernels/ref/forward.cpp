#include "engine/kernels/ref/forward.hpp"

#include <utility>

#include "core/base/error.hpp"
#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/ops.hpp"

namespace rigcast::engine::ref {
namespace {

using Vector = std::vector<float>;

// Keys and values of one layer, a row of all KV heads for each token so far.
struct LayerCache {
  Vector keys;
  Vector values;
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

// An empty bias is none.
void add(Vector& x, const Vector& other) {
  for (std::size_t i = 0; i < other.size(); ++i) x[i] += other[i];
}

Vector biased_product(const Matrix& m, const Vector& bias, const Vector& x) {
  Vector y = product(m, x);
  add(y, bias);
  return y;
}

// Head after head: the norm of queries or keys if there is one, then their position.
void place_heads(Vector& heads, const Vector& norm, std::int64_t position, std::size_t width,
                 const Model& model) {
  for (std::size_t begin = 0; begin < heads.size(); begin += width) {
    const std::span<float> head(heads.data() + begin, width);
    if (!norm.empty()) rms_norm(head, norm, model.hyper.norm_eps, head);
    rope(head, position, rotation_of(model));
  }
}

Vector attention(const Model& model, int index, std::int64_t position, const Vector& x,
                 LayerCache& cache) {
  const Layer& layer = model.layers[std::size_t(index)];
  const auto width = std::size_t(model.spec.head_dim_of(index));
  const auto kv_heads = std::size_t(model.spec.kv_heads_of(index));
  const auto heads = std::size_t(model.spec.heads);

  Vector q = biased_product(layer.q, layer.q_bias, x);
  Vector k = biased_product(layer.k, layer.k_bias, x);
  const Vector v = biased_product(layer.v, layer.v_bias, x);
  place_heads(q, layer.q_norm, position, width, model);
  place_heads(k, layer.k_norm, position, width, model);
  cache.keys.insert(cache.keys.end(), k.begin(), k.end());
  cache.values.insert(cache.values.end(), v.begin(), v.end());

  const std::int64_t end = position + 1;
  const std::int64_t first = end - model.spec.attended_tokens(index, end);
  Vector mixed(heads * width);
  for (std::size_t h = 0; h < heads; ++h) {
    // Neighbouring query heads share a KV head.
    const std::size_t at = h / (heads / kv_heads) * width;
    const KvRows rows{cache.keys.data() + at, cache.values.data() + at,
                      std::int64_t(kv_heads * width)};
    attend(std::span(q).subspan(h * width, width), rows, first, end,
           std::span(mixed).subspan(h * width, width));
  }
  return biased_product(layer.output, layer.output_bias, mixed);
}

// down (silu(gate x) * up x)
Vector gated_ffn(const Matrix& gate, const Matrix& up, const Matrix& down, const Vector& x) {
  Vector inner = product(gate, x);
  const Vector factor = product(up, x);
  for (std::size_t i = 0; i < inner.size(); ++i) inner[i] = silu(inner[i]) * factor[i];
  return product(down, inner);
}

Vector mixture(const Model& model, const Layer& layer, const Vector& x) {
  const Vector logits = product(layer.router, x);
  Vector sum(x.size());
  for (const ChosenExpert& chosen :
       choose_experts(logits, model.spec.moe->experts_used, model.hyper.normalised_experts)) {
    const int e = chosen.expert;
    const Vector y =
        gated_ffn(layer.expert_gate.at(e), layer.expert_up.at(e), layer.expert_down.at(e), x);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += chosen.weight * y[i];
  }
  return sum;
}

Vector feed_forward(const Model& model, const Layer& layer, const Vector& x) {
  return layer.router ? mixture(model, layer, x) : gated_ffn(layer.gate, layer.up, layer.down, x);
}

Vector embedding_of(const Model& model, std::int32_t token) {
  RIGCAST_ASSERT(token >= 0 && token < model.embedding.rows);
  Vector x(std::size_t(model.embedding.columns));
  dequantize(model.embedding.format, model.embedding.row(token), x);
  return x;
}

}  // namespace

std::vector<std::vector<float>> hidden_states(const Model& model,
                                              std::span<const std::int32_t> tokens) {
  const float eps = model.hyper.norm_eps;
  std::vector<LayerCache> caches(model.layers.size());
  std::vector<Vector> states;
  for (const std::int32_t token : tokens) {
    const auto position = std::int64_t(states.size());
    Vector x = embedding_of(model, token);
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const Layer& layer = model.layers[i];
      add(x, attention(model, int(i), position, normed(x, layer.attention_norm, eps), caches[i]));
      add(x, feed_forward(model, layer, normed(x, layer.ffn_norm, eps)));
    }
    states.push_back(std::move(x));
  }
  return states;
}

std::vector<std::vector<float>> forward(const Model& model, std::span<const std::int32_t> tokens) {
  std::vector<Vector> logits;
  for (const Vector& x : hidden_states(model, tokens))
    logits.push_back(product(model.head, normed(x, model.final_norm, model.hyper.norm_eps)));
  return logits;
}

}  // namespace rigcast::engine::ref
