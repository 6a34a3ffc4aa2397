#include "planner/output/compare_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/unit_text.hpp"
#include "planner/output/plan_text.hpp"
#include "report/report_words.hpp"
#include "report/text_screen.hpp"

namespace rigcast::planner {
namespace {

std::string dollars(double usd) { return text_count(std::int64_t(usd + 0.5)); }

std::string thousands(TokenCount tokens) {
  return tokens < 1000 ? fmt::format("{}", tokens) : fmt::format("{}k", tokens / 1000);
}

constexpr std::size_t kNameWidth = 19, kPlanWidth = 26;

class Table : TextScreen {
 public:
  Table(const Comparison& comparison, const Workload& w, TextStyle style)
      : TextScreen(style), c_(comparison), w_(w) {}

  std::string text() {
    for (std::size_t m = 0; m < c_.rigs.front().models.size(); ++m) model(m);
    notes();
    return out_;
  }

 private:
  void model(std::size_t m) {
    const ComparedModel& first = c_.rigs.front().models[m];
    line(paint_.bold(printable(first.model)));
    paragraph("", workload_text(w_));
    if (first.max_loss)
      paragraph("",
                fmt::format("the fastest that loses at most {:.3f} nats, on every machine alike",
                            *first.max_loss));
    line(fmt::format(
        "  {:<19} {:<26} {:>5} {:>7} {:>15} {:>5} {:>7} {:>6}", "", "best plan", "loss", "TTFT",
        fmt::format("tok/s {}/{}", thousands(w_.depth + w_.prompt_tokens), thousands(w_.context)),
        "to", "load", "USD"));
    for (const ComparedRig& r : c_.rigs) row(r, r.models[m]);
    for (const ComparedRig& r : c_.rigs) {
      if (!r.models[m].best) continue;
      for (const std::string& note : notes_on_companions(*r.models[m].best->report.scenario))
        paragraph("  note   ", note);
      break;
    }
    out_ += '\n';
  }

  void row(const ComparedRig& r, const ComparedModel& m) {
    const bool wins = m.best && m.best->unmet.empty() && r.qualifies(c_.budget);
    const auto show = [&](const std::string& text) { line(wins ? text : paint_.dim(text)); };
    std::string name = printable(r.name);
    if (text_width(name) > kNameWidth) {  // a long name has a line of its own
      show("  " + name);
      name.clear();
    }
    const std::string before = "  " + pad_right(name, kNameWidth) + " ";
    const std::string price = r.price.usd ? dollars(*r.price.usd) : "?";
    if (!m.best) {
      show(fmt::format("{}{:<70} {:>6}", before, m.why_not, price));
      return;
    }
    const Scenario& s = *m.best->report.scenario;
    const auto plan = wrap_words(short_candidate_text(s, m.best->candidate), kPlanWidth);
    show(before + pad_right(plan.front(), kPlanWidth) + figures(*m.best, price));
    for (std::size_t i = 1; i < plan.size(); ++i)
      show(std::string(text_width(before), ' ') + plan[i]);
    if (!m.best->unmet.empty()) show(std::string(text_width(before), ' ') + m.best->unmet);
  }

  std::string figures(const RankedPlan& best, const std::string& price) const {
    const Report& report = best.report;
    const std::string speeds =
        fmt::format("{} / {}", three_digits(speed_at(report, w_.depth + w_.prompt_tokens)),
                    three_digits(speed_at(report, w_.context)));
    const auto& loaded = report.warm ? report.warm : report.cold;
    return fmt::format(" {:>5.3f} {:>7} {:>15} {:>5} {:>7} {:>6}", best.candidate.loss.nats,
                       time_text(best.first_token), speeds, thousands(report.max_context),
                       loaded ? time_text(loaded->load) : "?", price);
  }

  void notes() {
    for (const std::string& part : wrap_words(printable(verdict_text(c_)), width_ - 2))
      line("  " + paint_.bold(part));
    for (const ComparedRig& r : c_.rigs) prices(r);
    if (const std::string note = beyond_text(c_.beyond_budget, c_.budget); !note.empty())
      paragraph("  note   ", note);
    paragraph(
        "  loss   ",
        "nats from the unquantised model; TTFT: of a loaded model; to: the longest context that "
        "fits; load: from the page cache, or the disk where RAM cannot hold the file");
  }

  // What the price is made of, and what lacks one.
  void prices(const ComparedRig& r) {
    std::string of;
    const auto& parts = r.price.parts;
    for (std::size_t i = 0; i < parts.size();) {
      std::size_t end = i;  // of parts that are alike
      while (end < parts.size() && parts[end].part == parts[i].part) ++end;
      const Price& p = parts[i];
      const double count = double(end - i) * p.count;
      of += fmt::format("{}{}{} {} ({}{}{})", of.empty() ? "" : ", ",
                        count > 1 ? fmt::format("{:g} x ", count) : "", p.part, dollars(p.usd),
                        name(p.kind), p.date.empty() ? "" : " ", p.date);
      i = end;
    }
    for (const std::string& part : r.price.unpriced)
      of += fmt::format("{}{} ?", of.empty() ? "" : ", ", part);
    if (!of.empty()) paragraph("  price  ", fmt::format("{}: {}", r.name, of));
  }

  const Comparison& c_;
  const Workload& w_;
};

}  // namespace

std::string to_text(const Comparison& comparison, const Workload& workload, TextStyle style) {
  return comparison.rigs.empty() ? "" : Table(comparison, workload, style).text();
}

}  // namespace rigcast::planner
