#pragma once
// What recurrent layers do between their products: from what a layer's first matrices give to what
// the last one takes.

#include <cstdint>

#include "engine/backends/cuda/weights/device_model.cuh"
#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/recurrent/mixer_rows.cuh"

namespace rigcast::engine::cuda {

/// The values that a recurrent layer's first matrices give for a token, one matrix's after the
/// other's.
template <class AnyLayer>
std::int64_t mixed_width(const AnyLayer& layer) {
  return layer.mixer_in.rows + layer.mixer_gate.rows + layer.mixer_alpha.rows +
         layer.mixer_beta.rows;
}

struct MixerInputs {
  const float* mixed = nullptr;  // [rows][mixed_width]
  float* convolved = nullptr;    // a work buffer, [rows][MixerWidths::convolved()]
  float norm_eps = 0;
  LayerStates states{};
};

/// Queues a layer's mixer: of rows that are each the only new token of a sequence, or of rows that
/// are consecutive tokens of one. Results are as wide as the last matrix's rows.
void mix_apart(const Stream& stream, const DeviceLayer& layer, const MixerInputs& inputs,
               const MixerRows& rows, const MixerOutputs& out);
void mix_together(const Stream& stream, const DeviceLayer& layer, const MixerInputs& inputs,
                  const MixerRows& rows, const MixerOutputs& out);

}  // namespace rigcast::engine::cuda
