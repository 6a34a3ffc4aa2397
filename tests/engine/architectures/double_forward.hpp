#pragma once
// A forward pass in float64 that shares no code with the engine: what its rotations, windows, caps
// and norms are compared with. Weights are those of a file in F32, by name; what the architecture
// does is stated by its test.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/architectures/double_recurrent.hpp"

namespace rigcast::engine::fixtures {

using Doubles = std::vector<double>;

/// What a model does, as its publisher describes it.
struct Described {
  int layers = 4, heads = 4, kv_heads = 2, head_dim = 32, hidden = 128, vocabulary = 200;
  double eps = 1e-5;
  bool norms_input = true, norms_output = false;
  std::string ffn_norm = "ffn_norm";
  enum { kNoHeadNorm, kEachHead, kAllHeads } head_norm = kNoHeadNorm;
  bool fused_qkv = false, fused_gate_up = false;
  bool gelu = false;
  bool clamped = false;  // SwiGLU of gpt-oss
  int experts = 0, experts_used = 0;
  bool renormalised = true;
  int dense_layers = 0;   // before those with experts
  bool sigmoids = false;  // of logits, in place of their softmax
  double expert_scale = 1;
  int groups = 1, groups_used = 1;  // of experts
  bool turns_before_norms = false;
  bool tied = false;
  bool gated_attention = false;  // each head of queries is followed by its gate
  enum { kNoMixer, kShortConvolution, kDeltaNet, kMamba } mixer = kNoMixer;
  std::function<bool(int layer)> recurrent = [](int) { return false; };
  MixerSizes mixer_sizes;
  std::string final_norm = "output_norm.weight";

  bool halves = true;  // element i turns with i + n / 2; else 2 i with 2 i + 1
  int turned = 32;
  /// Radians by which a pair turns from one position to the next, by layer; 0: it does not.
  std::function<double(int layer, int pair)> frequency;
  std::function<double(int layer)> magnitude = [](int) { return 1.0; };
  std::function<int(int layer)> window = [](int) { return 0; };  // 0: none
  double score_scale = 1 / std::sqrt(32.0), score_cap = 0;
  std::function<double(int position)> query_scale = [](int) { return 1.0; };
  double embedding_scale = 1, residual_scale = 1, logit_divisor = 1, logit_cap = 0;
};

class DoubleModel {
 public:
  DoubleModel(Described described, std::map<std::string, Doubles> tensors)
      : d_(std::move(described)), tensors_(std::move(tensors)) {}

  /// Logits after every token.
  std::vector<Doubles> forward(const std::vector<std::int32_t>& tokens) {
    std::vector<Doubles> logits;
    cache_.assign(std::size_t(d_.layers), {});
    states_.assign(std::size_t(d_.layers), {});
    for (std::size_t t = 0; t < tokens.size(); ++t) logits.push_back(token(int(t), tokens[t]));
    return logits;
  }

 private:
  struct Kv {
    std::vector<Doubles> keys, values;
  };

  const Doubles& get(const std::string& name) const { return tensors_.at(name); }
  const Doubles* find(const std::string& name) const {
    const auto at = tensors_.find(name);
    return at == tensors_.end() ? nullptr : &at->second;
  }
  static std::string at(int layer, const std::string& name) {
    return "blk." + std::to_string(layer) + "." + name;
  }

  // Rows [first, first + rows) of a matrix times x.
  static Doubles times(const Doubles& m, const Doubles& x, std::size_t first, std::size_t rows) {
    Doubles y(rows);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t i = 0; i < x.size(); ++i) y[r] += m[(first + r) * x.size() + i] * x[i];
    return y;
  }
  // x plus a part of a vector, if the file has it.
  Doubles plus(Doubles x, const std::string& name, std::size_t first) const {
    const Doubles* const bias = find(name);
    for (std::size_t i = 0; bias && i < x.size(); ++i) x[i] += (*bias)[first + i];
    return x;
  }
  static Doubles times(const Doubles& m, const Doubles& x) {
    return times(m, x, 0, m.size() / x.size());
  }
  void norm(double* x, std::size_t n, const Doubles& weight) const {
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += x[i] * x[i];
    const double rms = std::sqrt(squares / double(n) + d_.eps);
    for (std::size_t i = 0; i < n; ++i) x[i] = x[i] / rms * weight[i];
  }
  Doubles normed(Doubles x, const Doubles& weight) const {
    norm(x.data(), x.size(), weight);
    return x;
  }
  static double capped(double x, double cap) { return cap > 0 ? cap * std::tanh(x / cap) : x; }

