#pragma once
// Tiny models that a GPU has to compute as the CPU does, before it computes any other.

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

/// Of three layers each, without experts and with them. In one of either kind every matrix has
/// another format than the one before; in the others every layer is of one quantized format, so
/// that each kernel which takes several matrices of one format, or a batch's experts, gets all of
/// its formats. Errors: as make_tensor_table.
Result<std::vector<CheckedModel>> checked_models();

}  // namespace rigcast::engine
