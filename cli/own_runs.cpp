#include "cli/own_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "calibration/speed_of_runs.hpp"
#include "core/hardware/rig_correction.hpp"
#include "measurements/read_measurements.hpp"
#include "measurements/resolve.hpp"
#include "perfmodel/correction.hpp"
#include "sim/simulate.hpp"
#include "validation/validation.hpp"

namespace rigcast::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kRigFileHint =
    "write its parts into a file, my-rig.toml: gpu = [\"rtx-3090\"], cpu = \"ryzen-9-7950x\", "
    "ram = \"2xddr5-6000:64GiB\", one a line";

struct ComparedRun {
  ResolvedRun run;
  std::shared_ptr<const Scenario> scenario;  // without a correction
  PredictedFigure before, after;

  const std::string& runtime() const { return scenario->runtime.id; }
  bool is_decode() const { return run.measured.metric == Metric::kTg; }
  std::string what() const {
    std::string text = fmt::format("{} {}", scenario->model.id, scenario->quant);
    if (scenario->workload.depth > 0) text += fmt::format(" @ d{}", scenario->workload.depth);
    return text;
  }
};

struct Skipped {
  std::string id, reason;
};

using Corrections = std::map<std::string, Correction>;

Result<PredictedFigure> forecast(const std::shared_ptr<const Scenario>& scenario, Metric metric) {
  sim::SimulateOptions how;
  how.cliffs = false;
  const Report report = sim::simulate(scenario, how);
  if (!report.fits) return bad_input(report.errors.empty() ? "does not fit" : report.errors[0]);
  const auto figure = figure_of(report, metric);
  if (!figure) return bad_input(fmt::format("the forecast has no {}", name(metric)));
  return *figure;
}

std::shared_ptr<const Scenario> with_corrections(const Scenario& s, const Corrections& c) {
  auto copy = std::make_shared<Scenario>(s);
  copy->rig.corrections = c;
  return copy;
}

Result<ComparedRun> compare(const Measurement& m, Resolver& resolver) {
  if (m.doubtful()) return bad_input("marked SUSPECT or CAUTION by its source");
  if (m.metric != Metric::kTg && m.metric != Metric::kPp) return bad_input("no speed");
  if (!(m.value > 0)) return bad_input("its figure is zero");
  auto run = resolver.resolve(m);
  if (!run) return run.error();
  const auto bare = with_corrections(*run->scenario, {});
  const auto before = forecast(bare, m.metric);
  if (!before) return before.error();
  constexpr double kOtherMachine = 50;  // times as fast or as slow
  if (std::abs(std::log(m.value / before->value)) > std::log(kOtherMachine))
    return bad_input(fmt::format("{:.3g} beside a forecast of {:.3g}: not a run of this rig",
                                 m.value, before->value));
  return ComparedRun{*std::move(run), bare, *before, *before};
}

OwnRun logarithms(const ComparedRun& c) {
  const Measurement& m = c.run.measured;
  return {std::log(m.value / c.before.value),
          profile_spread(*c.scenario, name(m.metric), c.run.regime) / kNormal80,
          m.stdev.value_or(0) / m.value};
}

// Of the runs of one runtime and metric; nullopt: there are none.
std::optional<Correction::Speed> speed_of(const std::vector<ComparedRun>& all,
                                          const std::string& runtime, Metric metric,
                                          const std::string& source) {
  std::vector<OwnRun> runs;
  std::set<std::string> regimes;
  for (const ComparedRun& c : all) {
    if (c.runtime() != runtime || c.run.measured.metric != metric) continue;
    runs.push_back(logarithms(c));
    regimes.emplace(name(c.run.regime));
  }
  if (runs.empty()) return std::nullopt;
  Correction::Speed speed =
      speed_of_runs(runs, metric == Metric::kTg ? kOtherModelsDecode : kOtherModelsPrefill);
  speed.factor.source = source;
  speed.regimes.assign(regimes.begin(), regimes.end());
  return speed;
}

