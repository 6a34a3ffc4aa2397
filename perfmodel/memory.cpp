#include "perfmodel/memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/model/traffic.hpp"
#include "perfmodel/runtimes/engine_plan.hpp"

namespace rigcast {
namespace {

DeviceMemory& device(MemoryPlan& plan, DeviceIndex index) {
  return index == kHost ? plan.devices.back() : plan.devices[std::size_t(index)];
}

MemoryPlan empty_plan(const Scenario& s) {
  MemoryPlan plan;
  for (std::size_t g = 0; g < s.rig.gpus.size(); ++g) {
    DeviceMemory d;
    d.device = fmt::format("GPU {}", g);
    d.tier = Tier::kVram;
    const GpuPart& gpu = s.rig.gpus[g];
    d.capacity = gpu.unified ? s.rig.ram.capacity.value * gpu.gpu_share.value : gpu.memory.value;
    d.overhead = s.rig.vram_reserved.value;
    plan.devices.push_back(d);
  }
  DeviceMemory host;
  host.device = "host";
  host.tier = Tier::kRam;
  host.capacity = s.rig.ram.capacity.value;
  host.overhead = s.rig.ram_reserved.value;
  plan.devices.push_back(host);
  return plan;
}

void add_weights(const Scenario& s, const Placement& p, MemoryPlan& plan) {
  const bool cpu_decode = s.placement.decode_device == DecodeDevice::kCpu && !s.rig.unified();
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    const LayerWeights& w = s.tensors.layers[l];
    const Bytes shared{double(w.together())};
    const Bytes experts{double(w.apart())};
    device(plan, p.layers[l].weights).weights += shared;
    device(plan, p.layers[l].experts).weights += experts;
    // Decoding on the CPU needs a copy there of what prefill has on the GPU.
    if (cpu_decode && p.layers[l].weights != kHost) plan.devices.back().weights += shared;
    if (cpu_decode && p.layers[l].experts != kHost) plan.devices.back().weights += experts;
  }
  // Blocks for multi-token prediction follow the last layer.
  device(plan, p.layers.back().weights).weights += Bytes{double(s.tensors.speculation.bytes())};
  const Bytes head{double(s.tensors.head.bytes())};
  const Bytes embedding{double(s.tensors.embedding.bytes())};
  // A tied matrix is there once on the host, and once more where the head is.
  const Bytes shared{s.tensors.head_is_embedding ? double(s.tensors.tensors.front().bytes) : 0.0};
  const bool own = is_own_engine(s.runtime) && !s.rig.unified();
  const DeviceIndex home = own ? p.head_on : p.head;  // its host has the head of prompts, too
  plan.devices.back().weights += embedding * double(own ? engine_embeddings(s, p) : 1);
  device(plan, home).weights += home == kHost ? head - shared : head;
  if (cpu_decode && home != kHost) plan.devices.back().weights += head - shared;
}

// Of the tensors that LayerWeights::apart counts.
bool is_apart(const ModelSpec& model, const Tensor& t) {
  switch (t.role) {
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
    case TensorRole::kExpertDown: return true;
    case TensorRole::kFfnGate:
    case TensorRole::kFfnUp:
    case TensorRole::kFfnDown: return !model.is_moe_layer(t.layer);
    default: return false;
  }
}

// Streamed weights pass through buffers in VRAM: one matrix at a time, or whole layers ahead.
void add_weight_ring(const Scenario& s, const Placement& p, MemoryPlan& plan) {
  if (s.rig.unified()) return;
  const bool ahead = s.runtime.prefill.overlap || s.runtime.decode.prefetch_depth > 0;
  const int depth = std::max(2, s.runtime.decode.prefetch_depth);
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    const auto here = [&](DeviceIndex d) { return d == DeviceIndex(g); };
    double layer = 0;
    double matrix = 0;
    for (const Tensor& t : s.tensors.tensors) {
      if (t.layer < 0 || t.layer >= s.model.layers) continue;
      const LayerPlacement& at = p.layers[std::size_t(t.layer)];
      const bool expert = is_apart(s.model, t);
      const bool in_prefill =
          here(at.prefill_on) && s.runtime.prefill.streams && s.settings.op_offload;
      const bool in_decode = here(expert ? at.decode_experts_on : at.decode_on);
      if ((expert ? at.experts : at.weights) != kHost || !(in_prefill || in_decode)) continue;
      matrix = std::max(matrix, double(t.bytes));
      const LayerWeights& w = s.tensors.layers[std::size_t(t.layer)];
      const double shared = at.weights == kHost ? double(w.together()) : 0;
      layer = std::max(layer, shared + (at.experts == kHost ? double(w.apart()) : 0));
    }
    plan.devices[g].staging += Bytes{ahead ? layer * depth : matrix};
  }
}

