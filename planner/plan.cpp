#include "planner/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <thread>
#include <tuple>

#include "core/model/quantized_model.hpp"
#include "core/model/traffic.hpp"
#include "core/text/unit_text.hpp"
#include "perfmodel/resolve_placement.hpp"

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
// Those that people choose where memory is short: they lose much, and no speed of them was
// measured.
constexpr const char* kSmallMixes[] = {"IQ3_M", "IQ3_XXS", "IQ2_M", "IQ2_XXS"};

// True if everything is on GPUs, and nothing is read from RAM.
bool is_resident(const ModelSpec& model, const PlacementSettings& p) {
  return p.decode_device == DecodeDevice::kPlacement && p.gpu_layers &&
         *p.gpu_layers > model.layers && p.cpu_moe_layers + p.cpu_ffn_layers == 0;
}

// Calls `work` with 0 to count - 1, on as many threads as there are cores.
void on_all_cores(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  const std::size_t cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::future<void>> others;
  for (std::size_t i = 1; i < std::min(cores, count); ++i)
    others.push_back(std::async(std::launch::async, take));
  take();
  for (std::future<void>& other : others) other.get();
}

class Search {
 public:
  Search(const Scenario& base, const SearchSpace& search_space, const Constraints& constraints,
         const QualityTable& quality, const RequestCost& cost, bool prunes_loss)
      : base_(base),
        search_space_(search_space),
        constraints_(constraints),
        quality_(quality),
        cost_(cost),
        prunes_loss_(prunes_loss) {}

  // All candidates, grouped by context, mix and KV types, the fastest first.
  std::vector<std::vector<Candidate>> run(Plan& plan) const {
    std::vector<Group> groups;
    for (const TokenCount context : search_space_.contexts)
      for (const std::string& quant : search_space_.quants)
        for (const KvTypes types : search_space_.kv_types) {
          Candidate candidate = candidate_of(base_);
          candidate.quant = quant;
          candidate.kv_types = types;
          candidate.context = context;
          groups.push_back({std::move(candidate), {}, 0, 0});
        }
    on_all_cores(groups.size(), [&](std::size_t i) { search(groups[i]); });
    std::vector<std::vector<Candidate>> all;
    for (Group& group : groups) {
      plan.candidates += group.candidates;
      plan.too_large += group.too_large;
      std::ranges::stable_sort(group.options, {}, &Candidate::seconds);
      if (!group.options.empty()) all.push_back(std::move(group.options));
    }
    return all;
  }

 private:
  // The candidates of one mix, cache and context.
  struct Group {
    Candidate asked;
    std::vector<Candidate> options;
    std::size_t candidates = 0, too_large = 0;
  };

  void search(Group& group) const {
    Candidate candidate = group.asked;
    const auto of_types = quality_.of_kv(candidate.kv_types);
    if (!of_types || !check_kv_types(base_.model, candidate.kv_types)) return;
    Scenario s = scenario_of(base_, candidate);
    const auto of_mix = quality_.of_mix(candidate.quant, s.model, double(s.tensors.elements()));
    if (!of_mix) return;
    candidate.loss = *of_mix + *of_types;
    if (prunes_loss_ && constraints_.max_loss && candidate.loss.nats > *constraints_.max_loss)
      return;
    for (const KvPolicy policy : search_space_.policies) {
      candidate.policy = policy;
      bool resident = false;
      for (const DecodeDevice device : search_space_.decode_devices) {
        if (!is_compatible(device, policy) || resident) continue;
        candidate.placement = base_.placement;
        candidate.placement.decode_device = device;
        resident = add_batches(s, candidate, group);
      }
      // A cache in VRAM beside all weights has no better place.
      if (policy == KvPolicy::kVram && resident) break;
    }
  }

  // Adds the option with every ubatch; true if with one of them everything is on GPUs.
  bool add_batches(Scenario& s, Candidate candidate, Group& group) const {
    bool resident = false;
    const PlacementSettings asked = candidate.placement;
    for (const int ubatch : search_space_.ubatches) {
      candidate.ubatch = ubatch;
      candidate.placement = asked;
      candidate.threads = base_.settings.threads;
      apply(candidate, s);
      ++group.candidates;
      if (!place(s, candidate)) {
        ++group.too_large;
        continue;
      }
      s.placement = candidate.placement;
      candidate.seconds = cost_(s);
      if (is_resident(s.model, candidate.placement))
        resident = true;
      else
        choose_threads(s, candidate);
      group.options.push_back(candidate);
    }
    return resident;
  }

