#include "planner/shortage.hpp"

#include <algorithm>

namespace rigcast::planner {

Scenario smallest_of(const Scenario& scenario, const SearchSpace& search_space) {
  Candidate candidate = candidate_of(scenario);
  const auto bits = [](KvTypes t) {
    return info(t.k).bits_per_weight() + info(t.v).bits_per_weight();
  };
  for (const KvTypes types : search_space.kv_types)
    if (bits(types) < bits(candidate.kv_types) && check_kv_types(scenario.model, types))
      candidate.kv_types = types;
  Scenario smallest = scenario_of(scenario, candidate);
  for (const std::string& quant : search_space.quants) {
    candidate.quant = quant;
    Scenario s = scenario_of(scenario, candidate);
    if (s.tensors.bytes() < smallest.tensors.bytes()) smallest = std::move(s);
  }
  return smallest;
}

std::optional<Bytes> missing_ram(const Scenario& scenario) {
  constexpr Bytes kMax = 4096_GiB;
  const double tenth = 0.1 * (1_GiB).value;
  Scenario s = scenario;
  const Bytes now = s.rig.ram.capacity.value;
  const auto fits_with = [&](double more) {
    s.rig.ram.capacity.value = now + Bytes{more};
    return place_layers(s).has_value();
  };
  double least = 0, enough = (1_GiB).value;
  while (!fits_with(enough)) {
    if (enough > kMax.value) return std::nullopt;
    least = enough;
    enough *= 2;
  }
  while (enough - least > tenth) {
    const double middle = (least + enough) / 2;
    (fits_with(middle) ? enough : least) = middle;
  }
  return Bytes{enough};
}

}  // namespace rigcast::planner
