#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/html/page_output.hpp"
#include "cli/load/compare_loads.hpp"
#include "cli/load/compared_rigs.hpp"
#include "cli/shared/output.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/verbs.hpp"
#include "core/scenario/scenario.hpp"
#include "core/text/unit_text.hpp"
#include "planner/capacity/capacity_csv.hpp"
#include "planner/capacity/capacity_json.hpp"
#include "planner/capacity/capacity_text.hpp"
#include "planner/commands.hpp"
#include "planner/server_commands.hpp"
#include "report/report_words.hpp"
#include "report/terminal/progress_line.hpp"
#include "sim/serving/scenario_ram.hpp"
#include "sim/serving/simulate_load.hpp"

namespace rigcast::cli {
namespace {

using planner::CapacityChange;
using planner::CapacityReport;

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  RigFlags machines;
  bool no_advice = false;
};

// A change that people can make, as a flag and as the key that it sets.
struct Change {
  std::string flags, key, value;
};

std::vector<Change> changes_of(const Scenario& s) {
  std::vector<Change> out;
  const auto number = [&](std::string flag, std::string key, std::int64_t value) {
    const std::string text = std::to_string(value);
    out.push_back({std::move(flag) + text, std::move(key), text});
  };
  const SchedulerPolicy& policy = *s.scheduler;
  const bool slots = policy.layout == KvLayout::kSlots;
  const char* key = slots ? "scheduler.slots" : "scheduler.max_sequences";
  const char* flag = slots ? "--slots " : "--max-sequences ";
  for (const std::size_t count : {policy.sequences / 2, policy.sequences * 2, policy.sequences * 4})
    if (count > 0) number(flag, key, std::int64_t(count));
  const char* batch = slots ? "--batch " : "--set scheduler.token_budget=";
  const char* batch_key = slots ? "runtime.batch" : "scheduler.token_budget";
  for (const TokenCount budget : {policy.step_tokens / 4, policy.step_tokens * 4})
    if (budget > 0) number(batch, batch_key, budget);
  if (s.settings.ubatch < 2048) number("--ubatch ", "runtime.ubatch", 4 * s.settings.ubatch);
  return out;
}

// `about`: what is served without the change.
Result<double> most_with(const TomlDocument& document, const Catalogue& catalogue,
                         const Change& change, double about) {
  TomlDocument changed = document.clone();
  if (auto error = changed.set(change.key, change.value, change.flags)) return *error;
  const auto scenario = make_scenario(changed, catalogue);
  if (!scenario) return scenario.error();
  auto simulation = LoadSimulation::make(*scenario);
  if (!simulation) return simulation.error();
  const auto found = planner::find_most(
      *scenario->load, [&](const Load& load) { return simulation->figures(load); }, about);
  if (!found) return found.error();
  return found->most;
}

// Those with which more is served, the best first. What does not fit, or is no choice of the
// runtime's, is none.
std::vector<CapacityChange> simulate_changes(const TomlDocument& document,
                                             const Catalogue& catalogue, const Scenario& scenario,
                                             double most) {
  std::vector<CapacityChange> out;
  for (const Change& change : changes_of(scenario))
    if (const auto with = most_with(document, catalogue, change, most); with && *with > most)
      out.push_back({change.flags, *with});
  std::ranges::stable_sort(out, std::greater<>(), &CapacityChange::most);
  return out;
}

// What is in RAM, because the caches of all slots left no room for it; empty: nothing is.
std::string placement_note(const Scenario& s, const LoadSimulation& simulation) {
  if (s.rig.gpus.empty()) return {};
  const auto& layers = simulation.placement().layers;
  const auto in_ram = std::ranges::count_if(layers, [](const LayerPlacement& layer) {
    return layer.weights == kHost || layer.experts == kHost;
  });
  if (in_ram == 0) return {};
  return fmt::format(
      "{} of {} layers, or their experts, are in RAM: the cache of {} tokens leaves "
      "them no room on the GPU",
      in_ram, layers.size(), text_count(simulation.cache_tokens()));
}

// How short memory is with as much of the load as is served; empty: it is not.
std::string note_on_paging(LoadSimulation& simulation, const Load& load, double most) {
  if (!simulation.figures(planner::with_amount(planner::lasting(load), most))) return {};
  return simulation.paging_note();
}

// A row for each of several machines.
int capacities(const Options& o, const TomlDocument& document, const Catalogue& catalogue) {
  const auto prices = o.machines.prices_of(catalogue);
  if (!prices) return fail(prices.error());
  auto rigs = o.machines.rigs_of(document, catalogue);
  if (!rigs) return fail(rigs.error());
  using What = planner::Comparison::What;
  const What what = o.machines.rigs.empty() ? What::kGpus : What::kRigs;
  return capacities_of({*std::move(rigs), what, *prices}, o.output, catalogue);
}

// Refers to the report, which must outlive it.
Answer answer_of(const CapacityReport& report) {
  const auto render = [&report](const OutputOptions& output) {
    switch (output.format) {
      case Format::kJson: return to_json(report);
      case Format::kCsv: return planner::to_csv(report);
      case Format::kText: break;
    }
    return to_text(report, screen_style(output));
  };
  const Scenario& s = report.scenario;
  return {fmt::format("{} {} on {}: capacity", s.model.name, s.quant, rig_name(s.rig)), render};
}

int capacity_verb(const Options& o, const Catalogue& catalogue) {
  if (const auto error = check_outputs({o.output.file})) return fail(*error);
  if (const auto error = check_html(o.output)) return fail(*error);
  const auto document = o.flags.document();
  if (!document) return fail(document.error());
  if (!o.machines.rigs.empty() || !o.machines.gpus.empty())
    return capacities(o, *document, catalogue);
  const auto scenario = make_scenario(*document, catalogue);
  if (!scenario) return fail(scenario.error());
  if (!scenario->load)
    return fail(bad_input("no load to find the capacity for",
                          "for example --load chat, or --users 1 --slo ttft=2s@95"));
  auto simulation = LoadSimulation::make(*scenario);
  if (!simulation) return fail(simulation.error());
  const Load& load = *scenario->load;
  ProgressLine progress;
  const auto serve_at = [&](MachineSpeed speed) {
    return [&simulation, &progress, speed](const Load& some) {
      progress.show(some.is_open() ? fmt::format("{} requests/s", some.rate)
                                   : fmt::format("{} users", some.users));
      return simulation->figures(some, speed);
    };
  };
  auto capacity = planner::find_capacity(load, serve_at(MachineSpeed::kForecast));
  if (!capacity) return fail(capacity.error());
  CapacityReport report{*scenario, load, *std::move(capacity), {}, {}, {}, {}, {}};
  if (std::string note = placement_note(*scenario, *simulation); !note.empty())
    report.notes.push_back(std::move(note));
  if (auto note = note_on_ram_limit(*scenario, simulation->memory().ram_cache); !note.empty())
    report.notes.push_back(std::move(note));
  if (report.capacity.most > 0 && scenario->memory)
    if (auto note = note_on_paging(*simulation, load, report.capacity.most); !note.empty())
      report.notes.push_back(std::move(note));
  if (load.duration) report.notes.emplace_back("the load goes on: its duration is left out");
  if (const auto low =
          planner::find_most(load, serve_at(MachineSpeed::kSlowest), report.capacity.most))
    report.lowest = low->most;
  if (const auto high =
          planner::find_most(load, serve_at(MachineSpeed::kFastest), report.capacity.most))
    report.highest = high->most;
  if (!o.no_advice) progress.show("changes");
  if (!o.no_advice)
    report.changes = simulate_changes(*document, catalogue, *scenario, report.capacity.most);
  report.command = planner::shell_text(planner::server_command(*scenario, simulation->placement()));
  if (auto error = emit(o.output, answer_of(report))) return fail(*error);
  return report.capacity.most > 0 ? kDone : kAnswerIsNo;
}

}  // namespace

