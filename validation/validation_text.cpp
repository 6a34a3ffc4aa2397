#include "validation/validation_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/text/unit_text.hpp"
#include "report/report_words.hpp"
#include "report/text_screen.hpp"
#include "validation/validation_loads_text.hpp"

namespace rigcast {
namespace {

constexpr std::size_t kRegimeWidth = 18;
constexpr std::size_t kCellWidth = 9;
constexpr std::size_t kInsideWidth = 14;
constexpr std::size_t kIdWidth = 10;
constexpr std::size_t kMetricWidth = 9;
constexpr std::size_t kMaxWorst = 10;
constexpr std::size_t kMaxReasons = 12;

std::string_view meaning(std::string_view metric) {
  const auto known = metric_from(metric);
  if (!known) return "";
  switch (*known) {
    case Metric::kTg: return "tokens generated per second";
    case Metric::kPp: return "prompt tokens processed per second";
    case Metric::kTtft: return "seconds to the first token";
    case Metric::kLoad: return "seconds to load the model";
    case Metric::kVram: return "GB of GPU memory";
  }
  return "";
}

// Clips the beginning, because the end of an id distinguishes it: "runs.jsonl:12".
std::string clip_left(const std::string& text, std::size_t width) {
  if (text_width(text) <= width) return text;
  std::string out;
  std::size_t lost = text_width(text) - width + 1;
  for (const char c : text) {
    const bool starts = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (starts && lost > 0 && --lost == 0) {
      out = "…";
      lost = 0;
      continue;
    }
    if (!out.empty() && (starts || out != "…")) out += c;
  }
  return out;
}

// Reasons that differ in the names and figures they give are one kind.
std::string kind_of(const std::string& reason) {
  return printable(reason.substr(0, std::min(reason.find(": "), reason.find(" \""))));
}

class Screen : TextScreen {
 public:
  Screen(const Validation& validation, TextStyle style)
      : TextScreen(style), v_(validation), style_(style) {}

  std::string text() {
    const std::int64_t rows = forecast_runs();
    const auto all = rows + std::int64_t(v_.skipped.size());
    line(spread(paint_.bold(printable(v_.against)),
                fmt::format("{} of {} {} forecast", text_count(rows), text_count(all),
                            all == 1 ? "run" : "runs"),
                width_));
    if (is_of_few_loads(v_)) {
      out_ += loads_to_text(v_, style_);
      if (rows > 1) summary();
    } else {
      summary();
      worst();
    }
    notes();
    skipped();
    return out_;
  }

 private:
  // A server's run has several figures.
  std::int64_t forecast_runs() const {
    std::int64_t runs = 0;
    for (std::size_t i = 0; i < v_.rows.size(); ++i)
      if (v_.rows[i].load.empty() || i == 0 || v_.rows[i].id != v_.rows[i - 1].id) ++runs;
    return runs;
  }

  void notes() {
    constexpr std::size_t kMaxNotes = 6;
    if (v_.notes.empty()) return;
    gap();
    for (std::size_t i = 0; i < std::min(v_.notes.size(), kMaxNotes); ++i)
      paragraph("note", v_.notes.size() == 1 ? v_.notes[i].reason
                                             : v_.notes[i].id + ": " + v_.notes[i].reason);
    if (v_.notes.size() > kMaxNotes)
      paragraph("note", fmt::format("{} more: --format json", v_.notes.size() - kMaxNotes));
  }

  void summary() {
    std::string metric;
    for (const ValidationSummary& s : v_.summary) {
      if (s.metric != metric) heading(metric = s.metric);
      std::string row = pad_right("  " + std::string(name(s.group)), kRegimeWidth);
      row += pad_left(text_count(s.chips), kCellWidth) + pad_left(text_count(s.n), kCellWidth);
      for (const std::string& cell : {percent_text(s.median_abs_error),
                                      percent_text(s.p90_abs_error), signed_percent_text(s.bias)})
        row += pad_left(cell, kCellWidth + 1);
      row += pad_left(share_text(s.coverage), kInsideWidth);
      line(s.group.kind == RowGroup::Kind::kAll ? paint_.bold(row) : row);
    }
    if (v_.summary.empty()) return;
    gap();
    line(
        paint_.dim("  error = forecast / measured - 1; chips weigh alike, however many rows they "
                   "have"));
  }

  void heading(const std::string& metric) {
    gap();
    const std::string_view said = meaning(metric);
    line("  " + paint_.bold(printable(metric)) + (said.empty() ? "" : ", " + std::string(said)));
    std::string row = pad_right("  regime", kRegimeWidth);
    row += pad_left("chips", kCellWidth) + pad_left("rows", kCellWidth);
    for (const char* cell : {"median", "p90", "bias"}) row += pad_left(cell, kCellWidth + 1);
    line(paint_.dim(row + pad_left("inside 80 %", kInsideWidth)));
  }

  // Errors are compared as factors: half is as far off as double.
  void worst() {
    std::vector<const ValidationRow*> rows;
    for (const ValidationRow& row : v_.rows) rows.push_back(&row);
    const auto distance = [](const ValidationRow* r) {
      return -std::fabs(std::log(r->predicted / r->measured));
    };
    std::ranges::stable_sort(rows, {}, distance);
    rows.resize(std::min(rows.size(), kMaxWorst));
    if (rows.empty()) return;
    gap();
    line("  " + paint_.bold("farthest off, as a factor"));
    const std::size_t used = 2 + kIdWidth + 1 + kMetricWidth + 3 * kCellWidth + 2;
    const std::size_t what = (width_ - used) / 2;
    const auto row = [&](const std::string& id, const std::string& rig, const std::string& model,
                         const std::string& metric, const std::string& measured,
                         const std::string& predicted, const std::string& error) {
      return "  " + pad_right(clip_left(id, kIdWidth), kIdWidth + 1) +
             pad_right(clip(rig, what), what + 1) + pad_right(clip(model, what), what + 1) +
             pad_right(clip(metric, kMetricWidth - 1), kMetricWidth) +
             pad_left(measured, kCellWidth) + pad_left(predicted, kCellWidth) +
             pad_left(error, kCellWidth);
    };
    line(paint_.dim(row("id", "rig", "model", "metric", "measured", "forecast", "error")));
    for (const ValidationRow* r : rows)
      line(row(printable(r->id), without_makers(r->rig), printable(r->what), printable(r->metric),
               three_digits(r->measured), three_digits(r->predicted),
               fmt::format("{:+.0f} %", 100 * r->error())));
  }

  void skipped() {
    if (v_.skipped.empty()) return;
    std::map<std::string, int> counts;
    for (const SkippedRun& s : v_.skipped) ++counts[kind_of(s.reason)];
    std::vector<std::pair<std::string, int>> kinds(counts.begin(), counts.end());
    std::ranges::stable_sort(kinds,
                             [](const auto& a, const auto& b) { return a.second > b.second; });
    gap();
    line("  " +
         paint_.bold(fmt::format("skipped {}", text_count(std::int64_t(v_.skipped.size())))));
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (i == kMaxReasons) {
        line(pad_left("", 10) + fmt::format("{} more reasons: --format json", kinds.size() - i));
        return;
      }
      line(pad_left(text_count(kinds[i].second), 8) + "  " + kinds[i].first);
    }
  }

  const Validation& v_;
  TextStyle style_;
};

}  // namespace

std::string to_text(const Validation& validation, TextStyle style) {
  return Screen(validation, style).text();
}

}  // namespace rigcast
