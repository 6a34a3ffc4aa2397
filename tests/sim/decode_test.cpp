// Time of one token: its parts, its bounds and how KV policies compare.
#include "sim/decode.hpp"

#include "perfmodel/cost/cpu_cost.hpp"
#include "perfmodel/cost/gpu_cost.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "perfmodel/runtimes/rigcast_policy.hpp"
#include "tests/catch.hpp"
#include "tests/sim/request_steps.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::sim;
using fixtures::scenario;
using fixtures::Settings;
using fixtures::token_step;
using fixtures::with;

namespace {

// A model of its own rig: only one may be in use at a time, as rates are the machine's.
struct Simulated {
  explicit Simulated(const Settings& settings, Fidelity fidelity = Fidelity::kFinal)
      : s(scenario(settings)), placement(resolve_placement(s)), model(s, placement, fidelity) {
    set_machine(s.rig);
  }
  double at(TokenCount cached) { return model.period(cached).value; }

  Scenario s;
  Placement placement;
  DecodeModel model;
};

double period(const Settings& settings, TokenCount cached) {
  return Simulated(settings).at(cached);
}

constexpr double kRounding = 1e-9;
// A growing cache changes the limit of a token from GPU to link. Meanwhile copies that ran ahead
// are used up, and tokens end a little earlier than their own copies alone would allow.
constexpr double kLeadUsedUp = 1e-4;

const Settings kRigcast = {{"runtime.name", "rigcast"}};
// VRAM for the weights and about 4,000 tokens of cache.
const Settings kTight =
    with(kRigcast, {{"rig.vram_capacity", "6.1 GiB"}, {"kv.prefetch", "false"}});

Settings policy(const char* name, const Settings& settings = kTight) {
  return with(settings, {{"kv.policy", name}});
}

}  // namespace

TEST_CASE("alone, a token takes the sum of its GPU part, CPU part and handoffs", "[decode]") {
  const int layers = GENERATE(0, 12, 32, 33);
  Simulated t(Settings{{"placement.gpu_layers", std::to_string(layers)}});
  const int on_gpu = layers_without_head(t.s, layers);
  const TokenCount cached = 1000;
  const Batch batch{cached - 1, 1, t.s.runtime.memory.kv_padding};
  const auto alone = [&](DeviceIndex device, const OpTraffic& traffic, double kernels) {
    const OpCost c =
        device == kHost ? cpu_cost(t.s, traffic, 1) : gpu_cost(t.s, 0, traffic, 1, kernels);
    const BytesPerSecond rate =
        device == kHost ? t.s.rig.ram.bandwidth.value : t.s.rig.gpus[0].bandwidth.value;
    return c.overhead + std::max(c.compute, c.equivalent_bytes / rate);
  };
  Seconds gpu{0}, cpu{0};
  for (int l = 0; l < t.s.model.layers; ++l) {
    const DeviceIndex device = l < 32 - on_gpu ? kHost : 0;
    const auto attention = attention_traffic(t.s.model, t.s.tensors, l, batch, t.s.kv.types);
    const auto ffn = ffn_traffic(t.s.model, t.s.tensors, l, 1);
    (device == kHost ? cpu : gpu) += alone(device, attention, t.s.runtime.kernels.attention.value) +
                                     alone(device, ffn, t.s.runtime.kernels.ffn.value);
  }
  const DeviceIndex head = layers > on_gpu ? 0 : kHost;
  (head == kHost ? cpu : gpu) +=
      alone(head, head_traffic(t.s.model, t.s.tensors, 1), t.s.runtime.kernels.head.value);
  // Into the GPU layers, if there are any, and out of them; at the end the logits or nothing.
  const HostLink& link = t.s.rig.links[0];
  const Seconds crossing = t.s.runtime.decode.crossing.value;
  const Bytes hidden = hidden_bytes(t.s.model);
  Seconds handoffs{0};
  if (layers > 0) handoffs += crossing + hidden / link.h2d.value;
  if (layers > 0 && head == kHost) handoffs += crossing + hidden / link.d2h.value;
  if (head != kHost) handoffs += logits_bytes(t.s.model) / link.d2h.value;
  const Seconds host = t.s.runtime.decode.token.value + t.s.runtime.decode.sample.value;
  CHECK(t.at(cached) == Approx((gpu + cpu + handoffs + host).value).epsilon(kRounding));
}

TEST_CASE("no token is faster than its busiest resource", "[decode]") {
  const Settings settings = GENERATE_COPY(
      Settings{}, Settings{{"placement.gpu_layers", "20"}}, Settings{{"placement.gpu_layers", "0"}},
      Settings{{"kv.policy", "ram"}}, policy("paged"), policy("stream"), policy("ram"),
      policy("paged", with(kTight, {{"kv.prefetch", "true"}})),
      policy("stream", with(kTight, {{"kv.prefetch", "true"}})),
      policy("combined", with(kTight, {{"kv.prefetch", "true"}})),
      with(kRigcast, {{"placement.gpu_layers", "24"}, {"placement.decode_device", "gpu"}}),
      with(kRigcast, {{"placement.gpu_layers", "0"}, {"placement.decode_device", "gpu"}}),
      with(kRigcast, {{"placement.gpu_layers", "33"}, {"placement.decode_device", "cpu"}}),
      Settings{{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}}, Settings{{"runtime.name", "transformers"}});
  const Fidelity fidelity = GENERATE(Fidelity::kFinal, Fidelity::kSweep);
  Simulated t(settings, fidelity);
  for (const TokenCount cached : {1, 600, 4000, 8000}) {
    const Step step = token_step(t.s, t.placement, t.model.memory(), cached);
    const double tolerance = overlaps(step) ? kLeadUsedUp : kRounding;
    CHECK(t.at(cached) >= lower_bound(t.s, step).value * (1 - tolerance));
  }
}

