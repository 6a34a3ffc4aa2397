#include "perfmodel/inputs.hpp"

#include "core/hardware/gpu_architecture.hpp"
#include "perfmodel/context/correction.hpp"

namespace rigcast {
namespace {

class Tally {
 public:
  template <class T>
  void add(const Sourced<T>& figure, const char* name) {
    ++inputs_.count[std::size_t(figure.kind)];
    if (figure.kind == SourceKind::kAssumed) inputs_.assumed.emplace_back(name);
  }
  Inputs result() && { return std::move(inputs_); }

 private:
  Inputs inputs_;
};

// `float_weights`: products of a prompt's batch are computed in floats, not in integers.
void add_gpu(const StepContext& s, bool float_weights, Tally& tally) {
  const GpuPart& gpu = s.rig.gpus.front();
  const GpuEfficiency& e = s.runtime.gpu_efficiency(gpu);
  tally.add(gpu.bandwidth, "VRAM bandwidth");
  tally.add(gpu.memory, "VRAM size");
  tally.add(gemm_rate(gpu), "GPU matrix rate");
  tally.add(e.read, "VRAM efficiency");
  tally.add(e.cycles, "mat-vec efficiency");
  tally.add(e.kv_read, "attention efficiency");
  tally.add(float_weights ? e.gemm : e.tiles, "prefill efficiency");
  tally.add(e.attention, "prefill attention efficiency");
  tally.add(s.runtime.batch.tile_half_rate_batch, "prefill batch curve");
  tally.add(s.runtime.backends[std::size_t(s.settings.backend)].launch, "kernel gap");
  if (gpu.speed_share.value < 1) tally.add(gpu.speed_share, "speed under the power limit");
  if (gpu.shared) {
    tally.add(gpu.shared->exchange.latency, "all-reduce latency");
    tally.add(gpu.shared->exchange.bus, "all-reduce rate");
  }
  tally.add(s.rig.gpu_context, "GPU context size");
  if (gpu.unified) {
    tally.add(gpu.gpu_share, "GPU share of memory");
    return;
  }
  tally.add(s.rig.vram_reserved, "VRAM used by others");
  const HostLink& link = s.rig.links.front();
  const bool pinned = s.runtime.load.staging == Staging::kPinned;
  tally.add(pinned ? link.h2d : link.pageable, "PCI-E rate");
  tally.add(link.latency, "PCI-E latency");
}

}  // namespace

Inputs tally_inputs(const Scenario& s) {
  Tally tally;
  if (const Correction* own = s.correction()) {
    if (own->decode) tally.add(own->decode->factor, "decode speed correction");
    if (own->prefill) tally.add(own->prefill->factor, "prefill speed correction");
  }
  const auto mix = QuantMix::from_name(s.quant);
  const bool float_weights = mix && info(mix->base()).block_elements == 1;
  if (!s.rig.gpus.empty()) add_gpu(s, float_weights, tally);
  const bool cpu_works = s.rig.gpus.empty() || !s.placement.gpu_layers ||
                         *s.placement.gpu_layers <= s.model.layers || host_attends(s.kv.policy) ||
                         s.placement.cpu_moe_layers > 0 || s.placement.cpu_ffn_layers > 0;
  if (cpu_works) {
    tally.add(s.runtime.cpu.read, "CPU mat-vec efficiency");
    tally.add(s.runtime.cpu.cache, "CPU attention efficiency");
    tally.add(s.runtime.cpu.barrier_time, "CPU thread meetings");
    tally.add(s.runtime.decode.crossing, "CPU-GPU handoff");
    tally.add(s.rig.cpu.clock ? *s.rig.cpu.clock
                              : s.rig.cpu.boost_clock.value_or(Sourced<Hertz>{Hertz{3e9}}),
              "CPU clock");
  }
  tally.add(s.rig.ram.bandwidth, "RAM bandwidth");
  if (cpu_works && s.rig.cpu.nodes() > 1 && s.rig.cpu.remote_read)
    tally.add(*s.rig.cpu.remote_read, "rate between memory nodes");
  tally.add(s.rig.ram.capacity, "RAM size");
  tally.add(s.rig.ram_reserved, "RAM used by others");
  tally.add(s.rig.ssd.sequential_read, "SSD read rate");
  tally.add(s.runtime.load.ssd_share, "SSD efficiency");
  tally.add(s.runtime.load.host_copy, "host copy rate");
  if (s.runtime.load.vocabulary.value.value > 0)
    tally.add(s.runtime.load.vocabulary, "time to load the vocabulary");
  if (s.runtime.load.map)
    tally.add(s.rig.ssd.cached_map ? *s.rig.ssd.cached_map : *s.runtime.load.map,
              "rate of mapping pages");
  if (s.runtime.load.repack && s.rig.gpus.empty())
    tally.add(*s.runtime.load.repack, "rate of repacking");
  tally.add(s.runtime.decode.token, "host work per token");
  if (s.runtime.server && s.runtime.server->step.value.value > 0)
    tally.add(s.runtime.server->step, "host work of a server's step");
  tally.add(s.runtime.decode.sample, "sampling time");
  tally.add(s.runtime.decode.tokenize, "tokenizer speed");
  return std::move(tally).result();
}

}  // namespace rigcast
