#include "validation/validation_runs_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/text/unit_text.hpp"
#include "report/text_screen.hpp"

namespace rigcast {
namespace {

struct Shown {
  std::string_view metric, label, unit;
  double scale;  // of the unit
};
// The figures that the text shows; the rest is in JSON and CSV.
constexpr Shown kShown[] = {
    {"decode.tokens_per_s", "decode", "tok/s", 1},
    {"prefill_tokens_per_s", "prefill", "tok/s", 1},
    {"ttft.resident.total_s", "first token", "s", 1},
    {"serving.ttft_s.p50", "first token p50", "s", 1},
    {"serving.ttft_s.p95", "first token p95", "s", 1},
    {"serving.ttft_s.p99", "first token p99", "s", 1},
    {"serving.tpot_s.p50", "per token p50", "ms", 1e-3},
    {"serving.tpot_s.p95", "per token p95", "ms", 1e-3},
    {"serving.tpot_s.p99", "per token p99", "ms", 1e-3},
    {"serving.requests_per_s", "served", "requests/s", 1},
    {"serving.output_tokens_per_s", "answers", "tok/s", 1},
    {"serving.kv.hit_rate", "prompts in KV", "", 1},
    {"serving.kv.preemptions", "preemptions", "", 1},
    {"ttft.warm.total_s", "  warm start", "s", 1},
    {"ttft.cold.total_s", "  cold start", "s", 1},
    {"memory.0.total", "memory", "GiB", 0x1p30},
    {"memory.vram", "VRAM", "GiB", 0x1p30},
    {"memory.ram", "RAM", "GiB", 0x1p30},
    {"paging.disk_bytes_per_token", "disk a token", "MB", 1e6},
    {"paging.swap_bytes_per_token", "swap a token", "MB", 1e6},
    {"cliffs.0.at_tokens", "speed falls at", "tokens", 1},
};

constexpr std::size_t kForecastWidth = 22, kMeasuredWidth = 11, kErrorWidth = 10, kInsideWidth = 13;

using Kind = RowGroup::Kind;

class Screen : TextScreen {
 public:
  Screen(const Validation& validation, TextStyle style) : TextScreen(style), v_(validation) {}

  std::string text() {
    machine();
    const std::size_t left = width_ - kForecastWidth - kMeasuredWidth - kErrorWidth - kInsideWidth;
    line(paint_.dim(std::string(left, ' ') + pad_left("forecast", kForecastWidth) +
                    pad_left("measured", kMeasuredWidth) + pad_left("error", kErrorWidth) +
                    pad_left("inside 80 %", kInsideWidth)));
    std::string configuration;
    for (const ValidationRow& row : v_.rows)
      for (const Shown& shown : kShown)
        if (shown.metric == row.metric) {
          if (row.id != configuration) heading(row, configuration);
          figure(row, shown, left);
        }
    totals();
    traced();
    activities();
    if (!v_.against.empty()) line("\n  kept   " + printable(v_.against));
    for (const auto& list : {v_.skipped, v_.notes})
      for (const SkippedRun& s : list) note(printable(s.id) + ": " + printable(s.reason));
    return out_;
  }

 private:
  // All of it, on as many lines as it takes.
  void note(const std::string& text) {
    constexpr std::size_t kIndent = 9;
    std::string before = paint_.yellow("  note ") + "  ";
    for (const std::string& part : wrap_words(text, width_ - kIndent)) {
      line(before + part);
      before = std::string(kIndent, ' ');
    }
  }

  void machine() {
    if (v_.rows.empty() || v_.when.empty()) return;
    const ValidationRow& row = v_.rows.front();
    const std::string rig = row.rig == row.chip ? row.chip : row.rig + ", " + row.chip;
    line("  " + printable(rig) + "   " + paint_.dim(printable(v_.when)) + "\n");
  }

  void heading(const ValidationRow& row, std::string& configuration) {
    configuration = row.id;
    line("  " + paint_.bold(printable(row.id)) + "   " +
         paint_.dim(printable(row.what + (row.load.empty() ? "" : "; " + row.load))) +
         (row.counted ? "" : "   not counted: the profile was fitted on it"));
  }

  void figure(const ValidationRow& row, const Shown& shown, std::size_t left) {
    const auto number = [&](double value) { return three_digits(value / shown.scale); };
    std::string forecast = number(row.predicted);
    if (row.interval)
      forecast += fmt::format(" ({}-{})", number(row.interval->lo), number(row.interval->hi));
    const auto inside = row.inside();
    line(pad_right(fmt::format("    {:<16}{}", shown.label, shown.unit), left) +
         pad_left(forecast, kForecastWidth) + pad_left(number(row.measured), kMeasuredWidth) +
         pad_left(signed_percent_text(row.error()), kErrorWidth) +
         pad_left(!inside   ? "-"
                  : *inside ? "yes"
                            : "no",
                  kInsideWidth));
  }

