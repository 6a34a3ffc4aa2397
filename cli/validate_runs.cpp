#include "cli/validate_runs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "cli/executed.hpp"
#include "cli/interrupt.hpp"
#include "cli/kept_runs.hpp"
#include "cli/kept_scenario.hpp"
#include "cli/run_apart.hpp"
#include "cli/suite.hpp"
#include "cli/this_machine.hpp"
#include "core/files/temporary_file.hpp"
#include "core/text/csv_quote.hpp"
#include "core/text/unit_text.hpp"
#include "engine/runtime/cuda_executor.hpp"
#include "engine/runtime/measured_report.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "probe/gpu_part.hpp"
#include "probe/machine.hpp"
#include "sim/simulate.hpp"
#include "validation/report_comparison.hpp"

namespace rigcast::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kTries = 6, kTriesOnGpu = 2;
constexpr double kChanged = 0.10;  // of the cores' rates between probe and run

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

struct Forecast {
  Report report;
  std::vector<TraceEvent> events;
};

Forecast forecast_of(const Scenario& scenario, std::vector<TokenCount> positions) {
  Forecast out;
  sim::SimulateOptions how;
  how.cliffs = scenario.kv.policy == KvPolicy::kPaged || scenario.kv.policy == KvPolicy::kCombined;
  how.positions = std::move(positions);
  how.trace = &out.events;
  out.report = sim::simulate(std::make_shared<const Scenario>(scenario), how);
  return out;
}

// A file of synthetic weights for as long as this lives.
class WeightFile {
 public:
  explicit WeightFile(fs::path path) : path_(std::move(path)) {}

  std::optional<Error> write(const Scenario& s) {
    say("writing weights ...");
    auto error =
        engine::write_synthetic_file(s.model, s.tensors, s.quant, 1, path_, {}, stop_flag());
    if (!error) file_ = TemporaryFile(path_);
    return error;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  TemporaryFile file_;
};

// How far memory is from what was probed for as many threads, as a share; 0 where that was not.
double change_of_memory(const probe::Machine& machine, int threads, BytesPerSecond now) {
  const bool one = threads == 1;
  if (!one && threads != machine.host.cores) return 0;
  const double then = (one ? machine.dram.front() : machine.dram.back()).median;
  return then > 0 && now.value > 0 ? std::fabs(now.value / then - 1) : 0;
}

// The host has a part in it, whose rates change with what else it does.
bool host_takes_part(const TomlDocument& run, Device device) {
  constexpr const char* kShares[] = {"placement.gpu_layers", "placement.cpu_moe_layers",
                                     "placement.decode_device", "kv.policy"};
  return device == Device::kCpu ||
         std::ranges::any_of(kShares, [&](const char* key) { return run.has(key); });
}

// Rows of a run that is over, on what its folder has.
Result<std::vector<ValidationRow>> kept_rows(const KeptRuns& kept, std::size_t i,
                                             const SuiteRun& run, const Catalogue& catalogue) {
  const std::string measured = kept.text(i, "measured.json").value_or("");
  auto scenario = scenario_on(run.scenario, kept.part(i, "rig.toml"), catalogue);
  if (!scenario) return scenario.error();
  if (run.file && !scenario->model_file) scenario->model_file = "weights.gguf";  // which is gone
  const Forecast forecast = forecast_of(*scenario, positions_of(measured));
  const auto activities = activities_from_json(kept.text(i, "activities.json").value_or(""));
  return compare_reports(run.name, forecast.report, measured,
                         compare_activities(forecast.events, activities));
}

// With others a run that fails is skipped, and told by its name.
Error of_only_run(Error error, const Suite& suite) {
  if (suite.file.empty()) return error;
  const std::string at = error.where ? error.where->text() + ": " : std::string();
  error.message = fmt::format("{}: {}{}", suite.runs.front().name, at, error.message);
  error.where = SourceRef{suite.file.string()};
  return error;
}

class Runs {
 public:
  Runs(const RunsOptions& options, Device device, const Catalogue& catalogue)
      : options_(options), device_(device), catalogue_(catalogue), kept_(options.keep) {}