  void choose_threads(Scenario& s, Candidate& candidate) const {
    for (const int threads : search_space_.threads) {
      s.settings.threads = threads;
      const double seconds = cost_(s);
      if (seconds < candidate.seconds)
        std::tie(candidate.seconds, candidate.threads) = std::tuple(seconds, threads);
    }
  }

  // True if the two can be combined: a host that decodes has its own cache, and a link that streams
  // weights has no capacity left for a cache.
  static bool is_compatible(DecodeDevice device, KvPolicy policy) {
    return device == DecodeDevice::kPlacement || policy == KvPolicy::kVram;
  }

  static void apply(const Candidate& candidate, Scenario& s) {
    s.kv.types = candidate.kv_types;
    s.kv.policy = candidate.policy;
    s.settings.ubatch = candidate.ubatch;
    s.settings.batch = std::max(s.settings.batch, candidate.ubatch);
    s.settings.threads = candidate.threads;
    s.placement = candidate.placement;
  }

  std::optional<PlacementSettings> place_layers_anywhere(const Scenario& s) const {
    const auto placed = [&](HostWeights host_weights) {
      return search_space_.splits_layers ? place_layers_or_ffns(s, cost_, host_weights)
                                         : place_layers(s, false, host_weights);
    };
    const auto in_ram = placed(HostWeights::kInRam);
    const bool may_read = may_read_from_disk(s) && !s.rig.unified();
    return in_ram || !may_read ? in_ram : placed(HostWeights::kInRamOrDisk);
  }

  bool place(Scenario& s, Candidate& candidate) const {
    if (!search_space_.places_layers) {
      s.placement = base_.placement;
      s.placement.decode_device = candidate.placement.decode_device;
      s.placement.gpu_layers = resolve_placement(s).gpu_layers;
      candidate.placement = s.placement;
      s.settings.headroom = {};  // who states layers decides what stays free
      return fits(s);
    }
    const auto placed = place_layers_anywhere(s);
    if (placed) candidate.placement = *placed;
    return placed.has_value();
  }

  const Scenario& base_;
  const SearchSpace& search_space_;
  const Constraints& constraints_;
  const QualityTable& quality_;
  const RequestCost& cost_;
  const bool prunes_loss_;  // candidates that lose too much are not priced
};

// VRAM, or RAM where no GPU has its own.
Bytes fast_memory(const Rig& rig) {
  if (rig.gpus.empty() || rig.unified()) return rig.ram.capacity.value;
  Bytes sum;
  for (const GpuPart& gpu : rig.gpus) sum += gpu.memory.value;
  return sum;
}

bool have_same_formats(const TensorTable& a, const TensorTable& b) {
  return std::ranges::equal(a.tensors, b.tensors, {}, &Tensor::format, &Tensor::format);
}

// The mixes to choose from. Of mixes that give every tensor the same format, the first.
std::vector<std::string> mixes_for(const Scenario& s) {
  if (s.model_file) return {s.quant};
  if (is_native_mix(s.model)) return {s.model.native};
  std::vector<const char*> names(std::begin(kMixes), std::end(kMixes));
  const auto by_default = quantize(s.model, default_quant(s.model));
  if (by_default && Bytes{double(by_default->tensors.bytes())} > fast_memory(s.rig))
    names.insert(names.end(), std::begin(kSmallMixes), std::end(kSmallMixes));
  std::vector<std::string> out;
  std::vector<TensorTable> tables;
  for (const char* const name : names) {
    auto mix = quantize(s.model, name);
    if (!mix) continue;
    if (s.runtime.rules == RuntimeRules::kRigcast && mix->tensors.uncomputed()) continue;
    const auto is_same = [&](const TensorTable& t) { return have_same_formats(t, mix->tensors); };
    if (std::ranges::any_of(tables, is_same)) continue;
    out.emplace_back(name);
    tables.push_back(std::move(mix->tensors));
  }
  return out;
}

