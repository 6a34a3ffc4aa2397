#include "validation/runs/campaign.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
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
#include "report/report_json.hpp"
#include "report/terminal/progress_line.hpp"
#include "validation/report_comparison.hpp"
#include "validation/runs/archived_scenario.hpp"
#include "validation/runs/forecast_notes.hpp"
#include "validation/runs/llama_cpp/llama_bench.hpp"
#include "validation/runs/llama_cpp/measured_report.hpp"
#include "validation/runs/local_machine.hpp"
#include "validation/runs/packed_runs.hpp"
#include "validation/runs/pressure/memory_group.hpp"
#include "validation/runs/pressure/swap_area.hpp"
#include "validation/runs/probed_machine.hpp"
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
constexpr double kSpread = 0.20;   // of repetitions, largest less smallest, over the median
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
                                              stop_flag(), {vocabulary});
    if (!error) file_ = TemporaryFile(path_);
    return error;
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  TemporaryFile file_;
};

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

// Where, what and a hint.
std::string in_one_line(const Error& error) {
  const std::string at = error.where ? error.where->text() + ": " : std::string();
  return at + error.message + (error.hint.empty() ? "" : " (" + error.hint + ")");
}

std::string table_text(const SuiteRun& run, std::string_view key) {
  TomlDocument document = run.scenario.clone();
  const TomlTable root = document.root();
  const auto dot = key.find('.');
  if (dot == key.npos) return TomlDocument::of(root.table(key)).text();
  return root.table(key.substr(0, dot)).text_or(key.substr(dot + 1), "");
}

// The commands of llama-bench with all that it told beside its results.
std::string log_of(const LlamaBenchMeasurement& measured) {
  std::string text;
  for (const LlamaBenchRun* run : {&measured.prefill, &measured.decode})
    if (!run->command.empty())
      text += fmt::format("$ {}\n{}\n", planner::shell_text(run->command), run->err);
  return text;
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
  std::vector<std::string> notes;  // what the forecast assumes
  std::optional<double> traced_slowdown;
  BytesPerSecond ceiling;      // of memory, right after the run
  std::optional<Error> error;  // without which there are rows
};

class Campaign {
 public:
  Campaign(const Suite& suite, const CampaignOptions& options, const Catalogue& catalogue)
      : suite_(suite),
        options_(options),
        backend_(*suite.backend),
        catalogue_(catalogue),
        kept_(options.folder),
        machine_(backend_, catalogue, scratch()) {}

  Result<Validation> all() {
    const OnInterrupt on_interrupt;
    if (auto error = kept_.begin(suite_, options_.resume)) return *error;
    const std::string began = clock_time();
    for (std::size_t begin = 0, end = 0; begin < suite_.runs.size(); begin = end) {
      end = end_of_group(begin);
      if (auto lost = run_or_resume(begin, end)) return *lost;
    }
    show_progress("");
    if (suite_.runs.size() > 1) result_.activities.clear();
    result_.against = kept_.folder().string();
    result_.when =
        fmt::format("{} to {}, each forecast written before its run", began, clock_time());
    result_.summary = summarize(result_.rows);
    return std::move(result_);
  }

 private:
  using Group = std::vector<std::size_t>;  // indices of runs that one program measures in one go
  using Failures = std::vector<std::pair<std::size_t, Error>>;

  const SuiteRun& run(std::size_t index) const { return suite_.runs[index]; }

  // llama-bench measures runs of one file together: it loads the model once.
  std::size_t end_of_group(std::size_t begin) const {
    const auto has_same_file = [&](const SuiteRun& a, const SuiteRun& b) {
      return a.table == b.table && table_text(a, "model") == table_text(b, "model") &&
             table_text(a, "runtime.name") == table_text(b, "runtime.name");
    };
    std::size_t end = begin + 1;
    TomlDocument document = run(begin).scenario.clone();
    const auto first = make_scenario_here(document, catalogue_, backend_);
    if (!first || first->runtime.id != "llama.cpp") return end;
    while (end < suite_.runs.size() && has_same_file(run(begin), run(end))) ++end;
    return end;
  }

