#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "calibration/evidence.hpp"
#include "cli/shared/flag_checks.hpp"
#include "cli/shared/output.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/terminal/terminal_width.hpp"
#include "cli/verbs.hpp"
#include "core/scenario/chip_family.hpp"
#include "core/scenario/scenario.hpp"
#include "measurements/resolve.hpp"
#include "report/terminal/text_style.hpp"
#include "report/terminal/wrap_lines.hpp"
#include "sim/simulate.hpp"

namespace rigcast::cli {
namespace {

namespace cal = calibration;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  std::string rows = "5";  // a whole number
};

// A forecast and what it rests on.
struct Explained {
  Report report;
  Regime regime = Regime::kResident;
  std::string chip;
  std::vector<cal::Evidence> evidence;  // decode, prefill; none: the runtime has no table of rows
};

// The table of the rows that a profile's figures were fitted on; empty: there is none. A profile
// that builds on another is fitted with it.
fs::path table_of(const RuntimeProfile& runtime, const Catalogue& catalogue) {
  std::error_code ignored;
  for (const std::string& id : {runtime.id, runtime.base}) {
    const fs::path file = catalogue.root() / "runtimes" / "fitted" / (id + ".left-out.csv");
    if (!id.empty() && fs::exists(file, ignored)) return file;
  }
  return {};
}

Result<Explained> explain(Report report, const Catalogue& catalogue, std::size_t nearest) {
  const Scenario& s = *report.scenario;
  const Regime regime = regime_of(s, report.placement);
  const std::string& cpu = s.rig.cpu.id.empty() ? s.rig.cpu.name : s.rig.cpu.id;
  const std::string chip = regime == Regime::kCpuOnly ? cpu : chip_of(s.rig);
  const cal::EvidenceQuery query{chip, chip_families(s.rig, regime), s.model.id, s.quant, regime};
  const fs::path table = table_of(s.runtime, catalogue);
  Explained out{std::move(report), regime, chip, {}};
  if (table.empty()) return out;
  const auto rows = cal::read_left_out(table);
  if (!rows) return rows.error();
  for (const SpeedMetric metric : {SpeedMetric::kDecode, SpeedMetric::kPrefill})
    out.evidence.push_back(cal::evidence(*rows, query, metric, nearest));
  return out;
}

const char* words(SpeedMetric metric) {
  return metric == SpeedMetric::kDecode ? "decode" : "prefill";
}

double forecast(const Explained& e, SpeedMetric metric) {
  return metric == SpeedMetric::kDecode ? e.report.decode_tokens_per_s
                                        : e.report.prefill_tokens_per_s;
}

const std::optional<Interval>& interval(const Explained& e, SpeedMetric metric) {
  return metric == SpeedMetric::kDecode ? e.report.tokens_per_s_interval
                                        : e.report.prefill_interval;
}

// Rows of builds from one year to another; both 0: of builds that are not known.
int rows_of_builds(const cal::EvidenceGroup& group, int first, int last) {
  int sum = 0;
  for (const auto& [year, rows] : group.by_year) sum += year >= first && year <= last ? rows : 0;
  return sum;
}

// On less than this, builds have no columns, and a row takes two lines.
constexpr std::size_t kWholeWidth = 99;
// Of a narrow line, what figures leave for names.
constexpr std::size_t kGroupFigures = 37, kRowWords = 17;

std::string group_line(const cal::EvidenceGroup& g, std::size_t width) {
  const std::string errors =
      g.left_out ? fmt::format("{:.0f} / {:.0f} %", 100 * g.left_out->median, 100 * g.left_out->p90)
                 : "-";
  const std::size_t name = std::min<std::size_t>(30, width - kGroupFigures);
  const std::string line =
      fmt::format("  {}{:>6}{:>7}{:>9}{:>13}", pad_right(clip(printable(g.what), name - 1), name),
                  g.rows, g.chips, g.sources, errors);
  if (width < kWholeWidth) return line;
  return line + fmt::format("{:>9}{:>7}{:>7}{:>9}", rows_of_builds(g, 1, 2024),
                            rows_of_builds(g, 2025, 2025), rows_of_builds(g, 2026, 9999),
                            rows_of_builds(g, 0, 0));
}

std::string narrow_row(const cal::LeftOutRow& row, std::size_t source, std::size_t width) {
  const std::size_t name = std::min<std::size_t>(24, (width - kRowWords) / 2);
  const auto cell = [&](const std::string& text) {
    return pad_right(clip(printable(text), name - 1), name);
  };
  return fmt::format("  {}{}{:<9}{:>6}\n      measured {}, forecast {}, {:+.0f} %  [{}]",
                     cell(row.chip), cell(row.model), clip(printable(row.quant), 8),
                     row.year > 0 ? fmt::to_string(row.year) : "?", three_digits(row.measured),
                     three_digits(row.fitted_speed()), 100 * std::expm1(row.fitted), source);
}

std::string row_line(const cal::LeftOutRow& row, std::size_t source, std::size_t width) {
  if (width < kWholeWidth) return narrow_row(row, source, width);
  const double error = 100 * std::expm1(row.fitted);
  return fmt::format("  {:<24}{:<24}{:<9}{:>6}{:>10}{:>10}{:>+7.0f} %  [{}]",
                     clip(printable(row.chip), 23), clip(printable(row.model), 23),
                     clip(printable(row.quant), 8), row.year > 0 ? fmt::to_string(row.year) : "?",
                     three_digits(row.measured), three_digits(row.fitted_speed()), error, source);
}

// The nearest rows, and their sources below them, each once.
std::string nearest_text(const std::vector<cal::LeftOutRow>& rows, std::size_t width) {
  std::string out =
      width < kWholeWidth
          ? "\n  nearest rows, in tok/s: chip, model, quant, build\n"
          : fmt::format("\n  {:<24}{:<24}{:<9}{:>6}{:>10}{:>10}{:>9}\n", "nearest rows, in tok/s",
                        "model", "quant", "build", "measured", "forecast", "error");
  std::vector<std::string> sources;
  for (const cal::LeftOutRow& row : rows) {
    auto at = std::ranges::find(sources, row.source);
    if (at == sources.end()) at = sources.insert(at, row.source);
    out += row_line(row, std::size_t(at - sources.begin()) + 1, width) + "\n";
  }
  for (std::size_t i = 0; i < sources.size(); ++i)
    out += fmt::format("  [{}] {}\n", i + 1, printable(sources[i]));
  return out;
}

// What a reader is to conclude from the nearest group that has rows.
std::string conclusion(const cal::Evidence& e) {
  const auto rows = [&](std::size_t group) { return e.groups[group].rows; };
  if (rows(1) > 0)
    return rows(0) > 0 ? "measured on this chip with this model"
                       : "measured on this chip with other models";
  if (rows(2) > 0)
    return "no row of this chip: its family's figures and its own rates speak for it";
  if (rows(4) > 0)
    return "no row of its family: other families' figures speak for it, with more doubt";
  return "no row of this kind at all: figures are assumed, see rigcast show";
}

std::string metric_text(const Explained& e, const cal::Evidence& of, std::size_t width) {
  std::string title = fmt::format("{}: {}", words(of.metric), rate_text(forecast(e, of.metric)));
  if (const auto& range = interval(e, of.metric)) title += rate_interval_text(range->lo, range->hi);
  std::string out = fmt::format("\n{}\n  {}\n", title, conclusion(of));
  const std::size_t name = std::min<std::size_t>(30, width - kGroupFigures);
  out +=
      fmt::format("  {:<{}}{:>6}{:>7}{:>9}{:>13}", "", name, "rows", "chips", "sources", "error *");
  if (width >= kWholeWidth)
    out += fmt::format("{:>9}{:>7}{:>7}{:>9}", "to 2024", "2025", "2026", "unknown");
  out += "\n";
  for (const cal::EvidenceGroup& group : of.groups) out += group_line(group, width) + "\n";
  return of.nearest.empty() ? out : out + nearest_text(of.nearest, width);
}

std::string as_text(const Explained& e, std::size_t width) {
  const Scenario& s = *e.report.scenario;
  std::string out = fmt::format("{} {} on {}, {}: {}\n", printable(s.model.name), s.quant,
                                printable(e.chip), s.runtime.name, name(e.regime));
  for (const cal::Evidence& of : e.evidence) out += metric_text(e, of, width);
  if (e.evidence.empty()) {
    out += "\nNo public rows were fitted for this runtime.";
    for (const std::string& configuration : s.runtime.fitted_on)
      out += fmt::format(
          "{}\n  {}",
          configuration == s.runtime.fitted_on.front() ? " Its figures are fitted on runs of" : "",
          printable(configuration));
    return out + "\n";
  }
  out +=
      "\n* median / 90th percentile of forecasts by a fit that saw no row of the chip; chips "
      "count equally\n";
  return width < kWholeWidth ? out + "rows by the year of their build: --format json\n" : out;
}

Json row_json(const cal::LeftOutRow& row) {
  return {{"id", row.id},
          {"chip", row.chip},
          {"model", row.model},
          {"quant", row.quant},
          {"build_year", row.year},
          {"measured", row.measured},
          {"forecast", row.fitted_speed()},
          {"forecast_left_out", row.left_out_speed()},
          {"source", row.source}};
}

Json group_json(const cal::EvidenceGroup& g) {
  Json years = Json::object();
  for (const auto& [year, rows] : g.by_year)
    years[year > 0 ? fmt::to_string(year) : "unknown"] = rows;
  Json errors = nullptr;
  if (g.left_out) errors = {{"median", g.left_out->median}, {"p90", g.left_out->p90}};
  return {{"what", g.what},       {"rows", g.rows},           {"chips", g.chips},
          {"sources", g.sources}, {"left_out_error", errors}, {"rows_by_build_year", years}};
}

std::string as_json(const Explained& e) {
  Json metrics = Json::array();
  for (const cal::Evidence& of : e.evidence) {
    Json groups = Json::array(), nearest = Json::array();
    for (const auto& group : of.groups) groups.push_back(group_json(group));
    for (const auto& row : of.nearest) nearest.push_back(row_json(row));
    const auto& range = interval(e, of.metric);
    metrics.push_back({{"metric", words(of.metric)},
                       {"tokens_per_s", forecast(e, of.metric)},
                       {"interval", range ? Json({range->lo, range->hi}) : Json(nullptr)},
                       {"conclusion", conclusion(of)},
                       {"groups", std::move(groups)},
                       {"nearest", std::move(nearest)}});
  }
  const Scenario& s = *e.report.scenario;
  const Json all = {{"schema", "rigcast.explain/1"},
                    {"model", s.model.id},
                    {"quant", s.quant},
                    {"chip", e.chip},
                    {"runtime", s.runtime.id},
                    {"regime", name(e.regime)},
                    {"metrics", std::move(metrics)},
                    {"fitted_on", s.runtime.fitted_on}};
  return all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

int explain_verb(const Options& options, const Catalogue& catalogue) {
  if (auto error = check_outputs({options.output.file})) return fail(*error);
  const auto document = options.flags.document();
  if (!document) return fail(document.error());
  auto scenario = make_scenario(*document, catalogue);
  if (!scenario) return fail(scenario.error());
  if (const auto error = check_no_load(scenario->load)) return fail(*error);
  Report report = sim::simulate(std::make_shared<const Scenario>(*std::move(scenario)), {});
  if (!report.fits)
    return fail({ErrorKind::kDoesNotFit,
                 "this configuration does not fit, so there is no speed to explain",
                 "rigcast simulate says what lacks memory, rigcast plan finds what fits"});
  const auto explained = explain(std::move(report), catalogue, std::stoul(options.rows));
  if (!explained) return fail(explained.error());
  const std::size_t width = terminal_width(options.output);
  const std::string text =
      options.output.format == Format::kJson
          ? as_json(*explained)
          : wrap_lines(as_text(*explained, width > 0 ? width : kWholeWidth), width, 2);
  if (auto error = emit(options.output, text)) return fail(*error);
  return kDone;
}

}  // namespace

void add_explain(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb =
      app.add_subcommand("explain", "Show the measured runs that speak for a forecast");
  auto options = std::make_shared<Options>();
  options->flags.add_to(*verb);
  options->output.add_to(*verb, {Format::kText, Format::kJson});
  verb->add_option("--rows", options->rows, "how many of the nearest rows to show")
      ->check(integer_within(0, 1000))
      ->type_name("N")
      ->group("Output");
  verb->footer(
      "Examples\n"
      "  rigcast explain --gpu rtx-5090 --model qwen3-30b-a3b --quant Q4_K_M\n"
      "  rigcast explain --rig strix-halo-128gb --model gpt-oss-120b --rows 20 --format json");
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return explain_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