  // A query, key or value: its rows of its own matrix, or of the one of all three.
  Doubles projected(int layer, char which, const Doubles& x) const {
    const std::size_t q = std::size_t(d_.heads * d_.head_dim),
                      kv = std::size_t(d_.kv_heads * d_.head_dim);
    const std::size_t rows = which == 'q' ? q : kv;
    Doubles y;
    if (d_.fused_qkv)
      y = times(get(at(layer, "attn_qkv.weight")), x,
                which == 'q'   ? 0
                : which == 'k' ? q
                               : q + kv,
                rows);
    else
      y = times(get(at(layer, std::string("attn_") + which + ".weight")), x);
    if (which == 'q' && d_.gated_attention) y = half(y, false);
    if (const Doubles* bias = find(at(layer, std::string("attn_") + which + ".bias")))
      for (std::size_t i = 0; i < rows; ++i) y[i] += (*bias)[i];
    return which == 'v' || d_.turns_before_norms ? y : head_normed(layer, which, std::move(y));
  }

  Doubles head_normed(int layer, char which, Doubles y) const {
    if (d_.head_norm == Described::kNoHeadNorm) return y;
    const Doubles& weight = get(at(layer, std::string("attn_") + which + "_norm.weight"));
    if (d_.head_norm == Described::kAllHeads) return normed(y, weight);
    for (std::size_t h = 0; h < y.size(); h += std::size_t(d_.head_dim))
      norm(y.data() + h, std::size_t(d_.head_dim), weight);
    return y;
  }

  // One of two halves of every head.
  Doubles half(const Doubles& x, bool second) const {
    const auto dim = std::size_t(d_.head_dim);
    Doubles out;
    for (std::size_t i = 0; i < x.size(); ++i)
      if ((i / dim % 2 == 1) == second) out.push_back(x[i]);
    return out;
  }

  Doubles mixed(int layer, const Doubles& x) {
    const auto weight = [&](const char* name) -> const Doubles& { return get(at(layer, name)); };
    DoubleState& state = states_[std::size_t(layer)];
    if (d_.mixer == Described::kShortConvolution)
      return times(weight("shortconv.out_proj.weight"),
                   double_short_convolution(times(weight("shortconv.in_proj.weight"), x),
                                            weight("shortconv.conv.weight"), state));
    if (d_.mixer == Described::kMamba)
      return times(
          weight("ssm_out.weight"),
          double_mamba(times(weight("ssm_in.weight"), x),
                       {weight("ssm_conv1d.weight"), weight("ssm_conv1d.bias"), weight("ssm_a"),
                        weight("ssm_dt.bias"), weight("ssm_d"), find(at(layer, "ssm_norm.weight"))},
                       d_.mixer_sizes, d_.eps, state));
    const DeltaInputs in = {
        times(weight("attn_qkv.weight"), x), times(weight("attn_gate.weight"), x),
        times(weight("ssm_alpha.weight"), x), times(weight("ssm_beta.weight"), x)};
    const DeltaWeights w = {weight("ssm_conv1d.weight"), weight("ssm_a"), weight("ssm_dt.bias"),
                            weight("ssm_norm.weight")};
    return times(weight("ssm_out.weight"), double_delta_net(in, w, d_.mixer_sizes, d_.eps, state));
  }

  void turn(int layer, int position, Doubles& heads) const {
    const int pairs = d_.turned / 2;
    const double magnitude = d_.magnitude(layer);
    for (std::size_t h = 0; h < heads.size(); h += std::size_t(d_.head_dim))
      for (int i = 0; i < pairs; ++i) {
        const double frequency = d_.frequency(layer, i);
        if (frequency == 0) continue;
        double& a = heads[h + std::size_t(d_.halves ? i : 2 * i)];
        double& b = heads[h + std::size_t(d_.halves ? i + pairs : 2 * i + 1)];
        const double c = magnitude * std::cos(position * frequency),
                     s = magnitude * std::sin(position * frequency), a0 = a;
        a = a0 * c - b * s;
        b = a0 * s + b * c;
      }
  }