  // An error that ends the campaign: of the only run, or of a GPU that answers no longer.
  std::optional<Error> run_or_resume(std::size_t begin, std::size_t end) {
    show_progress(fmt::format("{} of {}: {} ...", begin + 1, suite_.runs.size(), run(begin).name));
    Group group;
    for (std::size_t i = begin; i < end; ++i) {
      bool is_done = false;
      if (options_.resume)
        if (auto error = resume(i, is_done))
          if (auto fatal = skip(i, *error)) return fatal;
      if (!is_done) group.push_back(i);
    }
    if (group.empty()) return std::nullopt;
    if (interrupted()) {
      for (const std::size_t i : group)
        if (auto fatal = skip(i, {ErrorKind::kMachine, "was not run"})) return fatal;
      return std::nullopt;
    }
    const Failures failures = one_or_interrupted(group);
    for (const auto& [i, error] : failures) {
      if (interrupted())
        kept_.discard_run(i);
      else
        kept_.fail_run(i, in_one_line(error));
      if (auto fatal = skip(i, error)) return fatal;
    }
    return interrupted() || failures.empty() ? std::nullopt : gpu_error(backend_);
  }

  // A failed run of a suite is reported, and the suite goes on; the error of an only run is
  // returned.
  std::optional<Error> skip(std::size_t index, const Error& error) {
    if (suite_.runs.size() == 1) return of_only_run(error, suite_);
    result_.skipped.push_back({run(index).name, in_one_line(error)});
    return std::nullopt;
  }

  // What the folder holds of a run that is over. `is_done`: it is, by results or by an error.
  std::optional<Error> resume(std::size_t index, bool& is_done) {
    is_done = kept_.was_run(index);
    if (!is_done) {
      const auto why = kept_.failure(index);
      is_done = why.has_value();
      return why ? std::optional(Error{ErrorKind::kMachine, *why}) : std::nullopt;
    }
    const auto archive = kept_.read();
    if (!archive) return archive.error();
    const auto rows = replay(archive->runs.at(index), catalogue_);
    if (!rows) return rows.error();
    result_.rows.insert(result_.rows.end(), rows->begin(), rows->end());
    return std::nullopt;
  }

  static Failures all_fail(const Group& group, const Error& error) {
    Failures out;
    for (const std::size_t i : group) out.emplace_back(i, error);
    return out;
  }

  Failures one_or_interrupted(const Group& group) try {
    return one(group);
  } catch (const Interrupted& e) {
    return all_fail(group, {ErrorKind::kMachine, e.what()});
  }

  // Repeats runs if other programs used memory or cores meanwhile: the calmest attempt counts.
  Failures one(const Group& group) {
    Failures failures;
    Group possible;
    std::optional<Scenario> first;       // all are of its model
    for (const std::size_t i : group) {  // before anything is measured for them
      TomlDocument document = run(i).scenario.clone();
      auto stated = make_scenario_here(document, catalogue_, backend_);
      auto error = stated ? check_runtime(*stated) : std::optional(stated.error());
      if (error)
        failures.emplace_back(i, *error);
      else
        possible.push_back(i);
      if (stated && !error && !first) first = *std::move(stated);
    }
    if (!first) return failures;
    const Failures later = attempts(possible, *first);
    failures.insert(failures.end(), later.begin(), later.end());
    return failures;
  }

  Failures attempts(const Group& group, const Scenario& first) {
    const SuiteRun& named = run(group.front());
    const bool with_engine = is_engine(first);
    const bool own_file = named.file && !named.scenario.has("model.file");
    if (own_file)
      if (const auto error = write_weights(named, first)) return all_fail(group, *error);
    const fs::path file = own_file ? weights_->path() : fs::path();
    if (auto error = swap_.set(scratch(), first.memory)) return all_fail(group, *error);
    const int usual = backend_.is_gpu() || !with_engine ? kFewTries : kTries;
    const int most = first.memory ? 1 : usual;  // counters tell the same whatever the cores do
    std::optional<std::vector<Attempt>> best;
    int tries = 0;
    do {
      if (tries++ > 0) show_progress(fmt::format("{}: the machine changed, again ...", named.name));
      auto next = attempt(group, with_engine, file);
      if (!next && !best) return all_fail(group, next.error());
      if (!next) break;  // what was interrupted is no better
      if (!best || next->front().changed < best->front().changed) best = *std::move(next);
    } while (best->front().changed > kChanged && tries < most);
    Failures failures;
    for (std::size_t k = 0; k < group.size(); ++k)
      if (const auto error = record(group[k], std::move((*best)[k]), tries))
        failures.emplace_back(group[k], *error);
    return failures;
  }

