#include "planner/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <tuple>

#include "core/text/unit_text.hpp"
#include "planner/plan_text.hpp"
#include "report/report_json.hpp"

namespace rigcast::planner {
namespace {

constexpr double kForever = std::numeric_limits<double>::infinity();

// Seconds of all models' requests; infinite where one does not fit.
double seconds_of(const ComparedRig& rig) {
  double sum = 0;
  for (const ComparedModel& m : rig.models) sum += m.best ? m.best->request().value : kForever;
  return sum;
}

// Price times time: the lower, the better the value.
double cost_of(const ComparedRig& rig) { return rig.usd ? *rig.usd * seconds_of(rig) : kForever; }

}  // namespace

bool ComparedRig::qualifies(std::optional<double> budget) const {
  if (budget && (!usd || *usd > *budget)) return false;
  return std::ranges::all_of(
      models, [](const ComparedModel& m) { return m.best && m.best->unmet.empty(); });
}

void rank_rigs(std::vector<ComparedRig>& rigs, std::optional<double> budget) {
  // With a budget, the fastest rig wins; without one, the best speed for its price.
  std::ranges::stable_sort(rigs, {}, [&](const ComparedRig& r) {
    const double first = budget ? seconds_of(r) : cost_of(r);
    return std::tuple(!r.qualifies(budget), first, seconds_of(r));
  });
}

void rank_upgrades(std::vector<ComparedRig>& rigs, std::optional<double> budget) {
  constexpr double kGain = 1.03;  // a smaller gain is inside any forecast's noise
  const double now = seconds_of(rigs.front());
  const bool is_enough = rigs.front().qualifies({});
  const auto gains = [&](const ComparedRig& r) {
    return seconds_of(r) * kGain < now || (!is_enough && r.qualifies({}));
  };
  const auto begin = rigs.begin() + 1;
  rigs.erase(std::remove_if(begin, rigs.end(), [&](const ComparedRig& r) { return !gains(r); }),
             rigs.end());
  std::stable_sort(rigs.begin() + 1, rigs.end(), [&](const ComparedRig& a, const ComparedRig& b) {
    const auto worth = [&](const ComparedRig& r) {
      const double gain = std::isfinite(now) ? now / seconds_of(r) - 1 : 1 / seconds_of(r);
      return std::tuple(r.qualifies(budget) && r.usd, r.usd && *r.usd > 0 ? gain / *r.usd : gain);
    };
    return worth(a) > worth(b);
  });
}

std::string verdict_text(const std::vector<ComparedRig>& rigs, std::optional<double> budget) {
  const ComparedRig& best = rigs.front();
  if (!best.qualifies(budget))
    return budget ? fmt::format("nothing does all of it for {:.0f} USD", *budget)
                  : "nothing does all of it";
  std::string out = budget ? "fastest within the budget: " : "most speed for the price: ";
  out += best.name;
  if (best.usd) out += fmt::format(" for {} USD", text_count(std::llround(*best.usd)));
  if (best.watts) out += fmt::format(", {:.0f} W", *best.watts);
  return out;
}

std::string upgrade_text(const std::vector<ComparedRig>& rigs, std::optional<double> budget) {
  if (rigs.size() < 2) return "no single part makes it faster";
  if (!rigs[1].qualifies(budget))
    return budget ? fmt::format("no single part for {:.0f} USD does all of it", *budget)
                  : "no single part does all of it";
  const double now = seconds_of(rigs.front()), then = seconds_of(rigs[1]);
  const std::string gain =
      std::isfinite(now) ? fmt::format("{:.1f} times as fast", now / then) : "it fits";
  if (!rigs[1].usd) return fmt::format("{}: {}", rigs[1].name, gain);
  return fmt::format("most for the money: {} for {} USD: {}", rigs[1].name,
                     text_count(std::llround(*rigs[1].usd)), gain);
}

double speed_at(const Report& report, TokenCount tokens) {
  double speed = report.decode_tokens_per_s;
  TokenCount nearest = -1;
  for (const PositionSpeed& p : report.by_position)
    if (nearest < 0 || std::abs(p.tokens - tokens) < std::abs(nearest - tokens)) {
      nearest = p.tokens;
      speed = p.tokens_per_s;
    }
  return speed;
}

std::string to_json(const std::vector<ComparedRig>& rigs, std::optional<double> budget) {
  using Json = nlohmann::ordered_json;
  Json list = Json::array();
  for (const ComparedRig& r : rigs) {
    Json models = Json::array();
    for (const ComparedModel& m : r.models) {
      Json model = {{"model", m.model}, {"fits", m.best.has_value()}};
      if (m.best) {
        model["plan"] = candidate_text(*m.best->report.scenario, m.best->candidate);
        model["loss_nats"] = m.best->candidate.loss.nats;
        model["request_s"] = m.best->request().value;
        model["unmet"] = m.best->unmet;
        model["report"] = Json::parse(rigcast::to_json(m.best->report));
      } else {
        model["lack"] = m.why_not;
      }
      models.push_back(model);
    }
    list.push_back({{"rig", r.name},
                    {"usd", r.usd ? Json(*r.usd) : Json()},
                    {"price", r.price_note},
                    {"watts", r.watts ? Json(*r.watts) : Json()},
                    {"qualifies", r.qualifies(budget)},
                    {"models", models}});
  }
  const Json out = {{"schema", "rigcast.comparison/1"},
                    {"budget_usd", budget ? Json(*budget) : Json()},
                    {"rigs", list}};
  return out.dump(2) + "\n";
}

}  // namespace rigcast::planner
