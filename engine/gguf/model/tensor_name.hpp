#pragma once
// The parts of a tensor's name: "blk.3.attn_q.weight" is the weight of attn_q in layer 3.

#include <string_view>

#include "core/model/quant_mix.hpp"
#include "engine/gguf/part.hpp"

namespace rigcast::engine {

struct TensorName {
  int layer = -1;         // -1: none
  std::string_view stem;  // the whole name after the layer if it has no ending
  std::string_view end;   // "weight", "bias", or nothing
};
TensorName parse_tensor_name(std::string_view name);

/// The role of a tensor by its name; by its shape if the name is not one that many architectures
/// share.
TensorRole role_of(const TensorName& name, int dimensions);

/// True for a matrix of a single expert, "ffn_gate.0", as in files before 2024-04.
bool is_single_expert(const TensorName& name);

}  // namespace rigcast::engine
