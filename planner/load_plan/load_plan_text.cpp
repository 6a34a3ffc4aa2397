#include "planner/load_plan/load_plan_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/text/unit_text.hpp"
#include "planner/load_plan/way_commands.hpp"
#include "report/report_words.hpp"
#include "report/serving/serving_text.hpp"
#include "report/text_screen.hpp"

namespace rigcast::planner {
namespace {

// Where requests go, of a server with one engine or with several.
std::string_view split_text(bool engines) {
  return engines ? "sessions are split evenly over the machines, and stay where they began; their "
                   "turns go to any engine of the machine"
                 : "sessions are split evenly over the machines and their servers, and stay where "
                   "they began";
}

bool has_engines(const ServedWay& way) { return way.scenario->rig.engines > 1; }

std::string dollars(double usd) { return text_count(std::llround(usd)); }

// Users, or requests/s, in figures.
class Amount {
 public:
  explicit Amount(bool users) : users_(users) {}
  std::string operator()(double amount) const {
    return users_ ? text_count(std::llround(amount)) : three_digits(amount);
  }
  std::string unit(double amount) const {
    if (!users_) return "requests/s";
    return amount == 1 ? "user" : "users";
  }
  std::string with_unit(double amount) const { return (*this)(amount) + " " + unit(amount); }
  std::string interval(const ServedWay& way) const {
    if (!way.lowest || !way.highest) return "";
    return fmt::format("{} to {}", (*this)(way.at_least()), (*this)(way.at_best()));
  }

 private:
  bool users_;
};

std::string machines_text(double machines) {
  return fmt::format("{} {}", text_count(std::llround(machines)),
                     machines == 1 ? "machine" : "machines");
}

// "1 to 2"; where the slow end serves nothing, "from 1".
std::string machines_interval(const Fleet& fleet) {
  if (!fleet.at_best) return "";
  if (!fleet.at_least) return fmt::format("from {:.0f}", *fleet.at_best);
  return fmt::format("{:.0f} to {:.0f}", *fleet.at_best, *fleet.at_least);
}

std::string latency_text(const ServingFigures& f) {
  return fmt::format("TTFT p50 / p95 {} / {}, TPOT {} / {}", time_text(Seconds{f.ttft.p50}),
                     time_text(Seconds{f.ttft.p95}), time_text(Seconds{f.tpot.p50}),
                     time_text(Seconds{f.tpot.p95}));
}

class PlanScreen : TextScreen {
 public:
  PlanScreen(const Scenario& s, const LoadPlan& plan, const PartsPrice& price, bool gpus_alone,
             std::optional<double> watts, const std::vector<std::string>& notes, TextStyle style)
      : TextScreen(style),
        s_(s),
        plan_(plan),
        price_(price),
        gpus_alone_(gpus_alone),
        watts_(watts),
        notes_(notes),
        amount_(!s.load->is_open()) {}

  std::string text() {
    line(paint_.bold(fmt::format("{} for {} on {}, {}", printable(s_.model.name),
                                 amount_.with_unit(plan_.amount), rig_name(s_.rig),
                                 s_.runtime.name)));
    paragraph("  load   ", rigcast::text(*s_.load));
    paragraph("  wanted ", rigcast::text(s_.load->slo));
    if (plan_.max_loss)
      paragraph("         ", fmt::format("a loss of at most {:.3f} nats", *plan_.max_loss));
    gap();
    best();
    table();
    notes();
    return out_;
  }

 private:
  void best() {
    const LoadChoice& c = plan_.choices.front();
    if (!c.fleet) {
      line(paint_.yellow(fmt::format("  serves nobody: {} breaks {}",
                                     s_.load->is_open() ? "the least rate" : "a single user",
                                     c.way.capacity.broken)));
      gap();
      return;
    }
    const Fleet& fleet = *c.fleet;
    std::string answer = machines_text(fleet.machines);
    if (fleet.at_best && (!fleet.at_least || *fleet.at_best != *fleet.at_least))
      answer += fmt::format(" ({})", machines_interval(fleet));
    paragraph("  best   ", paint_.bold(answer + ": " + planner::text(c.way)));
    paragraph("         ",
              fmt::format("one serves {} ({}); more break {}", amount_.with_unit(c.way.most()),
                          amount_.interval(c.way), limit_of(c.way)));
    paragraph("         ", share_text(c));
    if (fleet.has_added()) paragraph("         ", added_text(c.way, fleet));
    paragraph("         ", cost_text(fleet));
    gap();
  }