  Doubles attention(int layer, int position, const Doubles& x) {
    Doubles q = projected(layer, 'q', x), k = projected(layer, 'k', x);
    turn(layer, position, q);
    turn(layer, position, k);
    if (d_.turns_before_norms) {
      q = head_normed(layer, 'q', std::move(q));
      k = head_normed(layer, 'k', std::move(k));
    }
    for (double& v : q) v *= d_.query_scale(position);
    Kv& cache = cache_[std::size_t(layer)];
    cache.keys.push_back(k);
    cache.values.push_back(projected(layer, 'v', x));
    const int window = d_.window(layer);
    const int first = window > 0 ? std::max(0, position + 1 - window) : 0;
    Doubles out(q.size());
    for (int head = 0; head < d_.heads; ++head) attend(layer, head, first, q, cache, out);
    if (d_.gated_attention) {
      const Doubles gate = half(times(get(at(layer, "attn_q.weight")), x), true);
      for (std::size_t i = 0; i < out.size(); ++i) out[i] /= 1 + std::exp(-gate[i]);
    }
    return plus(times(get(at(layer, "attn_output.weight")), out), at(layer, "attn_output.bias"), 0);
  }

  void attend(int layer, int head, int first, const Doubles& q, const Kv& cache,
              Doubles& out) const {
    const std::size_t dim = std::size_t(d_.head_dim), own = std::size_t(head) * dim,
                      kv = std::size_t(head / (d_.heads / d_.kv_heads)) * dim;
    Doubles weights;
    for (std::size_t t = std::size_t(first); t < cache.keys.size(); ++t) {
      double score = 0;
      for (std::size_t i = 0; i < dim; ++i) score += q[own + i] * cache.keys[t][kv + i];
      weights.push_back(capped(score * d_.score_scale, d_.score_cap));
    }
    const Doubles* const sinks = find(at(layer, "attn_sinks.weight"));
    const double sink = sinks ? (*sinks)[std::size_t(head)] : -1e300;
    const double most = std::max(sink, *std::max_element(weights.begin(), weights.end()));
    double sum = std::exp(sink - most);
    for (double& w : weights) sum += w = std::exp(w - most);
    for (std::size_t t = 0; t < weights.size(); ++t)
      for (std::size_t i = 0; i < dim; ++i)
        out[own + i] += weights[t] / sum * cache.values[std::size_t(first) + t][kv + i];
  }

  double activated(double x) const {
    if (!d_.gelu) return x / (1 + std::exp(-x));
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
  }

  static double clamped(double gate, double up) {
    if (gate > 7) gate = 7;
    if (up > 7) up = 7;
    if (up < -7) up = -7;
    return (up + 1) * gate / (1 + std::exp(-1.702 * gate));
  }

  Doubles gated(Doubles gate, const Doubles& up, const Doubles& down, std::size_t first,
                std::size_t rows) const {
    for (std::size_t i = 0; i < gate.size(); ++i)
      gate[i] = d_.clamped ? clamped(gate[i], up[i]) : activated(gate[i]) * up[i];
    return times(down, gate, first, rows);
  }

  Doubles ffn(int layer, const Doubles& x) const {
    if (d_.experts > 0 && layer >= d_.dense_layers) return mixture(layer, x);
    const Doubles& down = get(at(layer, "ffn_down.weight"));
    const std::size_t inner = down.size() / x.size();
    const Doubles& up = get(at(layer, "ffn_up.weight"));
    if (d_.fused_gate_up)
      return gated(times(up, x, 0, inner), times(up, x, inner, inner), down, 0, x.size());
    return gated(times(get(at(layer, "ffn_gate.weight")), x), times(up, x), down, 0, x.size());
  }

  // The best experts by score, in the groups whose two best have the largest sums.
  std::vector<std::size_t> best(const Doubles& scores) const {
    const std::size_t width = scores.size() / std::size_t(d_.groups);
    std::vector<std::pair<double, std::size_t>> sums;
    for (std::size_t g = 0; g < std::size_t(d_.groups); ++g) {
      Doubles own(scores.begin() + std::ptrdiff_t(g * width),
                  scores.begin() + std::ptrdiff_t((g + 1) * width));
      std::sort(own.rbegin(), own.rend());
      sums.emplace_back(own[0] + own[1], g);
    }
    std::sort(sums.rbegin(), sums.rend());
    std::vector<std::size_t> order;
    for (std::size_t g = 0; g < std::size_t(d_.groups_used); ++g)
      for (std::size_t i = 0; i < width; ++i) order.push_back(sums[g].second * width + i);
    std::sort(order.begin(), order.end(), [&](auto a, auto b) { return scores[a] > scores[b]; });
    order.resize(std::size_t(d_.experts_used));
    return order;
  }

