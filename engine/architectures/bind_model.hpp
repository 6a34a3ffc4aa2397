#pragma once
// From tensors by name to a model with every weight in its place.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// One tensor as a file or a generator offers it.
struct NamedTensor {
  std::string_view name;  // as in a GGUF file, "blk.0.attn_q.weight"
  QuantFormat format{};
  std::vector<std::int64_t> shape;  // shape[0] is the row, contiguous
  const std::byte* data = nullptr;
};

/// Why the model cannot be computed: an architecture that engine/architectures does not have, or a
/// trait that is not executed; nullopt if it can.
std::optional<Error> refuse_to_execute(const ModelSpec& spec);

/// Puts every tensor in its place and checks its shape against the spec. Vectors are copied to F32.
/// Errors: an architecture or a trait that is not executed, a tensor that is missing, of another
/// shape, or of a format that its place cannot have.
Result<Model> bind_model(ModelSpec spec, const Hyperparameters& hyper,
                         std::span<const NamedTensor> tensors, std::shared_ptr<const void> storage);

}  // namespace rigcast::engine
