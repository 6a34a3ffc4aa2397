#include "planner/load_plan/rig_loads.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "core/text/unit_text.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::planner {
namespace {

constexpr double kGain = 1.03;  // of the load: a smaller one is inside any forecast's noise

// Those that serve what is asked for come first, the cheapest of them first, then those that serve
// most. Parts without a price come after all others.
void rank_upgrades(RigLoads& loads) {
  auto& rigs = loads.rigs;
  const auto most = [](const RigLoad& rig) { return rig.way ? rig.way->most() : 0.0; };
  const double now = most(rigs.front());
  rigs.erase(std::remove_if(rigs.begin() + 1, rigs.end(),
                            [&](const RigLoad& rig) { return most(rig) <= kGain * now; }),
             rigs.end());
  const auto place = [&](const RigLoad& rig) {
    return std::tuple(!qualifies(loads, rig), !rig.price.usd,
                      qualifies(loads, rig) ? rig.price.usd.value_or(0) : 0.0, -most(rig));
  };
  std::stable_sort(rigs.begin() + 1, rigs.end(),
                   [&](const RigLoad& a, const RigLoad& b) { return place(a) < place(b); });
}

std::string machines_text(const RigLoad& rig) {
  const double machines = rig.fleet->machines;
  if (machines == 1) return fmt::format("1 machine with {} serves", rig.name);
  return fmt::format("{:.0f} machines, each with {}, serve", machines, rig.name);
}

std::string amount_text(const RigLoads& loads, double amount) {
  if (!loads.in_users) return three_digits(amount) + " requests/s";
  return fmt::format("{} {}", text_count(std::llround(amount)), amount == 1 ? "user" : "users");
}

std::string upgrade_text(const RigLoads& loads, const std::string& all) {
  if (RigLoads now = loads; now.budget = std::nullopt, qualifies(now, now.rigs.front()))
    return fmt::format("the rig as it is serves {}", all);
  if (loads.rigs.size() < 2 || !qualifies(loads, loads.rigs[1])) {
    const std::string within =
        loads.budget ? fmt::format(" for {:.0f} USD", *loads.budget) : std::string();
    return fmt::format("no single part{} lets it serve {}; --gpus and --rigs compare machines",
                       within, all);
  }
  const RigLoad& best = loads.rigs[1];
  if (!best.price.usd) return fmt::format("with {} it serves {}", best.name, all);
  std::string out = fmt::format("cheapest: with {} for {} USD it serves {}", best.name,
                                text_count(std::llround(*best.price.usd)), all);
  return out + fmt::format(", {} USD for each {}", three_digits(*best.usd_each(loads.amount)),
                           loads.in_users ? "user" : "request/s");
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

std::optional<double> usd_of(const RigLoads& loads, const RigLoad& rig) {
  return loads.upgrades() ? rig.price.usd : rig.usd();
}

std::optional<double> usd_each_of(const RigLoads& loads, const RigLoad& rig) {
  const bool too_few = loads.upgrades() && rig.fleet && rig.fleet->machines > 1;
  return too_few ? std::nullopt : rig.usd_each(loads.amount);
}

bool qualifies(const RigLoads& loads, const RigLoad& rig) {
  const auto usd = usd_of(loads, rig);
  if (loads.budget && (!usd || *usd > *loads.budget)) return false;
  if (loads.upgrades() && rig.fleet && rig.fleet->machines > 1) return false;
  return rig.serves() && (!loads.amount || (rig.fleet && rig.fleet->figures.meets_slo()));
}

std::string added_text(const RigLoads& loads, const RigLoad& rig) {
  if (!loads.amount || !rig.way || !rig.fleet || !rig.fleet->has_added()) return {};
  const Fleet& fleet = *rig.fleet;
  const std::string start = rig.name + ": " + added_text(*rig.way, fleet);
  // Of an upgraded rig there is one.
  if (loads.upgrades())
    return fleet.by_capacity == 1 ? start + ": not counted as serving it alone" : std::string();
  const RigLoad& first = loads.rigs.front();
  if (&first == &rig || !rig.price.usd || !first.usd()) return start;
  const double usd = fleet.by_capacity * *rig.price.usd;
  if (usd >= *first.usd()) return start;
  return start + fmt::format("; without, it would be cheaper than {}: {} USD", first.name,
                             text_count(std::llround(usd)));
}

std::vector<std::string> notes_of(const RigLoads& loads) {
  std::vector<std::pair<std::string, std::vector<std::string>>> all;  // note, rigs
  for (const RigLoad& rig : loads.rigs)
    for (const std::string& note : rig.notes) {
      const auto same = std::ranges::find(all, note, [](const auto& one) { return one.first; });
      if (same == all.end())
        all.push_back({note, {rig.name}});
      else
        same->second.push_back(rig.name);
    }
  constexpr std::size_t kNamed = 4;
  std::vector<std::string> out;
  for (const auto& [note, rigs] : all) {
    const std::size_t named = std::min(kNamed, rigs.size());
    std::string names =
        fmt::format("{}", fmt::join(rigs.begin(), rigs.begin() + std::ptrdiff_t(named), ", "));
    if (rigs.size() > named) names += fmt::format(" and {} more", rigs.size() - named);
    out.push_back(names + ": " + note);
  }
  return out;
}

void rank(RigLoads& loads) {
  if (loads.rigs.empty()) return;
  if (loads.upgrades()) return rank_upgrades(loads);
  std::ranges::stable_sort(loads.rigs, {}, [&](const RigLoad& rig) {
    const double each = rig.usd_each(loads.amount).value_or(std::numeric_limits<double>::max());
    return std::tuple(!qualifies(loads, rig), !rig.price.usd, each,
                      rig.fleet ? rig.fleet->machines : 0.0, rig.way ? -rig.way->most() : 0.0);
  });
}

std::string verdict_text(const RigLoads& loads) {
  if (loads.rigs.empty()) return "nothing to compare";
  const std::string all = loads.amount ? amount_text(loads, *loads.amount) : "any of it";
  if (loads.upgrades()) return upgrade_text(loads, all);
  const RigLoad& best = loads.rigs.front();
  if (!qualifies(loads, best))
    return loads.budget ? fmt::format("nothing for {:.0f} USD serves {}", *loads.budget, all)
                        : fmt::format("nothing serves {}", all);
  const char* of = loads.what == Comparison::What::kGpus ? " USD of GPUs" : " USD";
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
