#include "core/scenario/slo.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "core/text/nearest_name.hpp"
#include "core/text/unit_text.hpp"

namespace rigcast {
namespace {

constexpr double kDefaultPercentile = 95;
constexpr double kMaxPercentile = 100;
constexpr std::string_view kExample = "for example ttft=2s@95,tpot=80ms@95";

struct Metric {
  std::string_view name;
  std::optional<LatencyLimit> Slo::*limit;
};
constexpr Metric kMetrics[] = {
    {"ttft", &Slo::ttft}, {"tpot", &Slo::tpot}, {"itl", &Slo::itl}, {"e2e", &Slo::e2e}};

const Metric* find_metric(std::string_view name) {
  for (const Metric& metric : kMetrics)
    if (metric.name == name) return &metric;
  return nullptr;
}

Result<double> parse_percentile(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size() && value > 0 &&
      value <= kMaxPercentile)
    return value;
  return bad_input(fmt::format("\"{}\" is no percentile", text),
                   "a number above 0, at most 100, for example 95");
}

// "2s@95".
Result<LatencyLimit> parse_limit(std::string_view text) {
  const auto at = text.find('@');
  const auto limit = parse_duration(text.substr(0, at));
  if (!limit) return limit.error();
  if (!(limit->value > 0)) return bad_input("a limit of nothing is met by none");
  if (at == std::string_view::npos) return LatencyLimit{*limit, kDefaultPercentile};
  const auto percentile = parse_percentile(text.substr(at + 1));
  if (!percentile) return percentile.error();
  return LatencyLimit{*limit, *percentile};
}

// Of a file, or a table of a scenario.
Slo read_limits(const TomlTable& t) {
  Slo slo;
  for (const Metric& metric : kMetrics) {
    const auto limit = t.find_figure<Seconds>(metric.name, 1_us, Seconds{1e6});
    const std::string key = fmt::format("{}_percentile", metric.name);
    const double percentile = t.number_or(key, kDefaultPercentile, 1, kMaxPercentile);
    if (limit)
      slo.*metric.limit = LatencyLimit{limit->value, percentile};
    else if (t.has(key))
      t.refuse(key, fmt::format("a percentile of no limit: {} is missing", metric.name));
  }
  return slo;
}

}  // namespace

Result<Slo> named_slo(const std::string& name, const Catalogue& catalogue) {
  const auto known = catalogue.ids("loads/slo");
  const std::string id = as_id(name);
  if (std::find(known.begin(), known.end(), id) == known.end()) {
    std::string hint = did_you_mean(name, known);
    if (hint.empty()) hint = fmt::format("{}; named are {}", kExample, fmt::join(known, ", "));
    return bad_input(fmt::format("no limits named \"{}\"", name), std::move(hint));
  }
  const auto document = TomlDocument::read(catalogue.file_of("loads/slo", id));
  if (!document) return document.error();
  const TomlTable t = document->root();
  for (const char* key : {"name", "kind", "source"}) t.find_text(key);
  const Slo slo = read_limits(t);
  t.finish();
  if (auto error = document->error()) return *error;
  return slo;
}

Result<Slo> parse_slo(std::string_view text) {
  Slo slo;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    begin = end + 1;
    const auto equals = std::min(part.find('='), part.size());
    const Metric* const metric = find_metric(part.substr(0, equals));
    if (!metric || equals == part.size())
      return bad_input(fmt::format("\"{}\" limits none of ttft, tpot, itl and e2e", part),
                       std::string(kExample));
    if (slo.*metric->limit) return bad_input(fmt::format("{} has two limits", metric->name));
    const auto limit = parse_limit(part.substr(equals + 1));
    if (!limit)
      return bad_input(fmt::format("{}: {}", metric->name, limit.error().message),
                       limit.error().hint);
    slo.*metric->limit = *limit;
  }
  return slo;
}

std::string text(const Slo& slo) {
  const auto duration = [](double seconds) {
    return seconds < 1 ? fmt::format("{:g}ms", 1000 * seconds) : fmt::format("{}s", seconds);
  };
  std::string out;
  for (const Metric& metric : kMetrics)
    if (const auto& limit = slo.*metric.limit)
      out += fmt::format("{}{}={}@{}", out.empty() ? "" : ",", metric.name,
                         duration(limit->limit.value), limit->percentile);
  return out;
}

Slo read_slo(const TomlTable& table, std::string_view key, const Catalogue& catalogue) {
  if (table.is_table(key)) {
    const TomlTable t = table.table(key);
    const Slo slo = read_limits(t);
    t.finish();
    return slo;
  }
  const auto stated = table.find_text(key);
  if (!stated) return {};
  const auto slo =
      stated->find('=') == std::string::npos ? named_slo(*stated, catalogue) : parse_slo(*stated);
  if (slo) return *slo;
  table.refuse(key, slo.error());
  return {};
}

}  // namespace rigcast
