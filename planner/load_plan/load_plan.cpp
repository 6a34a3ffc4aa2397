#include "planner/load_plan/load_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/text/unit_text.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::planner {
namespace {

// A mix whose weights are hardly smaller than those of one that loses less serves hardly more.
constexpr double kHardlySmaller = 0.9;

struct Choice {
  std::string quant;
  KvTypes kv_types;
  QualityLoss loss;
};

// Mixes and caches within the loss, the least loss first.
std::vector<Choice> choices_of(const Scenario& s, const LoadSearch& search,
                               const QualityTable& quality) {
  struct Mix {
    std::string quant;
    QualityLoss loss;
    double bytes;
  };
  std::vector<Mix> mixes;
  for (const std::string& quant : search.space.quants) {
    const auto loss = quality.of_mix(quant, s.model, double(s.tensors.elements()));
    const bool is_stated = search.space.quants.size() == 1;
    if (!is_stated && (!loss || (search.max_loss && loss->nats > *search.max_loss))) continue;
    if (!is_stated && quant == "F16") continue;  // twice the bytes of Q8_0 for nothing
    Candidate candidate = candidate_of(s);
    candidate.quant = quant;
    const double bytes = double(scenario_of(s, candidate).tensors.bytes());
    mixes.push_back({quant, loss.value_or(QualityLoss{}), bytes});
  }
  std::ranges::stable_sort(mixes, {}, [](const Mix& m) { return m.loss.nats; });
  std::vector<Choice> out;
  double last = 0;
  for (const Mix& mix : mixes) {
    const bool is_last = &mix == &mixes.back();
    if (search.fastest_only && !is_last) continue;
    if (last > 0 && mix.bytes > kHardlySmaller * last && !is_last) continue;
    last = mix.bytes;
    for (const KvTypes types : search.space.kv_types) {
      const auto cache = quality.of_kv(types);
      if (!check_kv_types(s.model, types)) continue;
      const QualityLoss loss = cache ? mix.loss + *cache : mix.loss;
      if (search.max_loss && search.space.kv_types.size() > 1 &&
          (!cache || loss.nats > *search.max_loss))
        continue;
      out.push_back({mix.quant, types, loss});
    }
  }
  return out;
}

struct Use {
  GpuUse use;
  int servers;
  Scenario scenario;  // of one server
};

// One server with all GPUs, or, where they are alike, one with each. Another way to share them is
// one more entry.
std::vector<Use> uses_of(const Scenario& s, const LoadSearch& search) {
  std::vector<Use> out{{GpuUse::kTogether, 1, s}};
  if (search.copies) {
    out.push_back({GpuUse::kCopies, search.copies->servers, search.copies->scenario});
    return out;
  }
  if (!takes_copies(s.rig) || !search.space.places_layers) return out;
  Scenario one = s;
  one.rig = with_one_gpu(s.rig);
  one.placement.tensor_split.clear();
  out.push_back({GpuUse::kCopies, int(s.rig.gpus.size()), std::move(one)});
  return out;
}

double machines_for(double amount, double on_one) {
  return on_one > 0 ? std::ceil(amount / on_one - 1e-9) : 0;
}

std::optional<double> maybe_machines(double amount, double on_one) {
  return on_one > 0 ? std::optional(machines_for(amount, on_one)) : std::nullopt;
}

void set_interval(double amount, const ServedWay& way, Fleet& fleet) {
  fleet.at_best = maybe_machines(amount, way.at_best());
  fleet.at_least = maybe_machines(amount, way.at_least());
  if (fleet.at_least) fleet.at_least = std::max(*fleet.at_least, fleet.machines);
}

std::string users_text(const Load& load, double amount) {
  if (load.is_open()) return three_digits(amount) + " requests/s";
  return text_count(std::llround(amount)) + (amount == 1 ? " user" : " users");
}

bool meets(const LoadChoice& choice) { return choice.fleet && choice.fleet->figures.meets_slo(); }
double machines_of(const LoadChoice& choice) { return choice.fleet ? choice.fleet->machines : 0; }

// One server of a use with a mix and a cache. Its GPUs, and how they share layers, are its own.
Scenario with_choice(const Scenario& server, const Choice& choice) {
  Candidate candidate = candidate_of(server);
  candidate.quant = choice.quant;
  candidate.kv_types = choice.kv_types;
  return scenario_of(server, candidate);
}

// Who is served by the same settings as the one before begins with them.
Scenario with_settings_of(Scenario s, const ServedWay* before) {
  if (!before) return s;
  const Scenario& known = *before->scenario;
  s.scheduler->sequences = known.scheduler->sequences;
  s.scheduler->step_tokens = known.scheduler->step_tokens;
  s.settings.batch = known.settings.batch;
  s.settings.ubatch = known.settings.ubatch;
  return s;
}

}  // namespace

double amount_of(const Load& load) { return load.is_open() ? load.rate : double(load.users); }