  Result<Validation> all(const Suite& suite) {
    const OnInterrupt on_interrupt;
    if (auto error = kept_.begin(suite, options_.resume)) return *error;
    const std::string began = clock_time();
    for (std::size_t i = 0; i < suite.runs.size(); ++i) {
      const SuiteRun& run = suite.runs[i];
      say(fmt::format("{} of {}: {} ...", i + 1, suite.runs.size(), run.name));
      const auto error = run_or_take(i, run);
      if (!error) continue;
      if (suite.runs.size() == 1) return of_only_run(*error, suite);
      result_.skipped.push_back({run.name, error->message});
      if (!interrupted() && device_ == Device::kCuda)
        if (const auto gpu = engine::cuda_device(); !gpu) return gpu.error();
    }
    say("");
    if (suite.runs.size() > 1) result_.activities.clear();
    result_.against = kept_.folder().string();
    result_.when =
        fmt::format("{} to {}, each forecast written before its run", began, clock_time());
    result_.summary = summarize(result_.rows);
    return std::move(result_);
  }

 private:
  // Why there are no rows of it, or nothing.
  std::optional<Error> run_or_take(std::size_t i, const SuiteRun& run) {
    if (options_.resume && kept_.was_run(i)) {
      const auto rows = kept_rows(kept_, i, run, catalogue_);
      if (!rows) return rows.error();
      result_.rows.insert(result_.rows.end(), rows->begin(), rows->end());
      return std::nullopt;
    }
    if (interrupted()) return Error{ErrorKind::kMachine, "was not run"};
    if (const auto why = options_.resume ? kept_.failure(i) : std::nullopt)
      return Error{ErrorKind::kMachine, *why};
    const auto error = one_or_interrupted(i, run);
    if (!error) return std::nullopt;
    if (interrupted())
      kept_.forget_run(i);
    else
      kept_.fail_run(i, error->message);
    return error;
  }

  std::optional<Error> one_or_interrupted(std::size_t i, const SuiteRun& run) try {
    return one(i, run);
  } catch (const Interrupted& e) {
    return Error{ErrorKind::kMachine, e.what()};
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
    WeightFile weights(scratch() / fmt::format("rigcast-weights-{}.gguf", ::getpid()));
    const bool own_file = run.file && !run.scenario.has("model.file");
    if (own_file)
      if (auto error = write_weights(run, weights)) return error;
    const int most = device_ == Device::kCuda ? kTriesOnGpu : kTries;
    std::optional<Try> best;
    int tries = 0;
    do {
      if (tries++ > 0) say(fmt::format("{}: the machine changed, again ...", run.name));
      auto next = attempt(index, run, own_file ? weights.path() : fs::path());
      if (!next && !best) return next.error();
      if (!next) break;  // what was interrupted is no better
      if (!best || next->changed < best->changed) best = *std::move(next);
    } while (best->changed > kChanged && tries < most);
    return record(index, run, *std::move(best), tries);
  }

  std::optional<Error> write_weights(const SuiteRun& run, WeightFile& file) const {
    TomlDocument document = run.scenario.clone();
    const TimeLimit limit(options_.time_limit);
    const auto scenario = make_scenario_here(document, catalogue_, device_);
    return scenario ? file.write(*scenario) : std::optional(scenario.error());
  }

  std::optional<Error> record(std::size_t index, const SuiteRun& run, Try best, int tries) {
    if (tries > 1)
      if (auto error = keep(index, best)) return error;
    const std::string times =
        fmt::format("{},{},{},{},{},{:.3f}\n", csv_quote(run.name), RIGCAST_VERSION, best.written,
                    best.started, tries, best.changed);
    if (auto error = kept_.end_run(index, times)) return error;
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
        if (auto error = kept_.write(index, what, *text)) return error;
    return std::nullopt;
  }

