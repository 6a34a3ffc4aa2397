#include "calibration/left_out_bars.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/toml_reader.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::calibration {
namespace {

double share(const TomlTable& t, const char* key) {
  t.require(key);
  return t.number_or(key, 0, 0, 1);
}

LeftOutBar read_bar(const TomlTable& t) {
  LeftOutBar bar;
  bar.name = t.text("name");
  t.require("metric");
  bar.metric = t.choice("metric", SpeedMetric::kDecode,
                        {{name(SpeedMetric::kDecode), SpeedMetric::kDecode},
                         {name(SpeedMetric::kPrefill), SpeedMetric::kPrefill}});
  for (const std::string& text : t.texts("regimes")) {
    if (const auto regime = regime_from(text))
      bar.regimes.push_back(*regime);
    else
      t.refuse("regimes", fmt::format("there is no regime \"{}\"", text));
  }
  bar.deep = t.flag("deep", false);
  bar.ram_known = t.flag("ram_known", false);
  bar.of_sweep = t.flag("of_sweep", false);
  bar.median = share(t, "median");
  bar.p90 = share(t, "p90");
  bar.limit = share(t, "limit");
  t.finish();
  return bar;
}

bool is_judged(const LeftOutBar& bar, const LeftOutRow& row) {
  return row.metric == bar.metric && (row.deep || !bar.deep) && (row.ram_known || !bar.ram_known) &&
         (bar.regimes.empty() || std::ranges::find(bar.regimes, row.regime) != bar.regimes.end());
}

LeftOutVerdict verdict_of(const LeftOutBar& bar, std::span<const LeftOutRow> rows) {
  LeftOutVerdict v{bar, chips(rows), int(rows.size()), {}, {}};
  if (rows.empty()) return v;
  v.chips_equal = left_out_quantiles(rows, Weighing::kChipsEqual);
  v.rows_equal = left_out_quantiles(rows, Weighing::kRowsEqual);
  v.applies = v.chips >= kChipsForABar;
  v.reached = v.chips_equal.median <= bar.median && v.chips_equal.p90 <= bar.p90;
  return v;
}

}  // namespace

Result<LeftOutBars> read_left_out_bars(const std::filesystem::path& file) {
  const auto document = TomlDocument::read(file);
  if (!document) return document.error();
  LeftOutBars bars;
  bars.sweep = document->root().find_text("sweep").value_or("");
  for (const TomlTable& t : document->root().tables("left_out")) bars.bars.push_back(read_bar(t));
  if (auto error = document->error()) return *error;
  if (bars.bars.empty())
    return bad_input("there are no bars in it", "[[left_out]]", SourceRef{file.string()});
  return bars;
}

std::vector<LeftOutRow> of_sources(std::span<const LeftOutRow> rows, const std::string& sweep,
                                   bool of_sweep) {
  std::vector<LeftOutRow> out;
  for (const LeftOutRow& row : rows)
    if ((!sweep.empty() && row.source.starts_with(sweep)) == of_sweep) out.push_back(row);
  return out;
}

std::vector<LeftOutVerdict> judge(std::span<const LeftOutRow> rows, const LeftOutBars& bars) {
  std::vector<LeftOutVerdict> out;
  for (const LeftOutBar& bar : bars.bars) {
    std::vector<LeftOutRow> judged;
    for (const LeftOutRow& row : of_sources(rows, bars.sweep, bar.of_sweep))
      if (is_judged(bar, row)) judged.push_back(row);
    out.push_back(verdict_of(bar, judged));
  }
  return out;
}

std::vector<std::string> exceeded(std::span<const LeftOutVerdict> verdicts) {
  std::vector<std::string> out;
  for (const LeftOutVerdict& v : verdicts)
    if (v.rows == 0)
      out.push_back(fmt::format("{}: no rows are left", v.bar.name));
    else if (v.chips_equal.median > v.bar.limit)
      out.push_back(fmt::format("{}: the median error of {} is above {}", v.bar.name,
                                percent_text(v.chips_equal.median), percent_text(v.bar.limit)));
  return out;
}

}  // namespace rigcast::calibration