TEST_CASE("without overlap a cache in VRAM beats pages of it in RAM, and those a stream",
          "[decode]") {
  // VRAM that holds all of the cache, for policy vram only; its rates are the same.
  const Settings roomy = with(kTight, {{"rig.vram_capacity", "12 GiB"}});
  for (const TokenCount cached : {2000, 4500, 6000, 8000}) {
    const double vram = period(policy("vram", roomy), cached);
    const double paged = period(policy("paged"), cached);
    const double stream = period(policy("stream"), cached);
    CHECK(vram <= paged * (1 + kRounding));
    CHECK(paged <= stream * (1 + kRounding));
    CHECK(paged < stream);
  }
}

TEST_CASE("pages cost nothing until the first block has left VRAM", "[decode]") {
  const Settings roomy = with(kTight, {{"rig.vram_capacity", "12 GiB"}});
  Simulated paged(policy("paged"));
  const TokenCount resident = paged.model.memory().resident_tokens.value();
  REQUIRE(resident > 1000);
  REQUIRE(resident < 8000);
  const TokenCount left = resident + paged.s.kv.block_tokens;  // it leaves while the next one fills
  const double before = paged.at(left);
  const double after = paged.at(left + 1);
  CHECK(after > before * 1.01);
  CHECK(before == Approx(period(policy("vram", roomy), left)).epsilon(kRounding));
}

TEST_CASE("evicting the least recently used block is never faster than the oldest", "[decode]") {
  const Settings lru = with(policy("paged"), {{"kv.evict", "lru"}});
  for (const TokenCount cached : {2000, 4500, 6000, 8000})
    CHECK(period(lru, cached) >= period(policy("paged"), cached) * (1 - kRounding));
}

TEST_CASE("reading ahead is never slower than reading when needed", "[decode]") {
  const char* name = GENERATE("paged", "stream", "combined");
  for (const TokenCount cached : {2000, 4500, 6000, 8000}) {
    const double ahead = period(policy(name, with(kTight, {{"kv.prefetch", "true"}})), cached);
    CHECK(ahead <= period(policy(name), cached) * (1 + kRounding));
  }
}

TEST_CASE("link and CPU together beat each alone where they are comparable", "[decode]") {
  // A link of 12 GB/s and a CPU that reads the cache at 0.65 of 51.2 GB/s: without prefetch both
  // sides of the split take part in every layer.
  const Settings even =
      with(kTight, {{"rig.pcie_h2d", "25 GB/s"}, {"rig.ram_bandwidth", "45 GB/s"}});
  for (const TokenCount cached : {6000, 8000}) {
    const double combined = period(policy("combined", even), cached);
    CHECK(combined <= period(policy("paged", even), cached));
    CHECK(combined <= period(policy("ram", even), cached));
  }
}

TEST_CASE("a sliding window stops growing once it is full", "[decode]") {
  Simulated t(Settings{{"model.name", "mistral-7b-v0.1"}, {"runtime.name", "rigcast"}});
  const TokenCount window = t.s.model.window->tokens;
  REQUIRE(t.s.model.window->full_every == 0);
  CHECK(t.at(window - 1024) < t.at(window));
  CHECK(t.at(window + 1024) == Approx(t.at(window)).epsilon(kRounding));
  CHECK(t.at(8000) == Approx(t.at(window)).epsilon(kRounding));
}

TEST_CASE("layers that see everything go on growing beside those with a window", "[decode]") {
  Simulated t(Settings{{"model.name", "gemma-3-4b"}, {"placement.gpu_layers", "35"}});
  const TokenCount window = t.s.model.window->tokens;
  const double inside = t.at(window - 256) - t.at(window - 512);
  const double outside = t.at(window + 1024) - t.at(window + 768);
  // Of 34 layers 5 see everything: the slope falls to 5/34.
  CHECK(outside == Approx(inside * 5.0 / 34.0).epsilon(1e-6));
}

TEST_CASE("a longer cache is never faster", "[decode]") {
  const Settings settings = GENERATE_COPY(Settings{}, policy("paged"));
  Simulated t(settings);
  double before = 0;
  for (TokenCount cached = 1; cached <= 8192; cached += 455) {
    const double now = t.at(cached);
    CHECK(now >= before * (1 - kRounding));
    before = now;
  }
}

TEST_CASE("a longer cache is faster only where the host begins to help", "[decode]") {
  Simulated t(policy("combined"));
  double before = 0;
  int faster = 0;
  for (TokenCount cached = 1; cached <= 8192; cached += 455) {
    const double now = t.at(cached);
    CHECK(now >= before * (1 - kMinHostGain));
    faster += now < before * (1 - kRounding) ? 1 : 0;
    before = now;
  }
  CHECK(faster <= 1);
}
