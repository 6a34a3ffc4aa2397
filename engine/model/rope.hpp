#pragma once
// Rotary position embedding: pairs of a head's elements are rotated by an angle proportional to the
// position.

#include <span>
#include <vector>

#include "core/base/units.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// The angle in radians between neighbouring positions, for each pair: [rope_dims / 2]. `factors`
/// divide the angles; empty: none.
std::vector<double> rope_frequencies(const Hyperparameters& hyper, std::span<const float> factors);

class Rope {
 public:
  Rope(const Hyperparameters& hyper, std::span<const float> factors);

  /// Cosines and sines of one position: [pair][2].
  void angles(TokenCount position, std::span<float> out) const;
  std::size_t pairs() const { return frequencies_.size(); }

  /// Rotates one head by the angles of its position.
  void rotate(std::span<const float> angles, float* head) const;

 private:
  RopePairs layout_;
  std::vector<double> frequencies_;
};

}  // namespace rigcast::engine
