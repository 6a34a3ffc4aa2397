#include "planner/compare_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/unit_text.hpp"
#include "planner/plan_text.hpp"
#include "report/text_screen.hpp"

namespace rigcast::planner {
namespace {

std::string dollars(double usd) { return text_count(std::int64_t(usd + 0.5)); }

std::string thousands(TokenCount tokens) {
  return tokens < 1000 ? fmt::format("{}", tokens) : fmt::format("{}k", tokens / 1000);
}

constexpr std::size_t kNameWidth = 19, kPlanWidth = 28;

class Table : TextScreen {
 public:
  Table(const std::vector<ComparedRig>& rigs, std::optional<double> budget,
        const std::string& verdict, const Workload& w, TextStyle style)
      : TextScreen(style), rigs_(rigs), budget_(budget), verdict_(verdict), w_(w) {}

  std::string text() {
    for (std::size_t m = 0; m < rigs_.front().models.size(); ++m) model(m);
    notes();
    return out_;
  }

 private:
  void model(std::size_t m) {
    const std::string what = fmt::format("{}, {}-token prompt", rigs_.front().models[m].model,
                                         text_count(w_.prompt_tokens));
    line(paint_.bold(what));
    line(fmt::format(
        "  {:<19} {:<28} {:>5} {:>7} {:>15} {:>5} {:>6} {:>6}", "", "best plan", "loss", "TTFT",
        fmt::format("tok/s {}/{}", thousands(w_.depth + w_.prompt_tokens), thousands(w_.context)),
        "to", "USD", "/tok/s"));
    for (const ComparedRig& r : rigs_) row(r, r.models[m]);
    out_ += '\n';
  }

  void row(const ComparedRig& r, const ComparedModel& m) {
    const bool wins = m.best && m.best->unmet.empty() && r.qualifies(budget_);
    const auto show = [&](const std::string& text) { line(wins ? text : paint_.dim(text)); };
    std::string name = printable(r.name);
    if (text_width(name) > kNameWidth) {  // a long name has a line of its own
      show("  " + name);
      name.clear();
    }
    const std::string before = "  " + pad_right(name, kNameWidth) + " ";
    const std::string price = r.usd ? dollars(*r.usd) : "?";
    if (!m.best) {
      show(fmt::format("{}{:<64} {:>6}", before, m.why_not, price));
      return;
    }
    const Scenario& s = *m.best->report.scenario;
    const auto plan =
        wrap_words(short_candidate_text(s.rig, s.model, m.best->candidate), kPlanWidth);
    show(before + pad_right(plan.front(), kPlanWidth) + figures(r, *m.best, price));
    for (std::size_t i = 1; i < plan.size(); ++i)
      show(std::string(text_width(before), ' ') + plan[i]);
  }

  std::string figures(const ComparedRig& r, const RankedPlan& best,
                      const std::string& price) const {
    const Report& report = best.report;
    const std::string speeds =
        fmt::format("{} / {}", three_digits(speed_at(report, w_.depth + w_.prompt_tokens)),
                    three_digits(speed_at(report, w_.context)));
    return fmt::format(" {:>5.3f} {:>7} {:>15} {:>5} {:>6} {:>6}", best.candidate.loss.nats,
                       time_text(report.ttft()->total()), speeds, thousands(report.max_context),
                       price, r.usd ? dollars(*r.usd / report.decode_tokens_per_s) : "?");
  }

  void notes() {
    for (const std::string& part : wrap_words(printable(verdict_), width_ - 2))
      line("  " + paint_.bold(part));
    std::vector<std::string> said;
    for (const ComparedRig& r : rigs_)
      if (!r.price_note.empty() && std::ranges::find(said, r.price_note) == said.end())
        said.push_back(r.price_note);
    for (const std::string& note : said) paragraph("  price  ", note);
    line("  loss   nats from the unquantised model; to: the longest context that fits");
  }

  const std::vector<ComparedRig>& rigs_;
  std::optional<double> budget_;
  const std::string& verdict_;
  const Workload& w_;
};

}  // namespace

std::string to_text(const std::vector<ComparedRig>& rigs, std::optional<double> budget,
                    const std::string& verdict, const Workload& workload, TextStyle style) {
  return rigs.empty() ? "" : Table(rigs, budget, verdict, workload, style).text();
}

}  // namespace rigcast::planner
