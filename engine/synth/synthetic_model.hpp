#pragma once
// A model with synthetic weights in memory, and the same as a GGUF file.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>

#include "core/base/error.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/model/model.hpp"
#include "engine/threads/team.hpp"

namespace rigcast::engine {

using Wanted = std::function<bool(const Tensor&)>;

/// Weights of the table's formats, made by all members of the team; of matrices that are not
/// `wanted` (absent: all are), nothing but the place and shape is there. Those that are lie in
/// memory of `make`, in the table's order (absent: on large pages). Errors: what bind_model
/// refuses, or kMachine when the weights do not fit into memory. Throws what `make` does.
Result<Model> make_synthetic_model(const ModelSpec& spec, const TensorTable& tensors,
                                   std::uint64_t seed, Team& team, const Wanted& wanted = {},
                                   const MakeMemory& make = {});

/// The same model, of whose matrices nothing but the place and shape is there: vectors alone are
/// made. For weights that are made elsewhere. Errors: what bind_model refuses.
Result<Model> make_synthetic_vectors(const ModelSpec& spec, const TensorTable& tensors,
                                     std::uint64_t seed);

/// Called with the bytes written so far.
using Progress = std::function<void(std::uint64_t done)>;

/// A GGUF file of the same bytes, without vocabulary. Errors: what cannot be executed, a seed or a
/// model a file cannot hold, a disk that is full, a stop that was asked for. Then nothing is left.
std::optional<Error> write_synthetic_file(const ModelSpec& spec, const TensorTable& tensors,
                                          const std::string& quant, std::uint64_t seed,
                                          const std::filesystem::path& target,
                                          const Progress& progress = {}, const StopFlag& stop = {});

}  // namespace rigcast::engine
