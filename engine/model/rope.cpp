#include "engine/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace rigcast::engine {

namespace {

// The pair, as a number with a fraction, that turns `turns` times in a context of the training.
double pair_that_turns(const Hyperparameters& h, double turns) {
  return h.rope_dims * std::log(double(h.yarn->context) / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(double(h.rope_base)));
}

// The share of a pair's own frequency, the rest being that of a scaled one: 1 for pairs up to the
// one that turns `fast` times, 0 from the one that turns `slow` times on.
double unscaled_share(const Hyperparameters& h, std::size_t pair) {
  if (!h.yarn) return 0;
  const double first = std::max(0.0, std::floor(pair_that_turns(h, double(h.yarn->fast))));
  const double last =
      std::min(h.rope_dims - 1.0, std::ceil(pair_that_turns(h, double(h.yarn->slow))));
  const double way = (double(pair) - first) / std::max(0.001, last - first);
  return 1 - std::clamp(way, 0.0, 1.0);
}

double frequency(double base, std::size_t pair, int dims) {
  return std::pow(base, -2.0 * double(pair) / dims);
}

RopeTable local_table(const Hyperparameters& hyper) {
  RopeTable table;
  const int dims = hyper.local_rope_dims > 0 ? hyper.local_rope_dims : hyper.rope_dims;
  for (std::size_t i = 0; i < std::size_t(dims / 2); ++i)
    table.frequencies.push_back(frequency(double(hyper.local_rope_base), i, dims));
  return table;
}

}  // namespace

std::vector<double> rope_frequencies(const Hyperparameters& hyper, std::span<const float> factors) {
  std::vector<double> out(std::size_t(hyper.rope_dims / 2));
  for (std::size_t i = 0; i < out.size(); ++i) {
    const double own = unscaled_share(hyper, i);
    const double factor = i < factors.size() ? double(factors[i]) : 1.0;
    out[i] = frequency(double(hyper.rope_base), i, hyper.rope_dims) *
             (own + (1 - own) * double(hyper.rope_scale)) / factor;
  }
  return out;
}

std::vector<RopeTable> rope_tables(const Hyperparameters& hyper, std::span<const float> factors) {
  std::vector<RopeTable> out = {{rope_frequencies(hyper, factors), hyper.rope_magnitude}};
  if (hyper.local_rope_base > 0) out.push_back(local_table(hyper));
  return out;
}

std::int64_t most_rope_pairs(const Hyperparameters& hyper) {
  return std::max(hyper.rope_dims, hyper.local_rope_dims) / 2;
}

float temperature_at(const Hyperparameters& hyper, TokenCount position) {
  const double steps = std::floor((double(position) + double(hyper.temperature_offset)) /
                                  double(hyper.temperature_tokens));
  return float(1 + double(hyper.temperature) * std::log1p(steps));
}

Rope::Rope(RopePairs pairs, RopeTable table) : layout_(pairs), table_(std::move(table)) {}

void Rope::angles(TokenCount position, std::span<float> out) const {
  const auto magnitude = double(table_.magnitude);
  for (std::size_t i = 0; i < pairs(); ++i) {
    const double angle = double(position) * table_.frequencies[i];
    out[2 * i] = float(magnitude * std::cos(angle));
    out[2 * i + 1] = float(magnitude * std::sin(angle));
  }
}

void Rope::rotate(std::span<const float> angles, float* head) const {
  const bool neox = layout_ == RopePairs::kNeox;
  const std::size_t n = pairs();
  for (std::size_t i = 0; i < n; ++i) {
    float& a = neox ? head[i] : head[2 * i];
    float& b = neox ? head[i + n] : head[2 * i + 1];
    const float c = angles[2 * i], s = angles[2 * i + 1], a0 = a;
    a = a0 * c - b * s;
    b = a0 * s + b * c;
  }
}

}  // namespace rigcast::engine
