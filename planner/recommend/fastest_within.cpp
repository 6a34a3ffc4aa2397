#include "planner/recommend/fastest_within.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "perfmodel/mean_turn.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/serial_time.hpp"

namespace rigcast::planner {
namespace {

struct Choice {
  std::size_t mix = 0;  // of Choices::mixes
  KvTypes kv_types;
  QualityLoss loss;
  double bytes = 0;  // of the weights
};

// A scenario of each mix is made once: its tables of tensors are what takes time here.
struct Choices {
  std::vector<Scenario> mixes;
  std::vector<Choice> all;
};

// Everything within the loss, the least loss first.
Choices choices_within(const Scenario& s, const SearchSpace& space, double max_loss,
                       const QualityTable& quality) {
  Choices out;
  for (const std::string& quant : space.quants) {
    if (quant == "F16" && space.quants.size() > 1) continue;  // twice the bytes of Q8_0 for nothing
    const auto mix = quality.of_mix(quant, s.model, double(s.tensors.elements()));
    if (!mix || mix->nats > max_loss) continue;
    Candidate candidate = candidate_of(s);
    candidate.quant = quant;
    out.mixes.push_back(scenario_of(s, candidate));
    const double bytes = double(out.mixes.back().tensors.bytes());
    for (const KvTypes types : space.kv_types) {
      const auto kv = quality.of_kv(types);
      if (kv && check_kv_types(s.model, types) && (*mix + *kv).nats <= max_loss)
        out.all.push_back({out.mixes.size() - 1, types, *mix + *kv, bytes});
    }
  }
  std::ranges::stable_sort(out.all, {}, [](const Choice& c) { return c.loss.nats; });
  return out;
}

double stored_bytes(const TensorTable& t) {
  return double(t.bytes()) - (t.head_is_embedding ? 0.0 : double(t.embedding.bytes()));
}

// Weights and the cache of a full context.
double needed_bytes(const Scenario& s) {
  const double cache = kv_bytes(s.model, s.workload.context, s.kv.types);
  return stored_bytes(s.tensors) + cache;
}

// All that could hold them.
double memory_of(const Rig& rig) {
  double sum = rig.unified() ? 0.0 : rig.ram.capacity.value.value;
  for (const GpuPart& gpu : rig.gpus) sum += gpu.memory.value.value;
  return rig.unified() ? std::max(sum, rig.ram.capacity.value.value) : sum;
}

bool is_in_memory(const Scenario& s) {
  return fits(s) && plan_memory(s, resolve_placement(s), s.workload.context).outside_ram.value <= 0;
}

// Shares of GPUs as llama.cpp takes them, in layers: the head counts as one.
std::vector<double> layers_by_gpu(const Scenario& s) {
  std::vector<double> layers(s.rig.gpus.size());
  const Placement p = place(s, s.model.layers + 1);
  for (const LayerPlacement& l : p.layers) ++layers[std::size_t(l.weights)];
  ++layers[std::size_t(p.head)];
  return layers;
}

// All layers on the first GPUs, as many of them as it takes, each filled as far as the others.
bool place_on_fewest_gpus(Scenario& s) {
  s.placement = {};
  s.placement.gpu_layers = s.model.layers + 1;
  const std::size_t gpus = s.rig.gpus.size();
  if (gpus == 1) return needed_bytes(s) < s.rig.usable_vram(0).value && fits(s);
  double vram = 0;
  for (std::size_t used = 1; used <= gpus; ++used) {
    vram += s.rig.usable_vram(used - 1).value;
    if (needed_bytes(s) > vram) continue;
    s.placement.tensor_split.assign(gpus, 0.0);
    for (std::size_t g = 0; g < used; ++g) s.placement.tensor_split[g] = s.rig.usable_vram(g).value;
    s.placement.tensor_split = layers_by_gpu(s);
    if (fits(s)) return true;
  }
  return false;
}

class Search {
 public:
  Search(std::vector<Scenario>& mixes, const SearchSpace& space, const SpeedWanted& wanted)
      : mixes_(mixes), space_(space), wanted_(wanted) {}

  // The first of the choices, in their order, that needs no other memory and is fast enough.
  bool takes_from_one_memory(const std::vector<Choice>& choices) {
    for (const Choice& c : choices) {
      if (is_ruled_out(scenario_with(c))) continue;
      Scenario s = mixes_[c.mix];
      if (!place_in_one_memory(s) || !is_in_memory(s)) continue;
      if (takes(s, c)) return true;
    }
    return false;
  }

  // The fastest of the choices with the fewest bytes, wherever its layers are.
  void take_fastest(const std::vector<Choice>& choices) {
    std::optional<FastEnough> best;
    for (const Choice& c : choices) {
      if (is_ruled_out(scenario_with(c))) continue;
      Scenario s = mixes_[c.mix];
      if (!place_anywhere(s) || !is_in_memory(s)) continue;
      const bool taken = takes(s, c);
      if (!taken || (best && best->tokens_per_s >= out_.tokens_per_s)) continue;
      best = out_;
    }
    if (best) out_ = *std::move(best);
  }

  FastEnough take() { return std::move(out_); }

 private:
  const Scenario& scenario_with(const Choice& c) {
    mixes_[c.mix].kv.types = c.kv_types;
    return mixes_[c.mix];
  }

