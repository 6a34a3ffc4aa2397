// Memory of the engine on GPU and host, compared with the forecast of the same scenario.
#include "core/model/model_spec.hpp"
#include "core/model/traffic.hpp"
#include "core/runtime/load_profile.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "core/serving/pool_tokens.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "engine/placement/host_placement.hpp"
#include "perfmodel/memory.hpp"
#include "tests/catch.hpp"
#include "tests/engine/executor_fixture.hpp"
#include "tests/paths.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;
using rigcast::fixtures::gpt_oss_20b;
using rigcast::fixtures::llama_3_8b;
using rigcast::fixtures::machine;
using rigcast::fixtures::mixtral_8x7b;
using rigcast::fixtures::qwen3_30b_a3b;

namespace {

struct Case {
  const char* name;
  ModelSpec model;
  const char* quant = "Q4_K_M";
  int gpu_layers = 1000;  // the head as well
  KvPolicy policy = KvPolicy::kVram;
  DecodeDevice decode = DecodeDevice::kPlacement;
  int cpu_moe = 0;
  QuantFormat cold = QuantFormat::kF16;
  Bytes vram = 64_GiB;
};

// Only a few layers of a model, so that they load in a second; nothing else is smaller.
ModelSpec layers_of(ModelSpec spec, int layers) {
  spec.layers = layers;
  spec.context = 32768;
  return spec;
}

Scenario scenario_for(const Case& c) {
  Scenario s = rigcast::fixtures::scenario_of(c.model, machine(c.vram), c.quant);
  auto runtime = load_runtime_profile(test::source_path("/runtimes/rigcast.toml"));
  REQUIRE(runtime);
  s.runtime = *std::move(runtime);
  // A limit is of what the engine allocates, without its CUDA context and other programs.
  s.rig.gpu_context.value = s.rig.vram_reserved.value = Bytes{};
  s.placement.gpu_layers = std::min(c.gpu_layers, s.model.layers + 1);
  s.placement.decode_device = c.decode;
  s.placement.cpu_moe_layers = c.cpu_moe;
  s.kv.policy = c.policy;
  s.kv.cold_type = c.cold;
  s.settings.threads = 4;
  s.workload.depth = 12000;
  s.workload.prompt_tokens = 1024;
  s.workload.output_tokens = 200;
  s.workload.context = 16384;
  return s;
}

// As rigcast run does it.
ExecutorOptions options_for(const Scenario& s, const Placement& placement) {
  ExecutorOptions o;
  o.kv_types = s.kv.types;
  o.kv_block = s.kv.block_tokens;
  o.cold_type = s.kv.cold_type;
  o.threads = s.settings.threads;
  o.kv_eviction = kv_eviction_of(s);
  if (s.kv.policy == KvPolicy::kCombined) o.host_share.reset();
  if (o.kv_eviction)  // is decided by the memory that there is
    o.vram_limit = s.rig.gpus.front().memory.value;
  if (HostPlacement(s.model, placement).any()) o.placement = placement;
  o.prefill_offload = PrefillOffloadPolicy::kGpu;  // as where copying is faster
  return o;
}

// The larger of 2 % and 100 MiB.
void check_near(const char* what, double taken, double forecast) {
  INFO(what << ": " << taken / 0x1p20 << " MiB taken, " << forecast / 0x1p20 << " forecast");
  CHECK(std::fabs(taken - forecast) <= std::max(0.02 * taken, 100 * 0x1p20));
}

void check(const Case& c) {
  INFO(c.name);
  const Scenario s = scenario_for(c);
  const Placement placement = place(s, *s.placement.gpu_layers);
  const MemoryPlan plan = plan_memory(s, placement, s.workload.last_position());
  if (c.vram < 64_GiB) REQUIRE(plan.resident_tokens.value_or(1 << 30) < s.workload.depth);
  auto made = make_synthetic_cuda_executor(s.model, s.tensors, 1, options_for(s, placement));
  if (!made) FAIL(made.error().text());
  Executor& executor = **made;
  executor.fill(s.workload.depth);
  std::vector<std::int32_t> ids = prompt_of(std::size_t(s.workload.prompt_tokens), 500);
  executor.forward(ids, Logits::kLast);
  Sampler sampler({});
  std::int32_t id = 7;
  for (TokenCount i = 1; i < s.workload.output_tokens; ++i) id = executor.decode(id, sampler);
  REQUIRE(executor.cached() == s.workload.last_position());
  const DeviceMemory gpu = executor.gpus().front(), host = executor.host();
  const DeviceMemory &its = plan.devices.front(), &rams = plan.devices.back();
  check_near("GPU, weights", gpu.weights.value, its.weights.value);
  check_near("GPU, KV cache", gpu.kv.value, its.kv.value);
  check_near("GPU, activations", gpu.activations.value, its.activations.value);
  check_near("GPU, staging", gpu.staging.value, its.staging.value);
  check_near("GPU", (gpu.needed() - gpu.overhead).value, (its.needed() - its.overhead).value);
  check_near("host, weights", host.weights.value, rams.weights.value);
  check_near("host, KV cache", host.kv.value, rams.kv.value);
  check_near("host, activations", host.activations.value, rams.activations.value);
}

// Of a server of 16 sequences, with blocks in RAM for the prefixes of others.
void check_load(const Case& c, Bytes ram_cache = {}) {
  INFO(c.name);
  Scenario s = scenario_for(c);
  s.scheduler = s.runtime.server->scheduler;
  s.scheduler->ram_cache = ram_cache;
  s.load = Load{};
  s.workload = Workload{};
  s.workload.context = 4096;
  s.settings.batch = s.settings.ubatch = int(s.scheduler->step_tokens);
  s.settings.op_offload = false;
  const Placement placement = place(s, *s.placement.gpu_layers);
  const MemoryPlan plan = plan_memory(s, placement, s.workload.context);
  const TokenCount block = s.scheduler->block_tokens;
  BatchOptions pool;
  const bool scarce = c.vram < 64_GiB;
  pool.blocks = int(pool_tokens(s).most / block);
  pool.least_blocks = int(pool_tokens(s).least / block);
  pool.host_blocks =
      int(ram_cache.value / (kv_bytes_per_token(s.model, s.kv.types) * double(block)));
  pool.step_tokens = s.scheduler->step_tokens;
  pool.step_sequences = int(s.scheduler->sequences);
  pool.checkpoints = server_checkpoints(s.model, s.scheduler->sequences);
  pool.windows_apart = ram_cache.value == 0;
  ExecutorOptions options = options_for(s, placement);
  options.kv_block = block;
  options.ubatch = s.settings.ubatch;
  options.prefill_offload = PrefillOffloadPolicy::kHost;
  if (scarce) options.vram_limit = c.vram;
  const auto made = make_synthetic_cuda_batch_executor(s.model, s.tensors, 1, options, pool);
  if (!made) FAIL(made.error().text());
  const DeviceMemory gpu = (*made)->gpus().front(), host = (*made)->host();
  const DeviceMemory &its = plan.devices.front(), &rams = plan.devices.back();
  const int blocks = (*made)->limits().blocks;
  if (scarce && c.policy == KvPolicy::kVram) {
    CHECK(blocks < *pool.blocks);
    CHECK(blocks > *pool.least_blocks);
  } else {
    CHECK(blocks == *pool.blocks);
  }
  check_near("GPU, weights", gpu.weights.value, its.weights.value);
  check_near("GPU, KV cache", gpu.kv.value, its.kv.value);
  check_near("GPU, activations", gpu.activations.value, its.activations.value);
  check_near("GPU, staging", gpu.staging.value, its.staging.value);
  check_near("host, weights", host.weights.value, rams.weights.value);
  check_near("host, KV cache", host.kv.value, rams.kv.value);
}

}  // namespace

