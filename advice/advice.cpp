#include "advice/advice.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>

#include "perfmodel/mean_turn.hpp"
#include "planner/crossover.hpp"
#include "planner/output/plan_text.hpp"
#include "planner/place_layers.hpp"
#include "planner/plan.hpp"
#include "planner/quality.hpp"
#include "sim/advice.hpp"

namespace rigcast {
namespace {

constexpr std::size_t kShown = 3;
constexpr std::size_t kShownOfMemory = 8;  // where it is short, for what helps depends on the user

double request_seconds(const Scenario& s) { return mean_turn(s).value; }

// The placement of a plan for the scenario's mix and cache, all of it stated.
sim::Alternative alternative_of(const Scenario& s, const PlacementSettings& p) {
  sim::Alternative out;
  out.change = planner::placement_text(s, p);
  const auto state = [&](std::string_view flag, const char* key, const std::string& value) {
    out.flags += fmt::format("{}{} {}", out.flags.empty() ? "" : " ", flag, value);
    out.set.emplace_back(key, value);
  };
  const auto state_count = [&](std::string_view flag, const char* key, int now, int planned) {
    if (now != planned) state(flag, key, fmt::format("{}", planned));
  };
  state("--gpu-layers", "placement.gpu_layers", fmt::format("{}", *p.gpu_layers));
  state_count("--cpu-moe", "placement.cpu_moe_layers", s.placement.cpu_moe_layers,
              p.cpu_moe_layers);
  state_count("--cpu-ffn", "placement.cpu_ffn_layers", s.placement.cpu_ffn_layers,
              p.cpu_ffn_layers);
  if (p.tensor_split.empty()) return out;
  const std::string shares = fmt::format("{}", fmt::join(p.tensor_split, ","));
  out.flags += " --tensor-split " + shares;
  out.set.emplace_back("placement.tensor_split",
                       fmt::format("[{:#}]", fmt::join(p.tensor_split, ", ")));
  return out;
}

// nullopt: none fits, or layers have no choice of place.
std::optional<sim::Alternative> planned_placement(const Scenario& s) {
  const bool has_choice = s.runtime.rules != RuntimeRules::kPagedServer;
  if (!has_choice || s.rig.gpus.empty() || s.rig.unified() || s.rig.between_stages ||
      s.kv.policy == KvPolicy::kSpill)
    return std::nullopt;
  Scenario placed = s;
  const auto found = planner::place_layers_or_ffns(s, request_seconds);
  if (!found) return std::nullopt;
  placed.placement = *found;
  return alternative_of(s, planner::balance_layers(placed, request_seconds));
}

struct Losses {
  std::optional<planner::QualityLoss> mix, cache;
};

// Of a cache that evicts blocks, at most that of all blocks in the type of the evicted ones.
Losses losses_of(const planner::QualityTable& quality, const Scenario& s) {
  return {quality.of_mix(s.quant, s.model, double(s.tensors.elements())),
          quality.of_kv(evicts(s.kv.policy) ? s.kv.cold_types() : s.kv.types)};
}

// What the change from `from` to `to` adds; nullopt: no figure is known of one of them.
std::optional<double> added_loss(const planner::QualityTable& quality, const Scenario& from,
                                 const Scenario& to) {
  const Losses before = losses_of(quality, from), after = losses_of(quality, to);
  double nats = 0;
  if (from.quant != to.quant) {
    if (!before.mix || !after.mix) return std::nullopt;
    nats += after.mix->nats - before.mix->nats;
  }
  if (before.cache && after.cache) return nats + after.cache->nats - before.cache->nats;
  const bool same_types = from.kv.types.k == to.kv.types.k && from.kv.types.v == to.kv.types.v;
  return same_types ? std::optional(nats) : std::nullopt;
}

// The scenario's own, as far as it is known.
double own_loss(const planner::QualityTable& quality, const Scenario& s) {
  const Losses own = losses_of(quality, s);
  return (own.mix ? own.mix->nats : 0) + (own.cache ? own.cache->nats : 0);
}

// Changes of one kind are shown once: of all placements, of all mixes, and so on, the best.
std::string kind_of(const sim::Alternative& a) {
  const std::string& key = a.set.front().first;
  const bool swaps_less = key == "memory.swap" || key == "memory.swappiness";
  return key.starts_with("placement.") ? "placement" : swaps_less ? "memory.swap" : key;
}

// What a change is paid with, in the order of the advice. Context and parts come last: what they
// are worth is not known.
enum class Price { kPlanned, kNothing, kQuality, kContextOrParts };

Price price_of(const sim::Alternative& a, const Advice& advice, const std::string& planned) {
  if (a.flags == planned) return Price::kPlanned;
  const std::string& key = a.set.front().first;
  if (key == "workload.context" || key.starts_with("rig.")) return Price::kContextOrParts;
  return advice.loss_nats && *advice.loss_nats <= 0 ? Price::kNothing : Price::kQuality;
}

struct RankedAdvice {
  Advice advice;
  std::string kind;
  Price price;
  double merit;
};

}  // namespace

Result<std::vector<Advice>> advise(const TomlDocument& document, const Catalogue& catalogue,
                                   const Report& report) {
  const auto quality = planner::QualityTable::read(catalogue.root() / "models" / "quality");
  if (!quality) return quality.error();
  const Scenario& s = *report.scenario;
  auto alternatives = sim::alternatives(s, report);
  std::string planned;
  if (auto placement = planned_placement(s)) {
    planned = placement->flags;
    std::erase_if(alternatives, [&](const auto& a) { return a.flags == planned; });
    alternatives.insert(alternatives.begin(), *std::move(placement));
  }
  const double own = own_loss(*quality, s);
  const auto merit = [&](Seconds request, double added) {
    return planner::merit(request, s.workload.output_tokens, std::max(0.0, own + added));
  };
  std::vector<RankedAdvice> ranked;
  for (auto& t : sim::try_alternatives(document, catalogue, report, alternatives)) {
    const auto loss = t.advice.loss_nats = added_loss(*quality, s, *t.scenario);
    const double worth = loss ? merit(t.request, *loss) : std::numeric_limits<double>::lowest();
    const bool loses = !loss || *loss > 0;
    if (report.fits && loses && worth <= merit(sim::request_time(report), 0)) continue;
    const Price price = price_of(t.alternative, t.advice, planned);
    ranked.push_back({std::move(t.advice), kind_of(t.alternative), price, worth});
  }
  std::ranges::stable_sort(ranked, {},
                           [](const RankedAdvice& a) { return std::tuple(a.price, -a.merit); });
  const bool pressed = report.paging && report.paging->reclaim != "fits";
  const bool later = report.hours && report.hours->first_page;
  const bool ends = !report.fits && s.memory;
  const std::size_t most = pressed || later || ends ? kShownOfMemory : kShown;
  std::vector<Advice> best;
  std::set<std::string> kinds;
  for (RankedAdvice& a : ranked)
    if (best.size() < most && kinds.insert(a.kind).second) best.push_back(std::move(a.advice));
  return best;
}

}  // namespace rigcast
