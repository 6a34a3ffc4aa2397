#pragma once
// Binds named tensors to the weights of a model.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/model/tensor.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// A tensor of a file or of a generator.
struct NamedTensor {
  std::string_view name;  // as in a GGUF file, "blk.0.attn_q.weight"
  QuantFormat format{};
  std::vector<std::int64_t> shape;  // shape[0] is the row, contiguous
  const std::byte* data = nullptr;
};

/// The reason why the model cannot be computed: an architecture that engine/architectures does not
/// have, or a trait that is not executed; nullopt if it can.
std::optional<Error> check_executable(const ModelSpec& spec);

/// An Error that names the first tensor in a format that the engine does not compute with.
std::optional<Error> check_formats(const TensorTable& tensors);
Error uncomputed_format(std::string_view tensor, std::string_view format);

/// Binds every tensor and checks its shape against the spec. Vectors are copied to F32. Errors: an
/// architecture or a trait that is not executed; a tensor that is missing, has another shape, or
/// has a format that is not allowed for this weight.
Result<Model> bind_model(ModelSpec spec, const Hyperparameters& hyper,
                         std::span<const NamedTensor> tensors, std::shared_ptr<const void> storage);

}  // namespace rigcast::engine