// What the process takes of the host for a GPU's sake.
Bytes process_on_gpu(const Scenario& s, const Placement& p) {
  const RuntimeProfile::Memory& m = s.runtime.memory;
  Bytes all = m.process_gpu;
  if (engine_loads_cublas(s, p)) all += s.model.moe ? m.process_experts : m.process_cublas;
  if (s.model_file || s.workload.start != Start::kResident) all += m.process_file;
  return all;
}

// Devices that run something need its context, buffers and staging.
void add_buffers(const Scenario& s, const Placement& p, MemoryPlan& plan) {
  std::vector<bool> busy(plan.devices.size(), false);
  for (const LayerPlacement& l : p.layers)
    for (const DeviceIndex d : {l.prefill_on, l.decode_on, l.decode_experts_on, l.weights})
      busy[d == kHost ? busy.size() - 1 : std::size_t(d)] = true;
  if (p.head != kHost) busy[std::size_t(p.head)] = true;
  if (is_own_engine(s.runtime) && !s.rig.gpus.empty()) busy.front() = true;  // of no layers, too
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const bool is_host = d + 1 == plan.devices.size();
    if (!busy[d] && !is_host) continue;
    const DeviceIndex index = is_host ? kHost : DeviceIndex(d);
    if (is_own_engine(s.runtime))
      plan.devices[d].activations = engine_buffers(s, p, index);
    else if (busy[d] || p.head == index)
      plan.devices[d].activations = compute_buffer(s, p.head == index);
    if (is_host) continue;
    plan.devices[d].overhead += s.rig.gpu_context.value;
    plan.devices.back().staging += s.runtime.memory.staging;
  }
  plan.devices.back().staging += s.runtime.memory.process;
  const bool on_gpu = std::find(busy.begin(), busy.end() - 1, true) != busy.end() - 1;
  if (!on_gpu) return;
  Bytes& staging = plan.devices.back().staging;
  staging += process_on_gpu(s, p);
  // Buffers of the engine's that nothing touches are counted as its own.
  if (is_own_engine(s.runtime)) staging = std::max(Bytes{}, staging - engine_untouched(s, p));
}

// KV bytes on each device when `cells` tokens are held.
void add_kv(const Scenario& s, const Placement& p, TokenCount cells, KvTypes types, bool on_host,
            MemoryPlan& plan) {
  for (int l = 0; l < s.model.layers; ++l) {
    const Bytes bytes{kv_bytes(s.model, l, cells, types)};
    device(plan, on_host ? kHost : p.layers[std::size_t(l)].kv).kv += bytes;
  }
}

double largest_kv(const Scenario& s, TokenCount cells) {
  double largest = 0;
  for (int l = 0; l < s.model.layers; ++l)
    largest = std::max(largest, kv_bytes(s.model, l, cells, s.kv.types));
  return largest;
}

// Room for `layers` layers' KV on every GPU for which `needs` holds.
template <class Needs>
void add_kv_room(const Scenario& s, TokenCount cells, int layers, Needs needs, MemoryPlan& plan) {
  const Bytes room{largest_kv(s, cells) * layers};
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g)
    if (needs(DeviceIndex(g))) plan.devices[g].staging += room;
}

int kv_ring_layers(const Scenario& s) {
  return std::max(1, s.kv.prefetch ? s.runtime.decode.prefetch_depth : 1);
}

// A ring of staged layers wherever attention on a GPU reads KV that lives in RAM.
void add_kv_ring(const Scenario& s, const Placement& p, TokenCount cells, MemoryPlan& plan) {
  if (s.rig.unified()) return;
  const auto reads_ram = [&](DeviceIndex g) {
    return std::ranges::any_of(p.layers, [&](const LayerPlacement& l) {
      const bool in_prefill = l.prefill_on == g && !s.runtime.prefill.cpu_attention;
      return l.kv == kHost && (in_prefill || l.decode_cache_on == g);
    });
  };
  add_kv_room(s, cells, kv_ring_layers(s), reads_ram, plan);
}

