#include "planner/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/model/traffic.hpp"
#include "core/text/unit_text.hpp"
#include "perfmodel/memory.hpp"

namespace rigcast::planner {
namespace {

// The number of finalists for every quant mix and KV type. A further one is simulated only where
// the closed form hardly tells them apart.
constexpr std::size_t kFinalists = 2;
constexpr double kHardlySlower = 1.25;
// A candidate is dropped if it takes this many times as long as one that loses no more quality.
constexpr double kFarSlower = 3;

// The mixes that people choose from, the best first.
constexpr const char* kMixes[] = {"F16",    "Q8_0",   "Q6_K",   "Q5_K_M", "Q5_K_S", "Q4_K_M",
                                  "Q4_K_S", "IQ4_XS", "Q3_K_M", "Q3_K_S", "Q2_K",   "MXFP4"};

double parameters_of(const Scenario& s) { return double(s.tensors.elements()); }

// True if everything is on GPUs, and nothing is read from RAM.
bool is_resident(const Scenario& s, const PlacementSettings& p) {
  return p.decode_device == DecodeDevice::kPlacement && p.gpu_layers &&
         *p.gpu_layers > s.model.layers && p.cpu_moe_layers + p.cpu_ffn_layers == 0;
}

class Search {
 public:
  Search(const Scenario& base, const Space& space, const Wish& wish, const QualityTable& quality,
         const RequestCost& cost)
      : base_(base), space_(space), wish_(wish), quality_(quality), cost_(cost) {}

  // All candidates, grouped by context, mix and KV types, the fastest first.
  std::vector<std::vector<Option>> run(Plan& plan) {
    std::vector<std::vector<Option>> all;
    for (const TokenCount context : space_.contexts)
      for (const std::string& quant : space_.quants)
        for (const KvTypes types : space_.kv_types) {
          Option option = option_of(base_);
          option.quant = quant;
          option.kv_types = types;
          option.context = context;
          auto options = options_of(std::move(option), plan);
          std::ranges::stable_sort(options, {}, &Option::seconds);
          if (!options.empty()) all.push_back(std::move(options));
        }
    return all;
  }

 private:
  std::vector<Option> options_of(Option option, Plan& plan) {
    std::vector<Option> out;
    const auto of_types = quality_.of_kv(option.kv_types);
    if (!of_types || !check_kv_types(base_.model, option.kv_types)) return out;
    Scenario s = scenario_of(base_, option);
    const auto of_mix = quality_.of_mix(option.quant, s.model, parameters_of(s));
    if (!of_mix) return out;
    option.loss = *of_mix + *of_types;
    for (const KvPolicy policy : space_.policies) {
      option.policy = policy;
      bool resident = false;
      for (const DecodeDevice device : space_.decode_devices) {
        if (!goes_with(device, policy) || resident) continue;
        option.placement = base_.placement;
        option.placement.decode_device = device;
        resident = add_batches(s, option, out, plan);
      }
      // A cache in VRAM beside all weights has no better place.
      if (policy == KvPolicy::kVram && resident) break;
    }
    return out;
  }

  // Adds the option with every ubatch; true if with one of them everything is on GPUs.
  bool add_batches(Scenario& s, Option option, std::vector<Option>& out, Plan& plan) const {
    bool resident = false;
    const PlacementSettings asked = option.placement;
    for (const int ubatch : space_.ubatches) {
      option.ubatch = ubatch;
      option.placement = asked;
      option.threads = base_.settings.threads;
      apply(option, s);
      ++plan.options;
      if (!place(s, option)) {
        ++plan.too_large;
        continue;
      }
      s.placement = option.placement;
      option.seconds = cost_(s);
      if (is_resident(s, option.placement))
        resident = true;
      else
        choose_threads(s, option);
      out.push_back(option);
    }
    return resident;
  }

  void choose_threads(Scenario& s, Option& option) const {
    for (const int threads : space_.threads) {
      s.settings.threads = threads;
      const double seconds = cost_(s);
      if (seconds < option.seconds)
        std::tie(option.seconds, option.threads) = std::tuple(seconds, threads);
    }
  }

  // True if the two can be combined: a host that decodes has its own cache, and a link that streams
  // weights has no capacity left for a cache.
  static bool goes_with(DecodeDevice device, KvPolicy policy) {
    return device == DecodeDevice::kPlacement || policy == KvPolicy::kVram;
  }

  static void apply(const Option& option, Scenario& s) {
    s.kv.types = option.kv_types;
    s.kv.policy = option.policy;
    s.settings.ubatch = option.ubatch;
    s.settings.batch = std::max(s.settings.batch, option.ubatch);
    s.settings.threads = option.threads;
    s.placement = option.placement;
  }

