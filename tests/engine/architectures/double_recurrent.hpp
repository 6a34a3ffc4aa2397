#pragma once
// Recurrent mixers in float64, as their publishers describe them; no code is the engine's.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace rigcast::engine::fixtures {

/// What a mixer keeps of the tokens before: inputs of its convolution, all of them, and a matrix of
/// each head, [key][value].
struct DoubleState {
  std::vector<std::vector<double>> inputs;
  std::vector<std::vector<double>> heads;
};

struct MixerSizes {
  int heads = 4, groups = 2, width = 128;
  bool neighbours = false;  // share keys; otherwise heads share them in turn
};

namespace recurrent_detail {

using Doubles = std::vector<double>;

inline double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
inline double silu(double x) { return x * sigmoid(x); }
inline double softplus(double x) { return std::log1p(std::exp(x)); }

/// Causal: taps are [value][token], the newest last.
inline Doubles convolved(const Doubles& taps, const Doubles& x, DoubleState& state) {
  state.inputs.push_back(x);
  const std::size_t kernel = taps.size() / x.size(), now = state.inputs.size() - 1;
  Doubles out(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t back = 0; back < kernel && back <= now; ++back)
      out[i] += taps[i * kernel + kernel - 1 - back] * state.inputs[now - back][i];
  return out;
}

inline Doubles unit(const Doubles& x, std::size_t at, std::size_t width) {
  double squares = 0;
  for (std::size_t i = 0; i < width; ++i) squares += x[at + i] * x[at + i];
  Doubles out(x.begin() + std::ptrdiff_t(at), x.begin() + std::ptrdiff_t(at + width));
  for (double& v : out) v /= std::sqrt(squares);
  return out;
}

}  // namespace recurrent_detail

/// LFM2: C * conv(B * x), of which `in` has B, C and x.
inline std::vector<double> double_short_convolution(const std::vector<double>& in,
                                                    const std::vector<double>& taps,
                                                    DoubleState& state) {
  const std::size_t n = in.size() / 3;
  std::vector<double> gated(n);
  for (std::size_t i = 0; i < n; ++i) gated[i] = in[i] * in[2 * n + i];
  std::vector<double> out = recurrent_detail::convolved(taps, gated, state);
  for (std::size_t i = 0; i < n; ++i) out[i] *= in[n + i];
  return out;
}

/// What a gated delta net has of a token, projected.
struct DeltaInputs {
  std::vector<double> mixed, gate, alpha, beta;
};
/// The same of a model whose matrices give it by groups of heads that share a key: query, key,
/// values and gates, and beta and alpha.
inline DeltaInputs delta_inputs_by_group(const std::vector<double>& both,
                                         const std::vector<double>& gates,
                                         const MixerSizes& sizes) {
  DeltaInputs out;
  const auto n = std::size_t(sizes.width), groups = std::size_t(sizes.groups),
             heads = std::size_t(sizes.heads) / groups, unit = (2 + 2 * heads) * n;
  const auto add = [](std::vector<double>& to, const std::vector<double>& from, std::size_t first,
                      std::size_t count) {
    to.insert(to.end(), from.begin() + std::ptrdiff_t(first),
              from.begin() + std::ptrdiff_t(first + count));
  };
  for (std::size_t g = 0; g < groups; ++g) add(out.mixed, both, g * unit, n);
  for (std::size_t g = 0; g < groups; ++g) add(out.mixed, both, g * unit + n, n);
  for (std::size_t g = 0; g < groups; ++g) {
    add(out.mixed, both, g * unit + 2 * n, heads * n);
    add(out.gate, both, g * unit + (2 + heads) * n, heads * n);
    add(out.beta, gates, 2 * g * heads, heads);
    add(out.alpha, gates, (2 * g + 1) * heads, heads);
  }
  return out;
}

struct DeltaWeights {
  const std::vector<double>&taps, &decay, &time_bias, &norm;
};

