#include "planner/capacity/capacity_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/text/unit_text.hpp"
#include "report/report_words.hpp"
#include "report/serving/serving_text.hpp"
#include "report/text_screen.hpp"

namespace rigcast::planner {
namespace {

constexpr std::size_t kMaxChanges = 3;
constexpr std::size_t kMaxNotes = 5;

class Screen : TextScreen {
 public:
  Screen(const CapacityReport& report, TextStyle style) : TextScreen(style), r_(report) {}

  std::string text() {
    headline();
    answer();
    curve();
    bars();
    changes();
    notes();
    next();
    return out_;
  }

 private:
  std::string amount_text(double amount) const {
    return r_.capacity.in_users ? text_count(std::llround(amount)) : three_digits(amount);
  }
  std::string unit() const {
    if (!r_.capacity.in_users) return "requests/s";
    return r_.capacity.most == 1 ? "user" : "users";
  }

  bool uses_slots() const {
    const auto& curve = r_.capacity.curve;
    return !curve.empty() && curve.front().figures.cache.slots;
  }

  void headline() {
    const Scenario& s = r_.scenario;
    line(paint_.bold(
        fmt::format("{} {} on {}, {}", s.model.name, s.quant, rig_name(s.rig), s.runtime.name)));
    paragraph("  load   ", rigcast::text(r_.load));
    paragraph("  wanted ", rigcast::text(r_.load.slo));
    gap();
  }

  void answer() {
    const Capacity& c = r_.capacity;
    if (c.most <= 0) {
      line(paint_.yellow(fmt::format("  serves nobody: {} breaks {}",
                                     c.in_users ? "a single user" : "the least rate", c.broken)));
      gap();
      return;
    }
    std::string text = std::string("  serves ") + (c.is_least ? "at least " : "") +
                       paint_.bold(amount_text(c.most) + " " + unit());
    if (r_.lowest && r_.highest)
      text += fmt::format(" ({} to {})", amount_text(*r_.lowest), amount_text(*r_.highest));
    if (!c.broken.empty() && !c.is_least) text += "; " + breaks_text();
    line(text);
    const auto at = std::ranges::min_element(
        c.curve, {}, [&](const CapacityPoint& p) { return std::abs(p.amount - c.most); });
    if (at != c.curve.end()) paragraph("  limit  ", limit_text(at->figures));
    gap();
  }

  std::string breaks_text() const {
    const Capacity& c = r_.capacity;
    if (c.in_users && c.broken_at == c.most + 1)
      return fmt::format("the next one breaks {}", c.broken);
    return fmt::format("{} {} {}", amount_text(c.broken_at), c.in_users ? "break" : "breaks",
                       c.broken);
  }

  static std::string time(const std::optional<double>& seconds) {
    return seconds ? time_text(Seconds{*seconds}) : "too few";
  }

  void curve() {
    line(fmt::format("{:>12}{:>9}{:>9}   {:<28}{:<18}{:>6}{:>8}",
                     r_.capacity.in_users ? "users" : "asked/s", "req/s", "tok/s",
                     "TTFT p50 / p95 / p99", "TPOT p50 / p99", uses_slots() ? "slots" : "KV",
                     "in SLO"));
    for (const CapacityPoint& p : r_.capacity.curve) {
      const ServingFigures& f = p.figures;
      const std::string start = fmt::format("{:>12}", amount_text(p.amount));
      if (f.state == ServingState::kOverloaded) {
        line(start + paint_.yellow("   overloaded: waits grow as long as the load goes on"));
        continue;
      }
      const std::string rate = three_digits(f.requests_per_s);
      const std::string ttft =
          fmt::format("{} / {} / {}", time(f.ttft.p50), time(f.ttft.p95), time(f.ttft.p99));
      const std::string tpot = fmt::format("{} / {}", time(f.tpot.p50), time(f.tpot.p99));
      const std::string within = f.share_in_slo ? share_text(*f.share_in_slo) : "";
      std::string row = start + fmt::format("{:>9}{:>9}   {:<28}{:<18}{:>6}{:>8}", rate,
                                            three_digits(f.output_tokens_per_s), ttft, tpot,
                                            share_text(f.cache.peak), within);
      if (p.amount == r_.capacity.most) row += paint_.bold("  <-");
      line(row);
    }
    gap();
  }

  // TTFT p95 over the loads, in eighths; of an overloaded server there is none.
  void bars() {
    static constexpr std::string_view kBars[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    std::vector<double> waits;
    for (const CapacityPoint& p : r_.capacity.curve)
      if (p.figures.state != ServingState::kOverloaded) waits.push_back(p.figures.ttft.p95);
    const double most = waits.empty() ? 0 : std::ranges::max(waits);
    if (most <= 0) return;
    std::string text = "  TTFT p95 ";
    for (const double wait : waits)
      text += kBars[std::min<std::size_t>(7, std::size_t(8 * wait / most))];
    line(text + fmt::format("  up to {}", time_text(Seconds{most})));
  }

  void changes() {
    std::string label = "  try      ";
    for (std::size_t i = 0; i < std::min(r_.changes.size(), kMaxChanges); ++i) {
      const CapacityChange& c = r_.changes[i];
      line(fmt::format("{}{:<28}  {} {}", label, printable(c.flags), amount_text(c.most), unit()));
      label = "           ";
    }
  }

  void notes() {
    for (const std::string& note : r_.notes) paragraph("  note     ", note);
    if (!r_.capacity.curve.empty()) {
      const std::string shortened = shortened_text(r_.capacity.curve.front().figures);
      if (!shortened.empty()) paragraph("  note     ", shortened);
    }
    for (std::size_t i = 0; i < std::min(r_.scenario.warnings.size(), kMaxNotes); ++i)
      paragraph("  note     ", r_.scenario.warnings[i]);
  }

  void next() {
    if (!r_.command.empty()) paragraph("  next     ", r_.command);
  }

  const CapacityReport& r_;
};

}  // namespace

std::string to_text(const CapacityReport& report, TextStyle style) {
  return Screen(report, style).text();
}

}  // namespace rigcast::planner
