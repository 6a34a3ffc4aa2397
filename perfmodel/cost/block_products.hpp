#pragma once
// A batch's products on kernels whose thread-block shapes are known: those of the project's own
// engine. All but fp16_rate() and tile_read_time() need a profile with `[blocks]`.

#include "core/model/traffic.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// The rate of FP16 products with sums in F32, which all kernels of the engine and of its library
/// have: GeForce cards reach twice as much with sums in FP16.
FlopsPerSecond fp16_rate(const GpuPart& gpu);

/// True if a batch's quantized weights are written out as FP16 for cuBLAS: of a long one, and of
/// every one where no kernels multiply them as they lie.
bool writes_out_weights(const StepContext& context, const GpuPart& gpu, const OpTraffic& traffic,
                        TokenCount tokens);

/// By how much weights take longer to read than at the full rate, because a batch's tiles of
/// quantized ones reach a share of it. Where no kernels are known, 1.
double tile_read_time(const StepContext& context, const GpuPart& gpu, const OpTraffic& traffic,
                      TokenCount tokens);

struct BlockProducts {
  Seconds compute;  // overlaps with reads
  Seconds start;    // of kernels that fill and drain: overlaps with nothing
};
BlockProducts block_products(const StepContext& context, const GpuPart& gpu,
                             const OpTraffic& traffic, TokenCount tokens);

/// From the end of a batch's kernel to the start of the next, which has been launched by then.
Seconds kernel_gap(const StepContext& context, const GpuPart& gpu);

}  // namespace rigcast
