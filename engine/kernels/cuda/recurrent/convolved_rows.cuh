#pragma once
// What mixers with states of heads share over rows together: the convolution before the states, and
// the norm with its gate behind them.

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/recurrent/mixer_rows.cuh"

namespace rigcast::engine::cuda {

/// Tokens of a convolution, and values of a row of a head's state: those of all published models.
inline constexpr int kMixerTaps = 4, kMixerState = 128;

struct ConvolvedRows {
  const float* from = nullptr;  // row r's channels are at from + r * stride
  std::int64_t stride = 0;
  int width = 0;                // channels
  const float* taps = nullptr;  // [width][kMixerTaps], the newest token's last
  const float* bias = nullptr;  // [width]; null: none
  LayerStates last{};           // where the last tokens' rows are kept
};

/// to[rows][width] = silu(the convolved channels of rows together). The rows before are read, and
/// keep_last() then keeps those of the step; no kernel between them needs what it overwrites.
void convolve_and_silu(const Stream& stream, const ConvolvedRows& convolved, const MixerRows& rows,
                       float* to);
void keep_last(const Stream& stream, const ConvolvedRows& convolved, const MixerRows& rows);

/// out = rms_norm(x) * weight * silu(gate), or the norm of x * silu(gate), of each group of a row.
struct GatedNorm {
  const float* x = nullptr;  // row r is at x + r * x_stride; likewise the gates
  std::int64_t x_stride = 0;
  const float* gates = nullptr;
  std::int64_t gates_stride = 0;
  const float* weight = nullptr;  // null: no norm
  bool one_weight = false;        // of all groups; otherwise each has its own
  bool gates_before = false;      // the norm
  int groups = 0, width = 0;      // values of a group, a multiple of 32
  float eps = 0;
};
void gated_norm(const Stream& stream, const GatedNorm& norm, int rows, const MixerOutputs& out);

}  // namespace rigcast::engine::cuda
