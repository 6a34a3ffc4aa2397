// The table of a comparison.
#include <fmt/format.h>

#include <algorithm>

#include "core/text_style.hpp"
#include "core/unit_text.hpp"
#include "planner/compare.hpp"
#include "planner/plan_text.hpp"

namespace rigcast::planner {
namespace {

std::string dollars(double usd) { return text_count(std::int64_t(usd + 0.5)); }

std::string thousands(TokenCount tokens) {
  return tokens < 1000 ? fmt::format("{}", tokens) : fmt::format("{}k", tokens / 1000);
}

class Table {
 public:
  Table(const std::vector<ComparedRig>& rigs, std::optional<double> budget,
        const std::string& verdict, const Workload& w, TextStyle style)
      : rigs_(rigs),
        budget_(budget),
        verdict_(verdict),
        w_(w),
        paint_(style.colour),
        width_(std::size_t(style.width)) {}

  std::string text() {
    for (std::size_t m = 0; m < rigs_.front().models.size(); ++m) model(m);
    notes();
    return out_;
  }

 private:
  void line(std::string_view text) { append_lines(out_, text, width_); }

  void model(std::size_t m) {
    const std::string what = fmt::format("{}, {}-token prompt", rigs_.front().models[m].model,
                                         text_count(w_.prompt_tokens));
    line(paint_.bold(what));
    line(fmt::format(
        "  {:<19} {:<28} {:>6} {:>7} {:>14} {:>5} {:>6} {:>6}", "", "best plan", "loss", "TTFT",
        fmt::format("tok/s {}/{}", thousands(w_.depth + w_.prompt_tokens), thousands(w_.context)),
        "to", "USD", "/tok/s"));
    for (const ComparedRig& r : rigs_) row(r, r.models[m]);
    out_ += '\n';
  }

  void row(const ComparedRig& r, const ComparedModel& m) {
    const std::string price = r.usd ? dollars(*r.usd) : "?";
    if (!m.best) {
      line(fmt::format("  {} {:<64} {:>6}", name_of(r), m.lack, price));
      return;
    }
    const Report& report = m.best->report;
    const double first = speed_at(report, w_.depth + w_.prompt_tokens);
    const double last = speed_at(report, w_.context);
    const std::string text =
        fmt::format("  {} {} {:>6.3f} {:>7} {:>14} {:>5} {:>6} {:>6}", name_of(r),
                    pad_right(clip(short_option_text(*report.scenario, m.best->option), 28), 28),
                    m.best->option.loss.nats, time_text(report.ttft()->total()),
                    fmt::format("{} / {}", three_digits(first), three_digits(last)),
                    thousands(report.longest_context), price,
                    r.usd ? dollars(*r.usd / report.decode_tokens_per_s) : "?");
    line(m.best->unmet.empty() && r.qualifies(budget_) ? text : paint_.dim(text));
  }

  static std::string name_of(const ComparedRig& r) { return pad_right(clip(r.name, 19), 19); }

  void notes() {
    line("  " + paint_.bold(verdict_));
    std::vector<std::string> said;
    for (const ComparedRig& r : rigs_)
      if (!r.price_note.empty() && std::ranges::find(said, r.price_note) == said.end())
        said.push_back(r.price_note);
    for (const std::string& note : said) line("  price  " + note);
    line("  loss   nats from the unquantised model; to: the longest context that fits");
  }

  const std::vector<ComparedRig>& rigs_;
  std::optional<double> budget_;
  const std::string& verdict_;
  const Workload& w_;
  Paint paint_;
  std::size_t width_;
  std::string out_;
};

}  // namespace

std::string to_text(const std::vector<ComparedRig>& rigs, std::optional<double> budget,
                    const std::string& verdict, const Workload& workload, TextStyle style) {
  return rigs.empty() ? "" : Table(rigs, budget, verdict, workload, style).text();
}

}  // namespace rigcast::planner
