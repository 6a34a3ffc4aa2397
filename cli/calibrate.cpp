#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "calibration/accuracy_output.hpp"
#include "calibration/fit/left_out.hpp"
#include "calibration/own_runs.hpp"
#include "calibration/runs/kept_speeds.hpp"
#include "calibration/runs/own_kept_runs.hpp"
#include "calibration/runs/run_fit_text.hpp"
#include "calibration/serving/server_fit_text.hpp"
#include "calibration/write_profile.hpp"
#include "cli/shared/flag_checks.hpp"
#include "cli/shared/output.hpp"
#include "cli/verbs.hpp"
#include "core/files/input_file.hpp"
#include "core/files/output_file.hpp"
#include "core/runtime/load_profile.hpp"
#include "measurements/read_measurements.hpp"
#include "measurements/serving/resolve_serving.hpp"
#include "report/terminal/progress_line.hpp"

namespace rigcast::cli {
namespace {

namespace fs = std::filesystem;
using namespace calibration;

struct OwnRunsOptions {
  std::vector<std::string> paths;  // empty: another fit is asked for
  std::string rig;
};

struct Options {
  OwnRunsOptions own;
  std::vector<std::string> kept;  // runs of `rigcast validate`; empty: another fit is asked for
  std::string against;
  std::string runtime = "llama.cpp";
  std::string folder;
  Format format = Format::kText;
  int jobs = 0;
  bool errors_only = false;
};

struct Profiles {
  RuntimeProfile base;
  std::vector<RuntimeProfile> forks;  // that build on it

