#include "engine/kernels/cpu/elementwise.hpp"

#include <cmath>

#include "engine/kernels/ref/quantize.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/kernels/cpu/elementwise.cpp"
#include <hwy/foreach_target.h>
// after foreach_target
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace rigcast::engine::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void norm(std::span<const float> x, std::span<const float> weight, float eps, float* out) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), n = x.size();
  auto squares = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, x.data() + i);
    squares = hn::MulAdd(v, v, squares);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, squares));
  for (; i < n; ++i) sum += x[i] * x[i];
  const float scale = 1.0f / std::sqrt(sum / float(n) + eps);
  const auto scales = hn::Set(d, scale);
  for (i = 0; i + lanes <= n; i += lanes) {
    const auto v = hn::Mul(hn::LoadU(d, x.data() + i), scales);
    hn::StoreU(hn::Mul(v, hn::LoadU(d, weight.data() + i)), d, out + i);
  }
  for (; i < n; ++i) out[i] = x[i] * scale * weight[i];
}

void silu(std::span<float> gate, const float* up) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), n = gate.size();
  const auto one = hn::Set(d, 1.0f);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto g = hn::LoadU(d, gate.data() + i);
    const auto s = hn::Div(g, hn::Add(one, hn::Exp(d, hn::Neg(g))));
    hn::StoreU(hn::Mul(s, hn::LoadU(d, up + i)), d, gate.data() + i);
  }
  for (; i < n; ++i) gate[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

void add(std::span<float> to, const float* from, float factor) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), n = to.size();
  const auto factors = hn::Set(d, factor);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::MulAdd(hn::LoadU(d, from + i), factors, hn::LoadU(d, to.data() + i)), d,
               to.data() + i);
  for (; i < n; ++i) to[i] += factor * from[i];
}

void to_fp16(std::span<const float> values, std::byte* out) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> half;
  const std::size_t lanes = hn::Lanes(d), n = values.size();
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes)
    hn::StoreU(hn::DemoteTo(half, hn::LoadU(d, values.data() + i)), half,
               reinterpret_cast<hwy::float16_t*>(out) + i);
  ref::quantize(QuantFormat::kF16, values.subspan(i), out + 2 * i);
}

}  // namespace HWY_NAMESPACE
}  // namespace rigcast::engine::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace rigcast::engine::cpu {

HWY_EXPORT(norm);
HWY_EXPORT(silu);
HWY_EXPORT(add);
HWY_EXPORT(to_fp16);

void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, float* out) {
  HWY_DYNAMIC_DISPATCH(norm)(x, weight, eps, out);
}
void silu_multiply(std::span<float> gate, const float* up) { HWY_DYNAMIC_DISPATCH(silu)(gate, up); }
void add_scaled(std::span<float> to, const float* from, float factor) {
  HWY_DYNAMIC_DISPATCH(add)(to, from, factor);
}
void to_fp16(std::span<const float> values, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(to_fp16)(values, out);
}

}  // namespace rigcast::engine::cpu
#endif
