#include "engine/kernels/ref/ops.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/base/error.hpp"
#include "engine/kernels/ref/dequantize.hpp"

namespace rigcast::engine::ref {
namespace {

double dot(const float* a, const float* b, std::size_t n) {
  double sum = 0;
  for (std::size_t i = 0; i < n; ++i) sum += double(a[i]) * double(b[i]);
  return sum;
}

}  // namespace

void rms_norm(std::span<const float> x, std::span<const float> weight, float eps,
              std::span<float> out) {
  RIGCAST_ASSERT(x.size() == weight.size() && x.size() == out.size());
  const double mean_square = dot(x.data(), x.data(), x.size()) / double(x.size());
  const double scale = 1 / std::sqrt(mean_square + double(eps));
  for (std::size_t i = 0; i < x.size(); ++i)
    out[i] = float(double(x[i]) * scale * double(weight[i]));
}

void layer_norm(std::span<const float> x, std::span<const float> weight,
                std::span<const float> bias, float eps, std::span<float> out) {
  RIGCAST_ASSERT(x.size() == weight.size() && x.size() == out.size());
  RIGCAST_ASSERT(bias.empty() || bias.size() == x.size());
  const double n = double(x.size());
  const double mean = std::accumulate(x.begin(), x.end(), 0.0) / n;
  double squares = 0;
  for (const float v : x) squares += (double(v) - mean) * (double(v) - mean);
  const double scale = 1 / std::sqrt(squares / n + double(eps));
  for (std::size_t i = 0; i < x.size(); ++i)
    out[i] = float((double(x[i]) - mean) * scale * double(weight[i]) +
                   (bias.empty() ? 0.0 : double(bias[i])));
}

void matvec(const Matrix& m, std::span<const float> x, std::span<float> y) {
  RIGCAST_ASSERT(std::int64_t(x.size()) == m.columns && std::int64_t(y.size()) == m.rows);
  std::vector<float> row(x.size());
  for (std::int64_t i = 0; i < m.rows; ++i) {
    dequantize(m.format, m.row(i), row);
    y[std::size_t(i)] = float(dot(row.data(), x.data(), x.size()));
  }
}

Rotation rotation_of(const Model& model, int rope) {
  const Hyperparameters& h = model.hyper;
  RIGCAST_ASSERT(rope == 0 || rope == 1);
  const int local_dims = h.local_rope_dims > 0 ? h.local_rope_dims : h.rope_dims;
  if (rope == 1) return {h.rope_pairs, local_dims, h.local_rope_base, 1.0f, {}};
  return {h.rope_pairs,       h.rope_dims, h.rope_base,     h.rope_scale,
          model.rope_factors, h.yarn,      h.rope_magnitude};
}

namespace {

// By what a pair's frequency is multiplied: 1 where it turns often in a context of the training,
// the scale where it turns seldom, and what is between them on a line in between.
double scale_of(const Rotation& r, std::size_t pair) {
  if (!r.yarn) return double(r.scale);
  const auto pair_of = [&](float turns) {
    const double pi = std::acos(-1.0);
    return double(r.dims) * std::log(double(r.yarn->context) / (double(turns) * 2 * pi)) /
           (2 * std::log(double(r.base)));
  };
  const double first = std::max(std::floor(pair_of(r.yarn->fast)), 0.0);
  const double last = std::min(std::ceil(pair_of(r.yarn->slow)), double(r.dims) - 1);
  const double way = (double(pair) - first) / std::max(last - first, 0.001);
  const double scaled = std::clamp(way, 0.0, 1.0);
  return scaled * double(r.scale) + (1 - scaled);
}

}  // namespace

void rope(std::span<float> head, std::int64_t position, const Rotation& r) {
  const std::size_t pairs = std::size_t(r.dims) / 2;
  RIGCAST_ASSERT(2 * pairs <= head.size());
  RIGCAST_ASSERT(r.factors.empty() || r.factors.size() >= pairs);
  for (std::size_t i = 0; i < pairs; ++i) {
    const double factor = r.factors.empty() ? 1 : double(r.factors[i]);
    const double frequency = std::pow(double(r.base), -2.0 * double(i) / double(r.dims)) / factor;
    const double angle = double(position) * scale_of(r, i) * frequency;
    const double cosine = std::cos(angle) * double(r.magnitude);
    const double sine = std::sin(angle) * double(r.magnitude);
    const bool neighbours = r.pairs == RopePairs::kInterleaved;
    float& a = head[neighbours ? 2 * i : i];
    float& b = head[neighbours ? 2 * i + 1 : i + pairs];
    const double turned_a = double(a) * cosine - double(b) * sine;
    const double turned_b = double(a) * sine + double(b) * cosine;
    a = float(turned_a);
    b = float(turned_b);
  }
}

void softmax(std::span<float> x) {
  const double most = double(*std::ranges::max_element(x));
  double sum = 0;
  for (const float v : x) sum += std::exp(double(v) - most);
  for (float& v : x) v = float(std::exp(double(v) - most) / sum);
}

float silu(float x) { return float(double(x) / (1 + std::exp(-double(x)))); }

float gelu(float x) {
  const double v = double(x);
  constexpr double kSqrt2OverPi = 0.7978845608028654;
  return float(v / 2 * (1 + std::tanh(kSqrt2OverPi * (v + 0.044715 * v * v * v))));
}

float xielu(float value, const Xielu& by) {
  const double x = double(value), linear = double(by.beta) * x;
  if (x > 0) return float(double(by.positive) * x * x + linear);
  return float(double(by.negative) * (std::expm1(std::min(x, double(by.eps))) - x) + linear);
}

float clamped_swiglu(float gate, float up) {
  constexpr double kLimit = 7, kSteepness = 1.702;
  const double g = std::min(double(gate), kLimit);
  const double u = std::clamp(double(up), -kLimit, kLimit);
  return float((u + 1) * g / (1 + std::exp(-kSteepness * g)));
}

float soft_cap(float x, float cap) {
  return cap > 0 ? float(double(cap) * std::tanh(double(x) / double(cap))) : x;
}

void attend(std::span<const float> query, const KvRows& kv, std::int64_t first, std::int64_t end,
            const Scores& scores, std::span<float> out) {
  RIGCAST_ASSERT(first < end && query.size() == out.size());
  std::vector<float> weights;
  for (std::int64_t t = first; t < end; ++t) {
    const double product = dot(query.data(), kv.keys + t * kv.stride, query.size());
    weights.push_back(soft_cap(float(product * double(scores.scale)), scores.softcap));
  }
  if (scores.sink) weights.push_back(*scores.sink);
  softmax(weights);
  for (std::size_t i = 0; i < out.size(); ++i) {
    double sum = 0;
    for (std::int64_t t = first; t < end; ++t)
      sum += double(weights[std::size_t(t - first)]) *
             double(kv.values[t * kv.stride + std::int64_t(i)]);
    out[i] = float(sum);
  }
}

void choose_experts(std::span<const float> logits, bool normalised, std::span<int> chosen,
                    std::span<float> weights, std::vector<int>& order) {
  RIGCAST_ASSERT(!chosen.empty() && chosen.size() <= logits.size());
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  // Experts are sorted by logits, because probabilities of different experts may both round to 0.
  const auto logit = [&](int e) {  // NaN would break the order
    const float value = logits[std::size_t(e)];
    return std::isnan(value) ? -std::numeric_limits<float>::infinity() : value;
  };
  std::partial_sort(
      order.begin(), order.begin() + std::ptrdiff_t(chosen.size()), order.end(),
      [&](int a, int b) { return logit(a) != logit(b) ? logit(a) > logit(b) : a < b; });
  const double most = double(logit(order.front()));
  const auto unscaled = [&](int e) { return std::exp(double(logit(e)) - most); };
  const std::size_t counted = normalised ? chosen.size() : order.size();
  double sum = 0;
  for (std::size_t i = 0; i < counted; ++i) sum += unscaled(order[i]);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    chosen[i] = order[i];
    weights[i] = float(unscaled(order[i]) / sum);
  }
}

std::vector<ChosenExpert> choose_experts(std::span<const float> logits, int used, bool normalised) {
  std::vector<int> chosen(std::size_t(used), 0), order;
  std::vector<float> weights(chosen.size());
  choose_experts(logits, normalised, chosen, weights, order);
  std::vector<ChosenExpert> out;
  for (std::size_t i = 0; i < chosen.size(); ++i) out.push_back({chosen[i], weights[i]});
  return out;
}

}  // namespace rigcast::engine::ref