  // The cores before every run that they have a part in, and the disk before those that start from
  // it: that is what neighbours change. Nothing of a rig that is named.
  Result<std::string> probed_rig(const SuiteRun& run) {
    if (names_a_rig(run.scenario)) return std::string();
    if (!machine_) {
      auto machine = probe::measure_machine(scratch(), say, stop_flag());
      if (!machine) return machine.error();
      machine_ = *std::move(machine);
      if (device_ == Device::kCuda) machine_->gpus = probe::measure_gpus(say, stop_flag());
    } else {
      if (run.file || run.scenario.has("model.file"))
        if (auto error = probe::measure_disk_again(*machine_, scratch(), say, stop_flag()))
          return *error;
      if (device_ == Device::kCpu)
        probe::measure_cores(*machine_, say, stop_flag());
      else if (host_takes_part(run.scenario, device_))
        probe::measure_all_cores(*machine_, say, stop_flag());
    }
    return probe::rig_toml(*machine_, cpu_of_catalogue(machine_->host, catalogue_), gpus());
  }

  std::vector<std::string> gpus() const {
    std::vector<std::string> ids;
    for (const probe::Gpu& gpu : machine_->gpus.found)
      ids.push_back(probe::gpu_of_catalogue(gpu, catalogue_));
    return ids;
  }

  // `weights`: a file to start from; empty: what the scenario says.
  Result<Try> attempt(std::size_t index, const SuiteRun& run, const fs::path& weights) {
    Try out;
    auto rig = probed_rig(run);
    if (!rig) return rig.error();
    out.rig = *std::move(rig);
    if (auto error = keep(index, out)) return *error;
    auto scenario = scenario_on(run.scenario, kept_.part(index, "rig.toml"), catalogue_);
    if (!scenario) return scenario.error();
    if (!weights.empty()) scenario->model_file = weights;
    if (auto error = forecast_and_run(index, run, *scenario, out)) return *error;
    if (machine_ && host_takes_part(run.scenario, device_)) {
      const double within =
          device_ == Device::kCuda
              ? 0
              : change_of_memory(*machine_, scenario->settings.threads, out.ceiling);
      out.changed = std::max(within, probe::change_of_cores(*machine_, stop_flag()));
    }
    return out;
  }

  HowRun how_run() const {
    HowRun how{device_, options_.repeat, {}};
    if (machine_ && !machine_->gpus.found.empty())
      how.vram_ceiling = BytesPerSecond{machine_->gpus.found.front().vram.read.median};
    return how;
  }

