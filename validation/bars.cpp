#include "validation/bars.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "core/base/quantile.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {
namespace {

constexpr double kNoMedian = 1e9;  // any error is within

ErrorBar read_bar(const TomlTable& t) {
  ErrorBar bar;
  bar.label = t.text("label");
  bar.metric = t.text("metric");
  t.require("on");
  bar.gpu = t.choice("on", false, {{"cpu", false}, {"gpu", true}});
  for (const std::string& text : t.texts("regimes")) {
    const auto regime = regime_from(text);
    if (regime)
      bar.regimes.push_back(*regime);
    else
      t.refuse("regimes", fmt::format("there is no regime \"{}\"", text));
  }
  if (!t.has("inside")) t.require("median");
  bar.median = t.number_or("median", kNoMedian, 0, 1);
  if (t.has("inside")) bar.inside = t.number_or("inside", 0, 0, 1);
  bar.pressed = t.flag("pressed", false);
  bar.exact = t.flag("exact", false);
  if (t.has("worst")) bar.worst = t.number_or("worst", 0, 0, 1);
  if (const auto size = t.find_figure<Bytes>("allowed", Bytes{}, 1_GiB))
    bar.allowed = size->value.value;
  t.finish();
  return bar;
}

SuiteBars read_suite(const TomlTable& t, const std::vector<ErrorBar>& bars) {
  SuiteBars suite{t.text("name"), t.texts("alone"), t.texts("never"), t.text("reason")};
  for (const auto& [key, labels] : {std::pair{"alone", &suite.alone}, {"never", &suite.never}})
    for (const std::string& label : *labels)
      if (std::ranges::find(bars, label, &ErrorBar::label) == bars.end())
        t.refuse(key, fmt::format("there is no bar \"{}\"", label));
  t.finish();
  return suite;
}

template <class T>
bool contains(const std::vector<T>& list, const T& item) {
  return std::ranges::find(list, item) != list.end();
}

bool is_of(const ValidationRow& row, const SuiteBars& suite) {
  std::string_view path = row.suite;
  constexpr std::string_view kPacked = ".jsonl.gz";
  if (path.ends_with(kPacked)) path.remove_suffix(kPacked.size());
  return path == suite.suite || path.ends_with("/" + suite.suite);
}

bool are_of_one_suite(std::span<const ValidationRow> rows) {
  return std::ranges::all_of(
      rows, [&](const ValidationRow& row) { return row.suite == rows.front().suite; });
}

bool is_judged(const ErrorBar& bar, const ValidationRow& row, const Bars& bars, bool alone) {
  if (!row.counted || row.gpu != bar.gpu || row.metric != bar.metric) return false;
  if (row.pressed != bar.pressed || (bar.exact && row.interval)) return false;
  if (!bar.regimes.empty() && !contains(bar.regimes, row.regime)) return false;
  return std::ranges::none_of(bars.suites, [&](const SuiteBars& suite) {
    const bool is_left_out = alone && !suite.alone.empty() && !contains(suite.alone, bar.label);
    return is_of(row, suite) && (is_left_out || contains(suite.never, bar.label));
  });
}

double error_of(const ValidationRow& row) {
  return row.scale > 0 ? (row.predicted - row.measured) / row.scale : row.error();
}

bool is_within(const ErrorBar& bar, const ValidationRow& row, double share) {
  return std::fabs(row.predicted - row.measured) <= std::max(bar.allowed, row.allowed) ||
         std::fabs(error_of(row)) <= share;
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
    if (bar.worst) v.worst_holds = v.worst_holds && is_within(bar, *row, *bar.worst);
  }
  v.median = median(sizes);
  v.median_holds = v.median <= bar.median || 2 * v.beyond.size() < rows.size();
  if (bar.inside) v.inside_holds = v.inside >= *bar.inside * v.with_interval;
  return v;
}

// What holds on the whole is to hold in every regime.
void hold_by_regime(BarVerdict& v, const std::vector<const ValidationRow*>& rows) {
  if (!v.median_holds) return;
  for (const Regime regime : v.bar.regimes) {
    std::vector<const ValidationRow*> own;
    std::ranges::copy_if(rows, std::back_inserter(own),
                         [&](const ValidationRow* row) { return row->regime == regime; });
    if (own.empty()) continue;
    const BarVerdict in_regime = verdict_of(v.bar, own);
    if (in_regime.median_holds || in_regime.median <= v.missed_median) continue;
    v.median_holds = false;
    v.missed_in = regime;
    v.missed_median = in_regime.median;
  }
}

}  // namespace

