#pragma once
// Every tensor of a model under a quant mix.

#include "core/base/error.hpp"
#include "core/model/tensor.hpp"

namespace rigcast {

/// Driven by the spec's flags; the architecture's name decides names of norms only. Latent
/// attention has separate attn_k_b and attn_v_b, as files since 2025-04. A recurrent mixer is one
/// stand-in matrix, and one F32 vector of the rest.
/// Errors: a width that the model needs is 0, or the weights exceed 2^60 bytes.
Result<TensorTable> make_tensor_table(const ModelSpec& model, const QuantMix& mix);

/// Gives every tensor the same share more or fewer bytes, so that all are `size`. Elements stay:
/// what is computed does not change with how it is stored.
void scale_to(TensorTable& table, Bytes size);

}  // namespace rigcast