std::vector<Candidate> finalists(const std::vector<std::vector<Candidate>>& sorted) {
  std::vector<Candidate> out;
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

bool from_disk(const RankedPlan& c) {
  const MemoryPlan& m = c.report.memory;
  return m.outside_ram + m.swapped + m.swapped_weights > Bytes{};
}

std::string unmet_constraint(const Constraints& constraints, const QualityLoss& loss,
                             const Report& r, Seconds first_token) {
  if (constraints.max_loss && loss.nats > *constraints.max_loss)
    return fmt::format("loses more than {:g} nats", *constraints.max_loss);
  if (r.decode_tokens_per_s < constraints.min_tokens_per_s)
    return fmt::format("slower than {:g} tok/s", constraints.min_tokens_per_s);
  if (constraints.max_ttft && first_token > *constraints.max_ttft)
    return fmt::format("first token later than {}", text(*constraints.max_ttft));
  return "";
}

void mark_front(std::vector<RankedPlan>& ranked) {
  for (RankedPlan& c : ranked)
    c.on_front = std::ranges::none_of(ranked, [&](const RankedPlan& other) {
      return &other != &c && is_as_good(other, c) && !is_as_good(c, other);
    });
}

// The knee of the front: where more quality begins to cost more time than it is worth. Reading from
// the disk is for those who have no other way.
void mark_knee(std::vector<RankedPlan>& ranked) {
  RankedPlan* knee = nullptr;
  const bool needs_disk = std::ranges::all_of(ranked, from_disk);
  for (RankedPlan& c : ranked) {
    c.merit = merit(c.turn, c.report.scenario->workload.output_tokens, c.candidate.loss.nats);
    if (c.on_front && c.unmet.empty() && (needs_disk || !from_disk(c)) &&
        (!knee || c.merit > knee->merit))
      knee = &c;
  }
  if (knee) knee->is_knee = true;
}

// The sort key: plans that meet all constraints first, then those that need no disk, then the
// better ones.
auto rank(const RankedPlan& c, Objective objective) {
  const double loss = c.candidate.loss.nats, time = c.turn.value;
  const double context = -double(c.report.max_context);
  const int unmet = 2 * int(!c.unmet.empty()) + int(from_disk(c));
  switch (objective) {
    case Objective::kSpeed: return std::tuple(unmet, time, loss, context);
    case Objective::kQuality: return std::tuple(unmet, loss, time, context);
    case Objective::kContext: {
      // Of those with the most, the best balance.
      const double merit = c.on_front ? c.merit : std::numeric_limits<double>::lowest();
      return std::tuple(unmet, context, -merit, time);
    }
    case Objective::kBalanced: break;
  }
  return std::tuple(2 * unmet + int(!c.on_front), -c.merit, time, loss);
}

}  // namespace

SearchSpace full_space(const Scenario& s) {
  SearchSpace search_space;
  if (s.runtime.rules == RuntimeRules::kPagedServer) {
    // One way: its other formats are not forecast, and all is on the GPUs.
    search_space.quants = {s.quant};
    search_space.kv_types = {s.kv.types};
    search_space.policies = {KvPolicy::kVram};
    search_space.ubatches = {s.settings.ubatch};
    search_space.contexts = {s.workload.context};
    search_space.places_layers = search_space.splits_layers = false;
    return search_space;
  }
  const SplitMode* mode = find_split_mode(s.runtime.split_modes, s.placement.split_mode);
  search_space.quants = mixes_for(s);
  for (const QuantFormat f : {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0})
    if (f == QuantFormat::kF16 || (s.settings.flash_attention && (!mode || mode->quantized_cache)))
      search_space.kv_types.push_back({f, f});
  // GPUs that share every layer hold all of them, and the cache.
  if (mode) search_space.places_layers = search_space.splits_layers = false;
  const bool has_tiers = !s.rig.gpus.empty() && !s.rig.unified() && !mode;
  for (const KvPolicy policy : s.runtime.kv_policies)
    if (policy == KvPolicy::kVram || (has_tiers && policy != KvPolicy::kSpill))
      search_space.policies.push_back(policy);
  if (has_tiers) {
    if (s.runtime.weight_streaming) search_space.decode_devices.push_back(DecodeDevice::kGpu);
    if (s.runtime.cpu_decode) search_space.decode_devices.push_back(DecodeDevice::kCpu);
  }
  for (int ubatch = 512; ubatch <= 4096; ubatch *= 2)
    if (ubatch == 512 || ubatch / 2 < s.workload.prompt_tokens)
      search_space.ubatches.push_back(ubatch);
  const CpuPart& cpu = s.rig.cpu;
  // Not those of efficiency cores: what a layer takes whose slowest thread is one is not modelled.
  for (const int threads : {cpu.cores, cpu.cores / 2})
    if (threads > 0 && threads != s.settings.threads) search_space.threads.push_back(threads);
  search_space.contexts = {s.workload.context};
  return search_space;
}

std::vector<TokenCount> all_contexts(const Workload& workload, const ModelSpec& model) {
  const TokenCount needed = read_cells(workload.last_position() + 1, 256);
  std::vector<TokenCount> out;
  for (TokenCount n = needed; n < model.context; n *= 2) out.push_back(n);
  out.push_back(std::max(needed, model.context));
  return out;
}

