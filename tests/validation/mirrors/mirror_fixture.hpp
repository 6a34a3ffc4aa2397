#pragma once
// A scenario as the forecast sees it, and as the engine sees it before it allocates anything.

#include <string>
#include <utility>
#include <vector>

#include "core/runtime/load_profile.hpp"
#include "engine/placement/host_placement.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "tests/paths.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

namespace rigcast::fixtures {

/// Four layers of a model, so that its weights have addresses on any machine.
inline ModelSpec four_layers_of(ModelSpec model) {
  model.layers = 4;
  return model;
}

/// Names of the mixes that the engine computes with, in models whose rows are multiples of 256.
inline std::vector<std::string> computed_mixes() {
  std::vector<std::string> names;
  for (const std::string& name : QuantMix::names())
    if (!make_tensor_table(llama_3_8b(), *QuantMix::from_name(name))->uncomputed())
      names.push_back(name);
  return names;
}

/// The model on one GPU of 24 GiB, as `rigcast run` executes it.
inline Scenario engine_scenario(ModelSpec model, const char* quant) {
  Scenario s = scenario_of(std::move(model), machine(), quant);
  auto runtime = load_runtime_profile(test::source_path("/runtimes/rigcast.toml"));
  REQUIRE(runtime);
  s.runtime = *std::move(runtime);
  s.workload.prompt_tokens = 1000;
  return s;
}

/// The model as the engine has it: shapes and formats, without the matrices' values.
inline engine::Model engine_model(const Scenario& s) {
  auto model = engine::make_synthetic_vectors(s.model, s.tensors, 1);
  if (!model) FAIL(model.error().text());
  return *std::move(model);
}

inline engine::HostPlacement engine_placement(const Scenario& s, const Placement& placement) {
  return {s.model, placement, s.kv.policy == KvPolicy::kCombined};
}

}  // namespace rigcast::fixtures
