#include "validation/validation_loads_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "core/text/unit_text.hpp"
#include "report/report_words.hpp"
#include "report/text_screen.hpp"

namespace rigcast {
namespace {

constexpr std::size_t kMaxRows = 100;
constexpr std::size_t kNameWidth = 18, kFigureWidth = 11, kIntervalWidth = 24, kErrorWidth = 9;

// "TTFT p50" of "ttft_p50_s".
std::string title(const std::string& metric) {
  if (metric == "output_tps") return "tokens/s";
  if (metric == "pp_tps") return "prompts, tok/s";
  if (metric == "tg_tps") return "answers, tok/s";
  if (metric == "kv_tokens") return "KV tokens";
  const auto first = metric.find('_'), last = metric.rfind('_');
  if (first == std::string::npos || first == last) return metric;
  std::string out = metric.substr(0, first);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  return out + " " + metric.substr(first + 1, last - first - 1);
}

std::string figure(const std::string& metric, double value) {
  if (metric.ends_with("_s")) return text(Seconds{value});
  return metric == "kv_tokens" ? text_count(std::int64_t(value)) : three_digits(value);
}

class Screen : TextScreen {
 public:
  Screen(const Validation& validation, TextStyle style) : TextScreen(style), v_(validation) {}

  std::string text() {
    const ValidationRow* before = nullptr;
    for (const ValidationRow& row : v_.rows) {
      if (!before || before->id != row.id) heading(row, before);
      line("  " + figures(row));
      before = &row;
    }
    return out_;
  }

 private:
  void heading(const ValidationRow& row, const ValidationRow* before) {
    gap();
    const bool same_server = before && before->what == row.what && before->rig == row.rig;
    const std::string server =
        same_server ? "" : printable(row.what) + " on " + without_makers(row.rig);
    const std::size_t room = width_ - std::min(width_, text_width(row.load) + 4);
    line(spread("  " + paint_.bold(printable(row.load)), clip(server, room), width_));
    if (same_server) return;
    line(paint_.dim("  " + pad_right("", kNameWidth) + pad_left("measured", kFigureWidth) +
                    pad_left("forecast", kFigureWidth) + pad_left("80 % interval", kIntervalWidth) +
                    pad_left("error", kErrorWidth) + "  inside"));
  }

  static std::string figures(const ValidationRow& row) {
    const auto of = [&](double value) { return figure(row.metric, value); };
    const auto inside = row.inside();
    const std::string interval =
        row.interval ? fmt::format("{} to {}", of(row.interval->lo), of(row.interval->hi)) : "-";
    return pad_right(title(row.metric), kNameWidth) + pad_left(of(row.measured), kFigureWidth) +
           pad_left(of(row.predicted), kFigureWidth) + pad_left(interval, kIntervalWidth) +
           pad_left(fmt::format("{:+.0f} %", 100 * row.error()), kErrorWidth) +
           (inside ? *inside ? "  yes" : "  no" : "");
  }

  const Validation& v_;
};

}  // namespace

bool is_of_few_loads(const Validation& v) {
  return !v.rows.empty() && v.rows.size() <= kMaxRows &&
         std::ranges::none_of(v.rows, &std::string::empty, &ValidationRow::load);
}

std::string loads_to_text(const Validation& validation, TextStyle style) {
  return Screen(validation, style).text();
}

}  // namespace rigcast
