// Memory of `rigcast run`, as forecasts plan it.

#include "perfmodel/memory.hpp"
#include "perfmodel/runtimes/rigcast_buffers.hpp"
#include "perfmodel/runtimes/rigcast_kv.hpp"
#include "perfmodel/runtimes/rigcast_policy.hpp"

#include "core/scenario/engine_sizes.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "tests/catch.hpp"
#include "tests/core/profile_fixture.hpp"
#include "tests/perfmodel/machine_fixture.hpp"

using namespace rigcast;
using namespace rigcast::fixtures;

namespace {

constexpr TokenCount kBlock = 128;
// A block of an 8B model's layer: 128 tokens x 2 x 8 heads x 128 x 2 B.
constexpr double kLayerBlock = 128.0 * 4096;
constexpr double kList = 65536.0 * 8;

Scenario own(ModelSpec model, const char* quant = "Q4_K_M", Bytes vram = 24_GiB) {
  Scenario s = scenario_of(std::move(model), machine(vram), quant);
  s.runtime.memory = {};
  s.runtime.rules = RuntimeRules::kRigcast;
  s.runtime.prefill.streams = true;
  s.workload.context = 32768;
  return s;
}

Scenario with_policy(KvPolicy policy, Bytes vram = 24_GiB) {
  Scenario s = own(llama_3_8b(), "Q4_K_M", vram);
  s.kv.policy = policy;
  s.workload.prompt_tokens = 16384;
  s.workload.output_tokens = 129;
  s.workload.context = s.workload.last_position() + 1;
  return s;
}

MemoryPlan plan_of(const Scenario& s, int gpu_layers) {
  return plan_memory(s, place(s, gpu_layers), s.workload.last_position());
}

}  // namespace

TEST_CASE("The ring's groups have 16 MiB or one layer, and there are four of them", "[memory]") {
  CHECK(kv_ring(0, 32, 1 << 19).blocks == 0);
  // 100 blocks grow by 16: 112 of 512 KiB are more than a group has.
  CHECK(kv_ring(100, 32, 1 << 19).blocks == 112);
  CHECK(kv_ring(100, 32, 1 << 19).group_layers == 1);
  // 8 blocks: 4 MiB a layer, so that four are together; of 12 layers no more than three.
  CHECK(kv_ring(8, 32, 1 << 19).group_layers == 4);
  CHECK(kv_ring(8, 32, 1 << 19).layers() == 8);
  CHECK(kv_ring(8, 12, 1 << 19).group_layers == 3);
  CHECK(kv_ring(1, 2, 1 << 10).group_layers == 1);
}

TEST_CASE("A cache in VRAM has whole blocks and one list of them", "[memory]") {
  Scenario s = own(llama_3_8b());
  s.workload.prompt_tokens = 1000;
  s.workload.output_tokens = 26;  // 1,025 tokens: nine blocks
  CHECK(gpu(plan_of(s, 33)).kv.value == 9 * 32 * kLayerBlock + kList);
  CHECK(host(plan_of(s, 33)).kv == 0_B);
  CHECK(gpu(plan_of(s, 10)).kv.value == 9 * 10 * kLayerBlock + kList);
  CHECK(host(plan_of(s, 10)).kv.value == 9 * 22 * kLayerBlock);
  s.kv.policy = KvPolicy::kRam;
  CHECK(gpu(plan_of(s, 33)).kv.value == kList);
  CHECK(host(plan_of(s, 33)).kv.value == 9 * 32 * kLayerBlock);
  CHECK(gpu(plan_of(s, 33)).staging == 0_B);
}

TEST_CASE("Layers with a window keep its tokens and a batch's, in a list of their own",
          "[memory]") {
  ModelSpec m = llama_3_8b();
  m.window = SlidingWindow{.tokens = 256, .full_every = 2};
  Scenario s = own(m);
  s.workload.prompt_tokens = 2048;
  s.workload.output_tokens = 1;
  REQUIRE(s.settings.ubatch == 512);
  // 255 tokens and 512 occupy seven blocks of 128 at most, and one more is in the ring.
  CHECK(gpu(plan_of(s, 33)).kv.value == (16 * 16 + 16 * 7) * kLayerBlock + 2 * kList);
  s.workload.prompt_tokens = 512;
  CHECK(gpu(plan_of(s, 33)).kv.value == 4 * 32 * kLayerBlock + 2 * kList);
}