Corrections corrections_of(const std::vector<ComparedRun>& all, const std::string& source) {
  Corrections out;
  for (const ComparedRun& run : all) {
    Correction& c = out[run.runtime()];
    if (++c.runs > 1) continue;
    c.decode = speed_of(all, run.runtime(), Metric::kTg, source);
    c.prefill = speed_of(all, run.runtime(), Metric::kPp, source);
  }
  return out;
}

// Those of other runtimes stay.
Result<Corrections> add_to_file(Corrections corrections, const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return corrections;
  const auto document = TomlDocument::read(file);
  if (!document) return document.error();
  // A file that holds anything else is not one of ours to write over.
  const TomlTable root = document->root();
  root.find_text("source");
  corrections.merge(read_corrections(root.table("correction")));
  root.finish();
  if (auto error = document->error()) return *error;
  return corrections;
}

std::string interval_text(const PredictedFigure& f) {
  if (!f.interval) return "no interval";
  return fmt::format("{:+.0f} % to {:+.0f} %", 100 * (f.interval->lo / f.value - 1),
                     100 * (f.interval->hi / f.value - 1));
}

class Outcome {
 public:
  Outcome(std::vector<ComparedRun> runs, std::vector<Skipped> skipped, Corrections corrections,
          fs::path file)
      : runs_(std::move(runs)),
        skipped_(std::move(skipped)),
        corrections_(std::move(corrections)),
        file_(std::move(file)) {}

  std::string to_text() const {
    std::string text = fmt::format("{:<40}{:<9}{:>11}{:>11}{:>11}  tok/s\n", "run", "", "forecast",
                                   "measured", "corrected");
    for (const ComparedRun& c : runs_)
      text += fmt::format("{:<40}{:<9}{:>11.4g}{:>11.4g}{:>11.4g}\n", c.what(),
                          c.is_decode() ? "decode" : "prefill", c.before.value,
                          c.run.measured.value, c.after.value);
    text += '\n';
    for (const auto& [runtime, c] : corrections_) {
      text += line(runtime, true, c.decode);
      text += line(runtime, false, c.prefill);
    }
    for (const Skipped& s : skipped_) text += fmt::format("skipped {}: {}\n", s.id, s.reason);
    return text + fmt::format("\nwritten to {}; delete it to forget these runs\n", file_.string());
  }

  std::string to_json() const {
    const auto pair = [](const PredictedFigure& f) {
      return f.interval ? Json::array({f.interval->lo, f.interval->hi}) : Json();
    };
    Json json{{"schema", "rigcast.own_runs/1"}, {"file", file_.string()}};
    json["runs"] = Json::array();
    for (const ComparedRun& c : runs_)
      json["runs"].push_back({{"id", c.run.measured.id},
                              {"runtime", c.runtime()},
                              {"model", c.scenario->model.id},
                              {"quant", c.scenario->quant},
                              {"regime", name(c.run.regime)},
                              {"metric", name(c.run.measured.metric)},
                              {"forecast", c.before.value},
                              {"measured", c.run.measured.value},
                              {"corrected", c.after.value},
                              {"interval_before", pair(c.before)},
                              {"interval", pair(c.after)}});
    json["corrections"] = Json::object();
    for (const auto& [runtime, c] : corrections_)
      json["corrections"][runtime] = {
          {"decode", speed_json(c.decode)}, {"prefill", speed_json(c.prefill)}, {"runs", c.runs}};
    json["skipped"] = Json::array();
    for (const Skipped& s : skipped_)
      json["skipped"].push_back({{"id", s.id}, {"reason", s.reason}});
    return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }

 private:
  static Json speed_json(const std::optional<Correction::Speed>& speed) {
    if (!speed) return Json();
    return {
        {"factor", speed->factor.value}, {"spread", speed->spread}, {"regimes", speed->regimes}};
  }

