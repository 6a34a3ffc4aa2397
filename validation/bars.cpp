#include "validation/bars.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/text/toml_reader.hpp"

namespace rigcast {
namespace {

std::optional<Regime> regime_named(std::string_view text) {
  for (int r = 0; r < kRegimeCount; ++r)
    if (name(Regime(r)) == text) return Regime(r);
  return std::nullopt;
}

ErrorBar read_bar(const TomlTable& t) {
  ErrorBar bar;
  bar.label = t.text("label");
  bar.metric = t.text("metric");
  t.require("on");
  bar.gpu = t.choice("on", false, {{"cpu", false}, {"gpu", true}});
  for (const std::string& text : t.texts("regimes")) {
    const auto regime = regime_named(text);
    if (regime)
      bar.regimes.push_back(*regime);
    else
      t.refuse("regimes", fmt::format("there is no regime \"{}\"", text));
  }
  t.require("median");
  t.require("worst");
  bar.median = t.number_or("median", 0, 0, 1);
  bar.worst = t.number_or("worst", 0, 0, 1);
  if (const auto size = t.find_figure<Bytes>("allowed", Bytes{}, 1_GiB))
    bar.allowed = size->value.value;
  t.finish();
  return bar;
}

bool is_judged(const ErrorBar& bar, const ValidationRow& row) {
  return row.counted && row.gpu == bar.gpu && row.metric == bar.metric &&
         (bar.regimes.empty() || std::ranges::find(bar.regimes, row.regime) != bar.regimes.end());
}

double error_of(const ValidationRow& row) {
  return row.scale > 0 ? (row.predicted - row.measured) / row.scale : row.error();
}

bool is_within(const ErrorBar& bar, const ValidationRow& row, double share) {
  return std::fabs(row.predicted - row.measured) <= std::max(bar.allowed, row.allowed) ||
         std::fabs(error_of(row)) <= share;
}

// The median of a non-empty list; for an even number, the mean of the middle two.
double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

BarVerdict verdict_of(const ErrorBar& bar, const std::vector<const ValidationRow*>& rows) {
  BarVerdict v;
  v.bar = bar;
  v.runs = int(rows.size());
  v.worst_holds = true;
  std::vector<double> sizes;
  for (const ValidationRow* row : rows) {
    const BarVerdict::Run run{row->id, error_of(*row)};
    sizes.push_back(std::fabs(run.error));
    if (sizes.size() == 1 || sizes.back() > std::fabs(v.worst.error)) v.worst = run;
    if (const auto in = row->inside()) ++v.with_interval, v.inside += *in;
    if (!is_within(bar, *row, bar.median)) v.beyond.push_back(run);
    v.worst_holds = v.worst_holds && is_within(bar, *row, bar.worst);
  }
  v.median = median_of(sizes);
  v.median_holds = v.median <= bar.median || 2 * v.beyond.size() < rows.size();
  return v;
}

}  // namespace

Result<std::vector<ErrorBar>> read_bars(const std::filesystem::path& file) {
  const auto document = TomlDocument::read(file);
  if (!document) return document.error();
  std::vector<ErrorBar> bars;
  for (const TomlTable& t : document->root().tables("bar")) bars.push_back(read_bar(t));
  if (auto error = document->error()) return *error;
  if (bars.empty())
    return bad_input("there are no bars in it", "[[bar]]", SourceRef{file.string()});
  return bars;
}

std::vector<BarVerdict> judge(std::span<const ValidationRow> rows, std::span<const ErrorBar> bars) {
  std::vector<BarVerdict> out;
  for (const ErrorBar& bar : bars) {
    std::vector<const ValidationRow*> judged;
    for (const ValidationRow& row : rows)
      if (is_judged(bar, row)) judged.push_back(&row);
    if (!judged.empty()) out.push_back(verdict_of(bar, judged));
  }
  return out;
}

std::vector<std::string> missed(std::span<const BarVerdict> verdicts) {
  std::vector<std::string> out;
  for (const BarVerdict& v : verdicts)
    if (!v.median_holds)
      out.push_back(fmt::format("{}: the median error of {:.1f} % is above {:.4g} %", v.bar.label,
                                100 * v.median, 100 * v.bar.median));
  return out;
}

std::string to_text(std::span<const BarVerdict> verdicts) {
  std::string text;
  for (const BarVerdict& v : verdicts)
    text += fmt::format(
        "  bar    {:<46} n {:<4} median {:4.1f} % of {:.4g} %, worst {:+.1f} % of "
        "{:.4g} %\n",
        v.bar.label, v.runs, 100 * v.median, 100 * v.bar.median, 100 * v.worst.error,
        100 * v.bar.worst);
  return text;
}

}  // namespace rigcast