// The layer keeps every token: no window, no fixed state alone.
bool grows(const ModelSpec& model, int layer) {
  return model.has_kv(layer) && model.sees_all_tokens(layer);
}

// Tokens whose KV every GPU can hold below the threshold, in whole blocks.
TokenCount resident_capacity(const Scenario& s, const Placement& p, const MemoryPlan& plan) {
  double fewest = 1e18;
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    double per_token = 0;
    double windows = 0;  // layers that stop growing hold their windows from the start
    for (int l = 0; l < s.model.layers; ++l) {
      if (p.layers[std::size_t(l)].kv != DeviceIndex(g)) continue;
      if (grows(s.model, l)) per_token += kv_bytes_per_token(s.model, l, s.kv.types);
      windows += kv_bytes(s.model, l, grows(s.model, l) ? 0 : s.workload.context, s.kv.types);
    }
    if (per_token <= 0) continue;
    const Bytes usable = plan.devices[g].capacity - s.rig.vram_reserved.value;
    const Bytes taken = plan.devices[g].needed() - s.rig.vram_reserved.value + Bytes{windows};
    const double room = usable.value * s.kv.threshold - taken.value;
    fewest = std::min(fewest, std::max(0.0, room / per_token));
  }
  const auto tokens = TokenCount(std::min(fewest, 1e12));
  return tokens / s.kv.block_tokens * s.kv.block_tokens;
}

void add_paged_kv(const Scenario& s, const Placement& p, TokenCount cached, MemoryPlan& plan) {
  const TokenCount capacity = resident_capacity(s, p, plan);
  plan.resident_tokens = capacity;
  const TokenCount held = std::min(cached, capacity);
  add_kv(s, p, std::max(held, std::min(cached, s.kv.hot_tokens)), s.kv.types, false, plan);
  const TokenCount cold = read_cells(cached - held, s.kv.block_tokens);
  for (int l = 0; l < s.model.layers; ++l)
    if (grows(s.model, l))
      plan.devices.back().kv +=
          Bytes{double(cold) * kv_bytes_per_token(s.model, l, s.kv.cold_types())};
}

// The cache by the rules of the runtime, and what it needs on its way.
void add_cache(const Scenario& s, const Placement& p, TokenCount cached, MemoryPlan& plan) {
  const bool grows = s.runtime.memory.kv == KvAllocation::kGrownByCopy;
  const TokenCount limit = read_cells(s.workload.context, s.runtime.memory.kv_padding);
  const TokenCount cells = grows ? cached : limit;
  const auto has_weights = [&](DeviceIndex g) {
    return plan.devices[std::size_t(g)].weights.value > 0;
  };
  if (s.kv.policy == KvPolicy::kPaged || s.kv.policy == KvPolicy::kCombined) {
    add_kv_room(s, s.kv.block_tokens * 8, kv_ring_layers(s), has_weights, plan);
    add_paged_kv(s, p, cached, plan);
  } else {
    const bool leaves = s.kv.policy == KvPolicy::kStream;
    add_kv(s, p, cells, leaves ? s.kv.cold_types() : s.kv.types, leaves, plan);
    add_kv_ring(s, p, cells, plan);
  }
  // While the longer cache is written, the shorter one still exists: one layer at a time.
  if (grows && s.kv.policy == KvPolicy::kVram) add_kv_room(s, cells, 1, has_weights, plan);
}

void spill(const Scenario& s, MemoryPlan& plan) {
  plan.spilled.resize(plan.devices.size() - 1);
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    DeviceMemory& gpu = plan.devices[g];
    const Bytes over = gpu.needed() - gpu.capacity;
    if (over.value <= 0 || s.rig.gpus[g].unified) continue;
    // The driver moves what was allocated last: the cache first, then weights.
    const Bytes from_kv = std::min(over, gpu.kv);
    const Bytes from_weights = std::min(over - from_kv, gpu.weights);
    plan.spilled[g] = {gpu.kv.value > 0 ? from_kv / gpu.kv : 0.0,
                       gpu.weights.value > 0 ? from_weights / gpu.weights : 0.0};
    gpu.kv -= from_kv;
    gpu.weights -= from_weights;
    plan.devices.back().staging += from_kv + from_weights;
  }
}