TEST_CASE("Windows bound caches in RAM unless prompts copy them to the GPU", "[memory]") {
  ModelSpec m = llama_3_8b();
  m.window = SlidingWindow{.tokens = 256, .full_every = 2};
  Scenario s = own(m);
  s.workload.prompt_tokens = 2048;
  s.workload.output_tokens = 1;
  constexpr double kAll = 16 * kLayerBlock, kRing = 7 * kLayerBlock;
  Scenario in_ram = s;
  in_ram.kv.policy = KvPolicy::kRam;
  CHECK(host(plan_of(in_ram, 33)).kv.value == 16 * (kAll + kRing));
  // Layers on the host are computed by the GPU in prompts.
  REQUIRE(place(s, 10).offloadable(0));
  CHECK(host(plan_of(s, 10)).kv.value == 22 * kAll);
  CHECK(gpu(plan_of(s, 10)).kv.value == 5 * (kAll + kRing) + 2 * kList);
  // What the host decodes has been prefilled by the GPU.
  Scenario decodes = s;
  decodes.placement.decode_device = DecodeDevice::kCpu;
  CHECK(host(plan_of(decodes, 33)).kv.value == 32 * kAll);
  s.rig.gpus.clear();
  s.rig.links.clear();
  CHECK(host(plan_of(s, 0)).kv.value == 16 * (kAll + kRing));
}

TEST_CASE("States of layers that a GPU computes for prompts alone are on both sides", "[memory]") {
  ModelSpec m = llama_3_8b();
  m.recurrent = RecurrentLayers{};
  m.recurrent->full_attention_every = 4;
  m.recurrent->state_bytes = 1 << 20;
  Scenario s = own(m);
  s.workload.prompt_tokens = 512;
  const auto states = [&](bool on_gpu) {
    const MemoryPlan plan = plan_of(s, 10);  // 9 layers and the head: two of the 9 attend
    Scenario stateless = s;
    stateless.model.recurrent->state_bytes = 0;
    const MemoryPlan without = plan_of(stateless, 10);
    return on_gpu ? gpu(plan).kv.value - gpu(without).kv.value
                  : host(plan).kv.value - host(without).kv.value;
  };
  constexpr double kState = 2 * 0x1p20;  // and the one that is kept
  CHECK(states(true) == 24 * kState);
  CHECK(states(false) == 17 * kState);
  s.settings.op_offload = false;
  CHECK(states(true) == 7 * kState);
  CHECK(states(false) == 17 * kState);
}

TEST_CASE("Where older blocks leave the GPU, layers keep all tokens whatever their windows",
          "[memory]") {
  const Scenario all = with_policy(KvPolicy::kStream);
  Scenario windowed = all;
  windowed.model.window = SlidingWindow{.tokens = 256, .full_every = 2};
  CHECK(gpu(plan_of(windowed, 33)).kv == gpu(plan_of(all, 33)).kv);
  CHECK(host(plan_of(windowed, 33)).kv == host(plan_of(all, 33)).kv);
}

TEST_CASE(
    "stream: what steps write is in VRAM, older blocks in pieces of 16, two groups on their way",
    "[memory]") {
  const Scenario s = with_policy(KvPolicy::kStream);
  // 16,512 tokens are 129 blocks. A batch of 512 writes four while four are on their way out.
  const MemoryPlan plan = plan_of(s, 33);
  CHECK(gpu(plan).kv.value == 8 * 32 * kLayerBlock + 32 * kList);
  CHECK(host(plan).kv.value == 9 * 16 * 32 * kLayerBlock);
  // 129 blocks grow to 144: 72 MiB, and so one layer is a group.
  CHECK(gpu(plan).staging.value == 2 * 144 * kLayerBlock);
  CHECK_FALSE(plan.resident_tokens);
}

TEST_CASE("Cold blocks of another type are rounded on their way, and become halves again",
          "[memory]") {
  Scenario s = with_policy(KvPolicy::kStream);
  s.kv.cold_type = QuantFormat::kQ8_0;
  const double cold = kLayerBlock * 8.5 / 16;
  const MemoryPlan plan = plan_of(s, 33);
  CHECK(host(plan).kv.value == 9 * 16 * 32 * cold);
  CHECK(gpu(plan).staging.value == 2 * 144 * cold + 144 * kLayerBlock + 32 * cold);
}