  // What all tokens pass, besides the experts that are chosen for them.
  void add_shared(int layer, const Doubles& x, Doubles& to) const {
    const Doubles* const down = find(at(layer, "ffn_down_shexp.weight"));
    if (!down) return;
    const Doubles y = gated(times(get(at(layer, "ffn_gate_shexp.weight")), x),
                            times(get(at(layer, "ffn_up_shexp.weight")), x), *down, 0, x.size());
    const Doubles* const router = find(at(layer, "ffn_gate_inp_shexp.weight"));
    const double weight = router ? 1 / (1 + std::exp(-times(*router, x)[0])) : 1;
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += weight * y[i];
  }

  Doubles mixture(int layer, const Doubles& x) const {
    Doubles p =
        plus(times(get(at(layer, "ffn_gate_inp.weight")), x), at(layer, "ffn_gate_inp.bias"), 0);
    double all = 0;
    for (double& v : p) all += v = d_.sigmoids ? 1 / (1 + std::exp(-v)) : std::exp(v);
    if (!d_.sigmoids)
      for (double& v : p) v /= all;
    const std::vector<std::size_t> order =
        best(plus(plus(p, at(layer, "exp_probs_b.bias"), 0), at(layer, "exp_probs_b"), 0));
    all = 1;
    if (d_.renormalised) {
      all = 0;
      for (const std::size_t e : order) all += p[e];
    }
    all /= d_.expert_scale;
    Doubles out(x.size());
    const Doubles& gates = get(at(layer, "ffn_gate_exps.weight"));
    const Doubles& downs = get(at(layer, "ffn_down_exps.weight"));
    const std::size_t inner = gates.size() / p.size() / x.size();
    for (const std::size_t e : order) {
      const Doubles gate = times(gates, x, e * inner, inner),
                    up = times(get(at(layer, "ffn_up_exps.weight")), x, e * inner, inner);
      const Doubles y = plus(
          gated(plus(gate, at(layer, "ffn_gate_exps.bias"), e * inner),
                plus(up, at(layer, "ffn_up_exps.bias"), e * inner), downs, e * x.size(), x.size()),
          at(layer, "ffn_down_exps.bias"), e * x.size());
      for (std::size_t i = 0; i < y.size(); ++i) out[i] += p[e] / all * y[i];
    }
    add_shared(layer, x, out);
    return out;
  }

  void add(int layer, const char* norm_name, Doubles branch, Doubles& to) const {
    if (d_.norms_output) branch = normed(std::move(branch), get(at(layer, norm_name)));
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += d_.residual_scale * branch[i];
  }

  Doubles token(int position, std::int32_t id) {
    const Doubles& embedding = get("token_embd.weight");
    const auto row = embedding.begin() + std::ptrdiff_t(id) * d_.hidden;
    Doubles x(row, row + d_.hidden);
    for (double& v : x) v *= d_.embedding_scale;
    for (int layer = 0; layer < d_.layers; ++layer) {
      const auto input = [&](const std::string& name) {
        return d_.norms_input ? normed(x, get(at(layer, name + ".weight"))) : x;
      };
      const Doubles in = input("attn_norm");
      add(layer, "post_attention_norm.weight",
          d_.recurrent(layer) ? mixed(layer, in) : attention(layer, position, in), x);
      add(layer, "post_ffw_norm.weight", ffn(layer, input(d_.ffn_norm)), x);
    }
    Doubles logits =
        times(get(d_.tied ? "token_embd.weight" : "output.weight"), normed(x, get(d_.final_norm)));
    for (double& v : logits) v = capped(v / d_.logit_divisor, d_.logit_cap);
    return logits;
  }

  Described d_;
  std::map<std::string, Doubles> tensors_;
  std::vector<Kv> cache_;
  std::vector<DoubleState> states_;
};

}  // namespace rigcast::engine::fixtures
