#include "engine/kernels/cpu/elementwise.hpp"

#include <algorithm>
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

void mean_norm(std::span<const float> x, std::span<const float> weight, std::span<const float> bias,
               float eps, float* out) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), n = x.size();
  auto sums = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) sums = hn::Add(sums, hn::LoadU(d, x.data() + i));
  float sum = hn::GetLane(hn::SumOfLanes(d, sums));
  for (; i < n; ++i) sum += x[i];
  const float mean = sum / float(n);
  const auto means = hn::Set(d, mean);
  auto squares = hn::Zero(d);
  for (i = 0; i + lanes <= n; i += lanes) {
    const auto v = hn::Sub(hn::LoadU(d, x.data() + i), means);
    squares = hn::MulAdd(v, v, squares);
  }
  float square = hn::GetLane(hn::SumOfLanes(d, squares));
  for (; i < n; ++i) square += (x[i] - mean) * (x[i] - mean);
  const float scale = 1.0f / std::sqrt(square / float(n) + eps);
  const auto scales = hn::Set(d, scale);
  const bool biased = !bias.empty();
  for (i = 0; i + lanes <= n; i += lanes) {
    const auto v = hn::Mul(hn::Sub(hn::LoadU(d, x.data() + i), means), scales);
    const auto w = hn::LoadU(d, weight.data() + i);
    const auto b = biased ? hn::LoadU(d, bias.data() + i) : hn::Zero(d);
    hn::StoreU(hn::MulAdd(v, w, b), d, out + i);
  }
  for (; i < n; ++i) out[i] = (x[i] - mean) * scale * weight[i] + (biased ? bias[i] : 0.0f);
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

void gelu(std::span<float> gate, const float* up) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), n = gate.size();
  constexpr float kSqrt2OverPi = 0.7978845608028654f, kCubic = 0.044715f;
  const auto one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  const auto root = hn::Set(d, kSqrt2OverPi), cubic = hn::Set(d, kCubic);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto g = hn::LoadU(d, gate.data() + i);
    const auto inner = hn::Mul(hn::Mul(root, g), hn::MulAdd(cubic, hn::Mul(g, g), one));
    const auto s = hn::Mul(hn::Mul(half, g), hn::Add(one, hn::Tanh(d, inner)));
    hn::StoreU(hn::Mul(s, hn::LoadU(d, up + i)), d, gate.data() + i);
  }
  for (; i < n; ++i) {
    const float g = gate[i], inner = kSqrt2OverPi * g * (1.0f + kCubic * g * g);
    gate[i] = 0.5f * g * (1.0f + std::tanh(inner)) * up[i];
  }
}

void gelu_alone(std::span<float> values) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), n = values.size();
  constexpr float kSqrt2OverPi = 0.7978845608028654f, kCubic = 0.044715f;
  const auto one = hn::Set(d, 1.0f), half = hn::Set(d, 0.5f);
  const auto root = hn::Set(d, kSqrt2OverPi), cubic = hn::Set(d, kCubic);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, values.data() + i);
    const auto inner = hn::Mul(hn::Mul(root, v), hn::MulAdd(cubic, hn::Mul(v, v), one));
    hn::StoreU(hn::Mul(hn::Mul(half, v), hn::Add(one, hn::Tanh(d, inner))), d, values.data() + i);
  }
  for (; i < n; ++i) {
    const float v = values[i], inner = kSqrt2OverPi * v * (1.0f + kCubic * v * v);
    values[i] = 0.5f * v * (1.0f + std::tanh(inner));
  }
}

void xielu(std::span<float> values, float positive, float negative, float beta, float eps) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), n = values.size();
  const auto up = hn::Set(d, positive), down = hn::Set(d, negative), line = hn::Set(d, beta);
  const auto most = hn::Set(d, eps), zero = hn::Zero(d);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto v = hn::LoadU(d, values.data() + i);
    const auto linear = hn::Mul(line, v);
    const auto above = hn::MulAdd(hn::Mul(up, v), v, linear);
    const auto below = hn::MulAdd(down, hn::Sub(hn::Expm1(d, hn::Min(v, most)), v), linear);
    hn::StoreU(hn::IfThenElse(hn::Gt(v, zero), above, below), d, values.data() + i);
  }
  for (; i < n; ++i) {
    const float v = values[i];
    values[i] = v > 0 ? positive * v * v + beta * v
                      : negative * (std::expm1(std::min(v, eps)) - v) + beta * v;
  }
}

