// Bytes per route of one decoded token: what resource_use() reports of a step against
// core/model/traffic, which alone counts them.
#include "core/model/kv_bytes.hpp"
#include "core/model/traffic.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/resource_use.hpp"
#include "perfmodel/step.hpp"
#include "tests/catch.hpp"
#include "tests/decode_traffic.hpp"
#include "tests/sim/request_steps.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::token_step;
using fixtures::with;

namespace {

constexpr TokenCount kCached = 6000;

struct Token {
  explicit Token(const Settings& settings)
      : s(scenario(settings)),
        placement(resolve_placement(s)),
        memory(plan_memory(s, placement, s.workload.context)),
        use(resource_use(s, token_step(s, placement, memory, kCached))),
        batch{kCached - 1, 1, s.runtime.memory.kv_padding} {}

  double bytes(Resource r) const { return use.bytes[std::size_t(r)]; }
  double all() const { return decode_traffic(s.model, s.tensors, batch, s.kv.types).total().value; }
  double hidden() const { return hidden_bytes(s.model).value; }
  double logits() const { return logits_bytes(s.model).value; }
  OpTraffic cache(int layer) const { return cache_traffic(s.model, layer, batch, s.kv.types); }
  double cache_bytes() const {
    double sum = 0;
    for (int l = 0; l < s.model.layers; ++l) sum += cache(l).total().value;
    return sum;
  }

  Scenario s;
  Placement placement;
  MemoryPlan memory;
  ResourceUse use;
  Batch batch;
};

// Sums of integers and of shares of them: only the order of additions differs.
Approx bytes_of(double value) { return Approx(value).epsilon(1e-12).margin(0); }

const Settings kRigcast = {{"runtime.name", "rigcast"}};

}  // namespace

TEST_CASE("resident: VRAM moves all of decode's traffic", "[traffic]") {
  const Token t(Settings{});
  CHECK(t.bytes(Resource::kVram) == bytes_of(t.all()));
  CHECK(t.bytes(Resource::kRam) == 0);
  CHECK(t.bytes(Resource::kH2d) == bytes_of(t.hidden()));  // the embedding row
  CHECK(t.bytes(Resource::kD2h) == bytes_of(t.logits()));
  CHECK(t.bytes(Resource::kSsd) == 0);
}

TEST_CASE("layer split: RAM moves the host layers, VRAM the rest and the head", "[traffic]") {
  const Token t(Settings{{"placement.gpu_layers", "21"}});  // the head is one of them
  double host = 0;
  for (int l = 0; l < 12; ++l) {
    host += attention_traffic(t.s.model, t.s.tensors, l, t.batch, t.s.kv.types).total().value;
    host += ffn_traffic(t.s.model, t.s.tensors, l, 1).total().value;
  }
  CHECK(t.bytes(Resource::kRam) == bytes_of(host));
  CHECK(t.bytes(Resource::kVram) == bytes_of(t.all() - host));
  CHECK(t.bytes(Resource::kH2d) == bytes_of(t.hidden()));
  CHECK(t.bytes(Resource::kD2h) == bytes_of(t.logits()));
}

TEST_CASE("experts in RAM: RAM moves the chosen experts, VRAM the rest", "[traffic]") {
  const Token t(Settings{{"model.name", "qwen3-30b-a3b"},
                         {"rig.gpu", "rtx-3090"},
                         {"placement.gpu_layers", "49"},
                         {"placement.cpu_moe_layers", "40"}});
  double experts = 0;
  for (int l = 0; l < 40; ++l) {
    const double layer = experts_traffic(t.s.model, t.s.tensors, l, 1).total().value;
    // 8 of 128 experts for one token, and activations.
    CHECK(layer == Approx(double(t.s.tensors.layers[std::size_t(l)].experts.bytes()) / 16.0 +
                          2 * t.hidden()));
    experts += layer;
  }
  CHECK(t.bytes(Resource::kRam) == bytes_of(experts));
  CHECK(t.bytes(Resource::kVram) == bytes_of(t.all() - experts));
  // Every layer's hidden state goes to the CPU and comes back; the embedding row starts.
  CHECK(t.bytes(Resource::kD2h) == bytes_of(40 * t.hidden() + t.logits()));
  CHECK(t.bytes(Resource::kH2d) == bytes_of(41 * t.hidden()));
}

