#include "engine/kernels/cpu/recurrent.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/recurrent.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rigcast::engine::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;

// Kernels of three and four tokens are those of published models.
void taps_of_tokens(std::span<const float* const> rows, const float* taps, std::span<float> out) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d), n = out.size(), kernel = rows.size();
  std::size_t i = 0;
  const auto row = [&](std::size_t t) { return hn::LoadU(d, rows[t] + i); };
  if (kernel == 4)
    for (; i + lanes <= n; i += lanes) {
      hn::Vec<Floats> a, b, c, e;
      hn::LoadInterleaved4(d, taps + 4 * i, a, b, c, e);
      const auto old = hn::MulAdd(b, row(1), hn::Mul(a, row(0)));
      hn::StoreU(hn::MulAdd(e, row(3), hn::MulAdd(c, row(2), old)), d, out.data() + i);
    }
  if (kernel == 3)
    for (; i + lanes <= n; i += lanes) {
      hn::Vec<Floats> a, b, c;
      hn::LoadInterleaved3(d, taps + 3 * i, a, b, c);
      const auto old = hn::MulAdd(b, row(1), hn::Mul(a, row(0)));
      hn::StoreU(hn::MulAdd(c, row(2), old), d, out.data() + i);
    }
  for (; i < n; ++i) {
    float sum = 0;
    for (std::size_t t = 0; t < kernel; ++t) sum += taps[i * kernel + t] * rows[t][i];
    out[i] = sum;
  }
}

// values[i] /= 1 + exp(-gate[i]); `gate` may be `values`.
void divide_by_gate(std::span<float> values, const float* gate) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d), n = values.size();
  const auto one = hn::Set(d, 1.0f);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto g = hn::Exp(d, hn::Neg(hn::LoadU(d, gate + i)));
    hn::StoreU(hn::Div(hn::LoadU(d, values.data() + i), hn::Add(one, g)), d, values.data() + i);
  }
  for (; i < n; ++i) values[i] /= 1.0f + std::exp(-gate[i]);
}

float dot(const float* a, const float* b, std::size_t n) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  auto sum = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  float all = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < n; ++i) all += a[i] * b[i];
  return all;
}

void scale_to_length(std::span<float> values, float eps, float scale) {
  const float length = std::sqrt(dot(values.data(), values.data(), values.size()));
  const float factor = scale / std::max(length, eps);
  for (float& v : values) v *= factor;
}

// A row for one token. The query's sum comes from the state before: S q + change (k q), so that the
// row is read once before it is written.
HWY_INLINE void row_of_delta(float* HWY_RESTRICT row, std::size_t n, const DeltaToken& t,
                             float key_query, std::size_t r) {
  const Floats d;
  const std::size_t lanes = hn::Lanes(d);
  auto known = hn::Zero(d), seen = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto s = hn::LoadU(d, row + i);
    known = hn::MulAdd(s, hn::LoadU(d, t.key + i), known);
    seen = hn::MulAdd(s, hn::LoadU(d, t.query + i), seen);
  }
  float known_sum = hn::GetLane(hn::SumOfLanes(d, known)),
        seen_sum = hn::GetLane(hn::SumOfLanes(d, seen));
  for (; i < n; ++i) {
    known_sum += row[i] * t.key[i];
    seen_sum += row[i] * t.query[i];
  }
  const float change = t.part * (t.value[r] - (t.replaces ? t.decay * known_sum : 0.0f));
  t.out[r] = t.decay * seen_sum + change * key_query;
  const auto decays = hn::Set(d, t.decay), changes = hn::Set(d, change);
  for (i = 0; i + lanes <= n; i += lanes)
    hn::StoreU(hn::MulAdd(changes, hn::LoadU(d, t.key + i), hn::Mul(decays, hn::LoadU(d, row + i))),
               d, row + i);
  for (; i < n; ++i) row[i] = t.decay * row[i] + change * t.key[i];
}

// A few rows at a time stay in the L1 cache for all tokens.
void delta_rows(float* state, std::int64_t rows, std::int64_t width,
                std::span<const DeltaToken> tokens) {
  constexpr std::size_t kAtOnce = 16;
  const auto n = std::size_t(width), all = std::size_t(rows);
  for (std::size_t first = 0; first < all; first += kAtOnce)
    for (const DeltaToken& t : tokens) {
      const float key_query = dot(t.key, t.query, n);
      const std::size_t end = std::min(all, first + kAtOnce);
      for (std::size_t r = first; r < end; ++r) row_of_delta(state + r * n, n, t, key_query, r);
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace rigcast::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rigcast::engine::cpu {

HWY_EXPORT(taps_of_tokens);
HWY_EXPORT(divide_by_gate);
HWY_EXPORT(scale_to_length);
HWY_EXPORT(delta_rows);

void convolve(std::span<const float* const> rows, const float* taps, std::span<float> out) {
  HWY_DYNAMIC_DISPATCH(taps_of_tokens)(rows, taps, out);
}
void silu(std::span<float> values) { HWY_DYNAMIC_DISPATCH(divide_by_gate)(values, values.data()); }
void sigmoid_multiply(std::span<float> values, const float* gate) {
  HWY_DYNAMIC_DISPATCH(divide_by_gate)(values, gate);
}
void normalise(std::span<float> values, float eps, float scale) {
  HWY_DYNAMIC_DISPATCH(scale_to_length)(values, eps, scale);
}
void delta_rule(float* state, std::int64_t rows, std::int64_t width,
                std::span<const DeltaToken> tokens) {
  HWY_DYNAMIC_DISPATCH(delta_rows)(state, rows, width, tokens);
}

}  // namespace rigcast::engine::cpu
#endif
