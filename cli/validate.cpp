#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <memory>

#include "calibration/accuracy_output.hpp"
#include "cli/calibrate_command.hpp"
#include "cli/html/page_output.hpp"
#include "cli/shared/device_names.hpp"
#include "cli/shared/flag_checks.hpp"
#include "cli/shared/output.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/validate/bench_validation.hpp"
#include "cli/validate/serving_validation.hpp"
#include "cli/verbs.hpp"
#include "core/files/input_file.hpp"
#include "core/files/interrupt.hpp"
#include "core/files/output_file.hpp"
#include "core/runtime/load_profile.hpp"
#include "core/text/unit_text.hpp"
#include "engine/backends/backend.hpp"
#include "measurements/read_measurements.hpp"
#include "measurements/serving/serving_results.hpp"
#include "report/terminal/progress_line.hpp"
#include "sim/simulate.hpp"
#include "validation/bars.hpp"
#include "validation/runs/campaign.hpp"
#include "validation/runs/llama_cpp/bench_build.hpp"
#include "validation/runs/llama_cpp/server.hpp"
#include "validation/runs/local_machine.hpp"
#include "validation/runs/packed_runs.hpp"
#include "validation/runs/suite.hpp"
#include "validation/validation.hpp"
#include "validation/validation_json.hpp"
#include "validation/validation_runs_text.hpp"
#include "validation/validation_text.hpp"

namespace rigcast::cli {
namespace {

constexpr const char* kNeedsFile =
    "--against runtimes/measurements/benchmarks.csv, or what llama-bench wrote with -o csv|json|"
    "jsonl";

struct RunsOptions {
  ScenarioFlags flags;
  validation::CampaignOptions campaign;
  std::vector<std::string> replay;  // folders or packed files
  std::string pack;                 // a folder
  std::string bars;
  bool as_written = false;
  std::string suite;
  std::string device = "auto";
  std::string llama_bench;  // empty: of $PATH
  std::string server;       // the address of a llama-server; empty: none
  std::string python;       // empty: of $PATH
  bool file = false;

