#include "cli/validate_runs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "cli/executed.hpp"
#include "cli/interrupt.hpp"
#include "cli/output.hpp"
#include "cli/suite.hpp"
#include "cli/this_machine.hpp"
#include "core/csv_quote.hpp"
#include "core/report_comparison.hpp"
#include "core/unit_text.hpp"
#include "engine/runtime/measured_report.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "probe/machine.hpp"
#include "sim/simulate.hpp"

namespace rigcast::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 6;
constexpr double kChanged = 0.10;  // of the cores' rates between probe and run
constexpr const char* kSuite = "suite.toml";

void say(const std::string& text) {
  if (::isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

std::string clock_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

std::optional<std::string> text_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(in), {});
}

std::optional<Error> make_folder(const fs::path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (!failed) return std::nullopt;
  return Error{ErrorKind::kMachine, "cannot be made: " + failed.message(),
               "--keep DIR, a folder that can be written to", SourceRef{folder.string()}};
}

// "03.forecast.json" of the third run.
fs::path part(const fs::path& folder, std::size_t index, const char* what) {
  return folder / fmt::format("{:02}.{}", index + 1, what);
}

// A run's scenario on a rig file, from resident weights unless it says otherwise.
Result<Scenario> scenario_on(const TomlDocument& run, const fs::path& rig,
                             const Catalogue& catalogue) {
  TomlDocument document = run.clone();
  if (!names_a_rig(run))
    if (auto error = document.set("rig.name", toml_text(rig.string()), "the probed rig"))
      return *error;
  if (!run.has("workload.start"))
    if (auto error = document.set("workload.start", "\"resident\"", "validate")) return *error;
  return make_scenario_here(document, catalogue);
}

struct Forecast {
  Report report;
  std::vector<TraceEvent> events;
};

Forecast forecast_of(const Scenario& scenario, std::vector<TokenCount> positions) {
  Forecast out;
  sim::SimulateOptions how;
  how.cliffs = false;
  how.positions = std::move(positions);
  how.trace = &out.events;
  out.report = sim::simulate(std::make_shared<const Scenario>(scenario), how);
  return out;
}

// A file of synthetic weights for as long as this lives.
class WeightFile {
 public:
  explicit WeightFile(fs::path path) : path_(std::move(path)) {}
  ~WeightFile() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  WeightFile(const WeightFile&) = delete;
  WeightFile& operator=(const WeightFile&) = delete;

