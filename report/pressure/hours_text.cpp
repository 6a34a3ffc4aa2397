#include "report/pressure/hours_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/text/unit_text.hpp"
#include "report/terminal/text_chart.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast {
namespace {

constexpr std::size_t kBesideChart = 24;

std::string_view payer_text(std::string_view reclaim) {
  if (reclaim == "files") return "weights read again";
  if (reclaim == "swap") return "cache swapped";
  if (reclaim == "both") return "both read again";
  if (reclaim == "full") return "no room: it ends";
  return "all fits";
}

std::string_view what_pays(std::string_view reclaim) {
  if (reclaim == "files") return "weights are read again for every token";
  if (reclaim == "swap")
    return "what is no file is swapped: the cache, and weights that are copies";
  if (reclaim == "both") return "weights are read again, and some of the cache is swapped";
  return "there is no room, and the system ends the program";
}

std::string start_text(Seconds at) {
  return at.value > 0 ? hours_text(at) + " on" : "the beginning";
}

std::string bytes_text(Bytes b) { return b.value > 0 ? text_gb(b) : "-"; }

bool alike(const HourPoint& a, const HourPoint& b) {
  return a.reclaim == b.reclaim && a.sessions == b.sessions;
}

// Both ends of every stretch in which nothing but the length of sessions changes.
std::vector<const HourPoint*> told(const std::vector<HourPoint>& points) {
  std::vector<const HourPoint*> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const bool first = i == 0 || !alike(points[i - 1], points[i]);
    const bool last = i + 1 == points.size() || !alike(points[i], points[i + 1]);
    const bool same = !out.empty() && alike(*out.back(), points[i]) &&
                      out.back()->session_tokens == points[i].session_tokens &&
                      out.back()->at == points[i].at;
    if ((first || last) && !same) out.push_back(&points[i]);
  }
  return out;
}

std::string row_text(const HourPoint& p) {
  const std::string speed = p.tokens_per_s > 0 ? three_digits(p.tokens_per_s) : "-";
  return fmt::format("  {:>10} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}  {}", hours_text(p.at),
                     p.sessions, text_count(p.session_tokens), bytes_text(p.cache), speed,
                     bytes_text(p.disk), bytes_text(p.swap), payer_text(p.reclaim));
}

}  // namespace

std::string hours_text(Seconds time) {
  const auto seconds = std::llround(time.value);
  if (seconds < 60) return fmt::format("{} s", seconds);
  const auto minutes = std::llround(time.value / 60);
  if (minutes < 60) return fmt::format("{} min", minutes);
  if (minutes % 60 == 0) return fmt::format("{} h", minutes / 60);
  return fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string pressure_text(const Hours& h) {
  if (!h.first_page) return "";
  const auto pressed = std::ranges::find_if(
      h.points, [](const HourPoint& p) { return p.reclaim != "fits" && p.sessions > 0; });
  if (pressed == h.points.end()) return "";
  std::string out = fmt::format(
      "memory is full from {}, with {} of {} tokens: {}", start_text(*h.first_page),
      pressed->sessions == 1 ? "1 session"
                             : fmt::format("{} sessions", text_count(pressed->sessions)),
      text_count(pressed->session_tokens), what_pays(pressed->reclaim));
  if (pressed != h.points.begin() && (pressed - 1)->tokens_per_s > 0)
    out += fmt::format("; {} -> {} tok/s", three_digits((pressed - 1)->tokens_per_s),
                       three_digits(pressed->tokens_per_s));
  else if (pressed->tokens_per_s > 0)
    out += fmt::format("; {} tok/s", three_digits(pressed->tokens_per_s));
  if (pressed->least_tokens_per_s < pressed->most_tokens_per_s)
    out += fmt::format(" ({} to {} tok/s)", three_digits(pressed->least_tokens_per_s),
                       three_digits(pressed->most_tokens_per_s));
  // What is reached with the last entry goes on after it, and counts for no time.
  const bool ends_pressed = h.points.back().reclaim != "fits";
  if (h.unpressed_tokens > 0)
    out += fmt::format("; until {} {:.0f} % of the tokens that there would be with memory enough{}",
                       hours_text(h.points.back().at), 100 * h.tokens / h.unpressed_tokens,
                       ends_pressed ? ", and it goes on so" : "");
  return out;
}

std::vector<std::string> hours_lines(const Hours& h, std::size_t width, std::size_t rows) {
  std::vector<std::string> out;
  std::vector<ChartPoint> curve;
  for (const HourPoint& p : h.points) curve.push_back({p.at.value / 3600, p.tokens_per_s});
  if (curve.size() >= 2 && curve.back().x > curve.front().x) {
    ChartFrame frame;
    frame.x_unit = "hours";
    frame.columns = std::max<std::size_t>(width, kBesideChart + 20) - kBesideChart;
    out = draw_chart(curve, frame);
    out.emplace_back();
  }
  out.push_back(fmt::format("  {:>10} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}  {}", "at", "sessions",
                            "tokens", "KV", "tok/s", "disk/step", "swap/step", "what pays"));
  const std::vector<const HourPoint*> all = told(h.points);
  for (std::size_t i = 0; i < std::min(rows, all.size()); ++i) out.push_back(row_text(*all[i]));
  if (all.size() > rows) out.push_back(fmt::format("  {} more: --format json", all.size() - rows));
  return out;
}

}  // namespace rigcast