TEST_CASE("FFNs in RAM: RAM moves them, VRAM the cache and the rest", "[traffic]") {
  const Token t(Settings{{"placement.gpu_layers", "33"}, {"placement.cpu_ffn_layers", "12"}});
  double ffns = 0;
  for (int l = 0; l < 12; ++l) ffns += ffn_traffic(t.s.model, t.s.tensors, l, 1).total().value;
  CHECK(t.bytes(Resource::kRam) == bytes_of(ffns));
  CHECK(t.bytes(Resource::kVram) == bytes_of(t.all() - ffns));
  CHECK(t.bytes(Resource::kD2h) == bytes_of(12 * t.hidden() + t.logits()));
  CHECK(t.bytes(Resource::kH2d) == bytes_of(13 * t.hidden()));
}

TEST_CASE("policy ram: RAM moves the cache and VRAM the weights", "[traffic]") {
  const Token t(Settings{{"kv.policy", "ram"}, {"runtime.flash_attention", "false"}});
  CHECK(t.bytes(Resource::kRam) == bytes_of(t.cache_bytes()));
  CHECK(t.bytes(Resource::kVram) == bytes_of(t.all() - t.cache_bytes()));
  // To the CPU go the queries, new keys and values in F32, to the GPU comes the hidden state.
  const double qkv =
      4.0 * double(t.s.model.heads + 2 * t.s.model.kv_heads) * double(t.s.model.head_dim);
  CHECK(t.bytes(Resource::kD2h) == bytes_of(t.s.model.layers * qkv + t.logits()));
  CHECK(t.bytes(Resource::kH2d) == bytes_of((t.s.model.layers + 1) * t.hidden()));
}

TEST_CASE("policy ram with flash attention: the link brings the cache to the GPU", "[traffic]") {
  const Token t(Settings{{"kv.policy", "ram"}});
  const double own = t.s.model.layers * kv_bytes_per_token(t.s.model, 0, t.s.kv.types);
  CHECK(t.bytes(Resource::kVram) == bytes_of(t.all()));
  // What is read crosses, what is written goes back.
  CHECK(t.bytes(Resource::kH2d) == bytes_of(t.cache_bytes() - own + t.hidden()));
  CHECK(t.bytes(Resource::kD2h) == bytes_of(own + t.logits()));
}

namespace {

// Of a cache that is streamed: the block that is written stays, and so does the one on its way out.
double streamed_tokens() {
  constexpr TokenCount kBlock = 128;
  return double(((kCached + kBlock - 1) / kBlock - 2) * kBlock);
}

}  // namespace

TEST_CASE("policy stream: the link brings the blocks that have left", "[traffic]") {
  const Token t(with(kRigcast, {{"kv.policy", "stream"}}));
  double read = 0;
  for (int l = 0; l < t.s.model.layers; ++l) read += t.cache(l).kv_read_bytes;
  const double token = kv_bytes_per_token(t.s.model, t.s.kv.types);
  CHECK(read == bytes_of(token * kCached));
  CHECK(t.bytes(Resource::kH2d) == bytes_of(token * streamed_tokens() + t.hidden()));
  CHECK(t.bytes(Resource::kVram) == bytes_of(t.all()));  // attention reads it from the ring
  CHECK(t.bytes(Resource::kD2h) == bytes_of(token));
}

TEST_CASE("policy stream: what is in RAM is of the cold type", "[traffic]") {
  const auto cold_type = GENERATE(as<std::string>{}, "q8_0", "q4_0");
  const Token t(with(kRigcast, {{"kv.policy", "stream"}, {"kv.cold_type", cold_type}}));
  const double cold_token = kv_bytes_per_token(t.s.model, {t.s.kv.cold_type, t.s.kv.cold_type});
  CHECK(cold_token < 0.6 * kv_bytes_per_token(t.s.model, t.s.kv.types));
  CHECK(t.bytes(Resource::kH2d) == bytes_of(cold_token * streamed_tokens() + t.hidden()));
  CHECK(t.bytes(Resource::kD2h) == bytes_of(cold_token));
  CHECK(t.memory.devices.back().kv.value == bytes_of(cold_token * double(t.s.workload.context)));
}

TEST_CASE("policy paged: the link brings the cold blocks in their own type", "[traffic]") {
  const auto cold_type = GENERATE(as<std::string>{}, "f16", "q8_0", "q4_0");
  const Token t(with(
      kRigcast,
      {{"kv.policy", "paged"}, {"kv.cold_type", cold_type}, {"rig.vram_capacity", "6.1 GiB"}}));
  REQUIRE(t.memory.resident_tokens);
  const TokenCount resident = *t.memory.resident_tokens;
  REQUIRE(resident > t.s.kv.hot_tokens);
  REQUIRE(resident < kCached);
  const double blocks = std::ceil(double(kCached - resident) / double(t.s.kv.block_tokens));
  const double cold = (blocks - 1) * double(t.s.kv.block_tokens);  // one is on its way
  CHECK(cold_tokens(t.s, t.memory, {kCached - 1, 1}) == TokenCount(cold));
  const double hot_token = kv_bytes_per_token(t.s.model, t.s.kv.types);
  const double cold_token = kv_bytes_per_token(t.s.model, {t.s.kv.cold_type, t.s.kv.cold_type});
  CHECK(t.bytes(Resource::kH2d) == bytes_of(cold * cold_token + t.hidden()));
  CHECK(t.bytes(Resource::kVram) == bytes_of(t.all() - cold * (hot_token - cold_token)));
  CHECK(t.bytes(Resource::kD2h) == bytes_of(cold_token));
}

