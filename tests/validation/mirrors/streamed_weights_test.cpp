// Slots in a GPU's memory for weights that the host keeps: the engine sizes them by its model's
// layers, the forecast by the tensors of the scenario.

#include "core/scenario/engine_sizes.hpp"
#include "engine/kernels/cuda/batch/small_batch_formats.hpp"
#include "engine/model/model_bytes.hpp"
#include "perfmodel/runtimes/rigcast_buffers.hpp"
#include "tests/validation/mirrors/mirror_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

// Bytes of the largest layer that is copied. The forecast counts its vectors as well, a few KiB
// that stay on the GPU.
double layer_slot(const engine::Model& model, const engine::HostPlacement& host) {
  double most = 0;
  for (int l = 0; l < model.spec.layers; ++l) {
    if (!host.streamed(l) && !host.offloadable(l)) continue;
    const engine::Layer& layer = model.layers[std::size_t(l)];
    const std::int64_t kept = host.streams_experts(l) ? 0 : engine::expert_bytes(layer);
    most = std::max(most, double(engine::layer_bytes(layer) - kept));
  }
  return most;
}

// The largest slot of experts that are copied for a batch.
double expert_slot(const engine::Model& model, const engine::HostPlacement& host) {
  double most = 0;
  for (int l = 0; l < model.spec.layers; ++l) {
    const engine::Layer& layer = model.layers[std::size_t(l)];
    if (!host.experts_offloadable(l) || !engine::cuda::supports_grouped_gemm(layer)) continue;
    most = std::max(most, double(expert_slot_bytes(std::size_t(engine::one_expert_bytes(layer)),
                                                   layer.expert_gate.count)));
  }
  return most;
}

struct Case {
  ModelSpec model;
  int gpu_layers;
  DecodeDevice decode;
  int cpu_moe;
};

const Case kCases[] = {
    {llama_3_8b(), 5, DecodeDevice::kPlacement, 0},
    {llama_3_8b(), 2, DecodeDevice::kPlacement, 0},
    {llama_3_8b(), 2, DecodeDevice::kGpu, 0},
    {llama_3_8b(), 2, DecodeDevice::kCpu, 0},
    {qwen3_30b_a3b(), 5, DecodeDevice::kPlacement, 0},
    {qwen3_30b_a3b(), 5, DecodeDevice::kPlacement, 3},
    {qwen3_30b_a3b(), 2, DecodeDevice::kPlacement, 0},
    {qwen3_30b_a3b(), 2, DecodeDevice::kGpu, 0},
    {mixtral_8x7b(), 5, DecodeDevice::kPlacement, 4},
    {mixtral_8x7b(), 2, DecodeDevice::kPlacement, 1},
};

}  // namespace

TEST_CASE("Slots for layers and experts are the engine's", "[validation][mirror]") {
  for (const Case& c : kCases)
    for (const std::string& quant : computed_mixes()) {
      CAPTURE(c.model.hidden, c.gpu_layers, int(c.decode), c.cpu_moe, quant);
      Scenario s = engine_scenario(four_layers_of(c.model), quant.c_str());
      s.placement.decode_device = c.decode;
      s.placement.cpu_moe_layers = c.cpu_moe;
      const Placement p = place(s, c.gpu_layers);
      MemoryPlan plan = plan_memory(s, p, 1);
      plan.devices.front().staging = {};
      add_engine_weight_buffers(s, p, plan);
      const engine::Model model = engine_model(s);
      const engine::HostPlacement host = engine_placement(s, p);
      // Two slots, and as much for what is unpacked from one.
      CHECK(gpu(plan).staging.value ==
            Approx(3 * (layer_slot(model, host) + expert_slot(model, host))).epsilon(1e-12));
    }
}