  bool place(Scenario& s, Option& option) const {
    if (!space_.places_layers) {
      s.placement = base_.placement;
      s.placement.decode_device = option.placement.decode_device;
      s.placement.gpu_layers = resolve_placement(s).gpu_layers;
      option.placement = s.placement;
      return fits(s, wish_.headroom);
    }
    const auto placed = space_.splits_layers ? place_either_way(s, wish_.headroom, cost_)
                                             : place_layers(s, wish_.headroom, false);
    if (placed) option.placement = *placed;
    return placed.has_value();
  }

  const Scenario& base_;
  const Space& space_;
  const Wish& wish_;
  const QualityTable& quality_;
  const RequestCost& cost_;
};

std::vector<Option> finalists(const std::vector<std::vector<Option>>& sorted) {
  std::vector<Option> out;
  for (const auto& options : sorted)
    for (std::size_t i = 0; i < std::min(kFinalists, options.size()); ++i) {
      if (options[i].seconds > kHardlySlower * options.front().seconds) break;
      const bool is_hopeless = std::ranges::any_of(sorted, [&](const auto& others) {
        return others.front().loss.nats <= options[i].loss.nats &&
               others.front().context >= options[i].context &&
               others.front().seconds * kFarSlower < options[i].seconds;
      });
      if (!is_hopeless) out.push_back(options[i]);
    }
  return out;
}

std::string unmet_wish(const Wish& wish, const QualityLoss& loss, const Report& r) {
  if (wish.max_loss && loss.nats > *wish.max_loss)
    return fmt::format("loses more than {:g} nats", *wish.max_loss);
  if (r.decode_tokens_per_s < wish.min_tokens_per_s)
    return fmt::format("slower than {:g} tok/s", wish.min_tokens_per_s);
  if (wish.max_ttft && r.ttft()->total() > *wish.max_ttft)
    return fmt::format("first token later than {}", text(*wish.max_ttft));
  return "";
}

void mark_front(std::vector<Choice>& choices) {
  for (Choice& c : choices)
    c.on_front = std::ranges::none_of(choices, [&](const Choice& other) {
      return &other != &c && is_as_good(other, c) && !is_as_good(c, other);
    });
}

// The knee of quality against time, both on logarithmic scales. Along the front, a straight line
// from the best quality to the shortest request says what quality costs here; the knee is farthest
// on its good side. Where time hardly differs, quality costs no less than kLeastRate.
void weigh_front(std::vector<Choice>& choices) {
  // A loss in nats that is hardly noticeable: that of an 8B model as Q5_K_M.
  constexpr double kUnseen = 0.01;
  // A judgement: twice the loss is worth a sixth of the time.
  constexpr double kLeastRate = 0.25;
  struct Point {
    double loss, time;
    Choice* choice;
  };
  std::vector<Point> front;
  for (Choice& c : choices)
    if (c.on_front && c.unmet.empty())
      front.push_back({std::log(c.option.loss.nats + kUnseen), std::log(c.request().value), &c});
  if (front.empty()) return;
  const Point best = *std::ranges::min_element(front, {}, &Point::loss);
  const Point fastest = *std::ranges::min_element(front, {}, &Point::time);
  const double lost = fastest.loss - best.loss, won = best.time - fastest.time;
  const double rate = std::max(kLeastRate, lost > 0 ? won / lost : 0.0);
  for (const Point& p : front) p.choice->merit = best.time - p.time - rate * (p.loss - best.loss);
  std::ranges::max_element(front, {}, [](const Point& p) {
    return p.choice->merit;
  })->choice->is_knee = true;
}

// The sort key: plans that meet all constraints first, then the better ones.
auto rank(const Choice& c, Objective objective) {
  const double loss = c.option.loss.nats, time = c.request().value;
  const double context = -double(c.report.longest_context);
  const bool unmet = !c.unmet.empty();
  switch (objective) {
    case Objective::kSpeed: return std::tuple(unmet, time, loss, context);
    case Objective::kQuality: return std::tuple(unmet, loss, time, context);
    case Objective::kContext: return std::tuple(unmet, context, loss, time);
    case Objective::kBalanced: break;
  }
  return std::tuple(unmet || !c.on_front, -c.merit, time, loss);
}

}  // namespace

Space whole_space(const Scenario& s) {
  Space space;
  if (s.model_file)
    space.quants = {s.quant};
  else
    space.quants.assign(std::begin(kMixes), std::end(kMixes));
  for (const QuantFormat f : {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0})
    if (f == QuantFormat::kF16 || s.settings.flash_attention) space.kv_types.push_back({f, f});
  const bool has_tiers = !s.rig.gpus.empty() && !s.rig.unified();
  for (const KvPolicy policy : s.runtime.kv_policies)
    if (policy == KvPolicy::kVram || (has_tiers && policy != KvPolicy::kSpill))
      space.policies.push_back(policy);
  if (has_tiers) {
    if (s.runtime.weight_streaming) space.decode_devices.push_back(DecodeDevice::kGpu);
    if (s.runtime.cpu_decode) space.decode_devices.push_back(DecodeDevice::kCpu);
  }
  for (int ubatch = 512; ubatch <= 4096; ubatch *= 2)
    if (ubatch == 512 || ubatch / 2 < s.workload.prompt_tokens) space.ubatches.push_back(ubatch);
  const CpuPart& cpu = s.rig.cpu;
  for (const int threads : {cpu.cores, cpu.cores / 2, cpu.cores + cpu.efficiency_cores})
    if (threads > 0 && threads != s.settings.threads) space.threads.push_back(threads);
  space.contexts = {s.workload.context};
  return space;
}

std::vector<TokenCount> all_contexts(const Scenario& s) {
  const TokenCount needed = read_cells(s.workload.last_position() + 1, 256);
  std::vector<TokenCount> out;
  for (TokenCount n = needed; n < s.model.context; n *= 2) out.push_back(n);
  out.push_back(std::max(needed, s.model.context));
  return out;
}

void keep_what_ollama_says(Space& space) {
  space.policies = {KvPolicy::kVram};
  std::erase_if(space.kv_types, [](KvTypes t) { return t.k != t.v; });
  space.splits_layers = false;
}

Option option_of(const Scenario& s) {
  return {.quant = s.quant,
          .kv_types = s.kv.types,
          .policy = s.kv.policy,
          .ubatch = s.settings.ubatch,
          .threads = s.settings.threads,
          .context = s.workload.context,
          .placement = s.placement};
}

Scenario scenario_of(const Scenario& base, const Option& option) {
  Scenario s = base;
  if (!base.model_file && option.quant != base.quant) {
    const auto mix = QuantMix::from_name(option.quant);
    RIGCAST_ASSERT(mix.ok());
    auto table = make_tensor_table(base.model, *mix);
    RIGCAST_ASSERT(table.ok());
    s.quant = mix->name();
    s.tensors = *std::move(table);
  }
  s.kv.types = option.kv_types;
  s.kv.policy = option.policy;
  s.settings.ubatch = option.ubatch;
  s.settings.batch = std::max(s.settings.batch, option.ubatch);
  s.settings.threads = option.threads;
  s.workload.context = option.context;
  s.placement = option.placement;
  return s;
}

Seconds Choice::request() const {
  return report.ttft()->total() +
         report.tpot.mean * double(report.scenario->workload.output_tokens - 1);
}

bool is_as_good(const Choice& a, const Choice& b) {
  return a.option.loss.nats <= b.option.loss.nats && a.request() <= b.request() &&
         a.report.longest_context >= b.report.longest_context;
}

Plan make_plan(const Scenario& scenario, const Space& space, const Wish& wish,
               const QualityTable& quality, const RequestCost& cost, const Simulate& simulate) {
  Plan plan;
  for (const Option& option : finalists(Search(scenario, space, wish, quality, cost).run(plan))) {
    Choice choice{.option = option};
    Scenario s = scenario_of(scenario, option);
    if (space.places_layers)
      s.placement = choice.option.placement = balance_layers(s, cost, wish.headroom);
    choice.report = simulate(std::make_shared<const Scenario>(std::move(s)));
    if (!choice.report.fits) continue;
    choice.unmet = unmet_wish(wish, choice.option.loss, choice.report);
    plan.choices.push_back(std::move(choice));
  }
  mark_front(plan.choices);
  weigh_front(plan.choices);
  std::ranges::stable_sort(plan.choices, [&](const Choice& a, const Choice& b) {
    return rank(a, wish.objective) < rank(b, wish.objective);
  });
  const bool is_open = space.places_layers && space.splits_layers && !plan.choices.empty() &&
                       scenario.rig.gpus.size() <= 2;
  if (is_open && !is_resident(scenario, plan.choices.front().option.placement))
    plan.crossover = find_crossover(*plan.choices.front().report.scenario, wish.headroom, cost);
  return plan;
}

}  // namespace rigcast::planner