/// Gated delta net: S = g S + k (beta (v - g S^T k))^T, o = S^T q / sqrt(width), then a norm of
/// each head and its gate.
inline std::vector<double> double_delta_net(const DeltaInputs& in, const DeltaWeights& w,
                                            const MixerSizes& sizes, double eps,
                                            DoubleState& state) {
  namespace r = recurrent_detail;
  r::Doubles x = r::convolved(w.taps, in.mixed, state);
  for (double& v : x) v = r::silu(v);
  const auto n = std::size_t(sizes.width), heads = std::size_t(sizes.heads),
             groups = std::size_t(sizes.groups);
  state.heads.resize(heads, r::Doubles(n * n));
  r::Doubles out(heads * n);
  for (std::size_t h = 0; h < heads; ++h) {
    r::Doubles& s = state.heads[h];
    const std::size_t group = sizes.neighbours ? h / (heads / groups) : h % groups;
    const r::Doubles q = r::unit(x, group * n, n), k = r::unit(x, (groups + group) * n, n);
    const double g = std::exp(w.decay[h] * r::softplus(in.alpha[h] + w.time_bias[h]));
    double squares = 0;
    for (std::size_t v = 0; v < n; ++v) {
      double known = 0, sum = 0;
      for (std::size_t i = 0; i < n; ++i) known += g * s[i * n + v] * k[i];
      const double change = r::sigmoid(in.beta[h]) * (x[(2 * groups + h) * n + v] - known);
      for (std::size_t i = 0; i < n; ++i) {
        s[i * n + v] = g * s[i * n + v] + k[i] * change;
        sum += s[i * n + v] * q[i];
      }
      out[h * n + v] = sum / std::sqrt(double(n));
      squares += out[h * n + v] * out[h * n + v];
    }
    for (std::size_t v = 0; v < n; ++v)
      out[h * n + v] *=
          w.norm[v] / std::sqrt(squares / double(n) + eps) * r::silu(in.gate[h * n + v]);
  }
  return out;
}

/// Mamba 2: S = g S + t x B^T, y = S C + D x, gated by z and normed by groups of neighbouring
/// heads. `in` is z, x, B and C of all groups, and a time step of each head.
struct MambaWeights {
  const std::vector<double>&taps, &taps_bias, &decay, &time_bias, &skip, *norm;
};
inline std::vector<double> double_mamba(const std::vector<double>& in, const MambaWeights& w,
                                        const MixerSizes& sizes, double eps, DoubleState& state) {
  namespace r = recurrent_detail;
  const auto heads = std::size_t(sizes.heads), groups = std::size_t(sizes.groups),
             n = std::size_t(sizes.width), wide = w.taps_bias.size();
  const std::size_t inner = wide - 2 * groups * n, dim = inner / heads;
  r::Doubles x = r::convolved(
      w.taps, r::Doubles(in.begin() + std::ptrdiff_t(inner), in.end() - std::ptrdiff_t(heads)),
      state);
  for (std::size_t i = 0; i < wide; ++i) x[i] = r::silu(x[i] + w.taps_bias[i]);
  state.heads.resize(heads, r::Doubles(dim * n));
  r::Doubles out(inner);
  for (std::size_t h = 0; h < heads; ++h) {
    const double step = r::softplus(in[inner + wide + h] + w.time_bias[h]);
    const double* const key = x.data() + inner + h * groups / heads * n;
    for (std::size_t p = 0; p < dim; ++p) {
      double sum = w.skip[h] * x[h * dim + p];
      for (std::size_t i = 0; i < n; ++i) {
        double& s = state.heads[h][p * n + i];
        s = std::exp(w.decay[h] * step) * s + step * x[h * dim + p] * key[i];
        sum += s * key[groups * n + i];
      }
      out[h * dim + p] = sum * r::silu(in[h * dim + p]);
    }
  }
  const std::size_t group = inner / groups;
  for (std::size_t g = 0; w.norm && g < groups; ++g) {
    double squares = 0;
    for (std::size_t i = g * group; i < (g + 1) * group; ++i) squares += out[i] * out[i];
    for (std::size_t i = g * group; i < (g + 1) * group; ++i)
      out[i] *= (*w.norm)[i] / std::sqrt(squares / double(group) + eps);
  }
  return out;
}

}  // namespace rigcast::engine::fixtures