  std::string share_text(const LoadChoice& c) const {
    const Fleet& fleet = *c.fleet;
    const bool meets = fleet.figures.meets_slo();
    return fmt::format("{} on each {}, simulated: {}{}", amount_.with_unit(fleet.share),
                       c.way.servers > 1 ? "GPU" : "machine", latency_text(fleet.figures),
                       meets ? "" : fmt::format("; breaks {}", fleet.figures.broken));
  }

  std::string cost_text(const Fleet& fleet) const {
    std::string out;
    if (price_.usd) {
      const double usd = *price_.usd * fleet.machines;
      out =
          fmt::format("{} USD{}, {} for each {}", dollars(usd), gpus_alone_ ? " of GPUs" : "",
                      three_digits(usd / plan_.amount), s_.load->is_open() ? "request/s" : "user");
    } else {
      out = "no price is known";
    }
    if (watts_) out += fmt::format("; at most {:.0f} W", *watts_ * fleet.machines);
    return out;
  }

  void table() {
    line(fmt::format("  {:>8} {:>8}  {:<12} {:>6}  {}", "machines",
                     s_.load->is_open() ? "req/s" : "users", "interval", "loss", "way"));
    for (const LoadChoice& c : plan_.choices) {
      if (&c - plan_.choices.data() >= std::ptrdiff_t(kShownChoices)) break;
      const std::string machines =
          c.fleet ? text_count(std::llround(c.fleet->machines)) : std::string("-");
      const std::string row =
          fmt::format("  {:>8} {:>8}  {:<12} {:>6.3f}  ", machines, amount_(c.way.most()),
                      amount_.interval(c.way), c.way.loss.nats);
      const auto way = wrap_words(planner::text(c.way), width_ - text_width(row));
      line(row + way.front());
      for (std::size_t i = 1; i < way.size(); ++i) line(std::string(text_width(row), ' ') + way[i]);
    }
    if (plan_.choices.size() > kShownChoices)
      line(fmt::format("  {} more: --format json", plan_.choices.size() - kShownChoices));
    gap();
  }

  void notes() {
    paragraph("  users  ", fmt::format("that one machine serves; {}",
                                       split_text(has_engines(plan_.choices.front().way))));
    const LoadChoice& best = plan_.choices.front();
    if (best.way.servers > 1)
      paragraph("  note   ",
                "copies have an equal share of the RAM each; that they share the CPU is not "
                "forecast");
    if (best.fleet)
      if (const std::string cut = shortened_text(best.fleet->figures); !cut.empty())
        paragraph("  note   ", cut);
    for (const LoadChoice& c : plan_.choices)
      if (&c != &best && best.fleet && c.fleet && c.fleet->by_capacity < best.fleet->machines &&
          c.fleet->has_added())
        paragraph("  note   ", planner::text(c.way) + ": " + added_text(c.way, *c.fleet));
    for (const std::string& note : notes_) paragraph("  note   ", note);
    for (const std::string& warning : s_.warnings) paragraph("  note   ", warning);
    const char* label = "  next   ";
    for (const std::string& command : commands_of(best.way)) {
      paragraph(label, command);
      label = "         ";
    }
  }

  const Scenario& s_;
  const LoadPlan& plan_;
  const PartsPrice& price_;
  const bool gpus_alone_;
  const std::optional<double> watts_;
  const std::vector<std::string>& notes_;
  const Amount amount_;
};

constexpr std::size_t kNameWidth = 19, kWayWidth = 24, kLimitWidth = 20;

class RigTable : TextScreen {
 public:
  RigTable(const std::vector<RigLoads>& models, const std::vector<std::string>& notes,
           TextStyle style)
      : TextScreen(style),
        models_(models),
        l_(models.front()),
        notes_(notes),
        amount_(l_.in_users) {}

  std::string text() {
    const bool is_one = models_.size() == 1;
    std::string title = is_one ? printable(l_.model) : fmt::format("{} models", models_.size());
    if (l_.amount) title += " for " + amount_.with_unit(*l_.amount);
    line(paint_.bold(title));
    paragraph("  load   ", l_.load);
    paragraph("  wanted ", l_.slo);
    if (l_.amount && l_.max_loss && is_one)
      paragraph("         ",
                fmt::format("a loss of at most {:.3f} nats, on every machine alike", *l_.max_loss));
    gap();
    header();
    for (const RigLoads& model : models_) {
      if (!is_one) line("  " + paint_.bold(printable(loss_text(model))));
      for (const RigLoad& rig : model.rigs) row(model, rig);
    }
    gap();
    for (const RigLoads& model : models_) {
      const std::string of = is_one ? "" : model.model + ": ";
      for (const std::string& part : wrap_words(printable(of + verdict_text(model)), width_ - 2))
        line("  " + paint_.bold(part));
    }
    paragraph("  serves ", serves_text());
    for (const RigLoads& model : models_) model_notes(model, is_one ? "" : model.model + ": ");
    for (const std::string& note : notes_) paragraph("  note   ", note);
    return out_;
  }

