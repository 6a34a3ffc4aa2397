#pragma once
// Calls with a format, or a number of tokens, as a constant.

#include "core/model/quant_format.hpp"
#include "engine/kernels/cuda/activations/tile_order.hpp"

namespace rigcast::engine::cuda {

/// For formats that supports_tiled_gemm() names.
template <class Call>
void for_tiled_format(QuantFormat format, const Call& call) {
  using enum QuantFormat;
  if (format == kQ4_K) return call.template operator()<kQ4_K>();
  if (format == kQ5_K) return call.template operator()<kQ5_K>();
  call.template operator()<kQ6_K>();
}

/// tiled_tokens(tokens)
template <class Call>
void for_tiled_tokens(int tokens, const Call& call) {
  switch (tiled_tokens(tokens)) {
    case 8: return call.template operator()<8>();
    case 16: return call.template operator()<16>();
    case 32: return call.template operator()<32>();
    default: return call.template operator()<64>();
  }
}

}  // namespace rigcast::engine::cuda
