#include "planner/layer_problem.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "perfmodel/cost/operation.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/pressure/available_memory.hpp"
#include "perfmodel/pressure/paging_time.hpp"
#include "perfmodel/request_batches.hpp"
#include "perfmodel/step.hpp"

namespace rigcast::planner {
namespace {

constexpr double kUnlimited = std::numeric_limits<double>::infinity();

PlacementSettings all_at(const StepContext& s, const LayerLocation& at) {
  PlacementSettings p;
  p.decode_device = s.placement.decode_device;
  p.gpu_layers = 0;
  if (at.device == kHost) return p;
  p.gpu_layers = s.model.layers + (at.head_on_host ? 0 : 1);
  p.tensor_split.assign(s.rig.gpus.size(), 0.0);
  p.tensor_split[std::size_t(at.device)] = 1.0;
  if (at.ffn_in_ram) (s.model.moe ? p.cpu_moe_layers : p.cpu_ffn_layers) = s.model.layers;
  return p;
}

std::vector<LayerLocation> locations_of(const StepContext& s, bool splits_layers) {
  const bool may_split = s.model.moe || s.runtime.ffn_in_ram;
  std::vector<LayerLocation> all{{}};
  for (std::size_t g = 0; g < s.rig.gpus.size(); ++g)
    for (const bool ffn_in_ram : {true, false})
      for (const bool head_on_host : {true, false})
        if ((may_split && splits_layers) || !ffn_in_ram)
          all.push_back({DeviceIndex(g), ffn_in_ram, head_on_host});
  return all;
}

// `head_is_first`: the head is on a GPU as soon as a layer is.
bool may_follow(const LayerLocation& from, const LayerLocation& to, bool head_is_first) {
  if (to.device < from.device) return false;
  if (from.device == kHost) return to.device == kHost || to.head_on_host != head_is_first;
  return from.head_on_host == to.head_on_host && (from.ffn_in_ram || !to.ffn_in_ram);
}

// True if the change skips an identical GPU: of identical GPUs, the first ones have layers.
bool skips_identical_gpu(const Rig& rig, DeviceIndex from, DeviceIndex to) {
  return from < to - 1 && same_as_previous_gpu(rig, to);
}

// The scenario with all layers at one place.
class UniformPlacement {
 public:
  UniformPlacement(const Scenario& given, const LayerLocation& at) : s_(given) {
    // The number of GPU layers says where the head is.
    s_.runtime.head_first_since.reset();
    s_.placement = all_at(given, at);
    placement_ = place(s_, *s_.placement.gpu_layers);
    memory_ = plan_memory(s_, placement_, s_.workload.context);
    outside_ram_ = memory_.outside_ram;
    if (may_read_from_disk(s_)) memory_.outside_ram = std::max(outside_ram_, Bytes{1});
    share_time();
    share_memory();
  }

  std::vector<double> seconds;             // [layer]
  double end_seconds = 0;                  // head and sampling
  std::vector<std::vector<double>> bytes;  // [memory][layer]
  std::vector<double> rest;                // [memory]: all but the layers

 private:
  void add(const Step& step, double times) {
    for (const StepOp& op : step.ops) {
      const Seconds time = time_alone(s_, op) + handoff_of(s_, op).wait;
      (op.layer >= 0 ? seconds[std::size_t(op.layer)] : end_seconds) += times * time.value;
    }
    end_seconds += times * step.sample.value;
    add_page_in(times * page_in_time(s_, step.page_in).value);
  }

  // What is read from the disk, by the bytes that each layer has in RAM.
  void add_page_in(double all_seconds) {
    if (all_seconds <= 0) return;
    std::vector<double> read;
    for (std::size_t l = 0; l < seconds.size(); ++l) read.push_back(bytes_of(kHost, l));
    const double end = placement_.head == kHost ? double(s_.tensors.head.bytes()) : 0.0;
    const double all = std::accumulate(read.begin(), read.end(), end);
    for (std::size_t l = 0; l < seconds.size(); ++l) seconds[l] += all_seconds * read[l] / all;
    end_seconds += all_seconds * end / all;
  }

  double bytes_of(DeviceIndex device, std::size_t layer) const {
    const LayerPlacement& p = placement_.layers[layer];
    const LayerWeights& w = s_.tensors.layers[layer];
    return (p.weights == device ? double(w.rest()) : 0.0) +
           (p.experts == device ? double(w.ffn_or_experts()) : 0.0);
  }

  void share_time() {
    seconds.assign(std::size_t(s_.model.layers), 0.0);
    const Workload& w = s_.workload;
    const TokenCount ubatch = std::min<TokenCount>(s_.settings.ubatch, w.prompt_tokens);
    const TokenCount middle = w.depth + (w.prompt_tokens - ubatch) / 2;
    const RequestBatches batches(s_, w);
    add(prefill_step(s_, placement_, memory_, batches.prompt_part(middle, ubatch), false),
        double(w.prompt_tokens) / double(ubatch));
    const TokenCount mean = w.depth + w.prompt_tokens + w.output_tokens / 2;
    if (w.output_tokens > 1)
      add(decode_step(s_, placement_, memory_, batches.token(mean)), double(w.output_tokens - 1));
  }

