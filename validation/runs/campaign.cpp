#include "validation/runs/campaign.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "core/files/interrupt.hpp"
#include "core/files/temporary_file.hpp"
#include "core/text/csv_quote.hpp"
#include "core/text/unit_text.hpp"
#include "engine/backends/backend.hpp"
#include "engine/load/load.hpp"
#include "engine/run/measured_report.hpp"
#include "engine/synth/synthetic_file.hpp"
#include "planner/commands.hpp"
#include "probe/gpu/measure_gpus.hpp"
#include "probe/gpu_part.hpp"
#include "probe/machine.hpp"
#include "report/report_json.hpp"
#include "report/terminal/progress_line.hpp"
#include "validation/report_comparison.hpp"
#include "validation/runs/archived_scenario.hpp"
#include "validation/runs/llama_cpp/llama_bench.hpp"
#include "validation/runs/llama_cpp/measured_report.hpp"
#include "validation/runs/local_machine.hpp"
#include "validation/runs/packed_runs.hpp"
#include "validation/runs/replay.hpp"
#include "validation/runs/run_archive.hpp"
#include "validation/runs/subprocess.hpp"
#include "validation/runs/suite.hpp"
#include "validation/runs/transformers/measured_report.hpp"
#include "validation/runs/transformers/request.hpp"
#include "validation/runs/transformers/run_transformers.hpp"
#include "validation/validation_json.hpp"

namespace rigcast::validation {
namespace {

namespace fs = std::filesystem;

// llama-bench repeats its tests itself, and a GPU hardly has neighbours.
constexpr int kTries = 6, kFewTries = 2;
constexpr double kChanged = 0.10;  // of the cores' rates between probe and run

std::string clock_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// A file of synthetic weights for as long as this lives.
class WeightFile {
 public:
  explicit WeightFile(fs::path path) : path_(std::move(path)) {}

  std::optional<Error> write(const Scenario& s) {
    show_progress("writing weights ...");
    // llama.cpp reads no file without a vocabulary.
    const auto vocabulary = s.runtime.id == "llama.cpp" ? engine::FileVocabulary::kWords
                                                        : engine::FileVocabulary::kNone;
    auto error = engine::write_synthetic_file(s.model, s.tensors, s.quant, 1, path_, {},
                                              stop_flag(), vocabulary);
    if (!error) file_ = TemporaryFile(path_);
    return error;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  TemporaryFile file_;
};

// The relative change of memory bandwidth since the probe with the same number of threads; 0 if
// that was not probed.
double change_of_memory(const probe::Machine& machine, int threads, BytesPerSecond now) {
  const bool one = threads == 1;
  if (!one && threads != machine.host.cores) return 0;
  const double then = (one ? machine.dram.front() : machine.dram.back()).median;
  return then > 0 && now.value > 0 ? std::fabs(now.value / then - 1) : 0;
}

// The host has a part in it, whose rates change with what else it does.
bool host_takes_part(const TomlDocument& run, const engine::EngineBackend& backend) {
  constexpr const char* kShares[] = {"placement.gpu_layers", "placement.cpu_moe_layers",
                                     "placement.decode_device", "kv.policy"};
  return !backend.is_gpu() ||
         std::ranges::any_of(kShares, [&](const char* key) { return run.has(key); });
}

// Why the backend's GPU cannot be used; nullopt: it can, or the backend has none.
std::optional<Error> gpu_error(const engine::EngineBackend& backend) {
  if (!backend.is_gpu()) return std::nullopt;
  const auto device = backend.gpu->device();
  return device ? std::nullopt : std::optional(device.error());
}

// A failed run of a suite is skipped and reported by its name; a single run returns its error.
Error of_only_run(Error error, const Suite& suite) {
  if (suite.file.empty()) return error;
  const std::string at = error.where ? error.where->text() + ": " : std::string();
  error.message = fmt::format("{}: {}{}", suite.runs.front().name, at, error.message);
  error.where = SourceRef{suite.file.string()};
  return error;
}

// The commands of llama-bench with all that it told beside its results.
std::string log_of(const LlamaBenchMeasurement& measured) {
  std::string text;
  for (const LlamaBenchRun* run : {&measured.prefill, &measured.decode})
    if (!run->command.empty())
      text += fmt::format("$ {}\n{}\n", planner::shell_text(run->command), run->err);
  return text;
}

class Campaign {
 public:
  Campaign(const CampaignOptions& options, const engine::EngineBackend& backend,
           const Catalogue& catalogue)
      : options_(options), backend_(backend), catalogue_(catalogue), kept_(options.folder) {}