TEST_CASE("paged: what stays, what is written and the ring are below the threshold together",
          "[memory]") {
  for (const KvPolicy policy : {KvPolicy::kPaged, KvPolicy::kCombined})
    for (const Bytes vram : {6.5 * 1_GiB, 7_GiB}) {
      const Scenario s = with_policy(policy, vram);
      // With the last token that a request may bring: its 130th block.
      const MemoryPlan plan = plan_memory(s, place(s, 33), s.workload.last_position() + 1);
      REQUIRE(plan.resident_tokens);
      CHECK(*plan_of(s, 33).resident_tokens == *plan.resident_tokens);
      const TokenCount hot = *plan.resident_tokens / kBlock;
      const TokenCount cold = std::min<TokenCount>(129, 130 - hot);
      CAPTURE(hot);
      REQUIRE(hot > 4);
      REQUIRE(hot < 120);
      CHECK(*plan.resident_tokens % kBlock == 0);
      CHECK(gpu(plan).kv.value == double(hot + 4) * 32 * kLayerBlock + 32 * kList);
      CHECK(host(plan).kv.value == double((cold + 15) / 16 * 16) * 32 * kLayerBlock);
      const double usable = s.kv.threshold * (vram - 300_MiB).value;
      const double taken = (gpu(plan).needed() - 300_MiB).value;
      CHECK(taken <= usable);
      // One more would stay but for the ring, which has steps of 16 blocks in two groups of eight
      // layers at most.
      CHECK(taken + (32 + 16 * 16) * kLayerBlock > usable);
    }
}

TEST_CASE("paged: of a server's pool, blocks take what the layers leave", "[memory]") {
  Scenario s = own(llama_3_8b(), "Q4_K_M", 7_GiB);
  s.kv.policy = KvPolicy::kPaged;
  s.scheduler = SchedulerPolicy{};
  s.scheduler->layout = KvLayout::kBlocks;
  s.scheduler->pool = PoolRule::kTokens;
  s.scheduler->block_tokens = 32;
  s.scheduler->sequences = 4;
  s.workload.context = 4096;
  s.load = Load{};
  const MemoryPlan plan = plan_memory(s, place(s, 33), s.workload.context);
  const TokenCount blocks = 4 * 4096 / 32, on_gpu = *plan.resident_tokens / 32;
  const double layer = kLayerBlock / 4;  // of 32 tokens
  REQUIRE(on_gpu > 0);
  REQUIRE(on_gpu < blocks);
  CHECK(gpu(plan).kv.value == double(on_gpu + 1) * 32 * layer + kList);
  CHECK(gpu(plan).staging.value == double(2 * (blocks - on_gpu) + 32) * layer);
  CHECK(host(plan).kv.value == double(blocks - on_gpu) * 32 * layer);
  // As many as there is room for, all layers on the GPU.
  const auto layers = [&](Bytes vram) {
    s.rig.gpus.front().memory.value = vram;
    return resolve_placement(s).gpu_layers;
  };
  CHECK(layers(7_GiB) == 33);
  // Where VRAM has room for less than the hot window of a single sequence, too.
  Bytes vram = 7_GiB;
  while (*plan_memory(s, place(s, 33), s.workload.context).resident_tokens > s.kv.hot_tokens / 2)
    s.rig.gpus.front().memory.value = vram = vram - 8_MiB;
  REQUIRE(plan_memory(s, place(s, 33), s.workload.context).fits_on_gpus(s.settings.headroom));
  CHECK(layers(vram) == 33);
  CHECK(layers(vram - 1_GiB) < 33);
}

TEST_CASE("paged: where all fits nothing leaves", "[memory]") {
  const MemoryPlan plan = plan_of(with_policy(KvPolicy::kPaged), 33);
  CHECK(*plan.resident_tokens > 129 * kBlock);
  CHECK(gpu(plan).kv.value == 129 * 32 * kLayerBlock + 32 * kList);
  CHECK(gpu(plan).staging == 0_B);
  CHECK(host(plan).kv == 0_B);
}

