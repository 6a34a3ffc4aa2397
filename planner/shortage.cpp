#include "planner/shortage.hpp"

#include "perfmodel/memory.hpp"

namespace rigcast::planner {
namespace {

// Bytes of the weights and of a full cache.
double needs(const Scenario& s) {
  const auto stored = s.tensors.bytes() - s.tensors.speculation.bytes();  // what is loaded
  return double(stored) + kv_bytes(s.model, s.workload.context, s.kv.types);
}

}  // namespace

Scenario smallest_of(const Scenario& scenario, const SearchSpace& search_space,
                     const Constraints& constraints, const QualityTable& quality) {
  std::optional<Scenario> smallest, smallest_within;
  for (const std::string& quant : search_space.quants)
    for (const KvTypes types : search_space.kv_types) {
      if (!check_kv_types(scenario.model, types)) continue;
      Candidate candidate = candidate_of(scenario);
      candidate.quant = quant;
      candidate.kv_types = types;
      Scenario s = scenario_of(scenario, candidate);
      const auto mix = quality.of_mix(quant, s.model, double(s.tensors.elements()));
      const auto kv = quality.of_kv(types);
      const bool is_within =
          !constraints.max_loss || (mix && kv && (*mix + *kv).nats <= *constraints.max_loss);
      if (is_within && (!smallest_within || needs(s) < needs(*smallest_within)))
        smallest_within = s;
      if (!smallest || needs(s) < needs(*smallest)) smallest = std::move(s);
    }
  if (smallest_within) return *std::move(smallest_within);
  return smallest ? *std::move(smallest) : scenario;
}

std::optional<Bytes> missing_ram(const Scenario& scenario) {
  constexpr int kMaxGib = 4096;
  Scenario s = scenario;
  const Bytes now = s.rig.ram.capacity.value;
  const auto fits_with = [&](int gib) {
    s.rig.ram.capacity.value = now + 1_GiB * gib;
    return place_layers(s).has_value();
  };
  int least = 0, enough = 1;
  while (!fits_with(enough)) {
    least = enough;
    enough *= 2;
    if (enough > kMaxGib) return std::nullopt;
  }
  while (enough - least > 1) {
    const int middle = (least + enough) / 2;
    (fits_with(middle) ? enough : least) = middle;
  }
  return 1_GiB * enough;
}

}  // namespace rigcast::planner
