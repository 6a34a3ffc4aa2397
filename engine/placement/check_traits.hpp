#pragma once
// Traits of models that the reference and the CPU execute, and a GPU does not yet.

#include <optional>

#include "core/base/error.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// An Error that names the first of the model's traits that no GPU backend executes; nullopt: there
/// is none. Traits that are operations of a layer are not among these: check_layers() names them.
std::optional<Error> check_traits_on_gpu(const Model& model);

}  // namespace rigcast::engine