  void add_to(CLI::App& verb);
};

struct Options {
  OutputOptions output;
  std::string against;
  std::vector<std::string> fail_above;
  bool doubtful = false;
  std::string left_out;  // a table that `rigcast calibrate` wrote; empty: none
  RunsOptions runs;
};

void RunsOptions::add_to(CLI::App& verb) {
  constexpr const char* kGroup = "Runs";
  flags.add_to(verb);
  verb.add_option("--suite", suite,
                  "scenarios to run one after the other: quick, cpu, gpu-resident, or a file")
      ->type_name("NAME")
      ->group(kGroup);
  std::vector<std::string> devices = device_names();
  devices.insert(devices.begin(), "auto");
  verb.add_option("--device", device,
                  fmt::format("{}, or auto: as the suite says, which may be another where there is "
                              "a GPU",
                              fmt::join(device_texts(), ", ")))
      ->check(CLI::IsMember(devices))
      ->type_name("DEVICE")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--llama-bench", llama_bench,
                  "with --runtime llama.cpp: the program that runs it [the first of $PATH]")
      ->check(not_empty())
      ->type_name("PATH")
      ->group(kGroup);
  verb.add_option("--server", server,
                  "a llama-server that runs on this machine: forecast and time it, as it was "
                  "started; say with what (--gpu-layers, --kv-type, ...)")
      ->check(not_empty())
      ->type_name("URL")
      ->excludes("--llama-bench", "--suite")
      ->group(kGroup);
  verb.add_option("--python", python,
                  "with --runtime transformers: a Python that has torch and transformers [python3 "
                  "of $PATH]")
      ->check(not_empty())
      ->type_name("PATH")
      ->group(kGroup);
  verb.add_flag("--file", file, "also warm and cold starts, from a file that is written for it")
      ->group(kGroup);
  verb.add_option("--repeat", campaign.repeat, "timed runs from resident weights")
      ->check(integer_within(1, 1000))
      ->type_name("N")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--keep", campaign.folder, "folder for rigs, forecasts and runs")
      ->check(not_empty())
      ->type_name("DIR")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_flag("--resume", campaign.resume,
                "go on with what --keep holds: runs that are over stay")
      ->group(kGroup);
  verb.add_option("--time-limit", campaign.time_limit,
                  "seconds that a try of one run may take, with its weights; of llama.cpp, each "
                  "test and request")
      ->check(integer_within(1, 86400))
      ->type_name("S")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--scratch", campaign.scratch, "folder for weights and the disk's test file")
      ->check(not_empty())
      ->type_name("DIR")
      ->group(kGroup);
  verb.add_option("--replay", replay,
                  "forecast anew what was kept, in folders or packed files; nothing is run")
      ->type_name("PATH")
      ->group(kGroup);
  verb.add_flag("--as-written", as_written,
                "with --replay: the forecasts that were written before the runs")
      ->group(kGroup);
  verb.add_option("--bars", bars, "end with 1 if a median error is above the file's bar")
      ->type_name("FILE")
      ->group(kGroup);
  verb.add_option("--pack", pack, "write what a folder keeps into one file, named with -o")
      ->type_name("DIR")
      ->excludes("--replay")
      ->group(kGroup);
}

// True if the runs may be made on a GPU: on that of --device, or on any.
bool has_gpu(const RunsOptions& options) {
  const engine::Backends& all = engine::built_in_backends();
  if (options.device == "auto") return all.usable_gpu() != nullptr;
  const auto chosen = all.find(options.device);
  return chosen && (*chosen)->is_gpu() && (*chosen)->gpu->device();
}

// The requested suite, or a suite of the scenario file or of the flags.
Result<validation::Suite> suite_of(const RunsOptions& options, const Catalogue& catalogue,
                                   const std::optional<validation::LlamaServer>& server) {
  std::string file = options.flags.file();
  if (!options.suite.empty()) {
    const auto found = validation::find_suite(options.suite, has_gpu(options), catalogue);
    if (!found) return found.error();
    file = found->string();
  }
  const bool is_suite = !file.empty() && validation::is_suite(file);
  if (is_suite && server)
    return bad_input("--server: it runs as it was started, which is one scenario, and no suite",
                     "a scenario, or flags", SourceRef{file});
  if (is_suite) return validation::read_suite(file);
  if (!options.suite.empty())
    return bad_input("--suite: there are no runs in this file", "[[run]] with name and scenario",
                     SourceRef{file});
  auto document = options.flags.document();
  if (!document) return document.error();
  if (auto error = validation::state_local(options.flags.file().empty(), *document)) return *error;
  if (server && options.file)
    return bad_input("--file: a server has loaded its model, and no start of it is timed");
  if (server)
    if (auto error = validation::state_server(*server, *document)) return *error;
  if (!document->has("model.name") && !document->has("model.file"))
    return bad_input("validate needs a scenario to run, or a file of measurements",
                     "--suite quick, --model llama-3.2-1b, a scenario, or --against runs.jsonl as "
                     "llama-bench writes it");
  validation::Suite suite;
  suite.runs.push_back({"this scenario", *std::move(document), options.file});
  return suite;
}

// The id of a profile that is given by its name or its file.
Result<std::string> runtime_id(const std::string& given, const Catalogue& catalogue) {
  const auto file = catalogue.runtime_file(given);
  if (!file) {
    Error error = file.error();
    error.message = "--runtime: " + error.message;
    return error;
  }
  const auto profile = load_runtime_profile(*file);
  if (!profile) return profile.error();
  return profile->id;
}

// --runtime, for every run of the suite; empty: it was not given.
Result<std::string> given_runtime(const RunsOptions& options) {
  const auto flags = options.flags.document();
  if (!flags) return flags.error();
  return flags->root().table("runtime").text_or("name", "");
}

std::optional<Error> set_runtime(const std::string& runtime, validation::Suite& suite) {
  if (runtime.empty()) return std::nullopt;
  for (validation::SuiteRun& run : suite.runs)
    if (auto error = run.scenario.set("runtime.name", toml_text(runtime), "--runtime"))
      return error;
  return std::nullopt;
}

// The month of the llama.cpp that runs, for forecasts of runs that state none.
std::optional<Error> set_build(const validation::LlamaBench& bench, const Catalogue& catalogue,
                               const std::filesystem::path& scratch, validation::Suite& suite) {
  const auto folder = scratch.empty() ? std::filesystem::temp_directory_path() : scratch;
  const auto month = validation::build_month_of(bench, folder, catalogue);
  if (!month) return std::nullopt;
  for (validation::SuiteRun& run : suite.runs) {
    const auto id =
        runtime_id(run.scenario.root().table("runtime").text_or("name", "rigcast"), catalogue);
    if (!id || *id != "llama.cpp" || run.scenario.has("runtime.build")) continue;
    if (auto error = run.scenario.set("runtime.build", toml_text(*month), "llama-bench"))
      return error;
  }
  return std::nullopt;
}

// What llama.cpp needs: its program, and a file for every run; a GPU if there is one, as it would
// take it itself. A run whose runtime is none is told by the run itself.
std::optional<Error> prepare_llama_cpp(const RunsOptions& options, const Catalogue& catalogue,
                                       validation::Suite& suite,
                                       validation::CampaignOptions& campaign) {
  bool is_used = false;
  for (validation::SuiteRun& run : suite.runs) {
    const auto id =
        runtime_id(run.scenario.root().table("runtime").text_or("name", "rigcast"), catalogue);
    if (id && *id == "llama.cpp") is_used = true;
    if (id && *id == "llama.cpp" && !campaign.llama_server) run.file = true;
  }
  const engine::EngineBackend* gpu = engine::built_in_backends().usable_gpu();
  if (options.device == "auto" && suite.file.empty() && gpu && is_used) suite.backend = gpu;
  if (campaign.llama_server && is_used) return std::nullopt;
  if (campaign.llama_server)
    return bad_input("--server: the run is not one of llama.cpp", "--runtime llama.cpp");
  if (!is_used) {
    if (options.llama_bench.empty()) return std::nullopt;
    return bad_input("--llama-bench: no run is one of llama.cpp", "--runtime llama.cpp");
  }
  auto bench = validation::find_llama_bench(
      options.llama_bench.empty() ? std::nullopt : std::optional(options.llama_bench));
  if (!bench) return bench.error();
  if (auto error = set_build(*bench, catalogue, campaign.scratch, suite)) return error;
  campaign.llama_bench = *std::move(bench);
  return std::nullopt;
}

// What transformers needs: a Python that has it; a GPU if there is one, as for llama.cpp.
std::optional<Error> prepare_transformers(const RunsOptions& options, const Catalogue& catalogue,
                                          validation::Suite& suite,
                                          validation::CampaignOptions& campaign) {
  bool is_used = false;
  for (validation::SuiteRun& run : suite.runs) {
    const auto file =
        catalogue.runtime_file(run.scenario.root().table("runtime").text_or("name", "rigcast"));
    const auto profile = file ? load_runtime_profile(*file) : Result<RuntimeProfile>(file.error());
    if (!profile || profile->rules != RuntimeRules::kTransformers) continue;
    is_used = true;
    run.file = false;  // its weights are random, from no file
  }
  if (!is_used) {
    if (options.python.empty()) return std::nullopt;
    return bad_input("--python: no run is one of transformers", "--runtime transformers");
  }
  if (options.file)
    return bad_input("--file: with transformers starts from a file are not run", "leave it out");
  auto python = validation::find_transformers(
      options.python.empty() ? std::nullopt : std::optional(options.python), catalogue.root());
  if (!python) return python.error();
  campaign.transformers = *std::move(python);
  const engine::EngineBackend* gpu = engine::built_in_backends().usable_gpu();
  if (options.device == "auto" && suite.file.empty() && gpu) suite.backend = gpu;
  return std::nullopt;
}

Result<Validation> run_suite(const RunsOptions& options, const Catalogue& catalogue) {
  validation::CampaignOptions campaign = options.campaign;
  if (!options.server.empty()) {
    auto server = validation::find_llama_server(options.server);
    if (!server) return server.error();
    campaign.llama_server = *std::move(server);
  }
  auto suite = suite_of(options, catalogue, campaign.llama_server);
  if (!suite) return suite.error();
  if (options.device != "auto") {
    const auto backend = engine::built_in_backends().find(options.device);
    if (!backend) return backend.error();
    suite->backend = *backend;
  }
  const auto runtime = given_runtime(options);
  if (!runtime) return runtime.error();
  if (auto error = set_runtime(*runtime, *suite)) return *error;
  if (auto error = prepare_llama_cpp(options, catalogue, *suite, campaign)) return *error;
  if (auto error = prepare_transformers(options, catalogue, *suite, campaign)) return *error;
  return validation::run_campaign(*suite, campaign, catalogue);
}

std::string render(const Validation& validation, const std::vector<BarVerdict>& verdicts,
                   const std::vector<std::string>& exceptions, const Options& options,
                   const OutputOptions& output) {
  const TextStyle style = screen_style(output);
  switch (output.format) {
    case Format::kText: {
      std::string text =
          options.against.empty() ? runs_to_text(validation, style) : to_text(validation, style);
      text += to_text(verdicts);
      for (const std::string& exception : exceptions) text += fmt::format("  {}\n", exception);
      return text;
    }
    case Format::kJson: return to_json(validation, verdicts);
    case Format::kCsv: return to_csv(validation);
  }
  return {};
}

Result<std::vector<Measurement>> read(const Result<std::string>& text, const std::string& file,
                                      std::vector<std::string>& unread) {
  auto runs = text ? parse_measurements(*text, file, &unread)
                   : Result<std::vector<Measurement>>(text.error());
  if (!runs) {
    Error error = runs.error();
    error.kind = ErrorKind::kBadInput;  // of what was asked for, not of the machine
    if (error.hint.empty()) error.hint = kNeedsFile;
    return error;
  }
  if (runs->empty() && unread.empty())
    return bad_input("there are no measurements in this file", kNeedsFile, SourceRef{file, 0, 0});
  return runs;
}

struct AgainstFile {
  std::vector<Measurement> runs;
  Validation validation;
};

Result<AgainstFile> against_file(const Options& options, const Catalogue& catalogue) {
  auto runtime = given_runtime(options.runs);
  if (runtime && !runtime->empty()) runtime = runtime_id(*runtime, catalogue);
  if (!runtime) return runtime.error();
  const auto text = read_input(options.against, 100 << 20);  // once: it may be a pipe
  if (text && serving_form(*text) != ServingForm::kNone) {
    const auto given = options.runs.flags.document();
    if (!given) return given.error();
    auto serving =
        compare_servers({*text, options.against, *runtime, options.doubtful}, *given, catalogue);
    return serving ? Result<AgainstFile>(AgainstFile{{}, *std::move(serving)}) : serving.error();
  }
  std::vector<std::string> unread;
  auto runs = read(text, options.against, unread);
  if (!runs) return runs.error();
  auto validation =
      compare_bench({options.against, *runtime, options.doubtful}, *runs, unread, catalogue);
  return AgainstFile{*std::move(runs), std::move(validation)};
}

// Prints the errors of a fit on chips that it had not seen, and whether its forecasts are this
// program's.
int judge_left_out(const Options& options, const Catalogue& catalogue) {
  namespace cal = calibration;
  if (options.output.format == Format::kCsv)
    return fail(bad_input("--left-out has no csv", "--format json"));
  cal::LeftOutReport report;
  auto rows = cal::read_left_out(options.left_out);
  if (!rows) return fail(rows.error());
  report.rows = *std::move(rows);
  if (!options.runs.bars.empty()) {
    const auto bars = cal::read_left_out_bars(options.runs.bars);
    if (!bars) return fail(bars.error());
    report.verdicts = cal::judge(report.rows, *bars);
    report.sweep = bars->sweep;
  }
  const auto against = against_file(options, catalogue);
  if (!against) return fail(against.error());
  report.coverage = cal::forecast_coverage(report.rows, against->runs, against->validation);
  const bool json = options.output.format == Format::kJson;
  if (auto error = emit(options.output, json ? to_json(report, against->runs) : to_text(report)))
    return fail(*error);
  std::vector<std::string> failures = cal::exceeded(report.verdicts);
  std::ranges::copy(cal::shortcomings(report.coverage), std::back_inserter(failures));
  for (const std::string& failure : failures) fail({ErrorKind::kDoesNotFit, failure});
  return failures.empty() ? kDone : kAnswerIsNo;
}

int verdict(const Validation& validation, const std::vector<ErrorLimit>& limits,
            const std::vector<BarVerdict>& verdicts) {
  std::vector<std::string> failures = exceeded(validation.summary, limits);
  std::ranges::copy(missed(verdicts), std::back_inserter(failures));
  if (validation.rows.empty())
    failures = {fmt::format("{}: none of {} runs has a forecast", validation.against,
                            text_count(std::int64_t(validation.skipped.size())))};
  for (const std::string& failure : failures) fail({ErrorKind::kDoesNotFit, failure});
  return failures.empty() ? kDone : kAnswerIsNo;
}

int pack_runs(const Options& options) {
  if (options.output.file.empty())
    return fail(bad_input("--pack: name the file with -o", "-o my-runs.jsonl.gz"));
  const auto suite = validation::read_archive(options.runs.pack);
  if (!suite) return fail(suite.error());
  if (auto error = validation::write_packed(*suite, options.output.file)) return fail(*error);
  return kDone;
}

// Before hours of runs.
std::optional<Error> check_places(const Options& options) {
  if (auto error = check_outputs({options.output.file})) return error;
  if (auto error = check_html(options.output)) return error;
  const auto& scratch = options.runs.campaign.scratch;
  if (scratch.empty()) return std::nullopt;
  auto error = make_folder(scratch);
  if (error) error->hint = "--scratch DIR, a folder that can be written to";
  return error;
}

int validate_verb(const Options& options, const Catalogue& catalogue) {
  if (const auto error = check_places(options)) return fail(*error);
  if (!options.runs.pack.empty()) return pack_runs(options);
  if (!options.left_out.empty()) return judge_left_out(options, catalogue);
  std::vector<ErrorLimit> limits;
  for (const std::string& text : options.fail_above) {
    const auto limit = parse_error_limit(text);
    if (!limit)
      return fail(bad_input("--fail-above: " + limit.error().message, limit.error().hint));
    limits.push_back(*limit);
  }
  Bars bars;
  if (!options.runs.bars.empty()) {
    auto read = read_bars(options.runs.bars);
    if (!read) return fail(read.error());
    bars = *std::move(read);
    if (options.runs.as_written) bars.suites.clear();  // of forecasts of the program as it is
  }
  using validation::Forecasts;
  const auto forecasts = options.runs.as_written ? Forecasts::kAsWritten : Forecasts::kAnew;
  const auto& replay = options.runs.replay;
  const auto validation = [&]() -> Result<Validation> {
    if (!options.against.empty()) {
      auto against = against_file(options, catalogue);
      if (!against) return against.error();
      return std::move(against->validation);
    }
    if (!replay.empty()) return validation::replay_runs(replay, catalogue, forecasts);
    return run_suite(options.runs, catalogue);
  }();
  if (!validation && interrupted())
    return fail({ErrorKind::kMachine,
                 "interrupted before the run was over",
                 "nothing of it is kept: the same command begins it anew",
                 {}});
  if (!validation) return fail(validation.error());
  const auto verdicts = judge(validation->rows, bars);
  const auto noted = exceptions(validation->rows, bars);
  std::string next;
  if (options.against.empty() && replay.empty())
    next = calibrate_command(options.runs.campaign.folder, catalogue);
  const auto in_form = [&](const OutputOptions& output) {
    std::string text = render(*validation, verdicts, noted, options, output);
    if (output.format == Format::kText && !next.empty())
      text += fmt::format("\n  next   {}\n", next);
    return text;
  };
  const std::string title = fmt::format("Validation, {} rows", validation->rows.size());
  if (auto error = emit(options.output, Answer{title, in_form})) return fail(*error);
  if (interrupted())
    return fail({ErrorKind::kMachine,
                 "interrupted",
                 fmt::format("runs that are over are kept in {}: the same command with --resume "
                             "goes on with the others",
                             options.runs.campaign.folder.string()),
                 {}});
  return verdict(*validation, limits, verdicts);
}

}  // namespace