void limit_to_ollama(SearchSpace& search_space) {
  search_space.policies = {KvPolicy::kVram};
  std::erase_if(search_space.kv_types, [](KvTypes t) { return t.k != t.v; });
  search_space.splits_layers = false;
}

Candidate candidate_of(const Scenario& s) {
  return {.quant = s.quant,
          .kv_types = s.kv.types,
          .policy = s.kv.policy,
          .ubatch = s.settings.ubatch,
          .threads = s.settings.threads,
          .context = s.workload.context,
          .placement = s.placement};
}

Scenario scenario_of(const Scenario& base, const Candidate& candidate) {
  Scenario s = base;
  if (!base.model_file && candidate.quant != base.quant) {
    auto quantized = quantize(base.model, candidate.quant);
    RIGCAST_ASSERT(quantized.ok());
    s.quant = std::move(quantized->quant);
    s.tensors = std::move(quantized->tensors);
  }
  s.kv.types = candidate.kv_types;
  s.kv.policy = candidate.policy;
  s.settings.ubatch = candidate.ubatch;
  s.settings.batch = std::max(s.settings.batch, candidate.ubatch);
  s.settings.threads = candidate.threads;
  s.workload.context = candidate.context;
  s.placement = candidate.placement;
  return s;
}

double merit(Seconds turn, TokenCount output_tokens, double loss_nats) {
  // Figures for a model itself are as exact as this many nats: less is no difference.
  constexpr double kNoise = 0.004;
  // A judgement: where one token in a hundred more may be another, the time falls by 7 %.
  constexpr double kTimeForTokens = 7;
  // A judgement: an answer four times as fast as people read hardly gains by more speed. They read
  // 238 words a minute (Brysbaert 2019), of 4/3 tokens each.
  constexpr double kUnseenRate = 4 * 238.0 / 60 * 4 / 3;
  const double unseen = double(output_tokens) / kUnseenRate;
  const double other_tokens = std::sqrt((loss_nats + kNoise) / 2);
  return -std::log(turn.value + unseen) - kTimeForTokens * other_tokens;
}

bool is_as_good(const RankedPlan& a, const RankedPlan& b) {
  return a.candidate.loss.nats <= b.candidate.loss.nats && a.turn <= b.turn &&
         a.report.max_context >= b.report.max_context;
}

void time_turns(const Constraints& constraints, const RequestCost& cost, RankedPlan& ranked) {
  const Report& r = ranked.report;
  const Workload& w = r.scenario->workload;
  ranked.first_token = (constraints.with_load ? r.ttft() : r.resident)->total();
  ranked.request = ranked.first_token + r.tpot.mean * double(w.output_tokens - 1);
  ranked.turn = ranked.request;
  if (!w.fills_context) return;
  Scenario middle = *r.scenario;
  middle.workload.fills_context = false;
  ranked.turn = ranked.request * (cost(*r.scenario) / cost(middle));
}

Plan make_plan(const Scenario& scenario, const SearchSpace& search_space,
               const Constraints& constraints, const QualityTable& quality, const RequestCost& cost,
               const Simulate& simulate) {
  Plan plan;
  auto sorted = Search(scenario, search_space, constraints, quality, cost, true).run(plan);
  if (sorted.empty())  // what fits, although it loses more than asked for
    sorted = Search(scenario, search_space, constraints, quality, cost, false).run(plan);
  for (const Candidate& candidate : finalists(sorted)) {
    RankedPlan ranked{.candidate = candidate};
    Scenario s = scenario_of(scenario, candidate);
    if (search_space.places_layers)
      s.placement = ranked.candidate.placement = balance_layers(s, cost);
    ranked.report = simulate(std::make_shared<const Scenario>(std::move(s)));
    if (!ranked.report.fits) continue;
    time_turns(constraints, cost, ranked);
    ranked.unmet =
        unmet_constraint(constraints, ranked.candidate.loss, ranked.report, ranked.first_token);
    plan.ranked.push_back(std::move(ranked));
  }
  mark_front(plan.ranked);
  mark_knee(plan.ranked);
  std::ranges::stable_sort(plan.ranked, [&](const RankedPlan& a, const RankedPlan& b) {
    return rank(a, constraints.objective) < rank(b, constraints.objective);
  });
  const bool is_open = search_space.places_layers && search_space.splits_layers &&
                       !plan.ranked.empty() && scenario.rig.gpus.size() <= 2;
  if (is_open && !is_resident(scenario.model, plan.ranked.front().candidate.placement))
    plan.crossover = find_crossover(*plan.ranked.front().report.scenario, cost);
  return plan;
}

}  // namespace rigcast::planner