TEST_CASE("Layers that a token streams pass through two slots and one set of planes", "[memory]") {
  Scenario s = own(llama_3_8b(), "Q8_0");
  s.placement.decode_device = DecodeDevice::kGpu;
  const double layer = double(s.tensors.layers[0].bytes());
  CHECK(gpu(plan_of(s, 24)).staging.value == Approx(3 * layer));
  CHECK(host(plan_of(s, 24)).kv == 0_B);  // the cache is the GPU's
  CHECK(gpu(plan_of(s, 33)).staging == 0_B);
}

TEST_CASE("Layers that are lent to a prompt bring their caches, two at a time", "[memory]") {
  Scenario s = own(llama_3_8b(), "Q8_0");
  s.workload.prompt_tokens = 4096;
  const double layer = double(s.tensors.layers[0].bytes());
  CHECK(gpu(plan_of(s, 24)).staging.value == Approx(3 * layer + 2 * 32 * kLayerBlock));
  s.runtime.prefill.streams = false;
  CHECK(gpu(plan_of(s, 24)).staging == 0_B);
}

TEST_CASE("Experts in RAM pass through slots of 32 MiB", "[memory]") {
  Scenario s = own(mixtral_8x7b(), "Q4_K_M");
  s.placement.cpu_moe_layers = 32;
  double most = 0;
  for (const LayerWeights& w : s.tensors.layers) most = std::max(most, double(w.experts.bytes()));
  const double one = most / 8;
  REQUIRE(one > 0x1p25);  // so that a slot has one expert
  CHECK(gpu(plan_of(s, 33)).staging.value == Approx(3 * one));
  const Scenario floats = [&] {
    Scenario f = own(mixtral_8x7b(), "F16");
    f.placement.cpu_moe_layers = 32;
    return f;
  }();
  CHECK(gpu(plan_of(floats, 33)).staging == 0_B);
}

TEST_CASE("Where the host decodes it has all, and a GPU what prompts need", "[memory]") {
  Scenario s = own(llama_3_8b());
  s.placement.decode_device = DecodeDevice::kCpu;
  s.workload.prompt_tokens = 1024;
  s.workload.output_tokens = 1000;  // 2,023 tokens: 16 blocks
  const MemoryPlan plan = plan_of(s, 33);
  CHECK(host(plan).weights.value == Approx(double(s.tensors.bytes())));
  CHECK(gpu(plan).weights.value ==
        Approx(double(s.tensors.bytes() - s.tensors.head.bytes() - s.tensors.embedding.bytes())));
  CHECK(host(plan).kv.value == 16 * 32 * kLayerBlock);
  CHECK(gpu(plan).kv.value == 8 * 32 * kLayerBlock + kList);
}

TEST_CASE("A tied embedding is in RAM where it is used, once for every use", "[memory]") {
  const Scenario s = own(llama_3_2_3b());
  REQUIRE(s.tensors.head_is_embedding);
  const double embedding = double(s.tensors.tensors.front().bytes);
  CHECK(host(plan_of(s, 29)).weights == 0_B);
  // The GPU reads rows of the matrix, the host multiplies by it.
  CHECK(host(plan_of(s, 28)).weights.value == Approx(2 * embedding).epsilon(1e-3));
  const double layer = double(s.tensors.layers[0].bytes());
  CHECK(host(plan_of(s, 27)).weights.value == Approx(embedding + layer).epsilon(1e-3));
  CHECK(host(plan_of(s, 0)).weights.value == Approx(double(s.tensors.bytes())));
}

TEST_CASE("Buffers are those of the longest step", "[memory]") {
  Scenario s = own(llama_3_8b(), "F16");
  // 512 rows: hidden 8 MiB, twice, and 2.75 MiB quantized; q, k, v 12, queries 4, RoPE angles 0.25;
  // x 14 and gate with up 28 in FP16. 64 rows of the FFN in F32 3.5, logits, 32 for cuBLAS.
  const double mib = 16 + 2.75 + 12 + 4 + 0.25 + 14 + 28 + 3.5 + 32;
  // Ids; of one token attention and the FFN in F32 and quantized, what it takes to draw, and
  // partial attention of two parts of 32 heads: the GPU's own, as nothing tells its units, and the
  // host's.
  const double token = 512 * 4 + (4096 + 14336) * 5.375 + 32 * 1024 + 2 * (4096 + 2 * 32) * 4;
  const double vectors = mib * 0x1p20 + 128256 * 4 + token;
  CHECK(gpu(plan_of(s, 33)).activations.value == Approx(vectors));
  CHECK(host(plan_of(s, 33)).activations == 0_B);
  // Dequantized gate and up: 2 x 14,336 x 4,096 in FP16.
  s = own(llama_3_8b());
  CHECK(gpu(plan_of(s, 33)).activations.value == Approx(vectors + 224 * 0x1p20));
  // The host's part: all of the prompt's rows in its layers, one in the head.
  const double message = 512 * 6144.0 * 4;
  CHECK(host(plan_of(s, 32)).activations.value == Approx(message + cpu_buffer_bytes(s.model, 1)));
  CHECK(host(plan_of(s, 10)).activations.value == Approx(message + cpu_buffer_bytes(s.model, 512)));
  s.workload.prompt_tokens = 200;
  s.rig.gpus.clear();
  CHECK(host(plan_of(s, 0)).activations.value == Approx(cpu_buffer_bytes(s.model, 200)));
}

