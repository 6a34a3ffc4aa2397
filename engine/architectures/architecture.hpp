#pragma once
// The model architectures that the engine executes. A family of them is one file of families/, with
// a row of traits for each.

#include <span>
#include <string_view>
#include <vector>

#include "core/model/model_spec.hpp"
#include "engine/architectures/traits/architecture_traits.hpp"
#include "engine/model/hyperparameters.hpp"
#include "engine/model/layer_ops.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// All architectures that are executed. Every tensor of their files is known by name and shape.
std::span<const Architecture> architectures();
/// Finds an architecture; nullptr: it is not executed.
const Architecture* find_architecture(std::string_view name);

/// Typical hyperparameters of this architecture's files, for weights that come from no file.
Hyperparameters default_hyperparameters(const ModelSpec& spec);
/// Sets hyper.local_rope_base by the architecture's LocalRope, once the others are known.
void set_local_rope(const ModelSpec& spec, Hyperparameters& hyper);
/// The operations of a layer of a model whose architecture is executed.
std::vector<LayerOp> layer_ops(const ModelSpec& spec, int layer);
/// The facts of a layer's attention that follow from its operations and the hyperparameters.
AttentionRule attention_rule(const ModelSpec& spec, const Hyperparameters& hyper, int layer);

}  // namespace rigcast::engine
