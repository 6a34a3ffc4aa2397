#include <fmt/format.h>

#include <memory>

#include "advice/advice.hpp"
#include "cli/html/page_output.hpp"
#include "cli/html/report_answer.hpp"
#include "cli/shared/flag_checks.hpp"
#include "cli/shared/output.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/verbs.hpp"
#include "core/files/output_file.hpp"
#include "core/scenario/scenario.hpp"
#include "core/text/unit_text.hpp"
#include "engine/architectures/bind_model.hpp"
#include "report/serving/request_csv.hpp"
#include "report/terminal/progress_line.hpp"
#include "report/trace_stream.hpp"
#include "sim/by_context.hpp"
#include "sim/serving/scenario_ram.hpp"
#include "sim/serving/simulate_load.hpp"
#include "sim/serving/watch/load_trace.hpp"
#include "sim/simulate.hpp"

namespace rigcast::cli {
namespace {

constexpr std::int64_t kMaxPosition = 1'000'000'000;

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  std::string trace_file;
  std::string requests_file;
  std::vector<std::string> positions;  // whole numbers
  bool exact = false;
  bool by_context = false;
  bool timelines = false;
  bool no_advice = false;
};

// The positions as numbers. Errors: one that the scenario's context does not hold.
Result<std::vector<TokenCount>> positions_of(const std::vector<std::string>& texts,
                                             const Scenario& s) {
  std::vector<TokenCount> out;
  for (const std::string& text : texts) {
    const TokenCount position = out.emplace_back(std::stoll(text));
    if (position <= s.workload.context) continue;
    return bad_input(fmt::format("--positions: {} tokens exceed the context of {}",
                                 text_count(position), text_count(s.workload.context)),
                     position <= s.model.context
                         ? fmt::format("--context {}", position)
                         : fmt::format("{} was trained on {} tokens", s.model.name,
                                       text_count(s.model.context)));
  }
  return out;
}

// The timeline of a load, which is written while it is served.
struct LoadTraceFile {
  LoadTraceFile(TraceStream to, std::size_t units) : out(std::move(to)), trace(out, units) {}
  TraceStream out;
  LoadTrace trace;
};

// What the scenario's load gets of its server. `trace_file`: of its timeline; `requests_file`: of
// the times of each request; empty: none.
std::optional<Error> add_serving(Report& report, const std::string& trace_file,
                                 const std::string& requests_file) {
  const Scenario& s = *report.scenario;
  auto simulation = LoadSimulation::make(s);
  if (!simulation) return simulation.error();
  ProgressLine progress;
  simulation->watch([&progress](std::size_t requests) {
    if (requests % 100 == 0) progress.show(fmt::format("{} requests", requests));
  });
  std::string requests;
  if (!requests_file.empty())
    simulation->on_served([&](const ServedLoad& served) { requests = request_csv(served); });
  std::optional<LoadTraceFile> file;
  if (!trace_file.empty()) {
    const int engines = s.placement.groups.data;
    const std::string of =
        engines > 1 ? fmt::format(", one of {} engines with its share of the load", engines) : "";
    auto out = TraceStream::create(
        trace_file, fmt::format("{}, {} predicted{}", s.model.name, text(*s.load), of));
    if (!out) return out.error();
    file.emplace(*std::move(out), simulation->cache_units());
  }
  auto serving = simulation->report(*s.load, file ? &file->trace : nullptr);
  if (!serving) return serving.error();
  report.serving = *std::move(serving);
  if (!requests_file.empty())
    if (auto error = write_file(requests_file, requests)) return error;
  if (auto note = note_on_ram_limit(s, simulation->memory().ram_cache); !note.empty())
    report.warnings.push_back(std::move(note));
  if (auto note = simulation->paging_note(); !note.empty()) report.warnings.push_back(note);
  if (!file) return std::nullopt;
  file->trace.finish();
  if (auto note = file->trace.left_out(); !note.empty())
    report.warnings.insert(report.warnings.begin(), std::move(note));
  return file->out.finish();
}

// Forecasts know more models than the engine computes: who asks about this runtime is told.
void tell_unexecuted(Report& report) {
  const Scenario& s = *report.scenario;
  if (s.runtime.id != "rigcast") return;
  if (const auto error = engine::check_executable(s.model))
    report.warnings.insert(report.warnings.begin(),
                           "a forecast alone, rigcast run refuses it: " + error->message);
}

// What only JSON and pages tell is refused for another format, rather than left out of it.
std::optional<Error> check_json_alone(const Options& options) {
  const OutputOptions& output = options.output;
  if (output.format == Format::kJson || !output.html.empty()) return std::nullopt;
  const char* const flag = options.timelines    ? "--timelines"
                           : options.by_context ? "--by-context"
                                                : nullptr;
  if (!flag) return std::nullopt;
  return bad_input(fmt::format("{} is told in JSON alone", flag), "--format json, or --html FILE");
}

int simulate_verb(const Options& options, const Catalogue& catalogue) {
  if (const auto error =
          check_outputs({options.output.file, options.trace_file, options.requests_file}))
    return fail(*error);
  if (const auto error = check_html(options.output, {options.trace_file, options.requests_file}))
    return fail(*error);
  if (const auto error = check_json_alone(options)) return fail(*error);
  const auto document = options.flags.document();
  if (!document) return fail(document.error());
  auto scenario = make_scenario(*document, catalogue);
  if (!scenario) return fail(scenario.error());
  if (const auto error = check_inputs_stay(
          *scenario, options.flags.file(),
          {options.output.file, options.output.html, options.trace_file, options.requests_file}))
    return fail(*error);

  if (options.output.format == Format::kCsv) warn_of_hours(*scenario);
  if (scenario->load && options.output.format == Format::kCsv)
    return fail(bad_input("a load has no csv", "--format json, or --requests FILE"));
  if (!scenario->load && !options.requests_file.empty())
    return fail(bad_input("--requests: the scenario has no load", "--users N, or --rate R"));

  sim::SimulateOptions how;
  how.fidelity = options.exact ? sim::Fidelity::kExact : sim::Fidelity::kFinal;
  const auto positions = positions_of(options.positions, *scenario);
  if (!positions) return fail(positions.error());
  how.positions = *positions;
  std::vector<TraceEvent> events;
  const bool traces_request = !options.trace_file.empty() && !scenario->load;
  if (traces_request) how.trace = &events;
  Report report = sim::simulate(std::make_shared<const Scenario>(*std::move(scenario)), how);
  tell_unexecuted(report);
  if (report.fits && report.scenario->load) {
    if (auto error = add_serving(report, options.trace_file, options.requests_file))
      return fail(*error);
  }
  const bool has_page = !options.output.html.empty();
  if (options.by_context || has_page) report.by_context = sim::by_context(*report.scenario);
  if (!options.no_advice && !report.serving) {
    auto advice = advise(*document, catalogue, report);
    if (!advice) return fail(advice.error());
    report.advice = *std::move(advice);
  }

  if (traces_request && report.fits) {
    const std::string title = report.scenario->model.name + " predicted";
    if (auto error = write_file(options.trace_file, to_chrome_trace(events, title)))
      return fail(*error);
  }
  Answer answer = answer_of(report);
  if ((has_page || options.timelines) && report.fits)
    answer.timelines = forecast_timelines(report.scenario);
  if (options.timelines) tell_timelines(answer);
  if (auto error = emit(options.output, answer)) return fail(*error);
  return report.fits ? kDone : kAnswerIsNo;
}

}  // namespace