TEST_CASE("Forecast memory of a load equals the engine's", "[cuda][memory][gpu][hybrid]") {
  using enum KvPolicy;
  const ModelSpec dense = layers_of(llama_3_8b(), 12);
  check_load({.name = "all on the GPU", .model = dense});
  check_load({.name = "blocks in RAM", .model = dense}, 1_GiB);
  check_load({.name = "layers on the host", .model = dense, .gpu_layers = 6});
  check_load({.name = "a cache in RAM", .model = dense, .policy = kRam});
  check_load({.name = "stream", .model = dense, .policy = kStream});
  // Of a pool of 3 GiB a part stays.
  check_load({.name = "paged", .model = dense, .policy = kPaged, .vram = 5_GiB});
  check_load({.name = "a card that holds a part of the pool", .model = dense, .vram = 4_GiB});
  check_load({.name = "experts", .model = layers_of(qwen3_30b_a3b(), 6), .cpu_moe = 2});
}

TEST_CASE("Forecast memory equals the engine's, for every KV policy",
          "[cuda][memory][gpu][hybrid]") {
  using enum KvPolicy;
  const ModelSpec dense = layers_of(llama_3_8b(), 12);
  check({.name = "all on the GPU", .model = dense});
  check({.name = "F16", .model = dense, .quant = "F16"});
  check({.name = "a cache in RAM", .model = dense, .policy = kRam});
  check({.name = "stream", .model = dense, .policy = kStream});
  check({.name = "stream, rounded", .model = dense, .policy = kStream, .cold = QuantFormat::kQ8_0});
  // Of a cache of 0.6 GiB a part stays.
  check({.name = "paged", .model = dense, .policy = kPaged, .vram = 2.7 * 1_GiB});
  check({.name = "combined", .model = dense, .policy = kCombined, .vram = 2.7 * 1_GiB});
}