  double kv_share(int layer) const {
    return kv_bytes(s_.model, layer, s_.workload.context, s_.kv.types);
  }

  // Buffers of a GPU that computes host layers in prompts; it has none until a layer of its own is
  // placed there.
  double offload_staging(std::size_t memory, const DeviceMemory& alone) const {
    if (*s_.placement.gpu_layers > 0 || alone.tier != Tier::kVram) return 0;
    const MemoryPlan beside = plan_memory(s_, place(s_, 1), s_.workload.context);
    return std::max(0.0, (beside.devices[memory].staging - alone.staging).value);
  }

  void share_memory() {
    const MemoryPlan plan =
        evicts(s_.kv.policy) ? memory_at_context_limit(s_, placement_) : memory_;
    double all_kv = 0;
    for (int l = 0; l < s_.model.layers; ++l) all_kv += kv_share(l);
    for (std::size_t m = 0; m < plan.devices.size(); ++m) {
      const DeviceMemory& d = plan.devices[m];
      const DeviceIndex device = m + 1 < plan.devices.size() ? DeviceIndex(m) : kHost;
      std::vector<double> of(std::size_t(s_.model.layers), 0.0);
      double all = 0;
      for (std::size_t l = 0; l < of.size(); ++l) {
        of[l] += bytes_of(device, l);
        if (all_kv > 0) of[l] += d.kv.value * kv_share(int(l)) / all_kv;
        all += of[l];
      }
      const double on_disk = device == kHost ? outside_ram_.value : 0.0;
      rest.push_back(d.needed().value + on_disk + offload_staging(m, d) - all);
      bytes.push_back(std::move(of));
    }
  }

  Scenario s_;
  Placement placement_;
  MemoryPlan memory_;
  Bytes outside_ram_;
};

class Builder {
 public:
  Builder(const Scenario& s, bool splits_layers) : s_(s) {
    out_.locations = locations_of(s, splits_layers);
    for (const LayerLocation& at : out_.locations) uniform_.emplace_back(s, at);
    idle_ = uniform_.front().rest;
    for (const UniformPlacement& w : uniform_)
      for (std::size_t m = 0; m < idle_.size(); ++m) idle_[m] = std::min(idle_[m], w.rest[m]);
    AssignmentProblem& p = out_.problem;
    p.layers = s.model.layers;
    for (std::size_t i = 0; i < uniform_.size(); ++i) p.locations.push_back(location(i));
    remove_host_part();
    const MemoryPlan plan = plan_memory(s, place(s, 0), 1);
    for (std::size_t m = 0; m < idle_.size(); ++m) {
      const bool is_gpu = m + 1 < idle_.size();
      const DeviceMemory& d = plan.devices[m];
      const double usable = is_gpu && evicts(s.kv.policy)      ? usable_when_paged(s, d)
                            : !is_gpu && may_read_from_disk(s) ? kUnlimited
                                                               : d.capacity.value;
      p.capacity.push_back(usable - idle_[m] - (is_gpu ? s.settings.headroom.value : 0.0));
    }
    connect();
  }

  LayerProblem take() && { return std::move(out_); }

 private:
  // [memory]: bytes of a model at one place without its layers and its head. The host's part of the
  // head is counted on any GPU.
  std::vector<double> headless(std::size_t i) const {
    const auto of_device = [&](bool head_on_host) -> const UniformPlacement* {
      const LayerLocation& at = out_.locations[i];
      const DeviceIndex device = at.device == kHost && uniform_.size() > 1 ? 0 : at.device;
      for (std::size_t k = 0; k < uniform_.size(); ++k)
        if (out_.locations[k].device == device && out_.locations[k].head_on_host == head_on_host &&
            (at.device == kHost || out_.locations[k].ffn_in_ram == at.ffn_in_ram))
          return &uniform_[k];
      return nullptr;
    };
    std::vector<double> rest = uniform_[i].rest;
    const UniformPlacement *on_host = of_device(true), *on_gpu = of_device(false);
    if (!on_host || !on_gpu) return rest;
    for (std::size_t m = 0; m < rest.size(); ++m) {
      const double head = out_.locations[i].head_on_host ? on_host->rest[m] - on_gpu->rest[m]
                                                         : on_gpu->rest[m] - on_host->rest[m];
      rest[m] -= std::max(0.0, head);
    }
    return rest;
  }

  Location location(std::size_t i) const {
    const UniformPlacement& whole = uniform_[i];
    const std::vector<double> rest = headless(i);
    Location out{out_.locations[i].device, whole.seconds, whole.bytes, {}, whole.end_seconds, {}};
    for (std::size_t m = 0; m < idle_.size(); ++m) {
      out.own_bytes.push_back(std::max(0.0, rest[m] - idle_[m]));
      out.end_bytes.push_back(whole.rest[m] - rest[m]);
    }
    return out;
  }

