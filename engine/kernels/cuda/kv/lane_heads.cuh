#pragma once
// Device code: heads of a new token in registers, several in a warp: bias, norm and RoPE. What the
// token's projections do not decide is fetched before they are there.

#include <cuda_fp16.h>

#include "engine/cuda/prefetch.cuh"
#include "engine/kernels/cuda/kv/new_tokens.cuh"
#include "engine/kernels/cuda/kv/rope_device.cuh"

namespace rigcast::engine::cuda {

enum class HeadKind { kQuery, kKey, kValue };

/// How the lanes of a warp share heads of up to kDim elements: kLanes neighbours hold one, each
/// kFours times four elements that follow each other.
template <int kDim>
struct HeadLanes {
  static constexpr int kLanes = kDim <= 128 ? 8 : kDim / 16;
  static constexpr int kHeads = 32 / kLanes;
  static constexpr int kStride = 4 * kLanes;  // elements from a lane's four to its next
  static constexpr int kFours = kDim / kStride;
};

/// This lane's part of a head. All lanes of a warp call the functions together, each for its own
/// head; `own` is shared memory for the head's kDim elements, aligned to 16 bytes. Elements past
/// the head's end are zeros.
template <int kDim>
class LaneHead {
  using Lanes = HeadLanes<kDim>;

 public:
  __device__ LaneHead(const NewTokenInputs& inputs, int dim, int lane, float* own)
      : p_(inputs), dim_(dim), first_(lane % Lanes::kLanes * 4), own_(own) {}

  /// Fetches what no earlier kernel may still be writing: a norm's weights, and RoPE's angles.
  __device__ void prepare(HeadKind kind, int head) {
    const bool query = kind == HeadKind::kQuery, value = kind == HeadKind::kValue;
    from_ = (query ? p_.q.rows : value ? p_.v.rows : p_.k.rows) + head * dim_;
    bias_ = query ? p_.q.bias : value ? p_.v.bias : p_.k.bias;
    if (bias_) bias_ += head * dim_;
    const float* weight = query ? p_.q_norm : value ? nullptr : p_.k_norm;
    normed_ = weight || (value ? p_.plain_value_norms : p_.plain_norms);
    centred_ = weight && p_.layer_norms;
    if (centred_) weight += head * dim_;
#pragma unroll
    for (int k = 0; k < Lanes::kFours; ++k) {
      float4 w = make_float4(1, 1, 1, 1);
      if (weight && element(k) < dim_) w = *reinterpret_cast<const float4*>(weight + element(k));
      put(w, weight_[k]);
      if (bias_ && element(k) < dim_) prefetch(bias_ + element(k));
    }
    if (p_.rope_dims > 0) prepare_angles(!value);
  }

  /// Loads the head as it was projected; zeros if not `there`.
  __device__ void load(bool there) {
#pragma unroll
    for (int k = 0; k < Lanes::kFours; ++k) {
      float4 x = make_float4(0, 0, 0, 0);
      if (there && element(k) < dim_)
        x = __ldcg(reinterpret_cast<const float4*>(from_ + element(k)));
      put(x, x_[k]);
    }
    if (!p_.q.bias && !p_.k.bias && !p_.v.bias) return;
#pragma unroll
    for (int k = 0; k < Lanes::kFours; ++k) {
      float4 x = make_float4(0, 0, 0, 0);
      if (bias_ && element(k) < dim_) x = *reinterpret_cast<const float4*>(bias_ + element(k));
      x_[k][0] += x.x, x_[k][1] += x.y, x_[k][2] += x.z, x_[k][3] += x.w;
    }
  }

  __device__ void compute() {
    const bool norms = p_.q_norm || p_.k_norm || p_.plain_norms || p_.plain_value_norms;
#pragma unroll 1  // one copy of each part, in whatever order
    for (int part = 0; part < 2; ++part) {
      if ((part == 0) != p_.norms_rotated) {
        if (norms) norm();
      } else if (p_.rope_dims > 0) {
        rotate();
      }
    }
  }

  /// Writes the lane's part times `scale` as F16 to a row of kDim, aligned to 8 bytes.
  __device__ void put_fp16(float scale, __half* row) const {
#pragma unroll
    for (int k = 0; k < Lanes::kFours; ++k)
      *reinterpret_cast<uint2*>(row + element(k)) = rounded(k, scale);
  }
  /// The same to a row of as many elements as the head has.
  __device__ void store_fp16(float scale, __half* row) const {
#pragma unroll
    for (int k = 0; k < Lanes::kFours; ++k)
      if (element(k) < dim_) *reinterpret_cast<uint2*>(row + element(k)) = rounded(k, scale);
  }
  /// Writes it to the shared memory.
  __device__ void show() const {
#pragma unroll
    for (int k = 0; k < Lanes::kFours; ++k)
      *reinterpret_cast<float4*>(own_ + element(k)) =
          make_float4(x_[k][0], x_[k][1], x_[k][2], x_[k][3]);
  }

