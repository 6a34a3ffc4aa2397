#pragma once
// Quantizes activations to 8-bit integers (Q8_1), with or without a norm before it.

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/weights/matrix.cuh"

namespace rigcast::engine::cuda {

/// The widest row that one thread block holds in registers.
inline constexpr int kMaxColumns = 65536;

/// The rows of `count` tokens, one after the other.
struct Tokens {
  const float* x = nullptr;  // [count][columns], aligned to 16 bytes
  int columns = 0;           // a multiple of 32, up to kMaxColumns
  int count = 1;
};

/// x / sqrt(mean square of x + eps) * weight, or, where it subtracts the mean,
/// (x - mean of x) / sqrt(variance of x + eps) * weight + bias.
struct Norm {
  const float* weight = nullptr;  // [columns], aligned to 16 bytes; read before inputs are there
  float eps = 0;
  bool subtracts_mean = false;
  const float* bias = nullptr;  // as `weight`; null: none. Only where the mean is subtracted
};

/// What a branch of a layer, attention or FFN, adds to the hidden state.
struct BranchSum {
  float* hidden = nullptr;        // [tokens][width]
  const float* branch = nullptr;  // [tokens][width]; null: nothing is added
  Norm norm{};                    // of the branch, of squares alone; weight null: none
  float factor = 1;               // behind the norm
  float scale = 1;                // of the sum
};

/// The norm of each row, quantized to `out` and, where `also` is given, as floats to
/// also[count][columns]. out.q may be null: then only `also` is written. `added`: what
/// add_branch() adds to x before, in the same kernel; its hidden is tokens.x, its branch may be
/// `also`.
void norm_and_quantize(const Tokens& tokens, const Norm& norm, const QuantizedActivations& out,
                       float* also, const Stream& stream, Start start, const BranchSum& added = {});

/// Quantizes every 32 values with their own scale = max |x| / 127. NaN becomes 0, and so do 32
/// values of which one is infinite. `added`: as of norm_and_quantize().
void quantize_tokens(const Tokens& tokens, const QuantizedActivations& out, const Stream& stream,
                     Start start, const BranchSum& added = {});

}  // namespace rigcast::engine::cuda