void add_simulate(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("simulate", "Forecast TTFT, TPS, memory and cliffs");
  auto options = std::make_shared<Options>();
  options->flags.add_to(*verb);
  options->output.add_to(*verb);
  add_html(*verb, options->output);
  verb->add_option("--trace", options->trace_file,
                   "write a Chrome/Perfetto trace; of a load, what each slot and copy does")
      ->check(not_empty())
      ->type_name("FILE")
      ->group("Output");
  verb->add_option("--requests", options->requests_file,
                   "write the times of each request of a load (CSV)")
      ->check(not_empty())
      ->type_name("FILE")
      ->group("Output");
  const auto is_position = [](std::string& item) { return integer_within(0, kMaxPosition)(item); };
  add_list(*verb, "--positions", options->positions, "tokens in the cache to report speed at",
           is_position)
      ->type_name("N,N")
      ->group("Output");
  verb->add_flag("--exact", options->exact, "simulate every token, no sampling")->group("Output");
  verb->add_flag("--by-context", options->by_context,
                 "speed at both ends of contexts up to the model's, in JSON")
      ->group("Output");
  verb->add_flag("--timelines", options->timelines,
                 "what each resource does when, for one request, in JSON: from the start, from a "
                 "cold one, and for a token")
      ->group("Output");
  verb->add_flag("--no-advice", options->no_advice, "do not simulate alternatives")
      ->group("Output");
  verb->footer(
      "Examples\n"
      "  rigcast simulate --gpu rtx-3060-12gb --model llama-3.1-8b --quant Q6_K --context 32768\n"
      "  rigcast simulate --rig dual-rtx-3090 --model llama-3.3-70b --gpu-layers auto\n"
      "  rigcast simulate --gpu 2xrtx-3090 --model llama-3.3-70b --split-mode tensor\n"
      "  rigcast simulate examples/s1-mistral.toml --positions 0,4000,7000\n"
      "  rigcast simulate my.toml --set kv.threshold=0.9 --format json\n"
      "  rigcast simulate --gpu rtx-4090 --model llama-3.1-8b --users 14 --load chat --trace "
      "load.json");
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return simulate_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
