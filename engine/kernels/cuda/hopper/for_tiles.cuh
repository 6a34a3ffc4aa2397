#pragma once
// Calls with a format, or a number of tokens, as a constant.

#include "core/model/quant_format.hpp"
#include "engine/kernels/cuda/activations/tile_order.hpp"

namespace rigcast::engine::cuda {

/// For formats that supports_tiled_gemm() names.
template <class Call>
void for_tiled_format(QuantFormat format, const Call& call) {
  using enum QuantFormat;
  switch (format) {
    case kQ4_0: return call.template operator()<kQ4_0>();
    case kQ4_1: return call.template operator()<kQ4_1>();
    case kQ5_0: return call.template operator()<kQ5_0>();
    case kQ5_1: return call.template operator()<kQ5_1>();
    case kQ8_0: return call.template operator()<kQ8_0>();
    case kQ4_K: return call.template operator()<kQ4_K>();
    case kQ5_K: return call.template operator()<kQ5_K>();
    case kQ6_K: return call.template operator()<kQ6_K>();
    case kIQ4_NL: return call.template operator()<kIQ4_NL>();
    default: return call.template operator()<kMXFP4>();
  }
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
