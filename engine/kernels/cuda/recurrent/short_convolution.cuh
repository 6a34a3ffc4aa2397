#pragma once
// A short convolution between two gates: out = c * (b * x, convolved over the tokens of a
// sequence).

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/recurrent/mixer_rows.cuh"

namespace rigcast::engine::cuda {

struct ShortConvolution {
  const float* mixed = nullptr;  // [rows][3][width]: b, c and x
  const float* taps = nullptr;   // [width][kernel], the newest token's last
  int width = 0;                 // a multiple of 32
  int kernel = 0;                // tokens
  LayerStates states{};
};

/// Of rows apart, and of rows together. Queue their work; throw CudaFailure.
void convolve_apart(const Stream& stream, const ShortConvolution& mixer, const MixerRows& rows,
                    const MixerOutputs& out);
void convolve_together(const Stream& stream, const ShortConvolution& mixer, const MixerRows& rows,
                       const MixerOutputs& out);

}  // namespace rigcast::engine::cuda