  // The file of the run before stays where it is of the same weights.
  std::optional<Error> write_weights(const SuiteRun& named, const Scenario& scenario) {
    const std::string of = table_text(named, "model") + scenario.runtime.id;
    if (weights_ && weights_of_ == of) return std::nullopt;
    weights_.reset();  // before there are two
    weights_.emplace(scratch() / fmt::format("rigcast-weights-{}.gguf", ::getpid()));
    weights_of_ = of;
    const TimeLimit limit(options_.time_limit);
    auto error = weights_->write(scenario);
    if (error) weights_.reset();
    return error;
  }

  std::optional<Error> record(std::size_t index, Attempt best, int tries) {
    const std::string& name = run(index).name;
    if (tries > 1)
      if (auto error = keep(index, best)) return error;
    if (best.error) return best.error;
    const std::string times =
        fmt::format("{},{},{},{},{},{:.3f}\n", csv_quote(name), RIGCAST_VERSION, best.written,
                    best.started, tries, best.changed);
    if (auto error = kept_.end_run(index, times)) return error;
    if (best.changed > kChanged)
      result_.notes.push_back(
          {name, fmt::format("the machine changed by {:.0f} % while it ran, at best in {} tries",
                             100 * best.changed, tries)});
    if (best.busy) result_.notes.push_back({name, *best.busy});
    for (const std::string& text : best.notes) note_once(name, text);
    if (best.traced_slowdown)
      result_.traced_slowdown =
          std::max(result_.traced_slowdown.value_or(*best.traced_slowdown), *best.traced_slowdown);
    result_.rows.insert(result_.rows.end(), best.rows.begin(), best.rows.end());
    result_.activities = std::move(best.activity_rows);
    return std::nullopt;
  }

