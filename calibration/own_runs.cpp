#include "calibration/own_runs.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "calibration/speed_of_runs.hpp"
#include "core/catalogue/compose_rig.hpp"
#include "core/files/output_file.hpp"
#include "core/hardware/rig_correction.hpp"
#include "measurements/read_measurements.hpp"
#include "measurements/resolve.hpp"
#include "perfmodel/context/correction.hpp"
#include "sim/simulate.hpp"

namespace rigcast::calibration {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kRigFileHint =
    "write its parts into a file, my-rig.toml: gpu = [\"rtx-3090\"], cpu = \"ryzen-9-7950x\", "
    "ram = \"2xddr5-6000:64GiB\", one a line";

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

// A run that a file of speeds states, on the rig.
Result<ResolvedRun> resolve_own(const Measurement& m, Resolver& resolver) {
  if (m.doubtful()) return bad_input("marked SUSPECT or CAUTION by its source");
  if (!speed_metric(m.metric)) return bad_input("no speed");
  if (!(m.value > 0)) return bad_input("its figure is zero");
  auto run = resolver.resolve(m);
  // What their exchange takes is no property of the rig's other forecasts.
  if (run && run->shares_layers()) return bad_input("its GPUs share every layer");
  return run;
}

Result<ComparedRun> compare(const ResolvedRun& run) {
  const Measurement& m = run.measured;
  const auto bare = with_corrections(*run.scenario, {});
  const auto before = forecast(bare, m.metric);
  if (!before) return before.error();
  constexpr double kOtherMachine = 50;  // factor in speed beyond which a run is of another machine
  if (std::abs(std::log(m.value / before->value)) > std::log(kOtherMachine))
    return bad_input(fmt::format("{:.3g} beside a forecast of {:.3g}: not a run of this rig",
                                 m.value, before->value));
  return ComparedRun{run, bare, *before, *before};
}

OwnRun logarithms(const ComparedRun& c) {
  const Measurement& m = c.run.measured;
  return {std::log(m.value / c.before.value),
          profile_spread(*c.scenario, *speed_metric(m.metric), c.run.regime) / kNormal80,
          m.stdev.value_or(0) / m.value};
}

// The speed by runs of one metric, each with its logarithms; nullopt: there are none.
template <class Logarithms>
std::optional<Correction::Speed> speed_of(const std::vector<const ComparedRun*>& of, Metric metric,
                                          const std::string& source, const Logarithms& logarithms) {
  std::vector<OwnRun> runs;
  std::set<std::string> regimes;
  for (const ComparedRun* c : of) {
    if (c->run.measured.metric != metric) continue;
    runs.push_back(logarithms(*c));
    regimes.emplace(name(c->run.regime));
  }
  if (runs.empty()) return std::nullopt;
  Correction::Speed speed =
      speed_of_runs(runs, metric == Metric::kTg ? kOtherModelsDecode : kOtherModelsPrefill);
  speed.factor.source = source;
  speed.regimes.assign(regimes.begin(), regimes.end());
  return speed;
}

// Both compute a token, one after the other.
bool decodes_on_both(const ComparedRun& c) {
  const bool shared = c.run.regime == Regime::kSplit || c.run.regime == Regime::kExpertsInRam;
  return c.is_decode() && shared && !c.scenario->rig.gpus.empty();
}

// As logarithms(), of the CPU's speed alone: the factor on it with which the forecast is what was
// measured, the GPU being as `correction` says.
OwnRun logarithms_of_host(const ComparedRun& c, Correction correction) {
  constexpr double kMaxLogarithm = 1.4;  // a factor of 4: past it, other things took the time
  constexpr int kHalvings = 12;
  OwnRun run = logarithms(c);
  double low = -kMaxLogarithm, high = kMaxLogarithm;
  for (int i = 0; i < kHalvings; ++i) {
    run.ratio = (low + high) / 2;
    correction.host_decode =
        Correction::Speed{{std::exp(run.ratio), SourceKind::kMeasured, {}}, 0, {}};
    const auto at =
        forecast(with_corrections(*c.scenario, {{c.runtime(), correction}}), Metric::kTg);
    (at && at->value > c.run.measured.value ? high : low) = run.ratio;
  }
  return run;
}

Corrections corrections_of(const std::vector<ComparedRun>& all, const std::string& source) {
  std::map<std::string, std::vector<const ComparedRun*>> whole, shared;  // by runtime
  Corrections out;
  for (const ComparedRun& run : all) {
    (decodes_on_both(run) ? shared : whole)[run.runtime()].push_back(&run);
    ++out[run.runtime()].runs;
  }
  for (auto& [runtime, c] : out) {
    std::vector<const ComparedRun*>& of_one = whole[runtime];
    c.prefill = speed_of(of_one, Metric::kPp, source, logarithms);
    c.decode = speed_of(of_one, Metric::kTg, source, logarithms);
    if (!c.decode)  // no run tells the GPU's speed: both are as much faster than forecast
      c.decode = speed_of(shared[runtime], Metric::kTg, source, logarithms);
    else
      c.host_decode =
          speed_of(shared[runtime], Metric::kTg, source,
                   [&c = c](const ComparedRun& run) { return logarithms_of_host(run, c); });
  }
  return out;
}

// Merges corrections into a file; corrections of other runtimes stay.
Result<Corrections> add_to_file(Corrections corrections, const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return corrections;
  const auto document = TomlDocument::read(file);
  if (!document) return document.error();
  // A file with any other content is not overwritten.
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

OwnRuns compare_all(const RunsOfRig& of_rig) {
  OwnRuns own;
  own.skipped = of_rig.skipped;
  std::set<std::string> used;
  for (const ResolvedRun& run : of_rig.runs) {
    auto compared = compare(run);
    if (!compared) {
      own.skipped.push_back({run.measured.id, compared.error().message});
      continue;
    }
    if (of_rig.kept.contains(run.measured.id)) used.insert(run.measured.id);
    own.runs.push_back(*std::move(compared));
  }
  own.kept = int(of_rig.kept.size());
  own.kept_used = int(used.size());
  return own;
}

Json speed_json(const std::optional<Correction::Speed>& speed) {
  if (!speed) return Json();
  return {{"factor", speed->factor.value}, {"spread", speed->spread}, {"regimes", speed->regimes}};
}

// A line of text: the interval of the kind's first run, before and after, as an example of all.
std::string line(const OwnRuns& own, const std::string& runtime, bool decode,
                 const std::optional<Correction::Speed>& speed) {
  const auto is_of = [&](const ComparedRun& c) {
    return c.runtime() == runtime && c.is_decode() == decode;
  };
  const auto first = std::ranges::find_if(own.runs, is_of);
  if (!speed || first == own.runs.end()) return {};
  const auto n = std::ranges::count_if(own.runs, is_of);
  return fmt::format("{} {}: devices {:.3f} x as fast, by {} run{}; 80 % interval {}, was {}\n",
                     runtime, decode ? "decode" : "prefill", speed->factor.value, n,
                     n == 1 ? "" : "s", interval_text(first->after), interval_text(first->before));
}

// The error for a rig without a file, for example one composed of parts: there is no place for its
// correction.
Error rig_error(Error error) {
  error.message = "--rig: " + error.message;
  error.hint += (error.hint.empty() ? "" : "\n  ") + std::string(kRigFileHint);
  return error;
}

}  // namespace

std::string ComparedRun::what() const {
  std::string text = fmt::format("{} {}", scenario->model.id, scenario->quant);
  if (scenario->workload.depth > 0) text += fmt::format(" @ d{}", scenario->workload.depth);
  return text;
}

Result<fs::path> rig_to_correct(const std::string& rig, const Catalogue& catalogue) {
  const auto file = catalogue.rig_file(rig.empty() ? kThisMachine : rig);
  if (file) return file;
  if (rig.empty())
    return rig_error(bad_input("name the file of the machine that these runs are of",
                               "rigcast probe -o my-rig.toml, then --rig my-rig.toml"));
  if (rig == kThisMachine)
    return rig_error(bad_input("a correction is kept beside a rig's file, and \"this\" has none",
                               "rigcast probe -o my-rig.toml, or rigcast show this for its parts"));
  return rig_error(file.error());
}

Result<RunsOfRig> read_own_runs(const std::string& file, const fs::path& rig,
                                const Catalogue& catalogue) {
  auto resolver = Resolver::on_rig(catalogue, rig.string());
  if (!resolver) return resolver.error();
  std::vector<std::string> unread;
  const auto measured = read_measurements(file, &unread);
  if (!measured) return measured.error();
  RunsOfRig out;
  for (const std::string& line : unread) {
    const auto at = line.rfind(": ");
    out.skipped.push_back({line.substr(0, at), line.substr(at + 2)});
  }
  for (const Measurement& m : *measured) {
    auto run = resolve_own(m, *resolver);
    if (run)
      out.runs.push_back(*std::move(run));
    else
      out.skipped.push_back({m.id, run.error().message});
  }
  return out;
}

Result<OwnRuns> correct_rig(const RunsOfRig& runs, const fs::path& rig, const fs::path& output) {
  const std::string source = fmt::format("{}", fmt::join(runs.files, ", "));
  OwnRuns own = compare_all(runs);
  if (own.runs.empty())
    return bad_input(
        fmt::format("{}: none of {} runs can be held against this rig", source, own.skipped.size()),
        own.skipped.empty() ? "" : fmt::format("{}: {}", own.skipped[0].id, own.skipped[0].reason));

  own.file = output.empty() ? measured_file(rig) : output;
  own.corrections = corrections_of(own.runs, source);
  for (ComparedRun& run : own.runs) {
    const auto after =
        forecast(with_corrections(*run.scenario, own.corrections), run.run.measured.metric);
    if (!after) return after.error();
    run.after = *after;
  }
  const auto all = add_to_file(own.corrections, own.file);
  if (!all) return all.error();
  if (auto error = write_file(own.file, to_toml(*all, source))) {
    if (output.empty()) error->hint = "copy the rig's file to a folder of yours, and name it there";
    return *error;
  }
  return own;
}

std::string to_json(const OwnRuns& own) {
  const auto pair = [](const PredictedFigure& f) {
    return f.interval ? Json::array({f.interval->lo, f.interval->hi}) : Json();
  };
  Json json{{"schema", "rigcast.own_runs/1"}, {"file", own.file.string()}};
  json["runs"] = Json::array();
  for (const ComparedRun& c : own.runs)
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
  for (const auto& [runtime, c] : own.corrections)
    json["corrections"][runtime] = {{"decode", speed_json(c.decode)},
                                    {"prefill", speed_json(c.prefill)},
                                    {"host_decode", speed_json(c.host_decode)},
                                    {"runs", c.runs}};
  json["kept"] = {{"runs", own.kept}, {"used", own.kept_used}};
  json["skipped"] = Json::array();
  for (const SkippedRun& s : own.skipped)
    json["skipped"].push_back({{"id", s.id}, {"reason", s.reason}});
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string to_text(const OwnRuns& own) {
  std::string text = fmt::format("{:<40}{:<9}{:>11}{:>11}{:>11}  tok/s\n", "run", "", "forecast",
                                 "measured", "corrected");
  for (const ComparedRun& c : own.runs)
    text += fmt::format("{:<40}{:<9}{:>11.4g}{:>11.4g}{:>11.4g}\n", c.what(),
                        c.is_decode() ? "decode" : "prefill", c.before.value, c.run.measured.value,
                        c.after.value);
  text += '\n';
  for (const auto& [runtime, c] : own.corrections) {
    text += line(own, runtime, true, c.decode);
    text += line(own, runtime, false, c.prefill);
    if (c.host_decode)
      text += fmt::format("{} decode: the CPU beside it {:.3f} x as fast\n", runtime,
                          c.host_decode->factor.value);
  }
  for (const SkippedRun& s : own.skipped) text += fmt::format("skipped {}: {}\n", s.id, s.reason);
  if (own.kept > 0)
    text += fmt::format("{} of {} kept run{} {} used\n", own.kept_used, own.kept,
                        own.kept == 1 ? "" : "s", own.kept_used == 1 ? "was" : "were");
  return text + fmt::format("\nwritten to {}; delete it to forget these runs\n", own.file.string());
}

}  // namespace rigcast::calibration
