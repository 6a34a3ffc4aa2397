// Rows of the host's buffers: the longest step that the engine's placement gives the host, and the
// one that the forecast plans for.

#include "core/scenario/engine_sizes.hpp"
#include "engine/backends/cpu/batch/batch_bytes.hpp"
#include "engine/kernels/cuda/batch/small_batch_formats.hpp"
#include "engine/placement/prefill_offload.hpp"
#include "perfmodel/runtimes/rigcast_buffers.hpp"
#include "tests/validation/mirrors/mirror_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

struct Case {
  ModelSpec model;
  const char* quant;
  int gpu_layers;
  KvPolicy kv = KvPolicy::kVram;
  DecodeDevice decode = DecodeDevice::kPlacement;
  int cpu_moe = 0;
};

const Case kCases[] = {
    {llama_3_8b(), "Q4_K_M", 5},
    {llama_3_8b(), "Q4_K_M", 4},
    {llama_3_8b(), "Q4_K_M", 2},
    {llama_3_8b(), "Q4_K_M", 5, KvPolicy::kRam},
    {llama_3_8b(), "Q4_K_M", 5, KvPolicy::kStream},
    {llama_3_8b(), "Q4_K_M", 5, KvPolicy::kPaged},
    {llama_3_8b(), "Q4_K_M", 5, KvPolicy::kCombined},
    {llama_3_8b(), "Q4_K_M", 5, KvPolicy::kVram, DecodeDevice::kCpu},
    {llama_3_8b(), "Q4_K_M", 2, KvPolicy::kVram, DecodeDevice::kGpu},
    {qwen3_30b_a3b(), "Q4_K_M", 5, KvPolicy::kVram, DecodeDevice::kPlacement, 3},
    {qwen3_30b_a3b(), "Q2_K", 5, KvPolicy::kVram, DecodeDevice::kPlacement, 3},
    {qwen3_30b_a3b(), "F16", 5, KvPolicy::kVram, DecodeDevice::kPlacement, 3},
    {qwen3_30b_a3b(), "Q4_K_M", 2},
};

// Tokens that the host computes at once: batches of its layers and caches, single tokens of the
// rest. Experts that a GPU may compute for a batch are timed with one when the model is loaded.
TokenCount rows_of(engine::HostOp op, const engine::HostPlacement& host, const engine::Model& model,
                   TokenCount batch, TokenCount ubatch) {
  using enum engine::HostOp::Kind;
  switch (op.kind) {
    case kLayers:
    case kCache: return batch;
    case kCold:
    case kHead: return 1;
    case kExperts: break;
  }
  const engine::Layer& layer = model.layers[std::size_t(op.first)];
  const bool offloadable =
      host.experts_offloadable(op.first) && engine::cuda::supports_grouped_gemm(layer);
  return offloadable ? engine::timed_tokens(model.spec, ubatch) : batch;
}

}  // namespace

TEST_CASE("The host's buffers have the rows of its longest step", "[validation][mirror]") {
  for (const Case& c : kCases)
    for (const TokenCount prompt : {1, 100, 3000}) {
      CAPTURE(c.model.hidden, c.quant, c.gpu_layers, int(c.kv), int(c.decode), c.cpu_moe, prompt);
      Scenario s = engine_scenario(four_layers_of(c.model), c.quant);
      s.kv.policy = c.kv;
      s.placement.decode_device = c.decode;
      s.placement.cpu_moe_layers = c.cpu_moe;
      s.workload.prompt_tokens = prompt;
      const Placement p = place(s, c.gpu_layers);
      const engine::HostPlacement host = engine_placement(s, p);
      const engine::Model model = engine_model(s);
      const TokenCount ubatch = s.settings.ubatch, batch = std::min(prompt, ubatch);
      TokenCount rows = host.decodes() ? batch : 0;  // it looks up the prompt's embeddings
      for (const engine::HostOp& op : host.calls())
        rows = std::max(rows, rows_of(op, host, model, batch, ubatch));
      const double messages = double(message_floats(s.model)) * sizeof(float) * double(ubatch);
      CHECK(engine_buffers(s, p, kHost).value ==
            Approx(rows > 0 ? cpu_buffer_bytes(s.model, double(rows)) + messages : 0.0));
    }
}

TEST_CASE("The host's buffers of a server have room for the longest step of all sequences",
          "[validation][mirror]") {
  for (const Case& c : kCases) {
    const bool executed =
        c.decode == DecodeDevice::kPlacement && (c.kv == KvPolicy::kVram || c.kv == KvPolicy::kRam);
    if (!executed) continue;
    CAPTURE(c.model.hidden, c.quant, c.gpu_layers, int(c.kv), c.cpu_moe);
    Scenario s = engine_scenario(four_layers_of(c.model), c.quant);
    s.kv.policy = c.kv;
    s.placement.cpu_moe_layers = c.cpu_moe;
    s.load.emplace();
    s.scheduler.emplace();
    s.scheduler->sequences = 8;
    s.settings.op_offload = false;  // as of every load
    const Placement p = place(s, c.gpu_layers);
    const engine::HostPlacement host = engine_placement(s, p);
    CHECK(host.offloadable_layers().empty());
    const engine::BatchLimits limits{16, 100, 0, TokenCount(s.settings.ubatch), 8};
    engine::CpuBatchParts parts{host.head(), false};
    for (int layer = 0; layer < s.model.layers; ++layer)
      parts.experts |= host.computes_experts(layer);
    const double bytes =
        cpu_buffer_bytes(s.model, double(s.settings.ubatch)) +
        engine::further_buffer_bytes(engine_model(s), limits, parts) +
        double(message_floats(s.model)) * sizeof(float) * double(s.settings.ubatch);
    CHECK(engine_buffers(s, p, kHost).value == Approx(host.computes() ? bytes : 0.0));
  }
}