void add_capacity(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand(
      "capacity", "How many users does this machine serve, and what limits them?");
  auto o = std::make_shared<Options>();
  o->flags.add_to(*verb);
  o->output.add_to(*verb);
  add_html(*verb, o->output);
  o->machines.add_to(*verb, "Machines");
  verb->add_flag("--no-advice", o->no_advice, "do not simulate alternatives")->group("Output");
  verb->footer(
      "The most users, or requests per second (--rate), with whom the latencies that are wanted\n"
      "(--slo) are met, and the figures around it. Of several machines (--rigs, --gpus), a row "
      "for\n"
      "each.\n"
      "Examples\n"
      "  rigcast capacity --gpu rtx-4090 --model llama-3.1-8b --quant Q4_K_M --load chat\n"
      "  rigcast capacity --rig dual-rtx-3090 --model gemma-3-27b --load code --slo ttft=5s@95\n"
      "  rigcast capacity --gpus rtx-3090,2xrtx-3090,rtx-5090 --model qwen3-8b --load chat\n"
      "  rigcast capacity my.toml --rate 1 --load azure-2023-conv --format json");
  run_with_catalogue(*verb, open, run,
                     [o](const Catalogue& catalogue) { return capacity_verb(*o, catalogue); });
}

}  // namespace rigcast::cli
