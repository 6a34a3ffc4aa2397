#pragma once
// A model under a quant as people name it: a mix of llama.cpp's, or files by somebody's own recipe.

#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/tensor.hpp"

namespace rigcast {

struct QuantizedModel {
  std::string quant;  // the mix's name, or the recipe's
  TensorTable tensors;
  std::string note;  // what is not known of the tensors; empty for a mix
};

/// The file that is called so, of the release by whose name the model was found: two of one shape
/// may have files of two sizes. nullptr: none is known.
const PublishedFile* find_published(const ModelSpec& model, std::string_view quant);

/// The tensors by the mix's rule. A recipe of one model ("UD-Q4_K_XL") is known by the size of its
/// files only, if the spec has that: then the nearest mix is scaled to it, and `note` says so.
/// `size_is_stated`: the caller scales the tensors itself, so the size need not be known. Errors:
/// no such mix; a recipe whose size is not known for this model; as make_tensor_table.
Result<QuantizedModel> quantize(const ModelSpec& model, std::string_view quant,
                                bool size_is_stated = false);

/// The quant of a model where none is stated: the format in which it was published, if llama.cpp
/// has a mix of it, or else Q4_K_M.
std::string default_quant(const ModelSpec& model);

/// The same for a server that reads safetensors: FP8 of a model that was published so, or else
/// BF16. gpt-oss has its experts in MXFP4 either way.
std::string default_served_quant(const ModelSpec& model);

/// True if the model was published in a format that llama.cpp has a mix of: no other mix of it is
/// better, because its experts are never quantised anew.
bool is_native_mix(const ModelSpec& model);

}  // namespace rigcast