  const RuntimeProfile* find(const std::string& id) const {
    if (id == base.id) return &base;
    const auto it = std::ranges::find(forks, id, &RuntimeProfile::id);
    return it == forks.end() ? nullptr : &*it;
  }
};

// The profiles without fitted figures, from which every fit starts.
Result<Profiles> load_profiles(const std::string& name, const Catalogue& catalogue) {
  const auto file = catalogue.runtime_file(name);
  if (!file) return file.error();
  auto base = load_runtime_profile(*file, false);
  if (!base) return base.error();
  Profiles profiles{*std::move(base), {}};
  for (const std::string& id : catalogue.ids("runtimes")) {
    const auto other = catalogue.runtime_file(id);
    if (!other) continue;
    auto profile = load_runtime_profile(*other, false);
    if (!profile) return profile.error();
    if (profile->base == profiles.base.id) profiles.forks.push_back(*std::move(profile));
  }
  return profiles;
}

bool takes_part(const Measurement& m) {
  return !m.doubtful() && m.value > 0 && speed_metric(m.metric);
}

struct Runs {
  std::vector<ResolvedRun> runs;
  int usable = 0;
};

// Caches in RAM, and GPUs that share every layer, are thinly measured: whoever fitted on them could
// not say how good a forecast is.
Runs resolve_runs(const std::vector<Measurement>& measured, const Profiles& profiles,
                  const Catalogue& catalogue) {
  Runs out;
  Resolver resolver(catalogue);
  for (const Measurement& m : measured) {
    if (!takes_part(m)) continue;
    ++out.usable;
    auto run = resolver.resolve(m);
    if (!run || !profiles.find(run->scenario->runtime.id)) continue;
    if (run->regime != Regime::kKvInRam && !run->shares_layers())
      out.runs.push_back(*std::move(run));
  }
  return out;
}

// Runs of the profiles' runtimes that were measured here, beside those of other people. They are
// dense enough to tell what caches in RAM cost.
std::optional<Error> add_kept_runs(const std::vector<std::string>& paths, const Profiles& profiles,
                                   const Catalogue& catalogue, Runs& runs) {
  if (paths.empty()) return std::nullopt;
  const auto kept = kept_speeds(paths, catalogue);
  if (!kept) return kept.error();
  for (const ResolvedRun& run : kept->runs) {
    ++runs.usable;
    if (profiles.find(run.scenario->runtime.id)) runs.runs.push_back(run);
  }
  return std::nullopt;
}

std::string summary_text(const std::vector<Accuracy>& all, const Runs& runs) {
  return fmt::format(
             "{} of {} usable figures were fitted. Errors are absolute, chips weigh equally; left "
             "out:\nforecast by a fit that saw no row of the chip. Inside: of the 80 % interval "
             "that the other\nchips' errors give.\n",
             runs.runs.size(), runs.usable) +
         to_text(all);
}

// The fitted parameters, and the result of the fit.
struct Fit {
  std::vector<Parameter> parameters;
  std::vector<Sample> samples;
  LeftOut errors;
};

// The GPUs and CPUs whose work the rows time, and whose rows they are.
RowsOf in_common(const std::vector<ResolvedRun>& runs) {
  RowsOf rows;
  for (const ResolvedRun& run : runs) {
    const Rig& rig = run.scenario->rig;
    for (const GpuPart& gpu : rig.gpus) rows.chips.insert(gpu.id);
    if (rig.gpus.empty() || run.regime == Regime::kExpertsInRam || run.regime == Regime::kSplit)
      rows.chips.insert(rig.cpu.id);
    rows.sources.insert(run.measured.source);
  }
  rows.chips.erase("");
  rows.sources.erase("");
  return rows;
}

Fit fit_rows(const Runs& runs, const Profiles& profiles, int jobs) {
  std::vector<Parameter> parameters =
      calibration::parameters(profiles.base, profiles.forks, in_common(runs.runs));
  const auto samples = [&] {
    std::vector<Sample> all;
    for (const ResolvedRun& run : runs.runs)
      all.emplace_back(run, *profiles.find(run.scenario->runtime.id));
    weigh(all);
    return all;
  };
  const auto progress = [](int done, int all) {
    show_progress(
        done == all ? "" : fmt::format("fitted without {} of {} chips and families", done, all));
  };
  LeftOut errors = leave_chips_out(parameters, samples, jobs, progress);
  std::vector<Sample> all = samples();  // before what it is bound to moves
  if (!errors.values.empty())
    for (Sample& s : all) s.bind(parameters, errors.values);
  return {std::move(parameters), std::move(all), std::move(errors)};
}

// The profile and those that build on it, with a table of all rows beside the first.
std::optional<Error> write_fit(const fs::path& folder, const Fit& fit, const Profiles& profiles,
                               const std::string& from) {
  const auto write = [&](const std::string& id,
                         const std::string& runtime) -> std::optional<Error> {
    const std::string text =
        to_toml(profiles.base, runtime, fit.parameters, fit.samples, fit.errors, from);
    const auto read_back = TomlDocument::parse(text, id);
    if (!read_back) return read_back.error();
    return write_file((folder / (id + ".toml")).string(), text);
  };
  if (auto error = write(profiles.base.id, "")) return error;
  for (const RuntimeProfile& fork : profiles.forks)
    if (auto error = write(fork.id, fork.id)) return error;
  return write_file((folder / (profiles.base.id + ".left-out.csv")).string(),
                    to_csv(left_out_rows(fit.samples, fit.errors)));
}

int correct_own_rig(const Options& options, const Catalogue& catalogue) {
  if (const auto error = check_outputs({options.folder})) return fail(*error);
  const auto rig = rig_to_correct(options.own.rig, catalogue);
  if (!rig) return fail(rig.error());
  const auto runs = own_runs_of(options.own.paths, *rig, catalogue);
  if (!runs) return fail(runs.error());
  const auto own = correct_rig(*runs, *rig, options.folder);
  if (!own) return fail(own.error());
  const std::string text = options.format == Format::kJson ? to_json(*own) : to_text(*own);
  if (auto error = emit({}, text)) return fail(*error);
  return kDone;
}

int cores_of(const Options& options) {
  return options.jobs > 0 ? options.jobs : int(std::max(1u, std::thread::hardware_concurrency()));
}

int fit_kept_runs(const Options& options, const Catalogue& catalogue) {
  if (const auto error = check_outputs({options.folder})) return fail(*error);
  const auto done = calibrate_on_runs(options.kept, catalogue, cores_of(options));
  if (!done) return fail(done.error());
  if (!options.folder.empty())
    if (auto error = write_file(options.folder, done->toml)) return fail(*error);
  const std::string text = options.format == Format::kJson ? to_json(*done) : to_text(*done);
  if (auto error = emit({}, text)) return fail(*error);
  return kDone;
}

// `--errors-only`: figures stay those that the catalogue has.
Result<calibration::ServerFit> fitted_loads(const Options& options, const RuntimeProfile& base,
                                            const Catalogue& catalogue,
                                            std::vector<ResolvedServing> runs) {
  if (!options.errors_only)
    return fit_server(base, std::move(runs), cores_of(options), show_progress);
  const auto file = catalogue.runtime_file(base.id);
  if (!file) return file.error();
  if (!fs::exists(file->parent_path() / "fitted" / file->filename()))
    return bad_input(fmt::format("{} has no fit whose errors could be told", base.name),
                     "without --errors-only it is fitted");
  const auto fitted = load_runtime_profile(*file);
  if (!fitted) return fitted.error();
  return judge_server_fit(base, *fitted, std::move(runs), cores_of(options), show_progress);
}

// Loads of servers that share a pool of blocks.
int fit_loads(const Options& options, const Catalogue& catalogue) {
  const auto measured = read_serving_measurements(options.against);
  if (!measured) return fail(measured.error());
  const std::string runtime = options.runtime == "llama.cpp" ? "vllm" : options.runtime;
  const auto profiles = load_profiles(runtime, catalogue);
  if (!profiles) return fail(profiles.error());
  NameResolver resolver(catalogue);
  std::vector<ResolvedServing> runs;
  for (const ServingMeasurement& m : *measured) {
    if (m.engine != profiles->base.id || !calibration::takes_part(m)) continue;
    if (auto run = resolve_serving(m, resolver)) runs.push_back(*std::move(run));
  }
  if (runs.empty())
    return fail(bad_input(
        fmt::format("no load of {} in {} can be forecast", profiles->base.name, options.against),
        "rigcast validate --against FILE lists the reasons"));
  const fs::path folder =
      options.folder.empty() ? catalogue.root() / "runtimes" / "fitted" : fs::path(options.folder);
  if (auto error = make_folder(folder)) return fail(*error);
  const auto fit = fitted_loads(options, profiles->base, catalogue, std::move(runs));
  if (!fit) return fail(fit.error());
  const std::string from = fs::path(options.against).filename().string();
  if (auto error =
          write_file((folder / (runtime + ".toml")).string(), to_toml(profiles->base, *fit, from)))
    return fail(*error);
  if (auto error = write_file((folder / (runtime + ".left-out.csv")).string(), to_csv(*fit)))
    return fail(*error);
  if (auto error = emit({}, to_text(*fit))) return fail(*error);
  return kDone;
}

bool is_table_of_loads(const std::string& file) {
  constexpr std::size_t kMaxBytes = 100 << 20;
  const auto text = read_input(file, kMaxBytes);
  return text && is_serving_table(*text);
}

int calibrate_verb(const Options& options, const Catalogue& catalogue) {
  if (!options.own.paths.empty()) return correct_own_rig(options, catalogue);
  if (options.against.empty() && !options.kept.empty()) return fit_kept_runs(options, catalogue);
  if (options.against.empty())
    return fail(bad_input("--against is required",
                          "or --runs, for runs of the engine, or --own, for other runs of one's "
                          "own machine"));
  if (is_table_of_loads(options.against)) return fit_loads(options, catalogue);
  if (options.errors_only)
    return fail(bad_input("--errors-only takes a table of loads of servers",
                          "such as runtimes/measurements/serving/serving.csv"));
  const auto measured = read_measurements(options.against);
  if (!measured) return fail(measured.error());
  const auto profiles = load_profiles(options.runtime, catalogue);
  if (!profiles) return fail(profiles.error());
  Runs runs = resolve_runs(*measured, *profiles, catalogue);
  if (auto error = add_kept_runs(options.kept, *profiles, catalogue, runs)) return fail(*error);
  if (runs.runs.empty())
    return fail(bad_input(
        fmt::format("no run of {} in {} can be forecast", profiles->base.name, options.against),
        "rigcast validate --against FILE lists the reasons"));

  constexpr std::size_t kChipsOfAProfile = 10;
  std::set<std::string> chips;
  for (const ResolvedRun& run : runs.runs) chips.insert(run.chip);
  if (options.folder.empty() && chips.size() < kChipsOfAProfile)
    return fail(
        bad_input(fmt::format("{} chips are too few to replace the fit that rigcast ships with",
                              chips.size()),
                  "name a folder for this fit with -o, or correct one rig with --own"));

  const fs::path folder =
      options.folder.empty() ? catalogue.root() / "runtimes" / "fitted" : fs::path(options.folder);
  if (auto error = make_folder(folder)) {  // before the minutes that a fit takes
    error->hint = "name another folder with -o";
    return fail(*error);
  }
  const Fit fit = fit_rows(runs, *profiles, cores_of(options));
  if (fit.errors.values.empty())
    return fail({ErrorKind::kMachine, "the fit found no solution", "are the figures plausible?"});
  const std::string from = fs::path(options.against).filename().string();
  if (auto error = write_fit(folder, fit, *profiles, from)) return fail(*error);

  const auto rows = left_out_rows(fit.samples, fit.errors);
  const auto summary = accuracy(rows);
  const std::string text =
      options.format == Format::kJson ? to_json(summary, rows) : summary_text(summary, runs);
  if (auto error = emit({}, text)) return fail(*error);
  return kDone;
}

}  // namespace

void add_calibrate(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("calibrate", "Fit a runtime profile on measured runs");
  auto options = std::make_shared<Options>();
  verb->add_option("--against", options->against, "measured runs: csv, json or jsonl")
      ->type_name("FILE");
  verb->add_option("--runtime", options->runtime, "the profile to fit, with those that build on it")
      ->type_name("NAME")
      ->capture_default_str();
  verb->add_option("-o,--output", options->folder,
                   "folder to write to [runtimes/fitted]; with --own the file [beside the rig's]; "
                   "with --runs the profile's file [none is written]")
      ->check(not_empty())
      ->type_name("PATH");
  verb->add_option("--jobs", options->jobs, "fits at the same time [all cores]")
      ->check(integer_within(1, 4096))
      ->type_name("N");
  verb->add_option(
          "--runs", options->kept,
          "what `rigcast validate` kept, folders of --keep or files of --pack: runs to fit by "
          "beside those of --against; without it, runs of our engine, to fit its profile by")
      ->type_name("PATH");
  CLI::Option* own =
      verb->add_option("--own", options->own.paths,
                       "instead: runs of one's own machine, to correct its rig by; csv, json or "
                       "jsonl, or what `rigcast validate` kept: folders of --keep, files of --pack")
          ->type_name("PATH")
          ->excludes("--against")
          ->excludes("--runs")
          ->excludes("--runtime")
          ->excludes("--jobs");
  verb->add_flag("--errors-only", options->errors_only,
                 "of loads of servers: no fit; what the installed one is worth with forecasts of "
                 "today")
      ->needs("--against")
      ->excludes("--runs")
      ->excludes(own);
  verb->add_option("--rig", options->own.rig,
                   "that rig: of the catalogue, or a rig file [the rig \"this\" of one's own]")
      ->type_name("RIG")
      ->needs(own);
  add_format(*verb, options->format, {Format::kText, Format::kJson});
  verb->footer(
      "Every chip is left out once: the table shows what the fit is worth on machines that it has\n"
      "not seen. Every row's forecasts go to NAME.left-out.csv beside the profile.\n\n"
      "Examples\n"
      "  rigcast calibrate --against runtimes/measurements/benchmarks.csv\n"
      "  rigcast calibrate --against runtimes/measurements/serving/serving.csv --runtime vllm\n"
      "  rigcast calibrate --against runtimes/measurements/serving/serving.csv --runtime vllm \\\n"
      "    --errors-only\n"
      "  rigcast calibrate --against my-runs.jsonl -o my-fit --format json\n"
      "  llama-bench -m model.gguf -o jsonl > my-runs.jsonl\n"
      "  rigcast calibrate --own my-runs.jsonl --rig my-rig.toml\n"
      "  rigcast validate --runtime llama.cpp --suite quick --keep mine\n"
      "  rigcast calibrate --own mine --rig my-rig.toml\n"
      "  rigcast calibrate --against my-runs.jsonl --runs kept -o my-fit\n"
      "  rigcast calibrate --runs tests/validation/fit.jsonl.gz -o rigcast.toml");
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return calibrate_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
