#pragma once
// Bytes of the KV cache, by layer and KV type.

#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/quant_format.hpp"

namespace rigcast {

/// Storage types of keys and values.
struct KvTypes {
  QuantFormat k = QuantFormat::kF16;
  QuantFormat v = QuantFormat::kF16;
};

/// f32, f16, bf16, q8_0, q4_0, q4_1, q5_0, q5_1, iq4_nl, ignoring case.
Result<QuantFormat> kv_type_from(std::string_view name);
/// The name as scenarios, flags and llama.cpp write it: "q8_0".
std::string kv_type_name(QuantFormat type);
/// "q8_0" where keys and values have one type, else "q8_0/q4_0".
std::string text(KvTypes types);

/// The types, if the model can keep its cache in them. As in llama.cpp, a key or value of one head
/// (of latent attention: the one compressed row) must be a multiple of the type's block.
Result<KvTypes> check_kv_types(const ModelSpec& model, KvTypes types);

/// Bytes that one cached token takes in a layer; 0 for a layer without a growing cache of its own.
/// MLA keeps kv_lora_rank + qk_rope_dim values once, in the K type; an indexer of sparse attention
/// key_dim values more, also in the K type (llama.cpp PR 23346). A row that ends within a block
/// takes that block as a whole; check_kv_types refuses such types.
double kv_bytes_per_token(const ModelSpec& model, int layer, KvTypes types);
/// Of these, what attention reads: a GPU's kernels take latent values out of the keys, even where
/// the runtime caches them a second time (llama.cpp PR 13306).
double kv_read_bytes_per_token(const ModelSpec& model, int layer, KvTypes types);

/// Bytes of a recurrent layer's state of one sequence; 0 for other layers.
double state_bytes(const ModelSpec& model, int layer);

/// Bytes of the layer's cache when `cached` tokens are in the context; a sliding window keeps at
/// most its width. Includes a recurrent layer's fixed state.
double kv_bytes(const ModelSpec& model, int layer, TokenCount cached, KvTypes types);

/// Summed over all layers.
double kv_bytes_per_token(const ModelSpec& model, KvTypes types);
double kv_bytes(const ModelSpec& model, TokenCount cached, KvTypes types);

/// Bytes that a further cached token takes when all sliding windows are full.
double kv_bytes_per_token_past_windows(const ModelSpec& model, KvTypes types);

}  // namespace rigcast
