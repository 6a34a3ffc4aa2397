#pragma once
// The FLOPs of a GPU's batch, split by the kernels that compute them.

#include "core/hardware/rig.hpp"
#include "core/model/traffic.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Shares of the FLOPs by the kind of weights. Elements are derived from the bytes of each format.
struct MatmulSplit {
  double floats = 0;         // share of the FLOPs on float weights
  double floats_scaled = 0;  // `floats`, each format divided by its kernels' efficiency
  double quants = 0;         // share of the FLOPs on quantized weights, as they are
  double quants_scaled = 0;  // `quants`, each format divided by its kernels' efficiency
  // Share of the FLOPs on quantized weights that kernels turn into floats, or that faster matrix
  // units multiply: each as if it had the rate of floats.
  double as_floats = 0;
  double elements = 0;  // quantized weights that are read
  double quant_bytes = 0;
};

/// Of what an operation reads on a GPU.
MatmulSplit split_matmul(const StepContext& context, const GpuPart& gpu, const OpTraffic& traffic);

}  // namespace rigcast
