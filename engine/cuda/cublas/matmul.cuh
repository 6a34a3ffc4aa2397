#pragma once
// Products of weights with a batch's activations on tensor cores, for prompts.

#include <cuda_fp16.h>

#include <cstddef>
#include <span>

#include "core/scenario/engine_sizes.hpp"
#include "engine/cuda/cublas/cublas.cuh"
#include "engine/cuda/memory/vram.cuh"
#include "engine/cuda/value_type.cuh"

namespace rigcast::engine::cuda {

/// Queues products on one stream, one after the other.
class Matmul {
 public:
  /// `stream` must outlive it. Allocates its workspace from `vram`. Throws MachineError if the
  /// library is missing or does not start, or if there is no memory for the workspace.
  Matmul(Vram& vram, const Stream& stream, std::size_t workspace_bytes = kBlasWorkspaceBytes);

  /// weights: [rows][columns], one after another; x: [tokens][columns]; y: [tokens][rows], all
  /// without gaps. Weights and x are of one type, F16 or BF16; y is F32, or F16 where they are F16.
  struct Operands {
    const void* weights = nullptr;
    const void* x = nullptr;
    ValueType in = ValueType::kF16;
    void* y = nullptr;
    ValueType out = ValueType::kF32;
    bool add = false;  // adds to the F32 values of y
  };
  struct Shape {
    int rows = 0, columns = 0, tokens = 0;
  };
  /// y = weights x, or y += weights x. Sums are F32; a result past the range of F16 is infinite.
  /// Can be recorded into a graph. Throws MachineError where the library refuses.
  void multiply(const Shape& shape, const Operands& at) const;

  /// Products of each head: weights [heads][rows][columns], x [tokens][heads][x_width] and y
  /// [tokens][heads][y_width], all F16. Of a head the first `columns` of x are read, and the first
  /// `rows` of y written.
  struct HeadShape {
    int heads = 0, rows = 0, columns = 0, tokens = 0;
    int x_width = 0, y_width = 0;
  };
  void multiply_heads(const HeadShape& shape, const __half* weights, const __half* x,
                      __half* y) const;

 private:
  VramPiece workspace_;
  Cublas cublas_;
};

/// Makes cuBLAS load its kernels for F16 products with such results, for which the first products
/// of a process wait 0.05 to 0.2 s. Meant for a separate thread; what is loaded stays. Uses GPU
/// memory meanwhile, less than a Matmul does. Throws as Matmul does.
void load_products(Vram& vram, std::span<const ValueType> results);

}  // namespace rigcast::engine::cuda