 private:
  __device__ int element(int k) const { return first_ + k * Lanes::kStride; }
  __device__ uint2 rounded(int k, float scale) const {
    const __half2 low = __floats2half2_rn(x_[k][0] * scale, x_[k][1] * scale);
    const __half2 high = __floats2half2_rn(x_[k][2] * scale, x_[k][3] * scale);
    return make_uint2(*reinterpret_cast<const std::uint32_t*>(&low),
                      *reinterpret_cast<const std::uint32_t*>(&high));
  }
  static __device__ void put(const float4& from, float (&to)[4]) {
    to[0] = from.x, to[1] = from.y, to[2] = from.z, to[3] = from.w;
  }
  static __device__ float sum_of_head(float v) {
#pragma unroll
    for (int lanes = Lanes::kLanes / 2; lanes > 0; lanes /= 2) v += __shfl_xor_sync(~0u, v, lanes);
    return v;
  }

  // x turns into x cos + y sin, where y is the other element of its pair. An element that is not
  // rotated has the angle 0.
  __device__ void prepare_angles(bool rotated) {
    const int pairs = p_.rope_dims / 2;
    const bool neox = p_.pairs == RopePairs::kNeox;
#pragma unroll
    for (int k = 0; k < Lanes::kFours; ++k) {
      const int at = element(k);
      const bool behind = neox && at >= pairs;
      const RopeAngle* from = p_.rope_cos_sin + (neox ? behind ? at - pairs : at : at / 2);
      RopeAngle angles[4];
      if (whole_fours()) {
        if (rotated && at < p_.rope_dims) {
          angles[0] = from[0], angles[1] = from[neox ? 1 : 0];
          angles[2] = from[neox ? 2 : 1], angles[3] = from[neox ? 3 : 1];
        }
#pragma unroll
        for (int j = 0; j < 4; ++j) put_angle(k, j, angles[j], neox ? behind : j % 2 == 1);
      } else {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          const bool second = neox ? at + j >= pairs : j % 2 == 1;
          if (rotated && at + j < p_.rope_dims)
            angles[j] = p_.rope_cos_sin[neox ? at + j - (second ? pairs : 0) : (at + j) / 2];
          put_angle(k, j, angles[j], second);
        }
      }
    }
  }
  __device__ void put_angle(int k, int j, const RopeAngle& angle, bool second) {
    cos_[k][j] = angle.cos;
    sin_[k][j] = second ? angle.sin : -angle.sin;
  }
  // Whether four elements are all first ones of their pairs, all second ones or not rotated, and
  // their partners four that follow each other.
  __device__ bool whole_fours() const { return p_.rope_dims % 8 == 0; }

  __device__ void norm() {
    const float inverse = 1.0f / float(dim_);
    if (p_.layer_norms) {
      float sum = 0;
#pragma unroll
      for (int i = 0; i < 4 * Lanes::kFours; ++i) sum += x_[i / 4][i % 4];
      sum = sum_of_head(sum);
      const float mean = centred_ ? sum * inverse : 0;
#pragma unroll
      for (int i = 0; i < 4 * Lanes::kFours; ++i)
        if (element(i / 4) < dim_) x_[i / 4][i % 4] -= mean;
    }
    float squares = 0;
#pragma unroll
    for (int i = 0; i < 4 * Lanes::kFours; ++i) squares += x_[i / 4][i % 4] * x_[i / 4][i % 4];
    const float mean_square = sum_of_head(squares) * inverse;
    const float scale = normed_ ? __frsqrt_rn(mean_square + p_.norm_eps) : 1.0f;
#pragma unroll
    for (int i = 0; i < 4 * Lanes::kFours; ++i) x_[i / 4][i % 4] *= scale * weight_[i / 4][i % 4];
  }

  __device__ void rotate() {
    if (p_.pairs != RopePairs::kNeox) {
#pragma unroll
      for (int k = 0; k < Lanes::kFours; ++k) {
        const float y[4] = {x_[k][1], x_[k][0], x_[k][3], x_[k][2]};
        turn(k, y);
      }
      return;
    }
    const int pairs = p_.rope_dims / 2;
    const auto partner = [&](int at) {
      return at < pairs ? at + pairs : at < 2 * pairs ? at - pairs : at;
    };
    show();
    __syncwarp();
#pragma unroll
    for (int k = 0; k < Lanes::kFours; ++k) {
      float y[4];
      if (whole_fours()) {
        put(*reinterpret_cast<const float4*>(own_ + partner(element(k))), y);
      } else {  // partners of four elements may be in two fours
#pragma unroll
        for (int j = 0; j < 4; ++j) y[j] = own_[partner(element(k) + j)];
      }
      turn(k, y);
    }
    __syncwarp();
  }
  __device__ void turn(int k, const float (&y)[4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) x_[k][j] = x_[k][j] * cos_[k][j] + y[j] * sin_[k][j];
  }

  const NewTokenInputs& p_;
  int dim_, first_;
  float* own_;
  const float *from_ = nullptr, *bias_ = nullptr;
  bool normed_ = false, centred_ = false;
  float x_[Lanes::kFours][4], weight_[Lanes::kFours][4];
  float cos_[Lanes::kFours][4], sin_[Lanes::kFours][4];
};

}  // namespace rigcast::engine::cuda
