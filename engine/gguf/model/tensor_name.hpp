#pragma once
// What the name of a tensor says: "blk.3.attn_q.weight" is the weight of attn_q in layer 3.

#include <string_view>

#include "core/model/quant_mix.hpp"
#include "engine/gguf/part.hpp"

namespace rigcast::engine {

struct TensorName {
  int layer = -1;         // -1: none
  std::string_view stem;  // "attn_q"; all of the name behind the layer if it has no ending
  std::string_view end;   // "weight", "bias", or nothing
};
TensorName parse_tensor_name(std::string_view name);

/// By name, and by shape where the name is none of those that many architectures share.
TensorRole role_of(const TensorName& name, int dimensions);

/// One matrix for each expert, "ffn_gate.0", as files had it before 2024-04.
bool is_single_expert(const TensorName& name);

}  // namespace rigcast::engine
