#pragma once
// Advice: alternatives to a scenario, each of which is simulated.

#include "core/catalogue/catalogue.hpp"
#include "core/text/toml_reader.hpp"
#include "report/report.hpp"

namespace rigcast::sim {

/// One key of the scenario file set to another value.
struct Alternative {
  std::string change;                                    // "quant Q5_K_M"
  std::string flags;                                     // "--quant Q5_K_M"
  std::vector<std::pair<std::string, std::string>> set;  // key, TOML value
};

/// Every change that applies to the scenario: quant mix, KV type, context, GPU layers, experts,
/// KV policy, ubatch, flash attention, threads, slot, SSD, RAM kit and more.
std::vector<Alternative> alternatives(const Scenario& scenario, const Report& report);

/// Simulates all alternatives in sweep mode and returns the three that shorten the whole request
/// most. For a scenario that does not fit, the best three that do.
std::vector<Advice> advise(const TomlDocument& document, const Catalogue& catalogue,
                           const Report& report);

}  // namespace rigcast::sim
