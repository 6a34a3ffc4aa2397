#pragma once
// Whole layers in RAM take their caches along, and the host's attention slows with every token; an
// FFN alone leaves the cache in VRAM, and costs two crossings a layer. Which is faster is a matter
// of the prompt's length.

#include <optional>

#include "planner/place_layers.hpp"

namespace rigcast::planner {

struct Crossover {
  TokenCount prompt_tokens = 0;  // from here on `from` is the faster one
  PlacementSettings below{}, from{};
};

/// The better of the two placements, by `cost`; nullopt: nothing fits.
std::optional<PlacementSettings> place_either_way(const Scenario& scenario, Bytes headroom,
                                                  const RequestCost& cost);

/// Within the scenario's context, to 1 %; nullopt: one placement is the better one throughout.
std::optional<Crossover> find_crossover(const Scenario& scenario, Bytes headroom,
                                        const RequestCost& cost);

}  // namespace rigcast::planner