  bool is_ruled_out(const Scenario& s) {
    if (needed_bytes(s) > memory_of(s.rig)) return true;
    const double most = most_tokens_per_s(s);
    if (most >= std::max(wanted_.min_tokens_per_s, 1e-9)) return false;
    note(most);
    return true;
  }

  void note(double tokens_per_s) {
    if (!out_.candidate) out_.tokens_per_s = std::max(out_.tokens_per_s, tokens_per_s);
  }

  bool place_in_one_memory(Scenario& s) const {
    if (!space_.places_layers || s.rig.gpus.empty()) return place_anywhere(s);
    return place_on_fewest_gpus(s);
  }

  bool place_anywhere(Scenario& s) const {
    if (!space_.places_layers) {
      s.placement.gpu_layers = resolve_placement(s).gpu_layers;
      s.settings.headroom = {};  // who states layers decides what stays free
      return true;
    }
    const RequestCost cost = [](const Scenario& x) { return mean_turn(x).value; };
    const auto placed = place_layers_or_ffns(s, cost);
    if (placed) s.placement = *placed;
    return placed.has_value();
  }

  // Keeps the scenario as the candidate if it is fast enough.
  bool takes(const Scenario& s, const Choice& c) {
    const SerialForecast forecast(s);
    const double speed = 1 / forecast.mean_token().value;
    if (speed < wanted_.min_tokens_per_s) {
      note(speed);
      return false;
    }
    if (wanted_.max_prompt && forecast.prompt() > *wanted_.max_prompt) {
      out_.is_late = !out_.candidate;
      return false;
    }
    Candidate candidate = candidate_of(s);
    candidate.loss = c.loss;
    candidate.seconds = mean_turn(s).value;
    out_.candidate = std::move(candidate);
    out_.tokens_per_s = speed;
    out_.is_late = false;
    return true;
  }

  std::vector<Scenario>& mixes_;
  const SearchSpace& space_;
  const SpeedWanted& wanted_;
  FastEnough out_;
};

// The smallest of them, with the cache that loses least and with the smallest. Layers take long to
// place on many GPUs: there, the smallest alone.
std::vector<Choice> smallest_of(std::vector<Choice> choices, std::size_t gpus) {
  const double least = std::ranges::min_element(choices, {}, &Choice::bytes)->bytes;
  std::erase_if(choices, [&](const Choice& c) { return c.bytes > least; });
  if (gpus > 2) return {choices.back()};
  if (choices.size() > 2) choices.erase(choices.begin() + 1, choices.end() - 1);
  return choices;
}

}  // namespace

double active_elements(const TensorTable& table, const ModelSpec& model) {
  const double expert_share =
      model.moe ? double(model.moe->experts_used) / double(model.moe->experts) : 0.0;
  double sum = double(table.head.elements());
  for (const LayerWeights& l : table.layers)
    sum += double(l.attention.elements() + l.ffn.elements()) +
           expert_share * double(l.experts.elements());
  return sum;
}

double most_tokens_per_s(const Scenario& s) {
  const TokenCount cached = s.workload.depth + s.workload.prompt_tokens;
  const double active = s.tensors.active_bytes(s.model) + kv_bytes(s.model, cached, s.kv.types);
  double vram = 0, vram_rate = 0;
  for (std::size_t g = 0; g < s.rig.gpus.size(); ++g) {
    vram += s.rig.usable_vram(g).value;
    vram_rate = std::max(vram_rate, s.rig.gpus[g].bandwidth.value.value);
  }
  // A rig's own runs may have shown it faster than its figures.
  const Correction* own = s.correction();
  const double faster = own && own->decode ? std::max(1.0, own->decode->factor.value) : 1.0;
  const double ram = faster * s.rig.ram.bandwidth.value.value;
  vram_rate *= faster;
  if (s.rig.gpus.empty()) {
    // Cores may read the weights of a small model from their cache.
    const auto& cache = s.rig.cpu.last_level;
    if (cache && active < 2 * cache->value.value) return std::numeric_limits<double>::infinity();
    return ram / active;
  }
  if (s.rig.unified()) return std::max(vram_rate, ram) / active;
  // Where not all of it fits, the host reads at least the share of experts that a token uses.
  const double least_share =
      s.model.moe ? double(s.model.moe->experts_used) / double(s.model.moe->experts) : 1.0;
  const double on_host =
      std::min(active, least_share * std::max(0.0, stored_bytes(s.tensors) - vram));
  return 1 / (on_host / std::max(ram, 1.0) + (active - on_host) / std::max(vram_rate, ram));
}

FastEnough fastest_within(const Scenario& scenario, const SearchSpace& space,
                          const SpeedWanted& wanted, const QualityTable& quality) {
  auto choices = choices_within(scenario, space, wanted.max_loss, quality);
  FastEnough nothing;
  if (choices.all.empty()) return nothing;
  const std::vector<Choice> small = smallest_of(choices.all, scenario.rig.gpus.size());
  Search search(choices.mixes, space, wanted);
  if (!wanted.spends_speed) choices.all = small;
  if (!search.takes_from_one_memory(choices.all)) search.take_fastest(small);
  FastEnough out = search.take();
  out.smallest = Bytes{small.front().bytes};
  out.smallest_quant = choices.mixes[small.front().mix].quant;
  return out;
}

}  // namespace rigcast::planner
