#pragma once
// Device code: one warp computes a head of a new token in shared memory: bias, norm, RoPE, and
// quantization to the cache's type.

#include <cuda_fp16.h>

#include "engine/kernels/cuda/kv/new_tokens.cuh"

namespace rigcast::engine::cuda {

inline constexpr int kMaxHeadDim = 512;

/// The room for a head in kernels of heads of up to kDim elements.
template <int kDim>
inline constexpr int kHeadRoom = kDim <= 256 ? 256 : kMaxHeadDim;

/// The RoPE angles of a token's pairs that this lane rotates, of heads of up to kRoom elements.
template <int kRoom>
struct LaneRopeAngles {
  static constexpr int kCount = kRoom / 2 / 32;
  RopeAngle angle[kCount];

  __device__ LaneRopeAngles(const NewTokenInputs& p, int token, int lane) {
    const int pairs = p.rope_dims / 2;
#pragma unroll
    for (int k = 0; k < kCount; ++k)
      if (lane + 32 * k < pairs)
        angle[k] = p.rope_cos_sin[std::int64_t(token) * pairs + lane + 32 * k];
  }
};

__device__ inline float warp_sum(float v) {
  for (int lanes = 16; lanes > 0; lanes /= 2) v += __shfl_xor_sync(~0u, v, lanes);
  return v;
}

// RMS norm of a head in shared memory, by one warp. No weights: each is 1.
__device__ inline void normalise(float* head, const float* weight, float eps, int dim, int lane) {
  float squares = 0;
  for (int i = lane; i < dim; i += 32) squares += head[i] * head[i];
  const float scale = 1.0f / sqrtf(warp_sum(squares) / float(dim) + eps);
  for (int i = lane; i < dim; i += 32) head[i] = head[i] * scale * (weight ? weight[i] : 1.0f);
  __syncwarp();
}

// Subtracts the mean of a head in shared memory, by one warp.
__device__ inline void subtract_mean(float* head, int dim, int lane) {
  float sum = 0;
  for (int i = lane; i < dim; i += 32) sum += head[i];
  const float mean = warp_sum(sum) / float(dim);
  for (int i = lane; i < dim; i += 32) head[i] -= mean;
  __syncwarp();
}

template <int kRoom>
__device__ inline void rotate(float* head, const LaneRopeAngles<kRoom>& rope_cos_sin,
                              const NewTokenInputs& p, int lane) {
  const int pairs = p.rope_dims / 2;
  const bool neox = p.pairs == RopePairs::kNeox;
#pragma unroll
  for (int k = 0; k < LaneRopeAngles<kRoom>::kCount; ++k) {
    const int i = lane + 32 * k;
    if (i >= pairs) break;
    float& a = head[neox ? i : 2 * i];
    float& b = head[neox ? i + pairs : 2 * i + 1];
    const float a0 = a, b0 = b;
    a = a0 * rope_cos_sin.angle[k].cos - b0 * rope_cos_sin.angle[k].sin;
    b = a0 * rope_cos_sin.angle[k].sin + b0 * rope_cos_sin.angle[k].cos;
  }
  __syncwarp();
}

__device__ inline void put_fp16(const float* head, float scale, int dim, __half* out, int lane) {
  for (int i = 4 * lane; i < dim; i += 128) {
    const float4 x = *reinterpret_cast<const float4*>(head + i);
    const __half2 low = __floats2half2_rn(x.x * scale, x.y * scale);
    const __half2 high = __floats2half2_rn(x.z * scale, x.w * scale);
    *reinterpret_cast<uint2*>(out + i) = make_uint2(*reinterpret_cast<const std::uint32_t*>(&low),
                                                    *reinterpret_cast<const std::uint32_t*>(&high));
  }
}

// The value with the largest magnitude over the lanes; the first of equal ones.
__device__ inline float largest_of(float x) {
  float largest = fabsf(x);
  for (int lanes = 16; lanes > 0; lanes /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
  const unsigned where = __ballot_sync(~0u, fabsf(x) == largest);
  return __shfl_sync(~0u, x, max(0, __ffs(int(where)) - 1));
}

__device__ inline __half finite_half(float v) {
  return __float2half_rn(fminf(fmaxf(v, -65504.0f), 65504.0f));
}

// Quotients are double: in F32, rounding could create ties.
__device__ inline int nearest_level(float x, __half step, double low, double high) {
  const double d = double(__half2float(step));
  return d == 0 ? 0 : int(fmin(fmax(rint(double(x) / d), low), high));
}

__device__ inline void put_q8_0(const float* head, int dim, std::byte* out, int lane) {
  for (int i = 0; i < dim; i += 32, out += 34) {
    const float x = head[i + lane];
    const __half d = finite_half(__fdiv_rn(fabsf(largest_of(x)), 127.0f));
    if (lane == 0) *reinterpret_cast<__half*>(out) = d;
    out[2 + lane] = std::byte(nearest_level(x, d, -127, 127));
  }
}

__device__ inline void put_q4_0(const float* head, int dim, std::byte* out, int lane) {
  for (int i = 0; i < dim; i += 32, out += 18) {
    const float x = head[i + lane];
    const __half d = finite_half(largest_of(x) / -8.0f);
    if (lane == 0) *reinterpret_cast<__half*>(out) = d;
    const int level = nearest_level(x, d, -8, 7) + 8;
    const int upper = __shfl_down_sync(~0u, level, 16);
    if (lane < 16) out[2 + lane] = std::byte(level | upper << 4);
  }
}

/// Writes a head as a row of the cache.
__device__ inline void put_row(QuantFormat type, const float* head, int dim, std::byte* out,
                               int lane) {
  if (type == QuantFormat::kF16)
    put_fp16(head, 1.0f, dim, reinterpret_cast<__half*>(out), lane);
  else if (type == QuantFormat::kQ8_0)
    put_q8_0(head, dim, out, lane);
  else
    put_q4_0(head, dim, out, lane);
}

// Four values of a projected head, from `column` on.
__device__ inline float4 projected_four(const ProjectedRows& from, int token, int head, int dim,
                                        int column) {
  const float* row = from.rows + token * from.stride + head * dim;
  const float4 x = __ldcs(reinterpret_cast<const float4*>(row + column));
  if (!from.bias) return x;
  const float4 b = *reinterpret_cast<const float4*>(from.bias + head * dim + column);
  return make_float4(x.x + b.x, x.y + b.y, x.z + b.z, x.w + b.w);
}

__device__ inline void load_head(const ProjectedRows& from, int token, int head, int dim, float* to,
                                 int lane) {
  for (int i = 4 * lane; i < dim; i += 128)
    *reinterpret_cast<float4*>(to + i) = projected_four(from, token, head, dim, i);
  __syncwarp();
}

// The same in two steps, so that a warp has the loads of several heads under way.
template <int kDim>
struct LoadedHead {
  static constexpr int kFours = (kDim + 127) / 128;
  float4 x[kFours];

  __device__ void load(const ProjectedRows& from, int token, int head, int dim, int lane) {
#pragma unroll
    for (int k = 0; k < kFours; ++k)
      if (const int i = 4 * lane + 128 * k; i < dim)
        x[k] = projected_four(from, token, head, dim, i);
  }
  __device__ void put(float* to, int dim, int lane) const {
#pragma unroll
    for (int k = 0; k < kFours; ++k)
      if (const int i = 4 * lane + 128 * k; i < dim) *reinterpret_cast<float4*>(to + i) = x[k];
    __syncwarp();
  }
};

enum class HeadKind { kQuery, kKey, kValue };

/// Computes the heads of one token as the model defines them, in `own` [dim].
template <int kRoom>
struct NewHeads {
  const NewTokenInputs& p;
  const LaneRopeAngles<kRoom>& rope_cos_sin;
  int token, dim, lane;
  float* own;

  __device__ const ProjectedRows& projected(HeadKind kind) const {
    return kind == HeadKind::kQuery ? p.q : kind == HeadKind::kKey ? p.k : p.v;
  }
  __device__ void compute(HeadKind kind, int head) const {
    load_head(projected(kind), token, head, dim, own, lane);
    finish(kind, head);
  }
  /// For a head that is in `own` as it was projected.
  __device__ void finish(HeadKind kind, int head) const {
    const bool is_value = kind == HeadKind::kValue;
    const float* const weight = kind == HeadKind::kQuery ? p.q_norm
                                : kind == HeadKind::kKey ? p.k_norm
                                                         : nullptr;
    const bool is_normed = weight || (is_value ? p.plain_value_norms : p.plain_norms);
#pragma unroll 1  // one copy of each part, in whatever order
    for (int part = 0; part < 2; ++part) {
      if ((part == 0) != p.norms_rotated) {
        if (is_normed) norm(weight, head);
      } else if (!is_value) {
        rotate(own, rope_cos_sin, p, lane);
      }
    }
  }

 private:
  __device__ void norm(const float* weight, int head) const {
    if (p.layer_norms && weight) {
      subtract_mean(own, dim, lane);
      weight += head * dim;
    }
    normalise(own, weight, p.norm_eps, dim, lane);
  }
};

}  // namespace rigcast::engine::cuda