TEST_CASE("A GPU of no layer has its buffers all the same", "[memory]") {
  const MemoryPlan plan = plan_of(own(llama_3_8b()), 0);
  CHECK(gpu(plan).weights == 0_B);
  CHECK(gpu(plan).activations.value > 100 * 0x1p20);
}

TEST_CASE("The process takes of RAM what cuBLAS does where batches may go through it", "[memory]") {
  Scenario s = own(llama_3_8b());
  s.runtime.memory.process_gpu = 200_MiB;
  s.runtime.memory.process_cublas = s.runtime.memory.process_cublas_floats = 0_B;
  const double without = host(plan_of(s, 33)).staging.value;
  const auto with = [&](int layers) { return host(plan_of(s, layers)).staging.value - without; };
  s.runtime.memory.process_cublas = 170_MiB;
  s.workload.prompt_tokens = 2;
  CHECK(with(33) == Approx(170 * 0x1p20));
  CHECK(with(0) == Approx(170 * 0x1p20));
  s.settings.ubatch = 64;  // small batches, for which no weights are dequantized
  s.workload.prompt_tokens = 64;
  CHECK(with(33) == Approx(0));
  s.tensors = own(llama_3_8b(), "F16").tensors;
  CHECK(with(33) == Approx(170 * 0x1p20));
  s.workload.prompt_tokens = 2;
  CHECK(with(33) == Approx(0));
}

TEST_CASE("Kernels of experts alone take less RAM, whatever mixes tokens before them", "[memory]") {
  ModelSpec model = qwen3_30b_a3b();
  const auto taken = [&] {
    Scenario s = own(model);
    s.runtime.memory.process_cublas = s.runtime.memory.process_cublas_floats = 0_B;
    const double without = host(plan_of(s, model.layers + 1)).staging.value;
    s.runtime.memory.process_cublas = 170_MiB;
    s.runtime.memory.process_cublas_floats = 60_MiB;
    return host(plan_of(s, model.layers + 1)).staging.value - without;
  };
  CHECK(taken() == Approx(60 * 0x1p20));
  for (int i = 0; i < model.layers; ++i) model.pattern += "*E"[i % 2];
  CHECK(taken() == Approx(60 * 0x1p20));
  model.pattern.back() = '-';
  model.ffn = 4096;
  CHECK(taken() == Approx(170 * 0x1p20));
}

TEST_CASE("A file takes of RAM what it is read with", "[memory]") {
  Scenario s = own(llama_3_8b());
  s.runtime.memory.process_file = 100_MiB;
  s.workload.start = Start::kResident;
  const double without = host(plan_of(s, 33)).staging.value;
  s.model_file = "x.gguf";
  CHECK(host(plan_of(s, 33)).staging.value == Approx(without + 100 * 0x1p20));
}

TEST_CASE("What no batch touches of the host's buffers takes no memory", "[memory]") {
  Scenario s = own(llama_3_8b());
  const double rows = double(engine_buffers(s, place(s, 10), kHost).value);
  const double untouched = engine_untouched_buffer_bytes(s, place(s, 10)).value;
  // All rows but 64; of those, hidden states are the host's own.
  const double hidden = (512 - 64) * 4096.0 * 4;
  CHECK(untouched == Approx(rows * (512 - 64) / 512 - hidden));
  CHECK(engine_untouched_buffer_bytes(s, place(s, 33)) == 0_B);
  const RuntimeProfile measured = *load_profile(kProfile);
  s.runtime.cpu = measured.cpu;
  s.runtime.formats = measured.formats;
  s.rig.links.front().h2d.value = 1_MBps;  // nobody streams over such a link
  s.runtime.prefill.picks_faster = true;
  CHECK(engine_untouched_buffer_bytes(s, place(s, 10)) == 0_B);
}

