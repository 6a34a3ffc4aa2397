#include <fmt/format.h>

#include <memory>

#include "cli/shared/output.hpp"
#include "cli/shared/report_output.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/verbs.hpp"
#include "core/files/output_file.hpp"
#include "core/scenario/scenario.hpp"
#include "sim/advice.hpp"
#include "sim/by_context.hpp"
#include "sim/simulate.hpp"

namespace rigcast::cli {
namespace {

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  std::string trace_file;
  std::vector<TokenCount> positions;
  bool exact = false;
  bool by_context = false;
  bool no_advice = false;
};

int simulate_verb(const Options& options, const Catalogue& catalogue) {
  const auto document = options.flags.document();
  if (!document) return fail(document.error());
  auto scenario = make_scenario(*document, catalogue);
  if (!scenario) return fail(scenario.error());

  sim::SimulateOptions how;
  how.fidelity = options.exact ? sim::Fidelity::kExact : sim::Fidelity::kFinal;
  how.positions = options.positions;
  std::vector<TraceEvent> events;
  if (!options.trace_file.empty()) how.trace = &events;
  Report report = sim::simulate(std::make_shared<const Scenario>(*std::move(scenario)), how);
  if (options.by_context) report.by_context = sim::by_context(*report.scenario);
  if (!options.no_advice) report.advice = sim::advise(*document, catalogue, report);

  if (!options.trace_file.empty() && report.fits) {
    const std::string title = report.scenario->model.name + " predicted";
    if (auto error = write_file(options.trace_file, to_chrome_trace(events, title)))
      return fail(*error);
  }
  if (auto error = emit(options.output, render(report, options.output))) return fail(*error);
  return report.fits ? kDone : kAnswerIsNo;
}

}  // namespace

void add_simulate(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("simulate", "Forecast TTFT, TPS, memory and cliffs");
  auto options = std::make_shared<Options>();
  options->flags.add_to(*verb);
  options->output.add_to(*verb);
  verb->add_option("--trace", options->trace_file, "write a Chrome/Perfetto trace")
      ->type_name("FILE")
      ->group("Output");
  verb->add_option("--positions", options->positions, "tokens in the cache to report speed at")
      ->delimiter(',')
      ->check(CLI::NonNegativeNumber)
      ->type_name("N,N")
      ->group("Output");
  verb->add_flag("--exact", options->exact, "simulate every token, no sampling")->group("Output");
  verb->add_flag("--by-context", options->by_context,
                 "speed at both ends of contexts up to the model's, in JSON")
      ->group("Output");
  verb->add_flag("--no-advice", options->no_advice, "do not simulate alternatives")
      ->group("Output");
  verb->footer(
      "Examples\n"
      "  rigcast simulate --gpu rtx-3060-12gb --model llama-3.1-8b --quant Q6_K --context 32768\n"
      "  rigcast simulate --rig dual-rtx-3090 --model llama-3.3-70b --gpu-layers auto\n"
      "  rigcast simulate examples/s1-mistral.toml --positions 0,4000,7000\n"
      "  rigcast simulate my.toml --set kv.threshold=0.9 --format json");
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return simulate_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