TEST_CASE("policy combined: link and CPU share the cold blocks by their rates", "[traffic]") {
  const Token t(with(kRigcast, {{"kv.policy", "combined"}, {"rig.vram_capacity", "5.6 GiB"}}));
  const double token = kv_bytes_per_token(t.s.model, t.s.kv.types);
  const double cold = double(cold_tokens(t.s, t.memory, {kCached - 1, 1})) * token;
  REQUIRE(cold > 0);
  const double by_link = t.bytes(Resource::kH2d) - t.hidden();
  const double by_cpu = t.bytes(Resource::kRam);
  CHECK(by_link + by_cpu == bytes_of(cold));
  CHECK(by_link > 0);
  CHECK(by_cpu > 0);
}

TEST_CASE("streamed weights cross the link once a token, and only those", "[traffic]") {
  const Token t(
      with(kRigcast, {{"placement.gpu_layers", "24"}, {"placement.decode_device", "gpu"}}));
  double streamed = 0;
  for (int l = 0; l < 8; ++l) streamed += double(t.s.tensors.layers[std::size_t(l)].bytes());
  // Below 33 layers the head stays on the CPU: its hidden state goes back, no logits do.
  CHECK(t.bytes(Resource::kH2d) == bytes_of(streamed + t.hidden()));
  CHECK(t.bytes(Resource::kD2h) == bytes_of(t.hidden()));
}

TEST_CASE("grouping layers changes no byte and no busy second", "[traffic]") {
  const Settings settings = GENERATE(
      Settings{}, Settings{{"placement.gpu_layers", "20"}},
      Settings{
          {"runtime.name", "rigcast"}, {"kv.policy", "paged"}, {"rig.vram_capacity", "6.1 GiB"}},
      Settings{{"runtime.name", "rigcast"},
               {"placement.gpu_layers", "24"},
               {"placement.decode_device", "gpu"}},
      Settings{{"kv.policy", "ram"}});
  const Token t(settings);
  const ResourceUse grouped =
      resource_use(t.s, token_step(t.s, t.placement, t.memory, kCached, {4}));
  for (std::size_t r = 0; r < kResourceCount; ++r) {
    CHECK(grouped.bytes[r] == bytes_of(t.use.bytes[r]));
    CHECK(grouped.seconds[r] == bytes_of(t.use.seconds[r]));
  }
}

TEST_CASE("the last layer's FFN is computed for tokens of which logits are wanted", "[traffic]") {
  const auto rows_of_ffns = [](const Settings& settings, bool last) {
    const Scenario s = scenario(settings);
    const Placement p = resolve_placement(s);
    const MemoryPlan memory = plan_memory(s, p, s.workload.context);
    const RequestBatches batches(s, s.workload);
    std::vector<TokenCount> rows(std::size_t(s.model.layers), 0);
    for (const StepOp& op : prefill_step(s, p, memory, batches.prompt_part(0, 100), last).ops)
      if (op.kind == ActivityKind::kFfn) rows[std::size_t(op.layer)] = op.tokens;
    return rows;
  };
  std::vector<TokenCount> want(32, 100);
  CHECK(rows_of_ffns(with(kRigcast, {{"placement.gpu_layers", "0"}}), true) == want);
  want.back() = 1;
  CHECK(rows_of_ffns(kRigcast, true) == want);
  want.back() = 0;
  CHECK(rows_of_ffns(kRigcast, false) == want);
  want.back() = 100;  // beside attention
  CHECK(rows_of_ffns(with(kRigcast, {{"model.name", "command-r7b"}}), false) == want);
}

TEST_CASE("the attention output of all tokens comes back from the CPU in the last layer, too",
          "[traffic]") {
  const Scenario s = scenario(with(kRigcast, {{"kv.policy", "ram"}}));
  const Placement p = resolve_placement(s);
  const MemoryPlan memory = plan_memory(s, p, s.workload.context);
  const RequestBatches batches(s, s.workload);
  for (const bool last : {false, true}) {
    std::vector<double> returned(std::size_t(s.model.layers), 0.0);
    for (const StepOp& op : prefill_step(s, p, memory, batches.prompt_part(0, 100), last).ops)
      if (op.kind == ActivityKind::kFfn && op.from == kHost)
        returned[std::size_t(op.layer)] += op.handoff_bytes.value;
    CHECK(returned == std::vector(returned.size(), 100 * hidden_bytes(s.model).value));
  }
}