  std::optional<Error> write(const Scenario& s) const {
    say("writing weights ...");
    return engine::write_synthetic_file(s.model, s.tensors, s.quant, 1, path_,
                                        [](std::uint64_t) { return !interrupted(); });
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// How far memory is from what was probed for as many threads, as a share; 0 where that was not.
double change_of_memory(const probe::Machine& machine, int threads, BytesPerSecond now) {
  const bool one = threads == 1;
  if (!one && threads != machine.host.cores) return 0;
  const double then = (one ? machine.dram.front() : machine.dram.back()).median;
  return then > 0 && now.value > 0 ? std::fabs(now.value / then - 1) : 0;
}

class Runs {
 public:
  Runs(const RunsOptions& options, const Catalogue& catalogue)
      : options_(options), catalogue_(catalogue), keep_(options.keep) {}

  Result<Validation> all(const std::vector<SuiteRun>& runs) {
    const OnInterrupt on_interrupt;
    if (auto error = make_folder(keep_)) return *error;
    if (auto error = keep_suite(runs)) return *error;
    times_ = "run,rigcast,forecast_written,run_started,tries,machine_changed\n";
    for (std::size_t i = 0; i < runs.size(); ++i) {
      say(fmt::format("{} of {}: {} ...", i + 1, runs.size(), runs[i].name));
      if (auto error = one(i, runs[i])) {
        if (runs.size() == 1 || interrupted()) return *error;
        result_.skipped.push_back({runs[i].name, error->message});
      }
      if (auto error = write_file((keep_ / "times.csv").string(), times_)) return *error;
    }
    say("");
    if (runs.size() > 1) result_.activities.clear();
    result_.against = keep_.string();
    result_.summary = summarize(result_.rows);
    return std::move(result_);
  }

 private:
  // What can be forecast anew from this folder alone.
  std::optional<Error> keep_suite(const std::vector<SuiteRun>& runs) const {
    std::string suite;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      const fs::path scenario = part(keep_, i, "scenario.toml");
      if (auto error = write_file(scenario.string(), runs[i].scenario.text())) return error;
      suite +=
          fmt::format("[[run]]\nname = {}\nscenario = {}\nfile = {}\n\n", toml_text(runs[i].name),
                      toml_text(scenario.filename().string()), runs[i].file);
    }
    return write_file((keep_ / kSuite).string(), suite);
  }

  // One go at a run: what was on disk before it, and what came of it.
  struct Try {
    std::string rig, forecast, measured, activities;  // as they are kept
    std::string written, started;                     // times
    double changed = 0;  // of the cores' rates, from before to after; 0 where this cannot be told
    std::vector<ValidationRow> rows;
    std::vector<ActivityRow> activity_rows;
    std::optional<std::string> busy;
    double traced_slowdown = 0;
    BytesPerSecond ceiling;  // of memory, right after the run
  };

  // Where neighbours took memory or cores meanwhile, again: the calmest try counts.
  std::optional<Error> one(std::size_t index, const SuiteRun& run) {
    const WeightFile weights(scratch() / fmt::format("rigcast-weights-{}.gguf", ::getpid()));
    const bool own_file = run.file && !run.scenario.has("model.file");
    if (own_file)
      if (auto error = write_weights(run, weights)) return error;
    std::optional<Try> best;
    int tries = 0;
    do {
      if (tries++ > 0) say(fmt::format("{}: the machine changed, again ...", run.name));
      auto next = attempt(index, run, own_file ? weights.path() : fs::path());
      if (!next) return next.error();
      if (!best || next->changed < best->changed) best = *std::move(next);
    } while (best->changed > kChanged && tries < kTries);
    return record(index, run, *std::move(best), tries);
  }

  std::optional<Error> write_weights(const SuiteRun& run, const WeightFile& file) const {
    TomlDocument document = run.scenario.clone();
    const auto scenario = make_scenario_here(document, catalogue_);
    return scenario ? file.write(*scenario) : std::optional(scenario.error());
  }

  std::optional<Error> record(std::size_t index, const SuiteRun& run, Try best, int tries) {
    if (auto error = keep(index, best)) return error;
    times_ += fmt::format("{},{},{},{},{},{:.3f}\n", csv_quote(run.name), RIGCAST_VERSION,
                          best.written, best.started, tries, best.changed);
    if (best.changed > kChanged)
      result_.notes.push_back(
          {run.name,
           fmt::format("the machine changed by {:.0f} % while it ran, at best in {} tries",
                       100 * best.changed, tries)});
    if (best.busy) result_.notes.push_back({run.name, *best.busy});
    result_.traced_slowdown =
        std::max(result_.traced_slowdown.value_or(best.traced_slowdown), best.traced_slowdown);
    result_.rows.insert(result_.rows.end(), best.rows.begin(), best.rows.end());
    result_.activities = std::move(best.activity_rows);
    return std::nullopt;
  }

  std::optional<Error> keep(std::size_t index, const Try& done) const {
    const std::pair<const char*, const std::string*> files[] = {
        {"rig.toml", &done.rig},
        {"forecast.json", &done.forecast},
        {"measured.json", &done.measured},
        {"activities.json", &done.activities}};
    for (const auto& [what, text] : files)
      if (!text->empty())
        if (auto error = write_file(part(keep_, index, what).string(), *text)) return error;
    return std::nullopt;
  }

  // The cores before every run, and the disk before those that start from it: that is what
  // neighbours change. Nothing of a rig that is named.
  Result<std::string> probed_rig(const SuiteRun& run) {
    if (names_a_rig(run.scenario)) return std::string();
    if (!machine_) {
      auto machine = probe::measure_machine(scratch(), say);
      if (!machine) return machine.error();
      machine_ = *std::move(machine);
    } else {
      if (run.file || run.scenario.has("model.file"))
        if (auto error = probe::measure_disk_again(*machine_, scratch(), say)) return *error;
      probe::measure_cores(*machine_, say);
    }
    return probe::rig_toml(*machine_, cpu_of_catalogue(machine_->host, catalogue_));
  }

  // `weights`: a file to start from; empty: what the scenario says.
  Result<Try> attempt(std::size_t index, const SuiteRun& run, const fs::path& weights) {
    Try out;
    auto rig = probed_rig(run);
    if (!rig) return rig.error();
    out.rig = *std::move(rig);
    if (auto error = keep(index, out)) return *error;
    auto scenario = scenario_on(run.scenario, part(keep_, index, "rig.toml"), catalogue_);
    if (!scenario) return scenario.error();
    if (!weights.empty()) scenario->model_file = weights;
    if (auto error = forecast_and_run(index, run, *scenario, out)) return *error;
    if (machine_) {
      const double within = change_of_memory(*machine_, scenario->settings.threads, out.ceiling);
      out.changed = std::max(within, probe::change_of_cores(*machine_));
    }
    return out;
  }

  std::optional<Error> forecast_and_run(std::size_t index, const SuiteRun& run, Scenario scenario,
                                        Try& out) {
    ExecuteOptions how;
    how.synthetic = !scenario.model_file;
    how.repeat = options_.repeat;
    how.trace = true;
    if (auto error = refuse_to_run(scenario, how)) return error;
    const Forecast forecast = forecast_of(scenario, engine::reported_positions(scenario.workload));
    if (!forecast.report.fits)
      return Error{ErrorKind::kDoesNotFit,
                   forecast.report.errors.empty() ? "does not fit" : forecast.report.errors[0]};
    out.forecast = to_json(forecast.report);
    if (auto error = keep(index, out)) return error;
    out.written = clock_time();

    out.started = clock_time();
    const auto executed = execute(std::make_shared<Scenario>(std::move(scenario)), how);
    if (!executed) return executed.error();
    if (interrupted()) return Error{ErrorKind::kMachine, "interrupted"};
    out.measured = to_json(executed->report);
    out.busy = executed->busy;
    out.ceiling = executed->report.measured->ceiling;
    out.traced_slowdown = executed->traced_slowdown.value_or(0);
    out.activity_rows = compare_activities(forecast.events, executed->events);
    out.activities = to_json(out.activity_rows);
    auto rows = compare_reports(run.name, forecast.report, out.measured, out.activity_rows);
    if (!rows) return rows.error();
    out.rows = *std::move(rows);
    return keep(index, out);
  }

  fs::path scratch() const {
    return options_.scratch.empty() ? fs::temp_directory_path() : fs::path(options_.scratch);
  }

  const RunsOptions& options_;
  const Catalogue& catalogue_;
  fs::path keep_;
  std::optional<probe::Machine> machine_;
  std::string times_;
  Validation result_;
};

}  // namespace