  std::optional<Error> forecast_and_run(std::size_t index, const SuiteRun& run,
                                        const Scenario& scenario, Try& out) {
    ApartOptions apart{kept_.folder().string(), index, how_run(), {}, {}, options_.time_limit};
    if (auto error = refuse_to_run(scenario, execution(run, scenario, apart.how))) return error;
    const Forecast forecast = forecast_of(scenario, engine::reported_positions(scenario.workload));
    if (!forecast.report.fits)
      return Error{ErrorKind::kDoesNotFit,
                   forecast.report.errors.empty() ? "does not fit" : forecast.report.errors[0]};
    out.forecast = to_json(forecast.report);
    if (auto error = keep(index, out)) return error;
    out.written = clock_time();
    if (auto error = kept_.begin_run(index)) return error;
    if (scenario.model_file) apart.weights = scenario.model_file->string();
    // As many layers as were forecast, where it was left open how many.
    if (device_ == Device::kCuda) apart.gpu_layers = forecast.report.placement.gpu_layers;

    out.started = clock_time();
    const auto ran = run_apart(apart);
    if (!ran) return ran.error();
    if (interrupted()) return Error{ErrorKind::kMachine, "interrupted"};
    out.measured = ran->measured;
    out.busy = ran->busy;
    out.ceiling = ran->ceiling;
    out.traced_slowdown = ran->traced_slowdown;
    out.activity_rows = compare_activities(forecast.events, ran->activities);
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
  Device device_;
  const Catalogue& catalogue_;
  KeptRuns kept_;
  std::optional<probe::Machine> machine_;
  Validation result_;
};

}  // namespace

void RunsOptions::add_to(CLI::App& verb) {
  constexpr const char* kGroup = "Runs";
  flags.add_to(verb);
  verb.add_option("--suite", suite,
                  "scenarios to run one after the other: quick, cpu, gpu-resident, or a file")
      ->type_name("NAME")
      ->group(kGroup);
  verb.add_option("--device", device,
                  "cpu, cuda (an NVIDIA GPU), or auto: as the suite says, which may be another "
                  "where there is a GPU")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->type_name("DEVICE")
      ->capture_default_str()
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
  verb.add_flag("--resume", resume, "go on with what --keep holds: runs that are over stay")
      ->group(kGroup);
  verb.add_option("--time-limit", time_limit,
                  "seconds that a try of one run may take, with its weights")
      ->check(CLI::Range(1, 86400))
      ->type_name("S")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--scratch", scratch, "folder for weights and the disk's test file")
      ->type_name("DIR")
      ->group(kGroup);
  verb.add_option("--replay", replay, "forecast anew what was kept in folders; nothing is run")
      ->type_name("DIR")
      ->group(kGroup);
}

namespace {

// Of the suite that was asked for, of the scenario file if it is one, or of the flags.
Result<Suite> suite_of(const RunsOptions& options, const Catalogue& catalogue) {
  std::string file = options.flags.file();
  if (!options.suite.empty()) {
    const bool gpu = options.device != "cpu" && bool(engine::cuda_device());
    const auto found = find_suite(options.suite, gpu, catalogue);
    if (!found) return found.error();
    file = found->string();
  }
  if (!file.empty() && is_suite(file)) return read_suite(file);
  if (!options.suite.empty())
    return bad_input("--suite: there are no runs in this file", "[[run]] with name and flags",
                     SourceRef{file});
  auto document = options.flags.document();
  if (!document) return document.error();
  if (!document->has("model.name") && !document->has("model.file"))
    return bad_input("validate needs a scenario to run, or a file of measurements",
                     "--suite quick, --model llama-3.2-1b, a scenario, or --against runs.jsonl as "
                     "llama-bench writes it");
  Suite suite;
  suite.runs.push_back({"this scenario", *std::move(document), options.file});
  return suite;
}

}  // namespace

Result<Validation> validate_runs(const RunsOptions& options, const Catalogue& catalogue) {
  auto suite = suite_of(options, catalogue);
  if (!suite) return suite.error();
  if (options.device != "auto")
    suite->device = options.device == "cuda" ? Device::kCuda : Device::kCpu;
  if (suite->device == Device::kCuda)
    if (const auto gpu = engine::cuda_device(); !gpu) return gpu.error();
  return Runs(options, suite->device, catalogue).all(*suite);
}

namespace {

std::optional<Error> replay_folder(const KeptRuns& kept, const Catalogue& catalogue,
                                   Validation& out) {
  const auto suite = read_suite(kept.suite_file());
  if (!suite) return suite.error();
  for (std::size_t i = 0; i < suite->runs.size(); ++i) {
    const SuiteRun& run = suite->runs[i];
    if (!kept.was_run(i)) {
      out.skipped.push_back({run.name, kept.failure(i).value_or("was not run")});
      continue;
    }
    const auto rows = kept_rows(kept, i, run, catalogue);
    if (!rows) return rows.error();
    out.rows.insert(out.rows.end(), rows->begin(), rows->end());
  }
  return std::nullopt;
}

}  // namespace

Result<Validation> replay_runs(const RunsOptions& options, const Catalogue& catalogue) {
  Validation out;
  for (const std::string& folder : options.replay) {
    if (auto error = replay_folder(KeptRuns(folder), catalogue, out)) return *std::move(error);
    out.against += (out.against.empty() ? "" : ", ") + folder;
  }
  out.summary = summarize(out.rows);
  return out;
}

}  // namespace rigcast::cli