Result<std::optional<Fleet>> fleet_for(double amount, const ServedWay& way,
                                       const MakeServer& make_server) {
  if (way.most() <= 0) return std::optional<Fleet>{};
  const auto server = make_server(way.scenario);
  if (!server) return server.error();
  const Load load = lasting(*way.scenario->load);
  Fleet fleet;
  fleet.by_capacity = machines_for(amount, way.most());
  // By chance, fewer users are not served where more are: then a machine more.
  constexpr int kTrials = 8;
  for (int i = 0; i < kTrials; ++i) {
    fleet.machines = fleet.by_capacity + i;
    const double share = amount / (fleet.machines * way.servers);
    fleet.share = load.is_open() ? share : std::ceil(share - 1e-9);
    auto figures = server->forecast(with_amount(load, fleet.share));
    if (!figures) return figures.error();
    fleet.figures = *std::move(figures);
    if (i == 0) fleet.share_by_capacity = fleet.share;
    if (fleet.figures.meets_slo()) break;
    if (i == 0)
      fleet.broken_by_chance =
          fleet.figures.broken.empty() ? "what it can keep up with" : fleet.figures.broken;
  }
  set_interval(amount, way, fleet);
  return std::optional(std::move(fleet));
}

Result<std::vector<ServedWay>> find_ways(const Scenario& scenario, const LoadSearch& search,
                                         const QualityTable& quality, const MakeServer& make_server,
                                         std::size_t* too_large) {
  if (auto error = check_capacity(*scenario.load)) return *std::move(error);
  std::vector<ServedWay> ways;
  const std::vector<Choice> choices = choices_of(scenario, search, quality);
  for (const Use& use : uses_of(scenario, search)) {
    std::optional<ServedWay> before;
    for (const Choice& choice : choices) {
      if (search.progress)
        search.progress(fmt::format("{} with a cache in {}{}", choice.quant,
                                    rigcast::text(choice.kv_types),
                                    use.servers > 1 ? ", copies" : ""));
      const Scenario start =
          with_settings_of(with_choice(use.scenario, choice), before ? &*before : nullptr);
      auto way = find_way(start, search.fixed, use.servers > 1, make_server,
                          before ? before->capacity.most : 0);
      if (!way) return way.error();
      if (!*way && too_large) ++*too_large;
      if (!*way) continue;
      (*way)->use = use.use;
      (*way)->servers = use.servers;
      (*way)->loss = choice.loss;
      before = **way;
      ways.push_back(**std::move(way));
    }
  }
  return ways;
}

Result<std::optional<LoadChoice>> best_of(double amount, std::vector<ServedWay> ways,
                                          const MakeServer& make_server) {
  std::ranges::stable_sort(ways, {}, [](const ServedWay& way) { return -way.most(); });
  std::optional<LoadChoice> best;
  for (ServedWay& way : ways) {
    // At least as many as by what one serves: with those that are found, this one has no fewer.
    if (best && meets(*best) && machines_for(amount, way.most()) >= machines_of(*best)) continue;
    if (best && way.most() <= 0) continue;
    auto fleet = fleet_for(amount, way, make_server);
    if (!fleet) return fleet.error();
    LoadChoice choice{std::move(way), *std::move(fleet)};
    const auto rank = [](const LoadChoice& c) { return std::tuple(!meets(c), machines_of(c)); };
    if (!best || rank(choice) < rank(*best)) best = std::move(choice);
  }
  return best;
}

Result<bool> add_interval(double amount, LoadChoice& choice, const MakeServer& make_server) {
  if (auto done = find_interval(choice.way, make_server); !done) return done;
  if (choice.fleet) set_interval(amount, choice.way, *choice.fleet);
  return true;
}

std::string added_text(const ServedWay& way, const Fleet& fleet) {
  if (!fleet.has_added()) return {};
  const Load& load = *way.scenario->load;
  return fmt::format(
      "{} machines instead of {:.0f}: one{} serves up to {}, but with {}{} {} breaks by chance",
      text_count(std::llround(fleet.machines)), fleet.by_capacity,
      fleet.by_capacity > 1 ? " machine" : "", users_text(load, way.most()),
      users_text(load, fleet.share_by_capacity), way.servers > 1 ? " on each GPU" : "",
      fleet.broken_by_chance);
}

Result<LoadPlan> plan_load(const Scenario& scenario, const LoadSearch& search,
                           const QualityTable& quality, const MakeServer& make_server) {
  LoadPlan plan;
  plan.amount = amount_of(*scenario.load);
  plan.max_loss = search.max_loss;
  auto ways = find_ways(scenario, search, quality, make_server, &plan.too_large);
  if (!ways) return ways.error();
  for (ServedWay& way : *ways) {
    auto fleet = fleet_for(plan.amount, way, make_server);
    if (!fleet) return fleet.error();
    plan.choices.push_back({std::move(way), *std::move(fleet)});
  }
  // By the machines that it takes, with those that chance adds.
  std::ranges::stable_sort(plan.choices, {}, [](const LoadChoice& c) {
    return std::tuple(!c.fleet, !meets(c), machines_of(c), c.way.loss.nats, -c.way.most());
  });
  for (std::size_t i = 0; i < std::min(kShownChoices, plan.choices.size()); ++i)
    if (auto done = add_interval(plan.amount, plan.choices[i], make_server); !done)
      return done.error();
  return plan;
}

}  // namespace rigcast::planner
