#pragma once
// What kernels of a GPU ask of a model's shapes, said before any weight is on its way.

#include <optional>

#include "core/base/error.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// A layer is attention, then an FFN or experts; heads are those of all layers, a multiple of 8
/// wide, up to 256; rows of matrices a multiple of 32, up to 65,536; there are at most 1,024
/// experts of which 32 are used, whose router is in F32, F16 or BF16. The CPU computes others. Only
/// shapes of the matrices are read. Errors: kBadInput with the operation or the shape.
std::optional<Error> check_shapes_on_gpu(const Model& model);

}  // namespace rigcast::engine