  // How the interval of the first run of the kind narrowed stands for all.
  std::string line(const std::string& runtime, bool decode,
                   const std::optional<Correction::Speed>& speed) const {
    const auto is_of = [&](const ComparedRun& c) {
      return c.runtime() == runtime && c.is_decode() == decode;
    };
    const auto first = std::ranges::find_if(runs_, is_of);
    if (!speed || first == runs_.end()) return {};
    const auto n = std::ranges::count_if(runs_, is_of);
    return fmt::format("{} {}: devices {:.3f} x as fast, by {} run{}; 80 % interval {}, was {}\n",
                       runtime, decode ? "decode" : "prefill", speed->factor.value, n,
                       n == 1 ? "" : "s", interval_text(first->after),
                       interval_text(first->before));
  }

  std::vector<ComparedRun> runs_;
  std::vector<Skipped> skipped_;
  Corrections corrections_;
  fs::path file_;
};

// A machine that is known by its parts alone has nowhere to keep a correction.
Error rig_error(Error error) {
  error.message = "--rig: " + error.message;
  error.hint += (error.hint.empty() ? "" : "\n  ") + std::string(kRigFileHint);
  return error;
}

}  // namespace

void OwnRunsOptions::add_to(CLI::App& calibrate) {
  CLI::Option* own =
      calibrate
          .add_option("--own", runs,
                      "instead: runs of one's own machine, to correct its rig by; csv, json or "
                      "jsonl")
          ->type_name("FILE")
          ->excludes("--against")
          ->excludes("--runtime")
          ->excludes("--jobs");
  calibrate.add_option("--rig", rig, "that rig: of the catalogue, or a rig file")
      ->type_name("RIG")
      ->needs(own);
}

int correct_rig(const OwnRunsOptions& options, const std::string& output, Format format,
                const Catalogue& catalogue) {
  if (options.rig.empty())
    return fail(rig_error(bad_input("name the file of the machine that these runs are of")));
  const auto rig_file = catalogue.rig_file(options.rig);
  if (!rig_file) return fail(rig_error(rig_file.error()));
  auto resolver = Resolver::on_rig(catalogue, options.rig);
  if (!resolver) return fail(resolver.error());
  std::vector<std::string> unread;
  const auto measured = read_measurements(options.runs, &unread);
  if (!measured) return fail(measured.error());

  std::vector<ComparedRun> runs;
  std::vector<Skipped> skipped;
  for (const std::string& line : unread) {
    const auto at = line.rfind(": ");
    skipped.push_back({line.substr(0, at), line.substr(at + 2)});
  }
  for (const Measurement& m : *measured) {
    auto run = compare(m, *resolver);
    if (run)
      runs.push_back(*std::move(run));
    else
      skipped.push_back({m.id, run.error().message});
  }
  if (runs.empty())
    return fail(
        bad_input(fmt::format("{}: none of {} runs can be held against this rig", options.runs,
                              skipped.size()),
                  skipped.empty() ? "" : fmt::format("{}: {}", skipped[0].id, skipped[0].reason)));

  const fs::path file = output.empty() ? measured_file(*rig_file) : fs::path(output);
  const std::string source = fs::path(options.runs).filename().string();
  const Corrections corrections = corrections_of(runs, source);
  for (ComparedRun& run : runs) {
    const auto after =
        forecast(with_corrections(*run.scenario, corrections), run.run.measured.metric);
    if (!after) return fail(after.error());
    run.after = *after;
  }
  const auto all = add_to_file(corrections, file);
  if (!all) return fail(all.error());
  if (auto error = write_file(file.string(), to_toml(*all, source))) {
    if (output.empty()) error->hint = "copy the rig's file to a folder of yours, and name it there";
    return fail(*error);
  }
  const Outcome outcome(std::move(runs), std::move(skipped), corrections, file);
  const std::string text = format == Format::kJson ? outcome.to_json() : outcome.to_text();
  if (auto error = emit({}, text)) return fail(*error);
  return kDone;
}

}  // namespace rigcast::cli