  // What holds for all runs of a suite is told with the first.
  void note_once(const std::string& name, const std::string& text) {
    if (std::ranges::find(result_.notes, text, &SkippedRun::reason) == result_.notes.end())
      result_.notes.push_back({name, text});
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

  // `weights`: a file to start from; empty: what the scenarios say. Never empty itself.
  Result<std::vector<Attempt>> attempt(const Group& group, bool with_engine,
                                       const fs::path& weights) {
    auto rig = machine_.rig_for(run(group.front()), with_engine);
    if (!rig) return rig.error();
    std::vector<Attempt> out(group.size());
    std::vector<Forecast> forecasts(group.size());
    for (std::size_t k = 0; k < group.size(); ++k) {
      out[k].rig = *rig;
      out[k].error = forecast(group[k], with_engine, weights, out[k], forecasts[k]);
    }
    const auto& first = forecasts.front().report.scenario;
    if (with_engine)
      run_engine(group.front(), forecasts.front(), out.front());
    else if (first && is_transformers(*first))
      run_transformers(group.front(), forecasts.front(), out.front());
    else if (auto error = run_llama_cpp(group, forecasts, out))
      return *error;
    const int threads = first ? first->settings.threads : 0;
    const auto changed = machine_.change_since(run(group.front()), threads, out.front().ceiling);
    for (Attempt& one : out) one.changed = changed.value_or(0);
    return out;
  }

  ExecutionSettings execution_settings() const {
    ExecutionSettings how{&backend_, options_.repeat, {}};
    if (const auto ceiling = machine_.vram_ceiling()) how.vram_ceiling = *ceiling;
    return how;
  }

  // Makes the forecast and keeps it.
  std::optional<Error> forecast(std::size_t index, bool with_engine, const fs::path& weights,
                                Attempt& out, Forecast& forecast) const {
    if (auto error = keep(index, out)) return error;
    auto scenario = scenario_on(run(index).scenario, out.rig, catalogue_);
    if (!scenario) return scenario.error();
    if (!weights.empty()) scenario->model_file = weights;
    if (with_engine)
      if (auto error =
              check_runnable(*scenario, execution(run(index), *scenario, execution_settings())))
        return error;
    forecast = forecast_of(*scenario, with_engine ? engine::reported_positions(scenario->workload)
                                                  : std::vector<TokenCount>());
    if (!forecast.report.fits)
      return Error{ErrorKind::kDoesNotFit,
                   forecast.report.errors.empty() ? "does not fit" : forecast.report.errors[0]};
    out.forecast = to_json(forecast.report);
    if (auto error = keep(index, out)) return error;
    out.notes = forecast_notes(run(index), forecast.report, options_.llama_server.has_value());
    out.written = clock_time();
    // Other programs do not take this one with them: what it did not survive is run again.
    return with_engine ? kept_.begin_run(index) : std::nullopt;
  }

  // Compares what was measured with the forecast, and keeps it.
  std::optional<Error> compare(std::size_t index, const Forecast& forecast, Attempt& out) const {
    const auto measured = measured_report_of(out.measured, *forecast.report.scenario);
    if (!measured) return measured.error();
    out.rows = compare_reports(run(index).name, forecast.report, *measured, out.activity_rows);
    return keep(index, out);
  }

  void run_engine(std::size_t index, const Forecast& forecast, Attempt& out) const {
    if (out.error) return;
    const Report& report = forecast.report;
    WorkerRequest request;
    request.folder = kept_.folder().string();
    request.index = index;
    request.how = execution_settings();
    request.time_limit = options_.time_limit;
    if (report.scenario->model_file) request.weights = report.scenario->model_file->string();
    // The number of GPU layers of the forecast, if the run leaves it open.
    if (backend_.is_gpu()) request.gpu_layers = report.placement.gpu_layers;
    if (report.serving) request.requests = std::int64_t(report.serving->figures.requests);
    out.started = clock_time();
    const auto ran = run_in_subprocess(request);
    if (!ran) {
      out.error = ran.error();
      return;
    }
    out.measured = ran->measured;
    out.busy = ran->busy;
    out.ceiling = ran->ceiling;
    if (!report.scenario->load) out.traced_slowdown = ran->traced_slowdown;
    out.activity_rows = compare_activities(forecast.events, ran->activities);
    out.activities = to_json(out.activity_rows);
    out.error = compare(index, forecast, out);
  }

  static bool is_engine(const Scenario& s) { return s.runtime.rules == RuntimeRules::kRigcast; }

  static bool is_transformers(const Scenario& s) {
    return s.runtime.rules == RuntimeRules::kTransformers;
  }

  std::optional<Error> check_runtime(const Scenario& s) const {
    if (auto error = check_pressure(s.memory, is_engine(s))) return error;
    if (is_engine(s)) return std::nullopt;
    if (is_transformers(s)) return check_transformers(s);
    if (s.runtime.id != "llama.cpp")
      return bad_input(fmt::format("{} is forecast, not run", s.runtime.name),
                       "--runtime llama.cpp, transformers, or rigcast for its own engine");
    if (auto error = check_no_load(s.load)) return error;
    if (s.draft || s.projector)
      return bad_input("validate runs llama.cpp without a draft model and without a projector",
                       "leave out --model-draft and --mmproj");
    return std::nullopt;
  }

  // From the file, which is not in the page cache at first. What llama-bench printed is kept, also
  // of a run that fails.
  std::optional<Error> run_llama_cpp(const Group& group, const std::vector<Forecast>& forecasts,
                                     std::vector<Attempt>& out) const {
    std::vector<std::size_t> forecast_ones;
    std::vector<const Report*> reports;
    for (std::size_t k = 0; k < group.size(); ++k)
      if (!out[k].error) {
        forecast_ones.push_back(k);
        reports.push_back(&forecasts[k].report);
      }
    if (reports.empty()) return std::nullopt;
    const std::string started = clock_time();
    const auto measured = options_.llama_server ? ask_server(reports) : run_llama_bench(reports);
    if (!measured) return measured.error();
    for (std::size_t m = 0; m < reports.size(); ++m) {
      Attempt& one = out[forecast_ones[m]];
      one.started = started;
      one.error = take((*measured)[m], group[forecast_ones[m]], forecasts[forecast_ones[m]], one);
    }
    return std::nullopt;
  }

  using Measured = Result<std::vector<LlamaBenchMeasurement>>;

  MeasureLimits measure_limits() const {
    return {Seconds{double(options_.time_limit)}, options_.repeat};
  }

  Measured run_llama_bench(const std::vector<const Report*>& reports) const {
    RIGCAST_ASSERT(options_.llama_bench && reports.front()->scenario->model_file);
    if (auto error =
            engine::drop_from_page_cache(*reports.front()->scenario->model_file, stop_flag()))
      return *error;
    return measure_with(*options_.llama_bench, reports, measure_limits());
  }

  Measured ask_server(const std::vector<const Report*>& reports) const {
    std::vector<LlamaBenchMeasurement> out;
    for (const Report* report : reports) {
      auto measured = measure_with(*options_.llama_server, *report, measure_limits());
      if (!measured) return measured.error();
      out.push_back(*std::move(measured));
    }
    return out;
  }

  std::optional<Error> take(const LlamaBenchMeasurement& measured, std::size_t index,
                            const Forecast& forecast, Attempt& out) const {
    out.bench_output = measured.prefill.out + measured.decode.out;
    out.bench_log = log_of(measured);
    if (auto error = keep(index, out)) return error;
    for (const LlamaBenchRun* part : {&measured.prefill, &measured.decode})
      if (part->error) return part->error;
    const Report& report = forecast.report;
    const bool was_cold = measured.prefill.first_process;  // the page cache had nothing of the file
    if (const double spread = measured.spread(); spread > kSpread)
      out.busy =
          fmt::format("its repetitions differ by {:.0f} %: was the machine busy?", 100 * spread);
    out.measured = to_json(measured_report(report.scenario, report.placement, measured, was_cold));
    return compare(index, forecast, out);
  }

  // With random weights, which need no file. What the script printed is kept, also of a run that
  // fails.
  void run_transformers(std::size_t index, const Forecast& forecast, Attempt& out) const {
    if (out.error) return;
    RIGCAST_ASSERT(options_.transformers);
    const Report& report = forecast.report;
    out.started = clock_time();
    const auto request = transformers_request(report, run(index).repeat.value_or(options_.repeat));
    if (!request) {
      out.error = request.error();
      return;
    }
    const TransformersRun ran = validation::run_transformers(*options_.transformers, *request,
                                                             Seconds{double(options_.time_limit)});
    out.script_output = ran.out;
    out.script_log = fmt::format("$ {}\n{}\n", planner::shell_text(ran.command), ran.err);
    out.error = keep(index, out);
    if (!out.error) out.error = ran.error;
    if (out.error) return;
    out.measured = to_json(measured_report(report.scenario, report.placement, *ran.output));
    out.error = compare(index, forecast, out);
  }

  fs::path scratch() const {
    return options_.scratch.empty() ? fs::temp_directory_path() : options_.scratch;
  }

  const Suite& suite_;
  const CampaignOptions& options_;
  const engine::EngineBackend& backend_;
  const Catalogue& catalogue_;
  RunArchive kept_;
  ProbedMachine machine_;
  std::optional<WeightFile> weights_;
  std::string weights_of_;  // the model's table and the runtime
  SwapOfRuns swap_;
  Validation result_;
};

}  // namespace

Result<Validation> run_campaign(const Suite& suite, const CampaignOptions& options,
                                const Catalogue& catalogue) {
  if (auto error = gpu_error(*suite.backend)) return *error;
  return Campaign(suite, options, catalogue).all();
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
