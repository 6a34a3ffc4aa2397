#include "planner/load_plan/rig_loads.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

#include "core/text/unit_text.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::planner {
namespace {

std::string machines_text(const RigLoad& rig) {
  const double machines = rig.fleet->machines;
  if (machines == 1) return fmt::format("1 machine with {} serves", rig.name);
  return fmt::format("{:.0f} machines, each with {}, serve", machines, rig.name);
}

std::string amount_text(const RigLoads& loads, double amount) {
  if (!loads.in_users) return three_digits(amount) + " requests/s";
  return fmt::format("{} {}", text_count(std::llround(amount)), amount == 1 ? "user" : "users");
}

}  // namespace

std::optional<double> RigLoad::usd() const {
  if (!price.usd) return std::nullopt;
  return fleet ? fleet->machines * *price.usd : *price.usd;
}

std::optional<double> RigLoad::usd_each(std::optional<double> amount) const {
  const auto all = usd();
  if (!all || !serves() || (amount && !fleet)) return std::nullopt;
  return *all / amount.value_or(way->most());
}

bool qualifies(const RigLoads& loads, const RigLoad& rig) {
  const auto usd = rig.usd();
  if (loads.budget && (!usd || *usd > *loads.budget)) return false;
  return rig.serves() && (!loads.amount || (rig.fleet && rig.fleet->figures.meets_slo()));
}

void rank(RigLoads& loads) {
  std::ranges::stable_sort(loads.rigs, {}, [&](const RigLoad& rig) {
    const double each = rig.usd_each(loads.amount).value_or(std::numeric_limits<double>::max());
    return std::tuple(!qualifies(loads, rig), !rig.price.usd, each,
                      rig.fleet ? rig.fleet->machines : 0.0, rig.way ? -rig.way->most() : 0.0);
  });
}

std::string verdict_text(const RigLoads& loads) {
  if (loads.rigs.empty()) return "nothing to compare";
  const RigLoad& best = loads.rigs.front();
  const std::string all = loads.amount ? amount_text(loads, *loads.amount) : "any of it";
  if (!qualifies(loads, best))
    return loads.budget ? fmt::format("nothing for {:.0f} USD serves {}", *loads.budget, all)
                        : fmt::format("nothing serves {}", all);
  const char* of = loads.gpus_alone ? " USD of GPUs" : " USD";
  const auto usd = best.usd(), each = best.usd_each(loads.amount);
  std::string out;
  if (loads.amount)
    out =
        fmt::format("{}{} {}", usd ? "cheapest: " : "fewest machines: ", machines_text(best), all);
  else
    out = fmt::format("{}{} serves {}", usd ? "most for the money: " : "", best.name,
                      amount_text(loads, best.way->most()));
  if (usd)
    out += fmt::format(", {}{}, {} for each {}", text_count(std::llround(*usd)), of,
                       three_digits(*each), loads.in_users ? "user" : "request/s");
  if (best.watts && best.fleet)
    out += fmt::format(", {} W", text_count(std::llround(*best.watts * best.fleet->machines)));
  return out;
}

std::string limit_of(const ServedWay& way) {
  std::string out = way.capacity.is_least ? "nothing found" : way.capacity.broken;
  if (!way.capacity.at_most) return out;
  const ServingFigures& f = *way.capacity.at_most;
  constexpr double kShown = 0.05;
  const auto add = [&](const char* what, double share) {
    if (share >= kShown) out += fmt::format("; {} {:.0f} %", what, 100 * share);
  };
  add("waits for slots", f.cache.slots ? f.sequences_full : 0.0);
  add("waits for sequences", f.cache.slots ? 0.0 : f.sequences_full);
  add("for cache", f.cache_full);
  if (f.sequences_full < kShown && f.cache_full < kShown)
    out += fmt::format("; busy {:.0f} %", 100 * f.busy);
  return out;
}

}  // namespace rigcast::planner
