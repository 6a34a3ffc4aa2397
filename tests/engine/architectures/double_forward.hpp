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
  bool means = false;    // norms subtract the mean; those of heads have weights for each
  bool beside = false;   // FFN and attention read one norm
  /// An FFN without a gate: what becomes of the up matrix's product.
  std::function<double(double)> mlp{};
  bool norms_values = false;
  bool experts_beside = false;  // of a dense FFN, with norms of their own
  /// What a layer has; attention, a mixer or an FFN alone have one norm, "attn_norm".
  std::function<bool(int layer)> attends = [](int) { return true; };
  std::function<bool(int layer)> has_ffn = [](int) { return true; };
  bool mixes_beside = false;  // attention and the mixer read one norm
  /// What layers have of their own; 0: as all.
  std::function<int(int layer)> own_head_dim = [](int) { return 0; };
  std::function<int(int layer)> own_kv_heads = [](int) { return 0; };
  std::function<bool(int layer)> keys_are_values = [](int) { return false; };
  std::function<int(int layer)> cache_of = [](int layer) { return layer; };
  int input_width = 0;  // of what a token gives every layer beside the residual stream
  int experts = 0, experts_used = 0;
  bool renormalised = true;
  int dense_layers = 0;       // before those with experts
  int every = 1;              // every n-th layer has experts
  bool weighs_input = false;  // of experts, in place of their output
  bool chunked = false;       // windows are pieces of the context, side by side
  bool norms_turned = false;  // queries and keys that turned, without weights
  bool sigmoids = false;      // of logits, in place of their softmax
  double expert_scale = 1;
  int groups = 1, groups_used = 1;  // of experts
  bool turns_before_norms = false;
  // Latent attention: keys of `plain` and `turned` elements and values of `value` of a head are
  // made of `rank` elements that all heads share; rank 0: not that.
  int rank = 0, plain = 0, value = 0;
  bool tied = false;
  bool gated_attention = false;  // each head of queries is followed by its gate
  enum { kNoMixer, kShortConvolution, kDeltaNet, kMamba } mixer = kNoMixer;
  std::function<bool(int layer)> recurrent = [](int) { return false; };
  MixerSizes mixer_sizes;
  std::string final_norm = "output_norm";

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

  // Of every fourth product one sum: no addition waits for the one before.
  static double dot(const double* a, const double* b, std::size_t n) {
    double s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    std::size_t i = 0;
    for (; i + 4 <= n; i += 4) {
      s0 += a[i] * b[i];
      s1 += a[i + 1] * b[i + 1];
      s2 += a[i + 2] * b[i + 2];
      s3 += a[i + 3] * b[i + 3];
    }
    for (; i < n; ++i) s0 += a[i] * b[i];
    return (s0 + s1) + (s2 + s3);
  }
  // Rows [first, first + rows) of a matrix times x.
  static Doubles times(const Doubles& m, const Doubles& x, std::size_t first, std::size_t rows) {
    Doubles y(rows);
    for (std::size_t r = 0; r < rows; ++r)
      y[r] = dot(m.data() + (first + r) * x.size(), x.data(), x.size());
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
  int head_dim(int layer) const {
    const int own = d_.own_head_dim(layer);
    return own > 0 ? own : d_.head_dim;
  }
  int kv_heads(int layer) const {
    const int own = d_.own_kv_heads(layer);
    return own > 0 ? own : d_.kv_heads;
  }
  void mean_norm(double* x, std::size_t n, const double* weight) const {
    double mean = 0, squares = 0;
    for (std::size_t i = 0; i < n; ++i) mean += x[i] / double(n);
    for (std::size_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double deviation = std::sqrt(squares / double(n) + d_.eps);
    for (std::size_t i = 0; i < n; ++i) x[i] = (x[i] - mean) / deviation * weight[i];
  }
  // The norm of this name, with its bias, if it has one.
  Doubles named_norm(Doubles x, const std::string& name) const {
    const Doubles* const unnamed = find(name);  // Falcon-H1 leaves the ending out
    const Doubles& weight = unnamed ? *unnamed : get(name + ".weight");
    if (!d_.means) return plus(normed(std::move(x), weight), name + ".bias", 0);
    mean_norm(x.data(), x.size(), weight.data());
    return plus(std::move(x), name + ".bias", 0);
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
    const std::size_t dim = std::size_t(head_dim(layer));
    const std::size_t q = std::size_t(d_.heads) * dim, kv = std::size_t(kv_heads(layer)) * dim;
    const std::size_t rows = which == 'q' ? q : kv;
    const std::size_t first = which == 'q' ? 0 : which == 'k' ? q : q + kv;
    const char matrix = which == 'v' && d_.keys_are_values(layer) ? 'k' : which;
    Doubles y;
    if (d_.fused_qkv)
      y = plus(times(get(at(layer, "attn_qkv.weight")), x, first, rows), at(layer, "attn_qkv.bias"),
               first);
    else
      y = times(get(at(layer, std::string("attn_") + matrix + ".weight")), x);
    if (which == 'q' && d_.gated_attention) y = half(y, false);
    if (const Doubles* bias = find(at(layer, std::string("attn_") + which + ".bias")))
      for (std::size_t i = 0; i < rows; ++i) y[i] += (*bias)[i];
    if (which == 'v' && d_.norms_values)
      for (std::size_t h = 0; h < rows; h += dim) norm(y.data() + h, dim, Doubles(dim, 1));
    return which == 'v' || d_.turns_before_norms ? y : head_normed(layer, which, std::move(y));
  }

  Doubles head_normed(int layer, char which, Doubles y) const {
    if (d_.head_norm == Described::kNoHeadNorm) return y;
    const std::size_t dim = std::size_t(head_dim(layer));
    const Doubles& weight = get(at(layer, std::string("attn_") + which + "_norm.weight"));
    if (d_.head_norm == Described::kAllHeads) return normed(y, weight);
    for (std::size_t h = 0; h < y.size(); h += dim)
      d_.means ? mean_norm(y.data() + h, dim, weight.data() + h) : norm(y.data() + h, dim, weight);
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
    const DeltaInputs in =
        d_.mixer_sizes.neighbours
            ? delta_inputs_by_group(times(weight("ssm_in.weight"), x),
                                    times(weight("ssm_ba.weight"), x), d_.mixer_sizes)
            : DeltaInputs{times(weight("attn_qkv.weight"), x), times(weight("attn_gate.weight"), x),
                          times(weight("ssm_alpha.weight"), x),
                          times(weight("ssm_beta.weight"), x)};
    const DeltaWeights w = {weight("ssm_conv1d.weight"), weight("ssm_a"), weight("ssm_dt.bias"),
                            weight("ssm_norm.weight")};
    return times(weight("ssm_out.weight"), double_delta_net(in, w, d_.mixer_sizes, d_.eps, state));
  }

  void turn(int layer, int position, Doubles& heads) const {
    turn_heads(layer, position, std::size_t(head_dim(layer)), heads);
  }
  void turn_heads(int layer, int position, std::size_t width, Doubles& heads) const {
    const int pairs = (d_.own_head_dim(layer) > 0 ? d_.own_head_dim(layer) : d_.turned) / 2;
    const double magnitude = d_.magnitude(layer);
    for (std::size_t h = 0; h < heads.size(); h += width)
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

  // As the paper of DeepSeek V2 has it: keys and values of every head, expanded.
  Doubles latent_attention(int layer, int position, const Doubles& x) {
    const auto rank = std::size_t(d_.rank), plain = std::size_t(d_.plain),
               turned = std::size_t(d_.turned), heads = std::size_t(d_.heads),
               value = std::size_t(d_.value), wide = plain + turned;
    const Doubles* const q_a = find(at(layer, "attn_q_a.weight"));
    Doubles q = q_a ? times(get(at(layer, "attn_q_b.weight")),
                            normed(times(*q_a, x), get(at(layer, "attn_q_a_norm.weight"))))
                    : times(get(at(layer, "attn_q.weight")), x);
    const Doubles both = times(get(at(layer, "attn_kv_a_mqa.weight")), x);
    const Doubles c = normed(Doubles(both.begin(), both.begin() + std::ptrdiff_t(rank)),
                             get(at(layer, "attn_kv_a_norm.weight")));
    Doubles tail(both.begin() + std::ptrdiff_t(rank), both.end()), tails;
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t i = plain; i < wide; ++i) tails.push_back(q[h * wide + i]);
    turn_heads(layer, position, turned, tail);
    turn_heads(layer, position, turned, tails);
    const Doubles &k_b = get(at(layer, "attn_k_b.weight")),
                  &v_b = get(at(layer, "attn_v_b.weight"));
    Doubles keys(heads * wide), values(heads * value);
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < turned; ++i) {
        q[h * wide + plain + i] = tails[h * turned + i];
        keys[h * wide + plain + i] = tail[i];
      }
      for (std::size_t r = 0; r < rank; ++r) {
        for (std::size_t i = 0; i < plain; ++i)
          keys[h * wide + i] += k_b[(h * rank + r) * plain + i] * c[r];
        for (std::size_t i = 0; i < value; ++i)
          values[h * value + i] += v_b[(h * value + i) * rank + r] * c[r];
      }
    }
    Kv& cache = cache_[std::size_t(layer)];
    cache.keys.push_back(keys);
    cache.values.push_back(values);
    Doubles out(heads * value);
    for (std::size_t h = 0; h < heads; ++h) {
      Doubles weights;
      for (const Doubles& k : cache.keys) {
        double score = 0;
        for (std::size_t i = 0; i < wide; ++i) score += q[h * wide + i] * k[h * wide + i];
        weights.push_back(std::exp(score * d_.score_scale * d_.query_scale(position)));
      }
      double sum = 0;
      for (const double w : weights) sum += w;
      for (std::size_t t = 0; t < weights.size(); ++t)
        for (std::size_t i = 0; i < value; ++i)
          out[h * value + i] += weights[t] / sum * cache.values[t][h * value + i];
    }
    return times(get(at(layer, "attn_output.weight")), out);
  }

  bool turned_norm(int layer) const { return d_.norms_turned && d_.frequency(layer, 0) != 0; }
  void plain_norm(int layer, Doubles& heads) const {
    const auto dim = std::size_t(head_dim(layer));
    for (std::size_t h = 0; h < heads.size(); h += dim) norm(&heads[h], dim, Doubles(dim, 1));
  }

  Doubles attention(int layer, int position, const Doubles& x) {
    if (d_.rank > 0) return latent_attention(layer, position, x);
    Doubles q = projected(layer, 'q', x);
    turn(layer, position, q);
    if (d_.turns_before_norms) q = head_normed(layer, 'q', std::move(q));
    if (turned_norm(layer)) plain_norm(layer, q);
    for (double& v : q) v *= d_.query_scale(position);
    Kv& cache = cache_[std::size_t(d_.cache_of(layer))];
    if (d_.cache_of(layer) == layer) {
      Doubles k = projected(layer, 'k', x);
      turn(layer, position, k);
      if (d_.turns_before_norms) k = head_normed(layer, 'k', std::move(k));
      if (turned_norm(layer)) plain_norm(layer, k);
      cache.keys.push_back(k);
      cache.values.push_back(projected(layer, 'v', x));
    }
    const int window = d_.window(layer);
    const int chunk = window > 0 ? position / window * window : 0;
    const int first = d_.chunked ? chunk : window > 0 ? std::max(0, position + 1 - window) : 0;
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
    const std::size_t dim = std::size_t(head_dim(layer)), own = std::size_t(head) * dim,
                      kv = std::size_t(head / (d_.heads / kv_heads(layer))) * dim;
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
    if (d_.experts > 0 && layer >= d_.dense_layers && (layer + 1) % d_.every == 0)
      return mixture(layer, x);
    const Doubles& down = get(at(layer, "ffn_down.weight"));
    const std::size_t inner = down.size() / x.size();
    const Doubles& up = get(at(layer, "ffn_up.weight"));
    if (d_.mlp) {
      Doubles y = plus(times(up, x), at(layer, "ffn_up.bias"), 0);
      for (double& v : y) v = d_.mlp(v);
      return plus(times(down, y), at(layer, "ffn_down.bias"), 0);
    }
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

  // Gemma 4's experts and the dense FFN beside them, each between two norms.
  Doubles experts_and_ffn(int layer, const Doubles& x) const {
    const auto norm = [&](Doubles y, const char* name) {
      return normed(std::move(y), get(at(layer, name)));
    };
    const Doubles in = norm(x, "ffn_norm.weight");
    const Doubles dense = norm(gated(times(get(at(layer, "ffn_gate.weight")), in),
                                     times(get(at(layer, "ffn_up.weight")), in),
                                     get(at(layer, "ffn_down.weight")), 0, x.size()),
                               "post_ffw_norm_1.weight");
    Doubles routed = norm(x, "ffn_gate_inp.scale");
    for (double& v : routed) v /= std::sqrt(double(x.size()));
    Doubles out =
        norm(mixture(layer, norm(x, "pre_ffw_norm_2.weight"), routed), "post_ffw_norm_2.weight");
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += dense[i];
    return out;
  }

  // What all tokens pass, besides the experts that are chosen for them.
  void add_shared(int layer, const Doubles& x, Doubles& to) const {
    const Doubles* const down = find(at(layer, "ffn_down_shexp.weight"));
    if (!down) return;
    if (d_.mlp) {
      Doubles inner = times(get(at(layer, "ffn_up_shexp.weight")), x);
      for (double& v : inner) v = d_.mlp(v);
      inner = times(*down, inner);
      for (std::size_t i = 0; i < to.size(); ++i) to[i] += inner[i];
      return;
    }
    const Doubles y = gated(times(get(at(layer, "ffn_gate_shexp.weight")), x),
                            times(get(at(layer, "ffn_up_shexp.weight")), x), *down, 0, x.size());
    const Doubles* const router = find(at(layer, "ffn_gate_inp_shexp.weight"));
    const double weight = router ? 1 / (1 + std::exp(-times(*router, x)[0])) : 1;
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += weight * y[i];
  }

  // Rows of an expert's gate or up, which may be in one matrix.
  Doubles of_expert(int layer, bool gate, std::size_t e, std::size_t inner,
                    const Doubles& x) const {
    if (const Doubles* const both = find(at(layer, "ffn_gate_up_exps.weight")))
      return times(*both, x, (2 * e + !gate) * inner, inner);
    return times(get(at(layer, gate ? "ffn_gate_exps.weight" : "ffn_up_exps.weight")), x, e * inner,
                 inner);
  }

  Doubles mixture(int layer, const Doubles& x) const { return mixture(layer, x, x); }
  Doubles mixture(int layer, const Doubles& x, const Doubles& routed) const {
    Doubles p = plus(times(get(at(layer, "ffn_gate_inp.weight")), routed),
                     at(layer, "ffn_gate_inp.bias"), 0);
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
    const Doubles& downs = get(at(layer, "ffn_down_exps.weight"));
    const Doubles* const scale = find(at(layer, "ffn_down_exps.scale"));
    const std::size_t inner = downs.size() / p.size() / x.size();
    for (const std::size_t e : order) {
      Doubles in = x;
      for (double& v : in) v *= d_.weighs_input ? p[e] : 1;
      const Doubles up = of_expert(layer, false, e, inner, in);
      if (d_.mlp) {
        Doubles y = up;
        for (double& v : y) v = d_.mlp(v);
        y = times(downs, y, e * x.size(), x.size());
        for (std::size_t i = 0; i < y.size(); ++i) out[i] += p[e] / all * y[i];
        continue;
      }
      const Doubles gate = of_expert(layer, true, e, inner, in);
      const Doubles y = plus(
          gated(plus(gate, at(layer, "ffn_gate_exps.bias"), e * inner),
                plus(up, at(layer, "ffn_up_exps.bias"), e * inner), downs, e * x.size(), x.size()),
          at(layer, "ffn_down_exps.bias"), e * x.size());
      for (std::size_t i = 0; i < y.size(); ++i)
        out[i] += (scale ? (*scale)[e] : 1) * (d_.weighs_input ? 1 : p[e] / all) * y[i];
    }
    add_shared(layer, x, out);
    return out;
  }

  void add(int layer, const char* norm_name, Doubles branch, Doubles& to) const {
    if (d_.norms_output) branch = normed(std::move(branch), get(at(layer, norm_name)));
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += d_.residual_scale * branch[i];
  }

  // What a token gives every layer: an embedding of its own, and a part made of the model's.
  Doubles inputs_of(std::int32_t id, const Doubles& x) const {
    const auto width = std::size_t(d_.input_width), all = width * std::size_t(d_.layers);
    const Doubles& own = get("per_layer_token_embd.weight");
    Doubles y = times(get("per_layer_model_proj.weight"), x);
    for (double& v : y) v /= std::sqrt(double(d_.hidden));
    for (std::size_t i = 0; i < all; i += width)
      norm(y.data() + i, width, get("per_layer_proj_norm.weight"));
    for (std::size_t i = 0; i < all; ++i)
      y[i] = (y[i] + std::sqrt(double(width)) * own[std::size_t(id) * all + i]) / std::sqrt(2.0);
    return y;
  }

  void add_input(int layer, const Doubles& inputs, Doubles& x) const {
    Doubles y = times(get(at(layer, "inp_gate.weight")), x);
    for (std::size_t i = 0; i < y.size(); ++i)
      y[i] = activated(y[i]) * inputs[std::size_t(layer) * y.size() + i];
    y = normed(times(get(at(layer, "proj.weight")), y), get(at(layer, "post_norm.weight")));
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  Doubles token(int position, std::int32_t id) {
    const Doubles& embedding = get("token_embd.weight");
    const auto row = embedding.begin() + std::ptrdiff_t(id) * d_.hidden;
    Doubles x(row, row + d_.hidden);
    for (double& v : x) v *= d_.embedding_scale;
    const Doubles inputs = d_.input_width > 0 ? inputs_of(id, x) : Doubles();
    for (int layer = 0; layer < d_.layers; ++layer) {
      const auto input = [&](const std::string& name) {
        return d_.norms_input ? named_norm(x, at(layer, name)) : x;
      };
      const Doubles in = input("attn_norm");
      const bool mixes = d_.recurrent(layer), attends = d_.attends(layer);
      if (attends && (!mixes || d_.mixes_beside))
        add(layer, "post_attention_norm.weight", attention(layer, position, in), x);
      if (mixes) add(layer, "post_attention_norm.weight", mixed(layer, in), x);
      if (d_.has_ffn(layer))
        add(layer, "post_ffw_norm.weight",
            d_.experts_beside ? experts_and_ffn(layer, x)
                              : ffn(layer, d_.beside ? in : input(d_.ffn_norm)),
            x);
      if (d_.input_width > 0) add_input(layer, inputs, x);
      if (const Doubles* scale = find(at(layer, "layer_output_scale.weight")))
        for (double& v : x) v *= (*scale)[0];
    }
    Doubles logits =
        times(get(d_.tied ? "token_embd.weight" : "output.weight"), named_norm(x, d_.final_norm));
    logits = plus(std::move(logits), "output.bias", 0);
    for (double& v : logits) v = capped(v / d_.logit_divisor, d_.logit_cap);
    return logits;
  }

  Described d_;
  std::map<std::string, Doubles> tensors_;
  std::vector<Kv> cache_;
  std::vector<DoubleState> states_;
};

}  // namespace rigcast::engine::fixtures
