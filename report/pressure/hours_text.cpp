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
constexpr double kSameShare = 1e-3;  // less than three digits show

std::string_view payer_text(const HourPoint& p) {
  const std::string_view reclaim = p.reclaim;
  if (p.sessions == 0) return "no session is open";
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

bool close(double a, double b) { return std::fabs(a - b) <= kSameShare * std::max(a, b); }

bool alike(const HourPoint& a, const HourPoint& b) {
  return a.reclaim == b.reclaim && a.sessions == b.sessions;
}

// True if the table would say the same of both.
bool same_row(const HourPoint& a, const HourPoint& b) {
  return alike(a, b) && a.session_tokens == b.session_tokens &&
         close(a.cache.value, b.cache.value) && close(a.tokens_per_s, b.tokens_per_s) &&
         close(a.disk.value, b.disk.value) && close(a.swap.value, b.swap.value);
}

// True if sessions grow from `a` to `b` as they do from `b` to `c`, by a token, which is the
// rounding of `b`.
bool grows_on(const HourPoint& a, const HourPoint& b, const HourPoint& c) {
  const double share = (b.at - a.at) / (c.at - a.at);
  const double on_line = std::lerp(double(a.session_tokens), double(c.session_tokens), share);
  return std::fabs(on_line - double(b.session_tokens)) <= 1.0;
}

// Both ends of every stretch in which nothing changes but the length of sessions, and that evenly.
std::vector<const HourPoint*> told(const std::vector<HourPoint>& all) {
  // Of an entry that changes nothing of the table, one moment.
  std::vector<const HourPoint*> points;
  for (const HourPoint& p : all)
    if (points.empty() || points.back()->at != p.at || !same_row(*points.back(), p))
      points.push_back(&p);
  std::vector<const HourPoint*> out;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const HourPoint& p = *points[i];
    const bool is_end = i == 0 || i + 1 == points.size();
    const bool goes_on = !is_end && alike(*points[i - 1], p) && alike(p, *points[i + 1]) &&
                         points[i - 1]->at != p.at && p.at != points[i + 1]->at &&
                         grows_on(*points[i - 1], p, *points[i + 1]);
    if (!goes_on) out.push_back(&p);
  }
  return out;
}

// Where there are more than `most`: both sides of every change of what pays, and the ends, for
// these are what a long timeline is asked about.
void keep_changes(std::vector<const HourPoint*>& all, std::size_t most) {
  if (all.size() <= most) return;
  std::vector<const HourPoint*> out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_end = i == 0 || i + 1 == all.size();
    if (is_end || all[i - 1]->reclaim != all[i]->reclaim || all[i]->reclaim != all[i + 1]->reclaim)
      out.push_back(all[i]);
  }
  all = std::move(out);
}

// "91 %", and no 100 % of what is not all.
std::string share_of_tokens(const Hours& h) {
  const double percent = 100 * h.tokens / h.unpressed_tokens;
  return percent >= 99.5 && percent < 100 ? "over 99 %" : fmt::format("{:.0f} %", percent);
}

// True if somebody decodes after the system has ended the program.
bool restarts(const std::vector<HourPoint>& points) {
  const auto end =
      std::ranges::find_if(points, [](const HourPoint& p) { return p.reclaim == "full"; });
  return std::any_of(end, points.end(), [](const HourPoint& p) { return p.tokens_per_s > 0; });
}

std::string row_text(const HourPoint& p) {
  const std::string speed = p.tokens_per_s > 0 ? three_digits(p.tokens_per_s) : "-";
  return fmt::format("  {:>10} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9}  {}", hours_text(p.at),
                     text_count(p.sessions), text_count(p.session_tokens), bytes_text(p.cache),
                     speed, bytes_text(p.disk), bytes_text(p.swap), payer_text(p));
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
  if (pressed->unpressed_tokens_per_s > 0)
    out += fmt::format("; {} -> {} tok/s of each", three_digits(pressed->unpressed_tokens_per_s),
                       three_digits(pressed->tokens_per_s));
  if (pressed->least_tokens_per_s < pressed->most_tokens_per_s)
    out += fmt::format(" ({} to {} tok/s)", three_digits(pressed->least_tokens_per_s),
                       three_digits(pressed->most_tokens_per_s));
  // What is reached with the last entry goes on after it, and counts for no time.
  const bool ends_pressed = h.points.back().reclaim != "fits";
  if (h.unpressed_tokens > 0)
    out += fmt::format("; until {} {} of the tokens that there would be with memory enough{}",
                       hours_text(h.points.back().at), share_of_tokens(h),
                       ends_pressed ? ", and it goes on so" : "");
  if (restarts(h.points)) out += "; what follows an end is as if all began again at once";
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
  std::vector<const HourPoint*> all = told(h.points);
  const std::size_t moments = all.size();
  keep_changes(all, rows);
  for (std::size_t i = 0; i < std::min(rows, all.size()); ++i) out.push_back(row_text(*all[i]));
  if (moments > rows)
    out.push_back(fmt::format("  {} more: --format json", moments - std::min(rows, all.size())));
  return out;
}

}  // namespace rigcast
