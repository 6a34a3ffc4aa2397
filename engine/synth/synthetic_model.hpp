#pragma once
// A model with synthetic weights, in memory.

#include <cstdint>
#include <functional>

#include "core/base/error.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/model/model.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

using TensorFilter = std::function<bool(const Tensor&)>;

/// Generates weights in the table's formats on the team. Matrices that are not `wanted` (absent:
/// all are) have only address and shape. Wanted ones are in memory from `make`, in the table's
/// order (absent: on large pages). Errors: what bind_model refuses, or kMachine if the weights do
/// not fit into memory. Throws what `make` throws.
Result<Model> make_synthetic_model(const ModelSpec& spec, const TensorTable& tensors,
                                   std::uint64_t seed, ThreadTeam& team,
                                   const TensorFilter& wanted = {}, const Allocator& make = {});

/// Makes a model with vectors only; its matrices have only address and shape. For weights that are
/// generated elsewhere. Errors: what bind_model refuses.
Result<Model> make_synthetic_vectors(const ModelSpec& spec, const TensorTable& tensors,
                                     std::uint64_t seed);

}  // namespace rigcast::engine
