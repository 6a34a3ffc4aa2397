#pragma once
// What computes in a recurrent layer in place of attention.

#include "core/model/model_spec.hpp"

namespace rigcast {

enum class RecurrentKind {
  kShortConvolution,  // of a few tokens, without a state beside them
  kDeltaNet,          // a state of which each token replaces a part
  kMamba,             // a state that decays
};

/// The kind of a model's recurrent layers, of which it has some.
RecurrentKind recurrent_kind(const ModelSpec& model);

}  // namespace rigcast
