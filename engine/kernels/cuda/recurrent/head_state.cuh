#pragma once
// Device code: a row of a head's state in the registers of a few lanes.

#include "engine/kernels/cuda/recurrent/convolved_rows.cuh"

namespace rigcast::engine::cuda {

/// Neighbouring lanes that share a row of a state, and units of four values that each has of it.
inline constexpr int kStateLanes = 8, kLaneUnits = kMixerState / kStateLanes / 4;

/// A lane's part of a vector as wide as a state's rows: every eighth unit of four values.
struct LaneVector {
  float4 unit[kLaneUnits];

  __device__ __forceinline__ LaneVector(const float* from, int lane) {
#pragma unroll
    for (int i = 0; i < kLaneUnits; ++i)
      unit[i] = *reinterpret_cast<const float4*>(from + 4 * (lane + kStateLanes * i));
  }
  __device__ __forceinline__ float squares() const {
    float sum = 0;
#pragma unroll
    for (const float4& u : unit) sum += u.x * u.x + u.y * u.y + u.z * u.z + u.w * u.w;
    return sum;
  }
  /// Four sums at a time, which do not wait for one another.
  __device__ __forceinline__ float dot(const float4 (&x)[kLaneUnits]) const {
    float4 sum = make_float4(0, 0, 0, 0);
#pragma unroll
    for (int i = 0; i < kLaneUnits; ++i) {
      sum.x += unit[i].x * x[i].x;
      sum.y += unit[i].y * x[i].y;
      sum.z += unit[i].z * x[i].z;
      sum.w += unit[i].w * x[i].w;
    }
    return (sum.x + sum.y) + (sum.z + sum.w);
  }
};

/// A lane's part of one row. All lanes of a warp call these together.
class HeadState {
 public:
  /// `seen`: the sequence has tokens before; otherwise the state is empty.
  __device__ __forceinline__ HeadState(float* state, int row, int lane, bool seen)
      : place_(reinterpret_cast<float4*>(state) + row * (kMixerState / 4) + lane) {
#pragma unroll
    for (int i = 0; i < kLaneUnits; ++i)
      s_[i] = seen ? place_[kStateLanes * i] : make_float4(0, 0, 0, 0);
  }

  /// The product of the whole row and a vector, in all of its lanes.
  __device__ __forceinline__ float times(const LaneVector& x) const {
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kLaneUnits; ++i)
      sum += s_[i].x * x.unit[i].x + s_[i].y * x.unit[i].y + s_[i].z * x.unit[i].z +
             s_[i].w * x.unit[i].w;
    return sum_over_lanes(sum, kStateLanes);
  }
  /// The same of a scan's tokens, where each waits for the one before: in a shorter chain.
  __device__ __forceinline__ float scan_times(const LaneVector& x) const {
    return sum_over_lanes(scan_part(x), kStateLanes);
  }
  /// This lane's part of it.
  __device__ __forceinline__ float scan_part(const LaneVector& x) const { return x.dot(s_); }
  /// row = decay * row + factor * x
  __device__ __forceinline__ void update(float decay, float factor, const LaneVector& x) {
#pragma unroll
    for (int i = 0; i < kLaneUnits; ++i) {
      s_[i].x = decay * s_[i].x + factor * x.unit[i].x;
      s_[i].y = decay * s_[i].y + factor * x.unit[i].y;
      s_[i].z = decay * s_[i].z + factor * x.unit[i].z;
      s_[i].w = decay * s_[i].w + factor * x.unit[i].w;
    }
  }
  __device__ __forceinline__ void store() const {
#pragma unroll
    for (int i = 0; i < kLaneUnits; ++i) place_[kStateLanes * i] = s_[i];
  }

 private:
  float4* place_;
  float4 s_[kLaneUnits];
};

}  // namespace rigcast::engine::cuda