TEST_CASE("Forecast memory of layers with windows equals the engine's",
          "[cuda][memory][gpu][hybrid]") {
  using enum KvPolicy;
  // Windows that matter beside the tolerance: 12 layers of 12 times as many bytes a token.
  ModelSpec wide = layers_of(llama_3_8b(), 12);
  wide.kv_heads = 32;
  wide.window = SlidingWindow{.tokens = 1024, .full_every = 6};
  for (const ModelSpec& m : {wide, layers_of(gpt_oss_20b(), 6)}) {
    check({.name = "all on the GPU", .model = m});
    check({.name = "a cache in RAM", .model = m, .policy = kRam});
    check({.name = "stream", .model = m, .policy = kStream});
    check({.name = "layers on the host", .model = m, .gpu_layers = 3});
    check({.name = "layers streamed", .model = m, .gpu_layers = 3, .decode = DecodeDevice::kGpu});
    check({.name = "decode on the host", .model = m, .decode = DecodeDevice::kCpu});
    check_load({.name = "of many sequences", .model = m});
    check_load({.name = "of many sequences, prefixes in RAM", .model = m}, 1_GiB);
  }
  // Where VRAM bounds the pool, windows are apart if they are short.
  check_load({.name = "many sequences, long windows", .model = wide, .vram = 6 * 1_GiB});
  wide.window->tokens = 256;
  check_load({.name = "many sequences, short windows", .model = wide, .vram = 6 * 1_GiB});
}

TEST_CASE("Forecast memory of heads of two widths equals the engine's",
          "[cuda][memory][gpu][hybrid]") {
  const auto gemma = load_model_spec(test::source_path("/models/gemma-4-31b.toml"));
  REQUIRE(gemma);
  const ModelSpec m = layers_of(*gemma, 6);
  check({.name = "all on the GPU", .model = m});
  check({.name = "a cache in RAM", .model = m, .policy = KvPolicy::kRam});
  check({.name = "layers on the host", .model = m, .gpu_layers = 3});
  check({.name = "layers streamed", .model = m, .gpu_layers = 3, .decode = DecodeDevice::kGpu});
  check({.name = "decode on the host", .model = m, .decode = DecodeDevice::kCpu});
  check_load({.name = "many sequences", .model = m});
}

