#pragma once
// Tiny models on which a GPU must agree with the CPU before it runs any other model.

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/model/model_spec.hpp"
#include "core/model/tensor_table.hpp"

namespace rigcast::engine {

struct CheckedModel {
  std::string what;  // "with experts, its layers of Q4_K, Q5_K, Q6_K,"
  ModelSpec spec;
  TensorTable table;
};

/// Makes models of three layers each, without experts and with them. In one model of either kind
/// every matrix has another format than the one before; in the others every layer has a single
/// quantized format, so that each kernel for several matrices of one format, or for a batch's
/// experts, runs with all formats that most files have. Errors: as make_tensor_table.
Result<std::vector<CheckedModel>> checked_models();

/// Makes a tiny model with the traits and the quantized formats of a model that is to run, one
/// format a layer; nullopt if checked_models() have all of them. Errors: as make_tensor_table.
Result<std::optional<CheckedModel>> checked_model_like(const ModelSpec& spec,
                                                       const TensorTable& tensors);

}  // namespace rigcast::engine