Result<Bars> read_bars(const std::filesystem::path& file) {
  const auto document = TomlDocument::read(file);
  if (!document) return document.error();
  Bars out;
  for (const TomlTable& t : document->root().tables("bar")) out.bars.push_back(read_bar(t));
  for (const TomlTable& t : document->root().tables("suite"))
    out.suites.push_back(read_suite(t, out.bars));
  if (auto error = document->error()) return *error;
  if (out.bars.empty())
    return bad_input("there are no bars in it", "[[bar]]", SourceRef{file.string()});
  return out;
}

std::vector<BarVerdict> judge(std::span<const ValidationRow> rows, const Bars& bars) {
  const bool alone = are_of_one_suite(rows);
  std::vector<BarVerdict> out;
  for (const ErrorBar& bar : bars.bars) {
    std::vector<const ValidationRow*> judged;
    for (const ValidationRow& row : rows)
      if (is_judged(bar, row, bars, alone)) judged.push_back(&row);
    if (judged.empty()) continue;
    out.push_back(verdict_of(bar, judged));
    hold_by_regime(out.back(), judged);
  }
  return out;
}

std::vector<std::string> exceptions(std::span<const ValidationRow> rows, const Bars& bars) {
  const bool alone = are_of_one_suite(rows);
  std::vector<std::string> out;
  for (const SuiteBars& suite : bars.suites) {
    if (std::ranges::none_of(rows, [&](const ValidationRow& r) { return is_of(r, suite); }))
      continue;
    if (alone && !suite.alone.empty())
      out.push_back(fmt::format("{} alone is held to {}: {}", suite.suite,
                                fmt::join(suite.alone, "; "), suite.reason));
    if (!suite.never.empty())
      out.push_back(fmt::format("{} is not held to {}: {}", suite.suite,
                                fmt::join(suite.never, "; "), suite.reason));
  }
  return out;
}

IntervalCount speed_intervals(std::span<const BarVerdict> verdicts) {
  IntervalCount count;
  for (const BarVerdict& v : verdicts) {
    if (v.bar.metric != "decode.tokens_per_s" && v.bar.metric != "prefill_tokens_per_s") continue;
    count.inside += v.inside;
    count.with_interval += v.with_interval;
  }
  return count;
}

std::vector<LargeError> largest_errors(std::span<const BarVerdict> verdicts, std::size_t count) {
  std::vector<LargeError> found;
  for (const BarVerdict& v : verdicts)
    for (const BarVerdict::Run& run : v.beyond) found.push_back({v.bar.label, run});
  std::ranges::stable_sort(found, std::ranges::greater(),
                           [](const LargeError& e) { return std::fabs(e.run.error); });
  found.resize(std::min(found.size(), count));
  return found;
}

std::vector<std::string> missed(std::span<const BarVerdict> verdicts) {
  std::vector<std::string> out;
  for (const BarVerdict& v : verdicts)
    if (v.missed_in)
      out.push_back(fmt::format("{}, {}: the median error of {:.1f} % is above {:.4g} %",
                                v.bar.label, name(*v.missed_in), 100 * v.missed_median,
                                100 * v.bar.median));
    else if (!v.median_holds)
      out.push_back(fmt::format("{}: the median error of {:.1f} % is above {:.4g} %", v.bar.label,
                                100 * v.median, 100 * v.bar.median));
    else if (!v.inside_holds)
      out.push_back(fmt::format("{}: {} of {} are inside their intervals, less than {:.4g} %",
                                v.bar.label, v.inside, v.with_interval, 100 * *v.bar.inside));
  return out;
}

std::string to_text(std::span<const BarVerdict> verdicts) {
  std::string text;
  for (const BarVerdict& v : verdicts) {
    text += fmt::format("  bar    {:<46} n {:<4} ", v.bar.label, v.runs);
    if (v.bar.inside)
      text += fmt::format("{} of {} inside, of {:.4g} %\n", v.inside, v.with_interval,
                          100 * *v.bar.inside);
    else
      text += fmt::format("median {:4.1f} % of {:.4g} %, worst {:+.1f} %{}\n", 100 * v.median,
                          100 * v.bar.median, 100 * v.worst.error,
                          v.bar.worst ? fmt::format(" of {:.4g} %", 100 * *v.bar.worst) : "");
  }
  return text;
}

}  // namespace rigcast
