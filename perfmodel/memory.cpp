#include "perfmodel/memory.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/model/traffic.hpp"
#include "perfmodel/context/companions.hpp"
#include "perfmodel/context/host_copies.hpp"
#include "perfmodel/pressure/available_memory.hpp"
#include "perfmodel/runtimes/runtime_models.hpp"

namespace rigcast {
namespace {

DeviceMemory& device(MemoryPlan& plan, DeviceIndex index) {
  return index == kHost ? plan.devices.back() : plan.devices[std::size_t(index)];
}

// GPUs that share every layer are one part of the rig. `first`: their first one's number.
std::string name_of(const Rig& rig, const GpuPart& gpu, int first) {
  if (!gpu.shared) return fmt::format("GPU {}", first);
  if (rig.gpus.size() == 1) return fmt::format("{} GPUs together", gpu.shared->gpus);
  return fmt::format("GPUs {}-{}", first, first + gpu.shared->gpus - 1);
}

MemoryPlan empty_plan(const MemoryContext& s) {
  MemoryPlan plan;
  int first = 0;
  for (const GpuPart& gpu : s.rig.gpus) {
    DeviceMemory d;
    d.device = name_of(s.rig, gpu, first);
    first += gpu.shared ? gpu.shared->gpus : 1;
    d.tier = Tier::kVram;
    d.capacity = gpu.unified ? s.rig.ram.capacity.value * gpu.gpu_share.value : gpu.memory.value;
    d.overhead = s.rig.vram_reserved.value;
    plan.devices.push_back(d);
  }
  DeviceMemory host;
  host.device = "host";
  host.tier = Tier::kRam;
  host.capacity = s.rig.ram.capacity.value;
  host.overhead = s.rig.ram_reserved.value;
  if (s.memory && s.memory->limit) {
    // What the rig reserves is outside of the process's limit, as far as there is room.
    const Bytes outside = std::max(Bytes{}, host.capacity - *s.memory->limit);
    host.capacity = *s.memory->limit;
    host.overhead = std::max(Bytes{}, host.overhead - outside);
  }
  host.overhead += s.others;
  plan.others = s.others;
  plan.devices.push_back(host);
  return plan;
}

void add_weights(const MemoryContext& s, const Placement& p, MemoryPlan& plan) {
  for (std::size_t l = 0; l < p.layers.size(); ++l) {
    const LayerWeights& w = s.tensors.layers[l];
    const Bytes shared{double(w.rest())};
    const Bytes experts{double(w.ffn_or_experts())};
    device(plan, p.layers[l].weights).weights += shared;
    device(plan, p.layers[l].experts).weights += experts;
  }
  // Blocks that only draft tokens stay in the file: no runtime loads them without being told to
  // speculate (llama.cpp PR 14939, and PR 26296 of 2026-08 for all architectures).
  const Bytes head{double(s.tensors.head.bytes())};
  const Bytes embedding{double(s.tensors.embedding.bytes())};
  // A tied matrix exists once on the host, and once more on the device of the head.
  const Bytes shared = tied_matrix(s);
  const EndMatrices ends = runtime_model(s.runtime).end_matrices(s, p);
  const DeviceIndex home = ends.head_on;
  device(plan, ends.embedding_on).weights += embedding * double(ends.embeddings);
  device(plan, home).weights += home == kHost ? head - shared : head;
  plan.devices.back().weights += host_weight_copies(s, p, home);
  const RepackedWeights repacked = runtime_model(s.runtime).repacked_weights(s, p);
  plan.devices.back().weights += repacked.buffer - repacked.from_file;
  plan.devices.back().repacked += repacked.buffer;
}

// Every further memory node has its own copy of the weights that its cores read.
void mirror_weights(const MemoryContext& s, MemoryPlan& plan) {
  if (s.settings.numa != NumaPolicy::kMirror) return;
  DeviceMemory& host = plan.devices.back();
  host.mirrored = host.weights * (s.rig.cpu.nodes() - 1.0);
  host.weights += host.mirrored;
}

// Biases of the experts of layers on a GPU. Norms and other vectors are small beside them.
Bytes expert_biases_of_gpus(const MemoryContext& s, const Placement& p) {
  double bytes = 0;
  if (!s.model.moe) return {};
  for (const Tensor& t : s.tensors.tensors)
    if (t.dimensions == 2 && t.layer >= 0 && t.layer < s.model.layers &&
        t.name.ends_with("_exps.bias") && p.layers[std::size_t(t.layer)].experts != kHost)
      bytes += double(t.bytes);
  return Bytes{bytes};
}

// Host memory that the process needs because it uses a GPU.
Bytes process_on_gpu(const MemoryContext& s, const Placement& p) {
  const RuntimeProfile::Memory& m = s.runtime.memory;
  Bytes all = m.process_gpu;
  const CublasKernels cublas = runtime_model(s.runtime).cublas_kernels(s, p);
  if (cublas == CublasKernels::kAll) all += m.process_cublas;
  if (cublas == CublasKernels::kFloatResults) all += m.process_cublas_floats;
  if (s.model.recurrent) all += m.process_recurrent;
  if (m.keeps_vectors) all += expert_biases_of_gpus(s, p);
  if (s.reads_file) all += m.process_file;
  const double graphs = runtime_model(s.runtime).recorded_graphs(s, p);
  for (int l = 0; l < s.model.layers; ++l)
    all += (s.model.is_moe_layer(l) ? m.graph_experts_layer : m.graph_layer) * graphs;
  return all;
}

void mark_busy(const Placement& p, std::vector<bool>& busy) {
  for (const LayerPlacement& l : p.layers)
    for (const DeviceIndex d : {l.prefill_on, l.decode_on, l.decode_experts_on, l.weights})
      busy[d == kHost ? busy.size() - 1 : std::size_t(d)] = true;
  if (p.head != kHost) busy[std::size_t(p.head)] = true;
}

// Devices that run something need its context, buffers and staging.
void add_buffers(const MemoryContext& s, const Placement& p, MemoryPlan& plan) {
  std::vector<bool> busy(plan.devices.size(), false);
  mark_busy(p, busy);
  const RuntimeModel& rules = runtime_model(s.runtime);
  if (rules.opens_gpu_always() && !s.rig.gpus.empty()) busy.front() = true;
  for (std::size_t d = 0; d < plan.devices.size(); ++d) {
    const bool is_host = d + 1 == plan.devices.size();
    if (!busy[d] && !is_host) continue;
    const DeviceIndex index = is_host ? kHost : DeviceIndex(d);
    plan.devices[d].activations = rules.compute_buffers(s, p, index, busy[d]);
  }
  // These have no compute buffer of the model's.
  if (s.draft) mark_busy(placement_of_draft(s), busy);
  if (s.projector && projector_device(s) != kHost) busy.front() = true;
  for (std::size_t d = 0; d + 1 < plan.devices.size(); ++d) {
    if (!busy[d]) continue;
    plan.devices[d].overhead += s.rig.gpu_context.value;
    plan.devices.back().staging += s.runtime.memory.staging;
  }
  plan.devices.back().staging += s.runtime.memory.process;
  const bool on_gpu = std::find(busy.begin(), busy.end() - 1, true) != busy.end() - 1;
  if (!on_gpu) return;
  Bytes& staging = plan.devices.back().staging;
  staging += process_on_gpu(s, p);
  staging = std::max(Bytes{}, staging - rules.untouched_buffer_bytes(s, p));
}

// llama-server loads the draft model as a second one, with a context of the same length.
void add_draft(const MemoryContext& s, const Batch& batch, MemoryPlan& plan) {
  const MemoryContext draft(s, *s.draft);
  const Placement p = placement_of_draft(s);
  const RuntimeModel& rules = runtime_model(s.runtime);
  add_weights(draft, p, plan);
  std::vector<bool> busy(plan.devices.size(), false);
  mark_busy(p, busy);
  for (std::size_t d = 0; d < busy.size(); ++d) {
    const DeviceIndex index = d + 1 == busy.size() ? kHost : DeviceIndex(d);
    plan.devices[d].activations += rules.compute_buffers(draft, p, index, busy[d]);
  }
  rules.add_cache(draft, p, batch, plan);
}

void spill(const MemoryContext& s, MemoryPlan& plan) {
  plan.spilled.resize(plan.devices.size() - 1);
  for (std::size_t g = 0; g + 1 < plan.devices.size(); ++g) {
    DeviceMemory& gpu = plan.devices[g];
    const Bytes over = gpu.needed() - gpu.capacity;
    if (over.value <= 0 || s.rig.gpus[g].unified) continue;
    // The driver moves the latest allocations first: the cache, then weights.
    const Bytes from_kv = std::min(over, gpu.kv);
    const Bytes from_weights = std::min(over - from_kv, gpu.weights);
    plan.spilled[g] = {gpu.kv.value > 0 ? from_kv / gpu.kv : 0.0,
                       gpu.weights.value > 0 ? from_weights / gpu.weights : 0.0};
    gpu.kv -= from_kv;
    gpu.weights -= from_weights;
    plan.devices.back().staging += from_kv + from_weights;
  }
}

// llama-server allocates states as they come: its limit, stated or not, is of what all else leaves.
bool takes_what_is_left(const MemoryContext& s) { return s.scheduler->layout == KvLayout::kSlots; }

// A server's cache in RAM, as far as there is room. Blocks are allocated when the server starts.
// `states`: only those of slots, else only blocks.
void add_ram_cache(const MemoryContext& s, bool states, MemoryPlan& plan) {
  if (!s.has_load || !s.scheduler || !s.runtime.server || !s.scheduler->prefix_cache) return;
  if (takes_what_is_left(s) != states) return;
  DeviceMemory& host = plan.devices.back();
  plan.ram_cache = std::clamp(s.scheduler->ram_cache, Bytes{}, std::max(Bytes{}, host.free()));
  host.kv += plan.ram_cache;
  host.page_cache = std::min(host.page_cache, std::max(Bytes{}, host.free()));
}

// A mapping may be larger than RAM.
void leave_on_disk(const MemoryContext& s, MemoryPlan& plan) {
  DeviceMemory& host = plan.devices.back();
  if (!weights_may_leave(s)) return;
  if (host.mirrored.value > 0) return;  // copies are no pages of the file
  const bool has_projector = s.projector && projector_device(s) == kHost;
  const Bytes pages =
      host.weights - host.repacked - host.mirrored - (has_projector ? s.projector->bytes : Bytes{});
  plan.outside_ram = std::clamp(-host.free(), Bytes{}, pages);
  host.weights -= plan.outside_ram;
}

// A CPU's cache and copies of weights may be swapped. Beside a GPU that copies from them, they are
// pinned. A control group whose swappiness is 0 is never swapped while there are pages of files, as
// those of the program.
void swap_out(const MemoryContext& s, MemoryPlan& plan) {
  if (!s.memory || !s.rig.gpus.empty()) return;
  DeviceMemory& host = plan.devices.back();
  const Bytes mapped = mapped_weights(s, plan);
  if (s.memory->swappiness == 0 && s.memory->limit && mapped.value > 0) return;
  Bytes left = swap_with_room(s);
  const auto out_of = [&](Bytes& held, Bytes evictable) {
    const Bytes out = std::clamp(-host.free(), Bytes{}, std::min(left, evictable));
    held -= out;
    left -= out;
    return out;
  };
  if (!s.memory->locks_kv()) plan.swapped = out_of(host.kv, host.kv);
  if (!s.memory->locks_weights())
    plan.swapped_weights =
        out_of(host.weights, std::max(Bytes{}, host.weights + plan.outside_ram - mapped));
}

void add_page_cache(const MemoryContext& s, MemoryPlan& plan) {
  DeviceMemory& host = plan.devices.back();
  const Bytes file = file_bytes(s);
  const Bytes mapped = mapped_weights(s, plan);
  host.page_cache = std::clamp(file - mapped, Bytes{0}, std::max(Bytes{0}, host.free()));
}

}  // namespace

MemoryPlan plan_memory(const MemoryContext& s, const Placement& p, const Batch& batch) {
  const RuntimeModel& rules = runtime_model(s.runtime);
  MemoryPlan plan = empty_plan(s);
  add_weights(s, p, plan);
  mirror_weights(s, plan);
  add_buffers(s, p, plan);
  rules.add_weight_buffers(s, p, plan);
  rules.add_cache(s, p, batch, plan);
  if (s.draft) add_draft(s, batch, plan);
  if (s.projector) device(plan, projector_device(s)).weights += s.projector->bytes;
  if (s.kv.policy == KvPolicy::kSpill) spill(s, plan);
  if (s.rig.unified()) {
    // Unified memory is one pool: what the GPU holds is not available to the host.
    DeviceMemory& host = plan.devices.back();
    host.capacity = std::max(Bytes{0}, host.capacity - plan.devices.front().needed());
  }
  add_ram_cache(s, false, plan);
  leave_on_disk(s, plan);
  swap_out(s, plan);
  add_page_cache(s, plan);
  add_ram_cache(s, true, plan);
  return plan;
}

bool weights_may_leave(const StepContext& s) {
  const RuntimeProfile::Memory& m = s.runtime.memory;
  if (!s.settings.mmap || (s.memory && s.memory->locks_weights())) return false;
  return m.pages_in || (s.memory && m.maps_file);
}

Bytes mapped_weights(const StepContext& s, const MemoryPlan& plan) {
  if (!s.runtime.memory.maps_file || !s.settings.mmap) return {};
  const bool in_place = computes_on_mapped_pages(s);
  const Bytes all = plan.devices.back().weights + plan.swapped_weights +
                    (in_place ? plan.devices.front().weights : Bytes{});
  const bool has_projector = s.projector && (in_place || projector_device(s) == kHost);
  const Bytes buffers = plan.devices.back().repacked + plan.devices.back().mirrored;
  return plan.outside_ram +
         std::max(Bytes{}, all - buffers - (has_projector ? s.projector->bytes : Bytes{}));
}

Bytes held_of_file(const StepContext& s, const MemoryPlan& plan) {
  const DeviceMemory& host = plan.devices.back();
  const Bytes mapped = mapped_weights(s, plan) - plan.outside_ram;
  const bool fills_later =
      s.runtime.server && s.runtime.server->scheduler.layout == KvLayout::kSlots;
  if (!fills_later || plan.ram_cache.value <= 0) return mapped + host.page_cache;
  const Bytes room = std::max(Bytes{}, host.free() + plan.ram_cache);
  return mapped + std::clamp(file_bytes(s) - mapped - plan.outside_ram, Bytes{}, room);
}

MemoryPlan plan_memory(const MemoryContext& s, const Placement& p, TokenCount cached) {
  return plan_memory(s, p, s.sequences_of(cached));
}

}  // namespace rigcast