void swiglu_clamped(std::span<float> gate, const float* up) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), n = gate.size();
  constexpr float kLimit = 7.0f, kSteepness = 1.702f;
  const auto one = hn::Set(d, 1.0f), steep = hn::Set(d, -kSteepness);
  const auto most = hn::Set(d, kLimit), lowest = hn::Set(d, -kLimit);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const auto g = hn::Min(hn::LoadU(d, gate.data() + i), most);
    const auto u = hn::Max(hn::Min(hn::LoadU(d, up + i), most), lowest);
    const auto s = hn::Div(g, hn::Add(one, hn::Exp(d, hn::Mul(steep, g))));
    hn::StoreU(hn::Mul(s, hn::Add(u, one)), d, gate.data() + i);
  }
  for (; i < n; ++i) {
    const float g = std::min(gate[i], kLimit), u = std::clamp(up[i], -kLimit, kLimit);
    gate[i] = (u + 1.0f) * g / (1.0f + std::exp(-kSteepness * g));
  }
}

void cap(std::span<float> values, float scale, float bound) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d), n = values.size();
  const bool bounded = bound > 0;
  const float inner = bounded ? scale / bound : scale;
  const auto inners = hn::Set(d, inner), bounds = hn::Set(d, bound);
  std::size_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    auto v = hn::Mul(hn::LoadU(d, values.data() + i), inners);
    if (bounded) v = hn::Mul(bounds, hn::Tanh(d, v));
    hn::StoreU(v, d, values.data() + i);
  }
  for (; i < n; ++i) values[i] = bounded ? bound * std::tanh(values[i] * inner) : values[i] * inner;
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
HWY_EXPORT(mean_norm);
HWY_EXPORT(silu);
HWY_EXPORT(gelu);
HWY_EXPORT(gelu_alone);
HWY_EXPORT(xielu);
HWY_EXPORT(swiglu_clamped);
HWY_EXPORT(cap);
HWY_EXPORT(add);
HWY_EXPORT(to_fp16);

void rms_norm(std::span<const float> x, std::span<const float> weight, float eps, float* out) {
  HWY_DYNAMIC_DISPATCH(norm)(x, weight, eps, out);
}
void layer_norm(std::span<const float> x, std::span<const float> weight,
                std::span<const float> bias, float eps, float* out) {
  HWY_DYNAMIC_DISPATCH(mean_norm)(x, weight, bias, eps, out);
}
void gelu(std::span<float> values) { HWY_DYNAMIC_DISPATCH(gelu_alone)(values); }
void xielu(std::span<float> values, float positive, float negative, float beta, float eps) {
  HWY_DYNAMIC_DISPATCH(xielu)(values, positive, negative, beta, eps);
}
void squared_relu(std::span<float> values) {
  for (float& x : values) x = x > 0 ? x * x : 0;
}
void silu_multiply(std::span<float> gate, const float* up) { HWY_DYNAMIC_DISPATCH(silu)(gate, up); }
void gelu_multiply(std::span<float> gate, const float* up) { HWY_DYNAMIC_DISPATCH(gelu)(gate, up); }
void clamped_swiglu(std::span<float> gate, const float* up) {
  HWY_DYNAMIC_DISPATCH(swiglu_clamped)(gate, up);
}
void scale_and_cap(std::span<float> values, float scale, float bound) {
  HWY_DYNAMIC_DISPATCH(cap)(values, scale, bound);
}
void add_scaled(std::span<float> to, const float* from, float factor) {
  HWY_DYNAMIC_DISPATCH(add)(to, from, factor);
}
void to_fp16(std::span<const float> values, std::byte* out) {
  HWY_DYNAMIC_DISPATCH(to_fp16)(values, out);
}

}  // namespace rigcast::engine::cpu
#endif
