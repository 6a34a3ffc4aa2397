#pragma once
// Names of models and quant mixes, as people and programs write them.

#include <optional>
#include <string>
#include <vector>

#include "core/model/quant_mix.hpp"

namespace rigcast {

/// The name as it stands, then ever simpler ones: without annotations, publisher, quant mix.
std::vector<std::string> simpler_model_names(const std::string& name);

/// The mix that a label means exactly: "Q4_K - Medium", "MXFP4 MoE", "q4_0". nullopt: rigcast has
/// no rule for it.
std::optional<QuantMix> mix_of_label(const std::string& label);

/// "IQ2_XXS - 2.0625 bpw".
std::optional<double> bits_per_weight_of_label(const std::string& label);

}  // namespace rigcast
