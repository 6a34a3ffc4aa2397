#include "engine/kernels/ref/ops.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "core/base/error.hpp"
#include "engine/kernels/ref/dequantize.hpp"

namespace rigcast::engine::ref {
namespace {

// Of every fourth product one sum: no addition waits for the one before.
double dot(const float* a, const float* b, std::size_t n) {
  double sums[4] = {};
  std::size_t i = 0;
  for (; i + 4 <= n; i += 4)
    for (std::size_t k = 0; k < 4; ++k) sums[k] += double(a[i + k]) * double(b[i + k]);
  for (; i < n; ++i) sums[0] += double(a[i]) * double(b[i]);
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

bool is_aligned(const std::byte* weights) {
  return reinterpret_cast<std::uintptr_t>(weights) % alignof(float) == 0;
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
  const bool as_it_lies = m.format == QuantFormat::kF32 && is_aligned(m.data);
  for (std::int64_t i = 0; i < m.rows; ++i) {
    if (!as_it_lies) dequantize(m.format, m.row(i), row);
    const float* const weights = as_it_lies ? reinterpret_cast<const float*>(m.row(i)) : row.data();
    y[std::size_t(i)] = float(dot(weights, x.data(), x.size()));
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

float sigmoid(float x) { return float(1 / (1 + std::exp(-double(x)))); }

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

namespace {

constexpr double kLowest = -std::numeric_limits<double>::infinity();

// A number that is not one loses any choice.
double sound(double value) { return std::isnan(value) ? kLowest : value; }

// Experts' probabilities. `all`: their sum is 1; else they are so many times as large, which no
// quotient of them shows.
void set_probabilities(std::span<const float> logits, bool sigmoid, bool all,
                       std::vector<double>& out) {
  out.assign(logits.begin(), logits.end());
  double most = kLowest, sum = 0;
  for (double& p : out) most = std::max(most, p = sound(p));
  for (double& p : out) sum += p = sigmoid ? 1 / (1 + std::exp(-p)) : std::exp(p - most);
  if (!sigmoid && all)
    for (double& p : out) p /= sum;
}

// Makes `order` the experts of the chosen groups. Of equal groups the first is chosen.
void keep_groups(const ExpertRouting& routing, const std::vector<double>& scores,
                 std::vector<int>& order) {
  const std::size_t width = scores.size() / std::size_t(routing.groups);
  std::vector<std::pair<double, int>> groups;
  for (int group = 0; group < routing.groups; ++group) {
    double best = kLowest, second = kLowest;
    for (std::size_t i = 0; i < width; ++i) {
      const double own = scores[std::size_t(group) * width + i];
      second = std::max(second, std::min(best, own));
      best = std::max(best, own);
    }
    groups.emplace_back(-(best + second), group);
  }
  std::ranges::sort(groups);
  order.clear();
  for (int i = 0; i < routing.groups_used; ++i)
    for (std::size_t e = 0; e < width; ++e)
      order.push_back(int(std::size_t(groups[std::size_t(i)].second) * width + e));
}

}  // namespace

void choose_experts(std::span<const float> logits, std::span<const float> bias,
                    const ExpertRouting& routing, std::span<int> chosen, std::span<float> weights,
                    ChoiceScratch& scratch) {
  RIGCAST_ASSERT(!chosen.empty() && chosen.size() <= logits.size());
  RIGCAST_ASSERT(bias.empty() || bias.size() == logits.size());
  std::vector<int>& order = scratch.order;
  std::vector<double>&probabilities = scratch.probabilities, &scores = scratch.scores;
  order.resize(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const bool plain = bias.empty() && !routing.has_groups();
  set_probabilities(logits, routing.sigmoid, !(plain && routing.normalised), probabilities);
  scores = probabilities;
  for (std::size_t e = 0; e < bias.size(); ++e) scores[e] = sound(scores[e] + double(bias[e]));
  if (routing.has_groups()) keep_groups(routing, scores, order);
  // Without a bias, experts are sorted by logits: probabilities of different experts may both round
  // to 0.
  if (bias.empty()) std::ranges::transform(logits, scores.begin(), sound);
  const auto score = [&](int e) { return scores[std::size_t(e)]; };
  RIGCAST_ASSERT(chosen.size() <= order.size());
  std::partial_sort(
      order.begin(), order.begin() + std::ptrdiff_t(chosen.size()), order.end(),
      [&](int a, int b) { return score(a) != score(b) ? score(a) > score(b) : a < b; });
  constexpr double kMinSum = 0x1p-14;
  double sum = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) sum += probabilities[std::size_t(order[i])];
  const double divisor = routing.normalised ? std::max(sum, kMinSum) : 1;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    chosen[i] = order[i];
    weights[i] = float(probabilities[std::size_t(order[i])] / divisor * double(routing.scale));
  }
}

std::vector<ChosenExpert> choose_experts(std::span<const float> logits, int used,
                                         const ExpertRouting& routing,
                                         std::span<const float> bias) {
  std::vector<int> chosen(std::size_t(used), 0);
  std::vector<float> weights(chosen.size());
  ChoiceScratch scratch;
  choose_experts(logits, bias, routing, chosen, weights, scratch);
  std::vector<ChosenExpert> out;
  for (std::size_t i = 0; i < chosen.size(); ++i) out.push_back({chosen[i], weights[i]});
  return out;
}

}  // namespace rigcast::engine::ref
