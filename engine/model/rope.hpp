#pragma once
// Rotary position embedding: pairs of a head's elements are rotated by an angle proportional to the
// position.

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/units.hpp"
#include "engine/model/model.hpp"

namespace rigcast::engine {

/// A rotation, with all that scales it worked in.
struct RopeTable {
  std::vector<double> frequencies;  // [rope_dims / 2]: radians between neighbouring positions
  float magnitude = 1.0f;           // rotated elements are multiplied by this
};

/// The rotations of a model, of which a layer has number AttentionRule::rope: that of most layers,
/// and, if hyper.local_rope_base is given, that of layers with a window. `factors` divide the
/// first's frequencies; empty: none.
std::vector<RopeTable> rope_tables(const Hyperparameters& hyper, std::span<const float> factors);

/// The pairs of the table that has most.
std::int64_t most_rope_pairs(const Hyperparameters& hyper);

/// The frequencies of the first of rope_tables().
std::vector<double> rope_frequencies(const Hyperparameters& hyper, std::span<const float> factors);

/// Queries at the position are multiplied by this; 1 where hyper.temperature is 0.
float temperature_at(const Hyperparameters& hyper, TokenCount position);

class Rope {
 public:
  Rope(RopePairs pairs, RopeTable table);

  /// Cosines and sines of one position, times the magnitude: [pair][2].
  void angles(TokenCount position, std::span<float> out) const;
  std::size_t pairs() const { return table_.frequencies.size(); }

  /// Rotates one head by the angles of its position.
  void rotate(std::span<const float> angles, float* head) const;

 private:
  RopePairs layout_;
  RopeTable table_;
};

}  // namespace rigcast::engine