 private:
  static std::string loss_text(const RigLoads& model) {
    if (!model.amount || !model.max_loss) return model.model;
    return fmt::format("{}, a loss of at most {:.3f} nats", model.model, *model.max_loss);
  }

  void model_notes(const RigLoads& model, const std::string& of) {
    const auto note = [&](const std::string& text) {
      if (!text.empty()) paragraph("  note   ", printable(of + text));
    };
    for (const RigLoad& rig : model.rigs) note(added_text(model, rig));
    note(beyond_text(model.beyond_budget, model.budget));
    for (const std::string& text : planner::notes_of(model)) note(text);
  }

  std::string serves_text() const {
    if (l_.upgrades())
      return "the rig with the new part, whose price is in USD; SSDs are left out: what runs is in "
             "memory";
    const bool engines = std::ranges::any_of(
        l_.rigs, [](const RigLoad& rig) { return rig.way && has_engines(*rig.way); });
    return l_.amount ? fmt::format("one machine; {}", split_text(engines)) : "one machine";
  }

  void header() {
    line(fmt::format("  {:<19} {:>6} {:<13} {:<24} {:<20}{}", "", "serves", "", "way", "limit",
                     l_.amount ? fmt::format("{:>3} {:>7}", "no.", "USD") : "    USD each"));
  }

  void row(const RigLoads& model, const RigLoad& rig) {
    const bool is_good = qualifies(model, rig);
    const auto show = [&](const std::string& text) { line(is_good ? text : paint_.dim(text)); };
    std::string name = printable(rig.name);
    if (text_width(name) > kNameWidth) {  // a long name has a line of its own
      show("  " + name);
      name.clear();
    }
    const std::string before = "  " + pad_right(name, kNameWidth) + " ";
    if (!rig.way) {
      show(before + printable(rig.why_not));
      return;
    }
    const ServedWay& way = *rig.way;
    const std::string interval = way.lowest ? amount_.interval(way) : "";
    const std::string start = before + fmt::format("{:>6} {:<13} ", amount_(way.most()), interval);
    const auto ways = wrap_words(planner::text(way), kWayWidth);
    const auto limits = wrap_words(limit_of(way), kLimitWidth);
    for (std::size_t i = 0; i < std::max(ways.size(), limits.size()); ++i) {
      const std::string left = i == 0 ? start : std::string(text_width(start), ' ');
      show(left + pad_right(i < ways.size() ? ways[i] : "", kWayWidth) + " " +
           pad_right(i < limits.size() ? limits[i] : "", kLimitWidth) +
           (i == 0 ? cost_text(rig) : ""));
    }
  }

  std::string cost_text(const RigLoad& rig) const {
    const auto each = rig.usd_each(l_.amount);
    if (!l_.amount)
      return fmt::format("{:>12}", each ? three_digits(*each) : rig.serves() ? "?" : "-");
    const std::string machines =
        rig.fleet ? text_count(std::llround(rig.fleet->machines)) : std::string("-");
    const auto usd = rig.fleet ? usd_of(l_, rig) : std::nullopt;
    if (l_.upgrades() && !usd) return fmt::format("{:>3} {:>7}", machines, "-");
    return fmt::format("{:>3} {:>7}", machines, usd ? dollars(*usd) : rig.fleet ? "?" : "-");
  }

  const std::vector<RigLoads>& models_;
  const RigLoads& l_;  // the first one's
  const std::vector<std::string>& notes_;
  const Amount amount_;
};

}  // namespace

std::string to_text(const Scenario& scenario, const LoadPlan& plan, const PartsPrice& price,
                    bool gpus_alone, std::optional<double> watts,
                    const std::vector<std::string>& notes, TextStyle style) {
  return PlanScreen(scenario, plan, price, gpus_alone, watts, notes, style).text();
}

std::string to_text(const std::vector<RigLoads>& models, const std::vector<std::string>& notes,
                    TextStyle style) {
  if (models.empty() || models.front().rigs.empty()) return "";
  return RigTable(models, notes, style).text();
}

}  // namespace rigcast::planner
