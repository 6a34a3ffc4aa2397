#pragma once
// Command lines of servers: of those that keep KV in a pool of blocks, vLLM and SGLang, and of the
// one that a scenario forecasts.

#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "core/scenario/scenario.hpp"
#include "planner/commands.hpp"

namespace rigcast::planner {

/// Why a program, "vllm" or "sglang", cannot run a scenario; nullopt: it can. Weights and caches
/// that such servers do not have are refused where the scenario is made.
std::optional<Error> check_paged(const Scenario& scenario, const std::string& program);
/// The program's command with the scenario's limits. Requires that its runtime is one of the two,
/// and that its cache is in a pool of blocks.
Words paged_command(const Scenario& scenario);
/// The command of the server that is forecast; empty: rigcast knows none for this runtime, or its
/// server has no flag for one of the scheduler's rules, or does not execute what is forecast.
Words server_command(const Scenario& scenario, const Placement& placement);

}  // namespace rigcast::planner