  void totals() {
    if (v_.rows.empty()) return;
    out_ += '\n';
    if (std::ranges::none_of(v_.rows, &ValidationRow::counted)) {
      line("  nothing is counted: the profile's figures were fitted on these configurations");
      return;
    }
    for (const Shown& shown : kShown) {
      std::vector<const ValidationSummary*> lines;
      for (const ValidationSummary& s : v_.summary)
        if (s.metric == shown.metric &&
            (s.group.kind == Kind::kRegime || s.group.kind == Kind::kAll))
          lines.push_back(&s);
      if (lines.size() == 2) lines.erase(lines.begin());  // one regime is all
      for (const ValidationSummary* s : lines)
        total(s == lines.front() ? shown.label : "", *s, lines.size() > 1);
    }
  }

  void total(std::string_view label, const ValidationSummary& s, bool by_regime) {
    int inside = 0, with_interval = 0;
    const ValidationRow* farthest = nullptr;
    for (const ValidationRow& row : v_.rows) {
      if (!row.counted || row.metric != s.metric) continue;
      if (!s.group.contains(row.regime, row.deep, row.quantized_kv)) continue;
      if (const auto in = row.inside()) ++with_interval, inside += *in;
      if (!farthest || std::fabs(row.error()) > std::fabs(farthest->error())) farthest = &row;
    }
    const std::string of = by_regime ? fmt::format("{:<15}n {:<4}", name(s.group), s.n) : "";
    line(fmt::format("  {:<14} {}median error {:.1f} %, worst {:.1f} % ({}){}", label, of,
                     100 * s.median_abs_error, 100 * std::fabs(farthest->error()),
                     printable(farthest->id),
                     with_interval ? fmt::format(", {} of {} inside", inside, with_interval) : ""));
    if (s.group.kind == Kind::kAll) largest_part(*farthest);
  }

  // Which activity of the run's phase missed most seconds, in the direction of the whole; none if
  // that is little of the whole.
  void largest_part(const ValidationRow& run) {
    const bool decode = run.metric.starts_with("decode");
    if (!decode && run.metric != "ttft.resident.total_s") return;
    const std::string phase = decode ? "activities.decode." : "activities.prefill.";
    const bool took_longer = decode ? run.error() > 0 : run.error() < 0;
    const double whole = decode ? std::fabs(1 / run.predicted - 1 / run.measured)
                                : std::fabs(run.predicted - run.measured);
    double most = 0.2 * whole;
    const ValidationRow* part = nullptr;
    for (const ValidationRow& row : v_.rows) {
      if (row.id != run.id || !row.metric.starts_with(phase)) continue;
      const double longer = row.measured - row.predicted, missed = took_longer ? longer : -longer;
      if (missed > most) most = missed, part = &row;
    }
    if (part)
      line(fmt::format("{:16}its {} took {:.2f} x the forecast", "",
                       part->metric.substr(phase.size()), part->measured / part->predicted));
  }

  void traced() {
    if (v_.traced_slowdown)
      line(fmt::format("  times by activity are of traced runs, which took up to {:.1f} % longer",
                       100 * std::max(0.0, *v_.traced_slowdown)));
  }

  // The kind that misses by most time comes first.
  void activities() {
    if (v_.activities.empty()) return;
    std::vector<ActivityRow> rows = v_.activities;
    std::ranges::stable_sort(rows, std::ranges::greater(), [](const ActivityRow& a) {
      return std::fabs(a.predicted_s - a.measured_s);
    });
    line("\n  by activity");
    for (const ActivityRow& a : rows) {
      const bool both = a.predicted_s > 0 && a.measured_s > 0;
      line(fmt::format("    {:<10}{:<18}", name(a.phase), name(a.kind)) +
           pad_left(time_text(Seconds{a.predicted_s}), kForecastWidth) +
           pad_left(time_text(Seconds{a.measured_s}), kMeasuredWidth) +
           pad_left(both ? signed_percent_text(a.predicted_s / a.measured_s - 1) : "-",
                    kErrorWidth));
    }
  }

  const Validation& v_;
};

}  // namespace

std::string runs_to_text(const Validation& validation, TextStyle style) {
  return Screen(validation, style).text();
}

}  // namespace rigcast