void add_page_cache(const Scenario& s, MemoryPlan& plan) {
  DeviceMemory& host = plan.devices.back();
  const Bytes file{double(s.tensors.bytes())};
  const Bytes mapped = s.runtime.memory.maps_file ? host.weights : Bytes{0};
  host.page_cache = std::clamp(file - mapped, Bytes{0}, std::max(Bytes{0}, host.free()));
}

}  // namespace

Bytes compute_buffer(const Scenario& s, bool holds_head) {
  const double rows = double(std::clamp<TokenCount>(s.workload.context, 1, s.settings.ubatch));
  const double hidden = rows * hidden_bytes(s.model).value;
  const double context = double(s.workload.context);
  double logits_rows = 1;
  if (s.runtime.memory.logits == LogitsRows::kUbatch) logits_rows = rows;
  if (s.runtime.memory.logits == LogitsRows::kPrompt)
    logits_rows = double(s.workload.prompt_tokens);
  // A graph allocator reuses one buffer for all stages, so the largest stage counts.
  const double mask = rows * context * (s.settings.flash_attention ? 2.0 : 4.0);
  const double scores =
      s.settings.flash_attention ? 0.0 : double(s.model.heads) * context * rows * 4.0;
  const double qkv =
      rows * 4.0 * double(s.model.heads + 2 * s.model.kv_heads) * double(s.model.head_dim);
  const double attention = scores + qkv + mask;
  double inner = double(s.model.ffn);
  if (s.model.moe)
    inner = std::max(inner, double(s.model.moe->experts_used * s.model.moe->expert_ffn +
                                   s.model.moe->shared_ffn));
  const double ffn = rows * 4.0 * inner * (s.model.gated_ffn ? 2.0 : 1.0) + mask;
  const double logits = holds_head ? logits_rows * logits_bytes(s.model).value : 0.0;
  return {hidden + std::max({attention, ffn, logits})};
}

MemoryPlan plan_memory(const Scenario& s, const Placement& p, TokenCount cached) {
  MemoryPlan plan = empty_plan(s);
  add_weights(s, p, plan);
  add_buffers(s, p, plan);
  if (is_own_engine(s.runtime)) {
    add_engine_streams(s, p, plan);
    add_engine_kv(s, p, cached, plan);
  } else {
    add_weight_ring(s, p, plan);
    add_cache(s, p, cached, plan);
  }
  if (s.kv.policy == KvPolicy::kSpill) spill(s, plan);
  if (s.rig.unified()) {
    // One pool: what the GPU holds is not there for the host.
    DeviceMemory& host = plan.devices.back();
    host.capacity = std::max(Bytes{0}, host.capacity - plan.devices.front().needed());
  }
  add_page_cache(s, plan);
  return plan;
}

Placement resolve_placement(const Scenario& s) {
  const int most = s.model.layers + 1;
  if (s.placement.gpu_layers) return place(s, *s.placement.gpu_layers);
  if (s.rig.gpus.empty()) return place(s, 0);
  // Fewer layers on the GPUs never need more of their memory, so the first that fit are the most.
  for (int layers = most; layers > 0; --layers) {
    Placement p = place(s, layers);
    MemoryPlan plan = plan_memory(s, p, s.workload.last_position() + 1);
    const bool fits = std::all_of(plan.devices.begin(), plan.devices.end() - 1,
                                  [](const DeviceMemory& d) { return d.free().value >= 0; });
    const bool hot_fits = !plan.resident_tokens || *plan.resident_tokens >= s.kv.hot_tokens;
    if (fits && hot_fits) return p;
  }
  return place(s, 0);
}

TokenCount longest_context(const Scenario& given, const Placement& placement, TokenCount most) {
  Scenario s = given;
  const auto fits = [&](TokenCount context) {
    s.workload.context = context;
    return plan_memory(s, placement, context).fits();
  };
  if (fits(most)) return most;
  TokenCount good = 0;
  for (TokenCount bad = most; bad - good > 1;) {
    const TokenCount middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  return good;
}

}  // namespace rigcast
