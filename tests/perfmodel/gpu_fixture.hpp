#pragma once
// One GPU, and products whose cost on it can be calculated by hand.

#include <string>

#include "perfmodel/cost/gpu_cost.hpp"
#include "tests/core/profile_fixture.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

namespace rigcast::fixtures {

inline constexpr double kElements = 1e9;
inline constexpr double kBandwidth = 400e9;

// One card without matrix units, at the figures of kProfile.
inline Scenario of_gpu(const std::string& architecture, const std::string& profile = kProfile) {
  Scenario s = scenario_of(llama_2_7b());
  s.runtime = *load_profile(profile);
  s.settings.backend = Backend::kCuda;
  s.rig.cpu.vendor = "intel";
  GpuPart& card = s.rig.gpus.front();
  card.architecture = architecture;
  card.fp32 = {10_TFLOPs, SourceKind::kSpec, "a test"};
  s.rig.links.front().h2d.value = 8_GBps;
  return s;
}

inline OpTraffic product(double tokens, QuantFormat format = QuantFormat::kQ8_0) {
  OpTraffic t;
  t.weight_bytes_by_format[std::size_t(format)] = kElements * info(format).bits_per_weight() / 8;
  t.matmul_flops = 2 * kElements * tokens;
  t.tokens_per_weight = tokens;
  return t;
}

inline double seconds(const Scenario& s, const OpTraffic& t, TokenCount tokens) {
  return gpu_cost(s, 0, t, tokens, 0).compute.value;
}

}  // namespace rigcast::fixtures