TEST_CASE("Forecast memory equals the engine's, for every placement",
          "[cuda][memory][gpu][hybrid]") {
  using enum DecodeDevice;
  const ModelSpec dense = layers_of(llama_3_8b(), 12);
  check({.name = "layers on the host, offloadable for prompts", .model = dense, .gpu_layers = 6});
  check({.name = "the head on the host", .model = dense, .gpu_layers = 12});
  check({.name = "layers streamed", .model = dense, .gpu_layers = 6, .decode = kGpu});
  check({.name = "decode on the host", .model = dense, .decode = kCpu});
  check({.name = "the same, prompts shared", .model = dense, .gpu_layers = 6, .decode = kCpu});
  ModelSpec tied = dense;
  tied.tied_embeddings = true;
  check({.name = "tied", .model = tied});
  check({.name = "tied, the head on the host", .model = tied, .gpu_layers = 12});
}

namespace {

// A dense layer, then experts beside one that all tokens pass; with latent attention if `latent`.
ModelSpec with_shared_expert(bool latent) {
  ModelSpec m = layers_of(qwen3_30b_a3b(), 5);
  m.architecture = latent ? "deepseek2" : "ernie4_5-moe";
  m.qk_norm = false;
  m.ffn = 12288;
  m.moe->dense_layers = 1;
  m.moe->shared_ffn = 3072;
  m.moe->router_bias = true;
  if (!latent) return m;
  // Heads of V2-Lite: the forecast counts the batch by which the host is timed, which is not where
  // the GPU computes batches in any case.
  m.heads = m.kv_heads = 16;
  m.head_dim = 192;
  m.mla = LatentAttention{.q_lora_rank = 1536,
                          .kv_lora_rank = 512,
                          .qk_nope_dim = 128,
                          .qk_rope_dim = 64,
                          .v_dim = 128};
  return m;
}

}  // namespace

TEST_CASE("Forecast memory of shared experts and latent attention equals the engine's",
          "[cuda][memory][gpu][hybrid]") {
  for (const bool latent : {false, true}) {
    const ModelSpec m = with_shared_expert(latent);
    check({.name = "all on the GPU", .model = m});
    check({.name = "a cache in RAM", .model = m, .policy = KvPolicy::kRam});
    check({.name = "experts in RAM", .model = m, .cpu_moe = 3});
    check({.name = "layers on the host", .model = m, .gpu_layers = 3});
    check({.name = "streamed", .model = m, .gpu_layers = 3, .decode = DecodeDevice::kGpu});
    check_load({.name = "of several sequences", .model = m});
  }
}

TEST_CASE("Forecast memory equals the engine's, for experts", "[cuda][memory][gpu][hybrid]") {
  const ModelSpec many = layers_of(qwen3_30b_a3b(), 6), few = layers_of(mixtral_8x7b(), 3);
  check({.name = "many experts", .model = many});
  check({.name = "many experts in RAM", .model = many, .cpu_moe = 4});
  check({.name = "few experts in RAM", .model = few, .cpu_moe = 3});
  check({.name = "layers with them on the host", .model = many, .gpu_layers = 3});
  check({.name = "streamed", .model = many, .gpu_layers = 3, .decode = DecodeDevice::kGpu});
}

TEST_CASE("Forecast memory of recurrent layers equals the engine's",
          "[cuda][memory][gpu][hybrid][recurrent]") {
  using enum DecodeDevice;
  for (const char* id : {"lfm2-1.2b", "qwen3.5-9b", "granite-4.0-h-micro"}) {
    INFO(id);
    const auto spec = load_model_spec(test::source_path("/models/" + std::string(id) + ".toml"));
    REQUIRE(spec);
    const ModelSpec m = layers_of(*spec, 8);
    check({.name = "all on the GPU", .model = m});
    check({.name = "layers on the host, offloadable for prompts", .model = m, .gpu_layers = 4});
    check({.name = "caches in RAM", .model = m, .policy = KvPolicy::kRam});
    check({.name = "decode on the host", .model = m, .decode = kCpu});
    check_load({.name = "of many sequences", .model = m});
    check_load({.name = "of many sequences, layers on the host", .model = m, .gpu_layers = 4});
  }
}