  // A GPU that computes prompts of host layers has buffers for them; most of these also serve
  // layers of its own.
  void remove_host_part() {
    auto& locations = out_.problem.locations;
    for (std::size_t m = 0; m + 1 < idle_.size(); ++m) {
      double own = kForbidden;
      for (std::size_t i = 1; i < locations.size(); ++i)
        if (out_.locations[i].device == DeviceIndex(m))
          own = std::min(own, locations[i].own_bytes[m]);
      locations.front().own_bytes[m] = std::max(0.0, locations.front().own_bytes[m] - own);
    }
  }

  void connect() {
    const auto& at = out_.locations;
    auto& change = out_.problem.change;
    change.assign(at.size() + 1, std::vector<double>(at.size(), 0.0));
    const double steps = std::ceil(double(s_.workload.prompt_tokens) / double(s_.settings.ubatch)) +
                         double(s_.workload.output_tokens);
    const bool head_first = head_is_first(s_);
    for (std::size_t to = 0; to < at.size(); ++to) {
      const bool leaves_head = head_first && at[to].device != kHost && at[to].head_on_host;
      if (leaves_head || skips_identical_gpu(s_.rig, kHost, at[to].device))
        change[0][to] = kForbidden;
    }
    for (std::size_t from = 0; from < at.size(); ++from)
      for (std::size_t to = 0; to < at.size(); ++to) {
        const Seconds once = crossing_time(s_.runtime, at[from].device, at[to].device);
        const bool passes = skips_identical_gpu(s_.rig, at[from].device, at[to].device);
        change[from + 1][to] = !may_follow(at[from], at[to], head_first) || passes ? kForbidden
                               : at[from].device == at[to].device                  ? 0.0
                                                                  : steps * once.value;
      }
  }

  const Scenario& s_;
  LayerProblem out_;
  std::vector<UniformPlacement> uniform_;
  std::vector<double> idle_;  // [memory]: bytes in use without any layer
};

}  // namespace

bool same_as_previous_gpu(const Rig& rig, DeviceIndex d) {
  if (d <= 0) return false;
  const auto at = std::size_t(d);
  const HostLink &own = rig.links[at], &before = rig.links[at - 1];
  return rig.gpus[at].id == rig.gpus[at - 1].id && own.h2d.value == before.h2d.value &&
         rig.usable_vram(at).value == rig.usable_vram(at - 1).value;
}

MemoryPlan memory_at_context_limit(const Scenario& given, const Placement& placement) {
  Scenario s = given;
  s.kv.threshold = 0;
  return plan_memory(s, placement, s.workload.context);
}

double usable_when_paged(const StepContext& s, const DeviceMemory& gpu) {
  const double others = s.rig.vram_reserved.value.value;
  return others + s.kv.threshold * (gpu.capacity.value - others);
}

LayerProblem layer_problem(const Scenario& scenario, bool splits_layers, HostWeights host_weights) {
  if (host_weights == HostWeights::kInRamOrDisk) return Builder(scenario, splits_layers).take();
  return Builder(in_ram_only(scenario), splits_layers).take();
}

bool may_read_from_disk(const Scenario& s) {
  const bool swaps = s.rig.gpus.empty() && swap_with_room(s).value > 0;
  return weights_may_leave(s) || swaps;
}

Scenario in_ram_only(const Scenario& scenario) {
  Scenario s = scenario;
  s.runtime.memory.pages_in = false;
  if (!s.memory) return s;
  s.runtime.memory.maps_file = false;
  s.memory->swap = {};
  return s;
}

PlacementSettings placement_settings(const StepContext& s, const LayerProblem& problem,
                                     const Assignment& assignment) {
  PlacementSettings out;
  out.decode_device = s.placement.decode_device;
  out.gpu_layers = 0;
  out.tensor_split.assign(s.rig.gpus.size(), 0.0);
  for (std::size_t l = 0; l < assignment.location.size(); ++l) {
    const LayerLocation& at = problem.locations[std::size_t(assignment.location[l])];
    int& in_ram = s.model.moe ? out.cpu_moe_layers : out.cpu_ffn_layers;
    // A dense layer of a mixture stays whole, wherever its location would have its experts.
    const bool has_apart = !s.model.moe || s.model.is_moe_layer(int(l));
    if (at.ffn_in_ram && at.device != kHost && has_apart) in_ram = int(l) + 1;
    if (at.device == kHost) continue;
    ++*out.gpu_layers;
    ++out.tensor_split[std::size_t(at.device)];
  }
  const LayerLocation& last = problem.locations[std::size_t(assignment.location.back())];
  if (last.device != kHost && !last.head_on_host) {
    ++*out.gpu_layers;
    ++out.tensor_split[std::size_t(last.device)];
  }
  if (s.rig.gpus.size() < 2 || *out.gpu_layers == 0) out.tensor_split.clear();
  return out;
}

}  // namespace rigcast::planner