TEST_CASE("The batch by which the host is timed is none that is too long", "[memory]") {
  CHECK(timed_tokens(llama_3_8b(), 512) == 64);
  CHECK(timed_tokens(llama_3_8b(), 32) == 32);
  CHECK(timed_tokens(mixtral_8x7b(), 512) == 64);
  CHECK(timed_tokens(qwen3_30b_a3b(), 512) == 128);
  CHECK(timed_tokens(qwen3_30b_a3b(), 100) == 100);
}

TEST_CASE("Vectors of a step on the CPU", "[memory]") {
  // Hidden state and block, twice q and twice k, a head's angles, gate and up, in floats; and the
  // widest input in 6 bytes.
  const double floats = 2 * 4096 + 2 * 4096 + 2 * 1024 + 128 + 2 * 14336;
  CHECK(cpu_buffer_bytes(llama_3_8b(), 10) == 10 * (4 * floats + 6 * 14336) + 4 * 128256.0);
  CHECK(message_floats(llama_3_8b()) == 4096 + 2 * 1024);
}

TEST_CASE("Blocks have left when the step after the one that pushed them out takes new ones",
          "[memory]") {
  Scenario s = own(llama_3_8b());
  s.workload.depth = 4096;
  s.workload.prompt_tokens = 64;
  s.workload.output_tokens = 1000;
  const auto cold = [&](TokenCount hot, TokenCount from, TokenCount to) {
    const Sequence step{from, to - from, s.workload.depth, s.workload.prompt_tokens};
    return cold_block_tokens(s, hot, step) / kBlock;
  };
  // Batches of 512. That of tokens 512 to 1,023 pushes out the first four.
  CHECK(cold(0, 0, 512) == 0);
  CHECK(cold(0, 512, 1024) == 0);
  CHECK(cold(0, 1024, 1536) == 4);
  CHECK(cold(0, 3584, 4096) == 24);
  CHECK(cold(0, 4096, 4160) == 28);  // the prompt
  CHECK(cold(0, 4160, 4161) == 28);  // tokens in the block that the prompt began
  CHECK(cold(0, 4223, 4224) == 28);
  CHECK(cold(0, 4224, 4225) == 32);  // a new block: what the prompt pushed out has left
  CHECK(cold(0, 4351, 4352) == 32);
  CHECK(cold(0, 4352, 4353) == 33);  // then one after the other
  CHECK(cold(0, 4480, 4481) == 34);
  // Of ten that stay: the batch that is written comes on top of them.
  CHECK(cold(10 * kBlock, 1024, 1536) == 0);
  CHECK(cold(10 * kBlock, 1536, 2048) == 2);
  CHECK(cold(10 * kBlock, 4160, 4161) == 22);
  CHECK(cold(10 * kBlock, 4224, 4225) == 23);
  CHECK(cold(10 * kBlock, 4352, 4353) == 24);
  CHECK(cold(100 * kBlock, 4480, 4481) == 0);
}

TEST_CASE("Tokens need room for one block beside those that stay, batches for all of theirs",
          "[memory]") {
  Scenario s = with_policy(KvPolicy::kPaged, 24_GiB);
  s.workload.prompt_tokens = 512;
  s.workload.output_tokens = 8192;
  s.workload.context = s.workload.last_position() + 1;
  // As much VRAM as 40 blocks and all else need.
  const double all = gpu(plan_of(s, 33)).needed().value - double(68) * 32 * kLayerBlock;
  s.rig.gpus[0].memory.value = Bytes{(all + 40 * 32 * kLayerBlock) / s.kv.threshold};
  const MemoryPlan plan = plan_memory(s, place(s, 33), s.workload.last_position() + 1);
  REQUIRE(plan.resident_tokens);
  const TokenCount hot = *plan.resident_tokens / kBlock;
  CHECK(hot > 20);
  CHECK(gpu(plan).kv.value == double(hot + 1) * 32 * kLayerBlock + 32 * kList);
}