void RunsOptions::add_to(CLI::App& verb) {
  constexpr const char* kGroup = "Runs";
  flags.add_to(verb);
  verb.add_option("--suite", suite, "scenarios to run one after the other: quick, cpu, or a file")
      ->type_name("NAME")
      ->group(kGroup);
  verb.add_flag("--file", file, "also warm and cold starts, from a file that is written for it")
      ->group(kGroup);
  verb.add_option("--repeat", repeat, "timed runs from resident weights")
      ->check(CLI::Range(1, 1000))
      ->type_name("N")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--keep", keep, "folder for rigs, forecasts and runs")
      ->type_name("DIR")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--scratch", scratch, "folder for weights and the disk's test file")
      ->type_name("DIR")
      ->group(kGroup);
  verb.add_option("--replay", replay, "forecast anew what was kept in a folder; nothing is run")
      ->type_name("DIR")
      ->group(kGroup);
}

Result<Validation> validate_runs(const RunsOptions& options, const Catalogue& catalogue) {
  Runs runs(options, catalogue);
  std::string file = options.flags.file();
  if (!options.suite.empty()) {
    const auto found = find_suite(options.suite, catalogue);
    if (!found) return found.error();
    file = found->string();
  }
  if (!file.empty() && is_suite(file)) {
    auto suite = read_suite(file);
    if (!suite) return suite.error();
    return runs.all(*suite);
  }
  if (!options.suite.empty())
    return bad_input("--suite: there are no runs in this file", "[[run]] with name and flags",
                     SourceRef{file});
  auto document = options.flags.document();
  if (!document) return document.error();
  if (!document->has("model.name") && !document->has("model.file"))
    return bad_input("validate needs a scenario to run, or a file of measurements",
                     "--suite quick, --model llama-3.2-1b, a scenario, or --against runs.jsonl as "
                     "llama-bench writes it");
  return runs.all({SuiteRun{"this scenario", *std::move(document), options.file}});
}

Result<Validation> replay_runs(const RunsOptions& options, const Catalogue& catalogue) {
  const fs::path folder = options.replay;
  const auto suite = read_suite(folder / kSuite);
  if (!suite) return suite.error();
  Validation out;
  out.against = folder.string();
  for (std::size_t i = 0; i < suite->size(); ++i) {
    const SuiteRun& run = (*suite)[i];
    const auto measured = text_of(part(folder, i, "measured.json"));
    if (!measured) {
      out.skipped.push_back({run.name, "was not run"});
      continue;
    }
    const auto scenario = scenario_on(run.scenario, part(folder, i, "rig.toml"), catalogue);
    if (!scenario) return scenario.error();
    const Forecast forecast = forecast_of(*scenario, positions_of(*measured));
    const auto kept =
        activities_from_json(text_of(part(folder, i, "activities.json")).value_or(std::string()));
    const auto rows = compare_reports(run.name, forecast.report, *measured,
                                      compare_activities(forecast.events, kept));
    if (!rows) return rows.error();
    out.rows.insert(out.rows.end(), rows->begin(), rows->end());
  }
  out.summary = summarize(out.rows);
  return out;
}

}  // namespace rigcast::cli
