#pragma once
// Advice: alternatives to a scenario, each of which is simulated.

#include <memory>
#include <string>
#include <utility>
#include <vector>

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

/// An alternative and its forecast.
struct TriedAlternative {
  Alternative alternative;
  std::shared_ptr<const Scenario> scenario;
  Seconds request;  // from a loaded model, unless the scenario starts cold
  Advice advice;    // its loss_nats is not filled in
};

/// The request's seconds of a report that fits: first token, and every further one.
Seconds request_time(const Report& report);

/// Simulates the alternatives in sweep mode, in the given order, and returns those that shorten the
/// whole request by more than a forecast's noise. For a scenario that does not fit, all that do.
std::vector<TriedAlternative> try_alternatives(const TomlDocument& document,
                                               const Catalogue& catalogue, const Report& report,
                                               const std::vector<Alternative>& alternatives);

}  // namespace rigcast::sim
