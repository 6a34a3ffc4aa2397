#include "cli/validate_runs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "cli/executed.hpp"
#include "cli/output.hpp"
#include "cli/suite.hpp"
#include "cli/this_machine.hpp"
#include "core/report_comparison.hpp"
#include "core/unit_text.hpp"
#include "engine/runtime/measured_report.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "probe/machine.hpp"
#include "sim/simulate.hpp"

namespace rigcast::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 3;
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
  return Error{
      ErrorKind::kMachine, "cannot be made: " + failed.message(), {}, SourceRef{folder.string()}};
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
    return engine::write_synthetic_file(s.model, s.tensors, s.quant, 1, path_.string(), {});
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

class Runs {
 public:
  Runs(const RunsOptions& options, const Catalogue& catalogue)
      : options_(options), catalogue_(catalogue), keep_(options.keep) {}

  Result<Validation> all(const std::vector<SuiteRun>& runs) {
    if (auto error = make_folder(keep_)) return *error;
    if (auto error = keep_suite(runs)) return *error;
    times_ = "run,forecast_written,run_started,tries,machine_changed\n";
    for (std::size_t i = 0; i < runs.size(); ++i) {
      say(fmt::format("{} of {}: {} ...", i + 1, runs.size(), runs[i].name));
      if (auto error = one(i, runs[i])) {
        if (runs.size() == 1) return *error;
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

  std::optional<Error> one(std::size_t index, const SuiteRun& run) {
    for (int tried = 1;; ++tried) {
      if (auto error = probe(part(keep_, index, "rig.toml"), run)) return error;
      auto scenario = scenario_on(run.scenario, part(keep_, index, "rig.toml"), catalogue_);
      if (!scenario) return scenario.error();
      const auto done = forecast_and_run(index, run, *std::move(scenario), tried);
      if (!done) return done.error();
      if (*done || tried == kTries) return std::nullopt;
      say(fmt::format("{}: the machine changed, again ...", run.name));
    }
  }

  // The disk once, the cores before every run: that is what neighbours change.
  std::optional<Error> probe(const fs::path& rig, const SuiteRun& run) {
    if (names_a_rig(run.scenario)) return std::nullopt;
    if (!machine_) {
      auto machine = probe::measure_machine(scratch(), say);
      if (!machine) return machine.error();
      machine_ = *std::move(machine);
    } else {
      probe::measure_cores(*machine_, say);
    }
    return write_file(rig.string(),
                      probe::rig_toml(*machine_, cpu_of_catalogue(machine_->host, catalogue_)));
  }

  // True: the machine was the same before and after, or this cannot be told. Rows are of the last
  // try.
  Result<bool> forecast_and_run(std::size_t index, const SuiteRun& run, Scenario scenario,
                                int tried) {
    ExecuteOptions how;
    how.synthetic = !scenario.model_file && !run.file;
    how.repeat = options_.repeat;
    how.trace = true;
    Scenario check = scenario;
    if (run.file && !check.model_file) check.model_file = scratch();  // there will be one
    if (auto error = refuse_to_run(check, how)) return *error;
    const Forecast forecast = forecast_of(scenario, engine::reported_positions(scenario.workload));
    if (!forecast.report.fits)
      return Error{ErrorKind::kDoesNotFit,
                   forecast.report.errors.empty() ? "does not fit" : forecast.report.errors[0]};
    if (auto error =
            write_file(part(keep_, index, "forecast.json").string(), to_json(forecast.report)))
      return *error;
    const std::string written = clock_time();

    const WeightFile weights(scratch() / fmt::format("rigcast-weights-{}.gguf", ::getpid()));
    if (run.file && !scenario.model_file) {
      if (auto error = weights.write(scenario)) return *error;
      scenario.model_file = weights.path();
    }
    const std::string started = clock_time();
    const auto executed = execute(std::make_shared<Scenario>(std::move(scenario)), how);
    if (!executed) return executed.error();
    const std::string measured = to_json(executed->report);
    if (auto error = write_file(part(keep_, index, "measured.json").string(), measured))
      return *error;

    const double change = machine_ ? probe::change_of_cores(*machine_) : 0;
    const bool same = change <= kChanged;
    if (!same && tried < kTries) return false;
    times_ += fmt::format("\"{}\",{},{},{},{:.3f}\n", run.name, written, started, tried, change);
    auto rows = compare_reports(run.name, forecast.report, measured);
    if (!rows) return rows.error();
    if (!same)
      result_.notes.push_back(
          {run.name,
           fmt::format("the machine changed by {:.0f} % while it ran, in each of {} tries",
                       100 * change, tried)});
    result_.rows.insert(result_.rows.end(), rows->begin(), rows->end());
    result_.activities = compare_activities(forecast.events, executed->events);
    if (auto error =
            write_file(part(keep_, index, "activities.csv").string(), to_csv(result_.activities)))
      return *error;
    return true;
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
  const std::string& file = options.flags.file();
  if (!file.empty() && is_suite(file)) {
    auto suite = read_suite(file);
    if (!suite) return suite.error();
    return runs.all(*suite);
  }
  auto document = options.flags.document();
  if (!document) return document.error();
  if (!document->has("model.name") && !document->has("model.file"))
    return bad_input("validate needs a scenario to run, or a file of measurements",
                     "--model llama-3.2-1b, a scenario, a suite, or --against runs.jsonl as "
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
    const auto rows = compare_reports(
        run.name, forecast_of(*scenario, positions_of(*measured)).report, *measured);
    if (!rows) return rows.error();
    out.rows.insert(out.rows.end(), rows->begin(), rows->end());
  }
  out.summary = summarize(out.rows);
  return out;
}

}  // namespace rigcast::cli