TEST_CASE("a last layer in RAM is copied whole, however few tokens pass its FFN", "[traffic]") {
  for (const char* model : {"llama-3.1-8b", "qwen3-30b-a3b"}) {
    INFO(model);
    const Scenario s = scenario(with(kRigcast, {{"model.name", model},
                                                {"placement.gpu_layers", "0"},
                                                {"placement.decode_device", "gpu"},
                                                {"workload.prompt_tokens", "1024"}}));
    const Placement p = resolve_placement(s);
    const MemoryPlan memory = plan_memory(s, p, s.workload.context);
    const RequestBatches batches(s, s.workload);
    for (const bool last : {false, true}) {
      std::vector<double> copied(std::size_t(s.model.layers), 0.0);
      for (const StepOp& op : prefill_step(s, p, memory, batches.prompt_part(0, 512), last).ops)
        if (op.layer >= 0 && op.fetch) copied[std::size_t(op.layer)] += op.fetch->bytes.value;
      for (int l = 0; l < s.model.layers; ++l) {
        INFO(l);
        CHECK(copied[std::size_t(l)] ==
              Approx(double(s.tensors.layers[std::size_t(l)].bytes())).epsilon(0.02));
      }
    }
  }
}

TEST_CASE("a host that decodes has the prompt's head, and is given its cache", "[traffic]") {
  const Scenario s = scenario(with(kRigcast, {{"placement.decode_device", "cpu"}}));
  const Placement p = resolve_placement(s);
  REQUIRE(p.host_decodes());
  const MemoryPlan memory = plan_memory(s, p, s.workload.context);
  const TokenCount tokens = s.workload.prompt_tokens;
  REQUIRE(tokens <= s.settings.ubatch);
  const RequestBatches batches(s, s.workload);
  const Step step = prefill_step(s, p, memory, batches.prompt_part(0, tokens), true);
  CHECK(step.ops.back().kind == ActivityKind::kHead);
  CHECK(step.ops.back().device == kHost);
  const double cache = kv_bytes_per_token(s.model, s.kv.types) * double(tokens);
  CHECK(step.logits.value == bytes_of(cache));
  CHECK(step.logits_from == 0);
  // The GPU keeps what it has computed: nothing of it is copied back.
  const Step second = prefill_step(s, p, memory, batches.prompt_part(tokens, tokens), false);
  for (const StepOp& op : second.ops) CHECK_FALSE(op.fetch);
  CHECK(second.logits == 0_B);
}

TEST_CASE("states of the host's recurrent layers go to the GPU for a prompt, and back behind it",
          "[traffic]") {
  for (const char* depth : {"0", "1000"}) {
    INFO(depth);
    const Scenario s = scenario(with(kRigcast, {{"model.name", "qwen3.5-9b"},
                                                {"placement.gpu_layers", "16"},
                                                {"workload.depth", depth},
                                                {"workload.prompt_tokens", "1024"}}));
    const Placement p = resolve_placement(s);
    const MemoryPlan memory = plan_memory(s, p, s.workload.context);
    const RequestBatches batches(s, s.workload);
    REQUIRE(p.head_on == kHost);
    REQUIRE(batches.ubatch_count() == 2);
    for (const bool last : {false, true}) {
      const Step step = prefill_step(s, p, memory, batches.ubatch(last ? 1 : 0), last);
      std::vector<double> copied(std::size_t(s.model.layers), 0.0);
      double states = 0;
      for (const StepOp& op : step.ops)
        if (op.layer >= 0 && op.fetch) copied[std::size_t(op.layer)] += op.fetch->bytes.value;
      for (int l = 0; l < s.model.layers; ++l) {
        INFO(l);
        if (!p.offloadable(l) || !s.model.has_recurrent_mixer(l)) continue;
        const double state = state_bytes(s.model, l);
        const bool is_fetched = !last && s.workload.depth > 0;
        // Vectors of a layer are on the GPU.
        CHECK(copied[std::size_t(l)] ==
              Approx(double(s.tensors.layers[std::size_t(l)].bytes()) + (is_fetched ? state : 0))
                  .margin(0.1 * state));
        states += state;
      }
      REQUIRE(states > 0);
      CHECK(step.logits.value == (last ? states : 0));  // the head is on the host
    }
  }
}