  Result<Validation> all(const Suite& suite) {
    const OnInterrupt on_interrupt;
    if (auto error = kept_.begin(suite, options_.resume)) return *error;
    const std::string began = clock_time();
    for (std::size_t i = 0; i < suite.runs.size(); ++i) {
      const SuiteRun& run = suite.runs[i];
      show_progress(fmt::format("{} of {}: {} ...", i + 1, suite.runs.size(), run.name));
      const auto error = run_or_resume(i, run);
      if (!error) continue;
      if (suite.runs.size() == 1) return of_only_run(*error, suite);
      result_.skipped.push_back({run.name, error->message});
      if (!interrupted())
        if (auto lost = gpu_error(backend_)) return *lost;
    }
    show_progress("");
    if (suite.runs.size() > 1) result_.activities.clear();
    result_.against = kept_.folder().string();
    result_.when =
        fmt::format("{} to {}, each forecast written before its run", began, clock_time());
    result_.summary = summarize(result_.rows);
    return std::move(result_);
  }

 private:
  // Why there are no rows of it, or nothing.
  std::optional<Error> run_or_resume(std::size_t i, const SuiteRun& run) {
    if (options_.resume && kept_.was_run(i)) {
      const auto archive = kept_.read();
      if (!archive) return archive.error();
      const auto rows = replay(archive->runs.at(i), catalogue_);
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
      kept_.discard_run(i);
    else
      kept_.fail_run(i, error->message);
    return error;
  }

  std::optional<Error> one_or_interrupted(std::size_t i, const SuiteRun& run) try {
    return one(i, run);
  } catch (const Interrupted& e) {
    return Error{ErrorKind::kMachine, e.what()};
  }

  // One attempt at a run: the files written before it, and its results.
  struct Attempt {
    std::string rig, forecast, measured, activities;  // as they are kept
    std::string bench_output, bench_log;              // of llama-bench
    std::string script_output, script_log;            // of transformers
    std::string written, started;                     // times
    double changed = 0;  // of the cores' rates, from before to after; 0 where this cannot be told
    std::vector<ValidationRow> rows;
    std::vector<ActivityRow> activity_rows;
    std::optional<std::string> busy;
    std::optional<double> traced_slowdown;
    BytesPerSecond ceiling;  // of memory, right after the run
  };

  // Repeats a run if other programs used memory or cores meanwhile: the calmest attempt counts.
  std::optional<Error> one(std::size_t index, const SuiteRun& run) {
    TomlDocument document = run.scenario.clone();
    const auto stated = make_scenario_here(document, catalogue_, backend_);
    if (!stated) return stated.error();  // before anything is measured for it
    if (auto error = check_runtime(*stated)) return error;
    WeightFile weights(scratch() / fmt::format("rigcast-weights-{}.gguf", ::getpid()));
    const bool own_file = run.file && !run.scenario.has("model.file");
    if (own_file)
      if (auto error = write_weights(*stated, weights)) return error;
    const int most = backend_.is_gpu() || !is_engine(*stated) ? kFewTries : kTries;
    std::optional<Attempt> best;
    int tries = 0;
    do {
      if (tries++ > 0) show_progress(fmt::format("{}: the machine changed, again ...", run.name));
      auto next = attempt(index, run, is_engine(*stated), own_file ? weights.path() : fs::path());
      if (!next && !best) return next.error();
      if (!next) break;  // what was interrupted is no better
      if (!best || next->changed < best->changed) best = *std::move(next);
    } while (best->changed > kChanged && tries < most);
    return record(index, run, *std::move(best), tries);
  }

  std::optional<Error> write_weights(const Scenario& scenario, WeightFile& file) const {
    const TimeLimit limit(options_.time_limit);
    return file.write(scenario);
  }

  std::optional<Error> record(std::size_t index, const SuiteRun& run, Attempt best, int tries) {
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
    if (best.traced_slowdown)
      result_.traced_slowdown =
          std::max(result_.traced_slowdown.value_or(*best.traced_slowdown), *best.traced_slowdown);
    result_.rows.insert(result_.rows.end(), best.rows.begin(), best.rows.end());
    result_.activities = std::move(best.activity_rows);
    return std::nullopt;
  }

  std::optional<Error> keep(std::size_t index, const Attempt& done) const {
    const std::pair<const char*, const std::string*> files[] = {
        {"rig.toml", &done.rig},
        {"forecast.json", &done.forecast},
        {"measured.json", &done.measured},
        {"activities.json", &done.activities},
        {"llama-bench.jsonl", &done.bench_output},
        {"llama-bench.txt", &done.bench_log},
        {"transformers.json", &done.script_output},
        {"transformers.txt", &done.script_log}};
    for (const auto& [what, text] : files)
      if (!text->empty())
        if (auto error = kept_.write(index, what, *text)) return error;
    return std::nullopt;
  }

  // The cores before every run that they have a part in, and the disk before those that start from
  // it: that is what neighbours change. Nothing of a rig that is named.
  Result<std::string> probed_rig(const SuiteRun& run, bool with_engine) {
    if (names_a_rig(run.scenario)) return std::string();
    if (!machine_) {
      auto machine = probe::measure_machine(scratch(), show_progress, stop_flag());
      if (!machine) return machine.error();
      machine_ = *std::move(machine);
      if (backend_.is_gpu()) machine_->gpus = probe::measure_gpus(show_progress, stop_flag());
    } else if (!with_engine) {
      probe::measure_all_cores(*machine_, show_progress, stop_flag());
    } else {
      if (run.file || run.scenario.has("model.file"))
        if (auto error =
                probe::measure_disk_again(*machine_, scratch(), show_progress, stop_flag()))
          return *error;
      if (!backend_.is_gpu())
        probe::measure_cores(*machine_, show_progress, stop_flag());
      else if (host_takes_part(run.scenario, backend_))
        probe::measure_all_cores(*machine_, show_progress, stop_flag());
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
  Result<Attempt> attempt(std::size_t index, const SuiteRun& run, bool with_engine,
                          const fs::path& weights) {
    Attempt out;
    auto rig = probed_rig(run, with_engine);
    if (!rig) return rig.error();
    out.rig = *std::move(rig);
    if (auto error = keep(index, out)) return *error;
    auto scenario = scenario_on(run.scenario, out.rig, catalogue_);
    if (!scenario) return scenario.error();
    if (!weights.empty()) scenario->model_file = weights;
    if (auto error = forecast_and_run(index, run, *scenario, out)) return *error;
    if (machine_ && host_takes_part(run.scenario, backend_)) {
      const double within =
          backend_.is_gpu() ? 0
                            : change_of_memory(*machine_, scenario->settings.threads, out.ceiling);
      out.changed = std::max(within, probe::change_of_cores(*machine_, stop_flag()));
    }
    return out;
  }

  ExecutionSettings execution_settings() const {
    ExecutionSettings how{&backend_, options_.repeat, {}};
    if (machine_ && !machine_->gpus.found.empty())
      how.vram_ceiling = BytesPerSecond{machine_->gpus.found.front().vram_read.median};
    return how;
  }

  std::optional<Error> forecast_and_run(std::size_t index, const SuiteRun& run,
                                        const Scenario& scenario, Attempt& out) {
    const bool with_engine = is_engine(scenario);
    if (with_engine)
      if (auto error = check_runnable(scenario, execution(run, scenario, execution_settings())))
        return error;
    const Forecast forecast =
        forecast_of(scenario, with_engine ? engine::reported_positions(scenario.workload)
                                          : std::vector<TokenCount>());
    if (!forecast.report.fits)
      return Error{ErrorKind::kDoesNotFit,
                   forecast.report.errors.empty() ? "does not fit" : forecast.report.errors[0]};
    out.forecast = to_json(forecast.report);
    if (auto error = keep(index, out)) return error;
    out.written = clock_time();
    if (auto error = kept_.begin_run(index)) return error;
    out.started = clock_time();
    const auto ran = with_engine ? run_engine(index, scenario, forecast.report)
                     : is_transformers(scenario)
                         ? run_transformers(index, run, forecast.report, out)
                         : run_llama_cpp(index, scenario, forecast.report, out);
    if (!ran) return ran.error();
    out.measured = ran->measured;
    out.busy = ran->busy;
    out.ceiling = ran->ceiling;
    if (with_engine) {
      out.traced_slowdown = ran->traced_slowdown;
      out.activity_rows = compare_activities(forecast.events, ran->activities);
      out.activities = to_json(out.activity_rows);
    }
    const auto measured = measured_report_of(out.measured, scenario);
    if (!measured) return measured.error();
    out.rows = compare_reports(run.name, forecast.report, *measured, out.activity_rows);
    return keep(index, out);
  }

  Result<WorkerAnswer> run_engine(std::size_t index, const Scenario& scenario,
                                  const Report& forecast) const {
    WorkerRequest request{kept_.folder().string(), index, execution_settings(), {}, {},
                          options_.time_limit};
    if (scenario.model_file) request.weights = scenario.model_file->string();
    // The number of GPU layers of the forecast, if the run leaves it open.
    if (backend_.is_gpu()) request.gpu_layers = forecast.placement.gpu_layers;
    return run_in_subprocess(request);
  }

  static bool is_engine(const Scenario& s) { return s.runtime.rules == RuntimeRules::kRigcast; }

  static bool is_transformers(const Scenario& s) {
    return s.runtime.rules == RuntimeRules::kTransformers;
  }

  std::optional<Error> check_runtime(const Scenario& s) const {
    if (is_engine(s)) return std::nullopt;
    if (is_transformers(s)) return check_transformers(s);
    if (s.runtime.id != "llama.cpp")
      return bad_input(fmt::format("{} is forecast, not run", s.runtime.name),
                       "--runtime llama.cpp, transformers, or rigcast for its own engine");
    if (s.workload.users > 1) return bad_input("llama-bench serves one user at a time");
    return std::nullopt;
  }

  // From the file, which is not in the page cache at first. What llama-bench printed is kept, also
  // of a run that fails.
  Result<WorkerAnswer> run_llama_cpp(std::size_t index, const Scenario& s, const Report& forecast,
                                     Attempt& out) const {
    RIGCAST_ASSERT(options_.llama_bench && s.model_file);
    if (auto error = engine::drop_from_page_cache(*s.model_file, stop_flag())) return *error;
    const Seconds limit{double(options_.time_limit)};
    const auto measured = measure_with(*options_.llama_bench, forecast, {limit});
    if (!measured) return measured.error();
    out.bench_output = measured->prefill.out + measured->decode.out;
    out.bench_log = log_of(*measured);
    if (auto error = keep(index, out)) return *error;
    for (const LlamaBenchRun* run : {&measured->prefill, &measured->decode})
      if (run->error) return *run->error;
    WorkerAnswer answer;
    answer.measured =
        to_json(measured_report(forecast.scenario, forecast.placement, *measured, true));
    return answer;
  }

  // With random weights, which need no file. What the script printed is kept, also of a run that
  // fails.
  Result<WorkerAnswer> run_transformers(std::size_t index, const SuiteRun& run,
                                        const Report& forecast, Attempt& out) const {
    RIGCAST_ASSERT(options_.transformers);
    const auto request = transformers_request(forecast, run.repeat.value_or(options_.repeat));
    if (!request) return request.error();
    const TransformersRun ran = validation::run_transformers(*options_.transformers, *request,
                                                             Seconds{double(options_.time_limit)});
    out.script_output = ran.out;
    out.script_log = fmt::format("$ {}\n{}\n", planner::shell_text(ran.command), ran.err);
    if (auto error = keep(index, out)) return *error;
    if (ran.error) return *ran.error;
    WorkerAnswer answer;
    answer.measured = to_json(measured_report(forecast.scenario, forecast.placement, *ran.output));
    return answer;
  }

  fs::path scratch() const {
    return options_.scratch.empty() ? fs::temp_directory_path() : options_.scratch;
  }

  const CampaignOptions& options_;
  const engine::EngineBackend& backend_;
  const Catalogue& catalogue_;
  RunArchive kept_;
  std::optional<probe::Machine> machine_;
  Validation result_;
};

}  // namespace

Result<Validation> run_campaign(const Suite& suite, const CampaignOptions& options,
                                const Catalogue& catalogue) {
  if (auto error = gpu_error(*suite.backend)) return *error;
  return Campaign(options, *suite.backend, catalogue).all(suite);
}

Result<Validation> replay_runs(std::span<const std::string> archives, const Catalogue& catalogue,
                               Forecasts forecasts) {
  Validation out;
  for (const std::string& path : archives) {
    const auto suite = read_archive(path);
    if (!suite) return suite.error();
    for (const ArchivedRun& kept : suite->runs) {
      if (!kept.skipped.empty()) {
        out.skipped.push_back({kept.run.name, kept.skipped});
        continue;
      }
      auto rows = forecasts == Forecasts::kAnew ? replay(kept, catalogue)
                                                : compare_as_written(kept, catalogue);
      if (!rows) return rows.error();
      for (ValidationRow& row : *rows) row.suite = path;
      out.rows.insert(out.rows.end(), rows->begin(), rows->end());
    }
    out.against += (out.against.empty() ? "" : ", ") + path;
  }
  out.summary = summarize(out.rows);
  return out;
}

}  // namespace rigcast::validation