void add_validate(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb =
      app.add_subcommand("validate", "Run what was forecast, and show where the two differ");
  auto options = std::make_shared<Options>();
  CLI::Option* against =
      verb->add_option("--against", options->against,
                       "measurements of others, or your own: our CSV, llama-bench's csv, json or "
                       "jsonl, llama-batched-bench's table or jsonl; results of vllm bench serve, "
                       "SGLang's bench_serving, GuideLLM, AIPerf or GenAI-Perf")
          ->type_name("FILE");
  verb->add_flag("--doubtful", options->doubtful, "also runs that are marked SUSPECT or CAUTION");
  CLI::Option* fail_above =
      verb->add_option("--fail-above", options->fail_above,
                       "end with 1 if a regime's median error is larger (0.2: 20 %)")
          ->type_name("METRIC=X")
          ->allow_extra_args(false)
          ->take_all();
  verb->add_option("--left-out", options->left_out,
                   "instead of rows: errors on chips that a fit had not seen, from the table "
                   "NAME.left-out.csv of `rigcast calibrate`; ends with 1 if the table is not of "
                   "this program, or if a median is above the limit of a bar in --bars")
      ->type_name("FILE")
      ->needs(against)
      ->excludes(fail_above);
  options->runs.add_to(*verb);
  for (const char* runs : {"--suite", "--replay"}) against->excludes(verb->get_option(runs));
  options->output.add_to(*verb);
  CLI::Option* html = add_html(*verb, options->output);
  for (const char* without : {"--left-out", "--pack"}) html->excludes(verb->get_option(without));
  verb->footer(
      "A scenario, or a suite of them, is forecast, then run, and both are set side by side. With\n"
      "--against nothing is run. A benchmark of a server knows neither the machine nor, mostly, "
      "how\n"
      "weights are stored: --gpu or --rig, --quant, --runtime, and --slots of llama-server say "
      "so;\n"
      "flags win over the file.\n\n"
      "Examples\n"
      "  rigcast validate --model llama-3.2-1b --quant Q8_0 --file\n"
      "  rigcast validate --suite quick --keep mine --format csv -o mine.csv\n"
      "  rigcast validate --suite quick --runtime llama.cpp --llama-bench "
      "~/llama.cpp/build/bin/llama-bench\n"
      "  rigcast validate --suite transformers --python ~/venv/bin/python3\n"
      "  rigcast validate --pack mine -o mine.jsonl.gz && rigcast validate --replay mine.jsonl.gz\n"
      "  rigcast validate --against runtimes/measurements/benchmarks.csv --fail-above tg_tps=0.2\n"
      "  llama-bench -m model.gguf -o jsonl > runs.jsonl && rigcast validate --against runs.jsonl\n"
      "  vllm bench serve --save-result --result-filename run.json ... &&\n"
      "      rigcast validate --against run.json --rig this --runtime vllm --quant BF16\n"
      "  llama-batched-bench -m model.gguf -npp 512 -ntg 32 -npl 1,8,32 > batches.txt &&\n"
      "      rigcast validate --against batches.txt --gpu rtx-3090 --model model.gguf");
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return validate_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
