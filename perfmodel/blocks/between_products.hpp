#pragma once
// What a GPU takes for a batch besides its products and its attention.

#include "core/model/traffic.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Of activations between products, and, where the thread blocks of kernels are known, of a
/// router's choice of experts and of states of recurrent layers. Nothing overlaps with it.
Seconds between_products_time(const StepContext& context, const GpuPart& gpu, const OpTraffic& t);

/// True if the recurrent layers of a model that has some keep the last inputs of a convolution
/// alone.
bool is_short_convolution(const ModelSpec& model);

/// Kernels that multiply an operation's matrices: those of one input are multiplied by one. A
/// router's own is not among them.
double product_kernels(const StepContext& context, const OpTraffic& t);

}  // namespace rigcast
