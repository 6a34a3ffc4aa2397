#include "core/runtime/load_profile.hpp"

#include <set>
#include <string>
#include <vector>

#include "core/hardware/gpu_architecture.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/core/profile_fixture.hpp"

using namespace rigcast;
using fixtures::contains;
using fixtures::kProfile;
using fixtures::load_profile;
using fixtures::part_of;

namespace {

// The profile with `to` in place of the line `from` in the table of that header.
std::string changed(const std::string& table, const std::string& from, const std::string& to) {
  std::string text = "\n" + kProfile;
  const auto begin = table.empty() ? 0 : text.find("\n[" + table + "]\n");
  REQUIRE(begin != std::string::npos);
  const auto at = text.find("\n" + from, begin + 1 - (table.empty() ? 1 : 0));
  REQUIRE(at != std::string::npos);
  const auto next_table = text.find("\n[", begin + 1);
  REQUIRE((table.empty() || at < next_table));
  text.replace(at, text.find('\n', at + 1) - at, to.empty() ? "" : "\n" + to);
  return text;
}

// With further tables after it.
std::string plus(const std::string& more) { return kProfile + more; }

const BackendEfficiency& of(const RuntimeProfile& p, Backend backend) {
  return p.backends[std::size_t(backend)];
}

}  // namespace

TEST_CASE("A profile says what a runtime does", "[runtime]") {
  const auto p = load_profile(kProfile);
  REQUIRE(p);
  CHECK(p->name == "test");
  CHECK(p->base.empty());
  CHECK(p->has(KvPolicy::kRam));
  CHECK_FALSE(p->has(KvPolicy::kPaged));
  CHECK(p->kv_policy_names() == "vram, ram");
  CHECK(p->rules == RuntimeRules::kTransformers);
  CHECK(p->memory.kv_padding == 32);
  CHECK(p->memory.logits == LogitsRows::kPrompt);
  CHECK(p->memory.staging == 4_MiB);
  CHECK(p->prefill.staging == Staging::kPageable);
  CHECK(p->prefill.mapped_share.value == 0.55);
  CHECK(p->decode.crossing.value == 45_us);
  CHECK(p->decode.gpu_crossing.value == 130_us);
  CHECK(p->decode.kv_cycles.value == 0.02);
  CHECK(p->decode.kv_cycles_quant.value == 0.04);
  CHECK(p->decode.kv_without_flash.value == 1.6);
  CHECK(p->kernels.recurrent.value == 24);
  CHECK(p->kernels.ffn.value == 7.5);  // an average over layers need not be whole
  CHECK(p->kernels.moe.kind == SourceKind::kAssumed);
  CHECK(p->kernels.moe.source == "made up for a test");
  CHECK(p->batch.power.value == 0.9);
  CHECK(p->batch.score_bytes.value == 24);
  CHECK(p->batch.pipeline.value == 0.6);
  CHECK(p->cpu.int8_share.at("avx2").value == 0.25);
  CHECK(p->cpu.unoverlapped_share.value == 0.6);
  CHECK(p->cpu.cache.value == 0.25);
  CHECK(p->cpu.half_rate_batch.value == 2);
  CHECK(p->cpu.blas.value == 0.6);
  CHECK(p->uncertainty.prefill.value == 0.45);
}

TEST_CASE("What scales other figures is 1 where a profile does not state it", "[runtime]") {
  const auto p = load_profile(kProfile);
  REQUIRE(p);
  CHECK(p->batch.speed.value == 1);
  CHECK(p->cpu.speed.value == 1);
  CHECK(p->windows.launch.value == 1);
  CHECK(p->windows.cpu.value == 1);
  CHECK(p->decode.wide_heads.value == 1);
  for (const FormatEfficiency& f : p->formats) {
    CHECK(f.cycles.value == 1);
    CHECK(f.batch.value == 1);
    CHECK(f.cpu.value == 1);
    CHECK(f.cpu_batch.value == 1);
  }
  for (const BackendEfficiency& b : p->backends) {
    CHECK(b.slow_host.value == 1);
    CHECK(b.read.value == 1);
    CHECK(b.batch.value == 1);
    CHECK(b.attention.value == 1);
  }
  // From the first build on, and never.
  CHECK(p->graphs_since.value < 2020);
  CHECK(p->tiles_since.value < 2020);
  CHECK(p->prefill.experts_since.value <= 2020);
  CHECK_FALSE(p->prefill.experts_need_more);
}

TEST_CASE("An architecture takes from the default what it does not state", "[runtime]") {
  const auto p = load_profile(kProfile);
  REQUIRE(p);
  const GpuEfficiency& ampere = p->gpu_efficiency(part_of("ampere"));
  CHECK(ampere.read.value == 0.5);
  CHECK(ampere.read.kind == SourceKind::kFitted);
  CHECK(ampere.read.source == "a fit");
  CHECK(ampere.cycles.value == 0.06);
  CHECK(ampere.cycles.kind == SourceKind::kAssumed);
  CHECK(ampere.launch.value == 1.25);
  CHECK(ampere.kv_read.value == 0.6);
  CHECK(ampere.gemm.value == 0.42);
  CHECK(ampere.tiles.value == 0.24);
  CHECK(ampere.attention.value == 0.35);
  CHECK(p->gpu_efficiency(part_of("rdna3.5")).launch.value == 4);
  CHECK(p->gpu_efficiency(part_of("rdna3.5")).read.value == 0.78);
}

TEST_CASE("An architecture without a table of its own is the default", "[runtime]") {
  const auto p = load_profile(kProfile);
  REQUIRE(p);
  CHECK(p->gpu_efficiency(part_of("never-heard-of")).read.value == 0.78);
  CHECK(p->gpu_efficiency(part_of("")).read.value == 0.78);
}

TEST_CASE("The profiles' architectures are ones that there are", "[runtime]") {
  for (const std::string& id : fixtures::catalogue().ids("runtimes")) {
    const auto file = fixtures::catalogue().runtime_file(id);
    REQUIRE(file);
    const auto p = load_runtime_profile(*file);
    REQUIRE(p);
    for (const auto& [architecture, efficiency] : p->gpu) {
      INFO(id << ": " << architecture);
      CHECK((architecture == "default" || gpu_architecture(architecture) != nullptr));
    }
  }
}

TEST_CASE("Q5_0 and Q5_1 are as Q4_0 where a profile does not tell them apart", "[runtime]") {
  const std::string q4 = "[format.q4]\ncpu = 0.5\n";
  const auto as_q4 = load_profile(plus(q4));
  const auto apart = load_profile(plus(q4 + "[format.q5]\ncpu = 0.25\n"));
  REQUIRE(as_q4);
  REQUIRE(apart);
  for (const auto f : {QuantFormat::kQ5_0, QuantFormat::kQ5_1}) {
    CHECK(as_q4->format(f).cpu.value == 0.5);
    CHECK(apart->format(f).cpu.value == 0.25);
    CHECK(apart->format(f).cpu_batch.value == 1);
  }
  CHECK(apart->format(QuantFormat::kQ4_1).cpu.value == 0.5);
}

TEST_CASE("Every block format is in the group that its name says", "[runtime]") {
  const auto p = load_profile(plus(R"([format.q4_k]
cycles = 1.5
batch = 0.9
[format.float]
cpu = { value = 0.4, kind = "fitted", source = "a fit" }
cpu_batch = 0.3
[format.iq]
cycles = 2
)"));
  REQUIRE(p);
  CHECK(p->format(QuantFormat::kQ4_K).cycles.value == 1.5);
  CHECK(p->format(QuantFormat::kQ4_K).batch.value == 0.9);
  CHECK(p->format(QuantFormat::kQ4_K).cpu.value == 1);
  CHECK(p->format(QuantFormat::kQ5_K).cycles.value == 1);
  CHECK(p->format(QuantFormat::kQ4_0).cycles.value == 1);
  for (const auto f : {QuantFormat::kF32, QuantFormat::kF16, QuantFormat::kBF16}) {
    CHECK(p->format(f).cpu.value == 0.4);
    CHECK(p->format(f).cpu.kind == SourceKind::kFitted);
    CHECK(p->format(f).cpu_batch.value == 0.3);
  }
  for (const auto f : {QuantFormat::kIQ4_NL, QuantFormat::kIQ4_XS, QuantFormat::kMXFP4})
    CHECK(p->format(f).cycles.value == 2);
  for (const auto f : {QuantFormat::kQ4_0, QuantFormat::kQ4_1})
    CHECK(name(format_group(f)) == "q4");
  for (const auto f : {QuantFormat::kQ5_0, QuantFormat::kQ5_1})
    CHECK(name(format_group(f)) == "q5");
  for (const auto& [f, group] : {std::pair{QuantFormat::kQ8_0, "q8"},
                                 {QuantFormat::kQ2_K, "q2_k"},
                                 {QuantFormat::kQ3_K, "q3_k"},
                                 {QuantFormat::kQ5_K, "q5_k"},
                                 {QuantFormat::kQ6_K, "q6_k"}})
    CHECK(name(format_group(f)) == group);
}

TEST_CASE("Formats that were never measured stand on another one, and say so", "[runtime]") {
  for (int i = 0; i < kQuantFormatCount; ++i) {
    const auto f = QuantFormat(i);
    const auto other = stands_in_for(f);
    if (!other) continue;
    INFO(info(f).name);
    CHECK(format_group(f) == format_group(*other));
    CHECK_FALSE(stands_in_for(*other));
  }
  CHECK(stands_in_for(QuantFormat::kIQ2_XXS) == QuantFormat::kIQ4_XS);
  CHECK_FALSE(stands_in_for(QuantFormat::kIQ4_XS));
  const auto tensors = [](QuantFormat a, QuantFormat b) {
    TensorTable table;
    for (const QuantFormat f : {a, b}) {
      Tensor t;
      t.format = f;
      t.bytes = tensor_bytes(f, 256, 10);
      table.tensors.push_back(t);
    }
    return table;
  };
  const TensorTable small = tensors(QuantFormat::kIQ2_XXS, QuantFormat::kQ4_K);
  CHECK(note_on_stand_ins(small).find("IQ2_XXS") != std::string::npos);
  // 66 and 144 bytes a block, against 136 and 144.
  CHECK(share_of_stand_ins(small) == Approx((66.0 + 144) / (136 + 144)));
  const TensorTable measured = tensors(QuantFormat::kIQ4_XS, QuantFormat::kF32);
  CHECK(note_on_stand_ins(measured).empty());
  CHECK(share_of_stand_ins(measured) == 1);
}

TEST_CASE("A backend takes from the default backend what it does not state", "[runtime]") {
  const auto p = load_profile(changed("backend.default", "launch", R"(launch = "3 us"
slow_host = 2
read = 0.9
[backend.cuda]
launch = "1.5 us"
batch = 1.1
[backend.vulkan]
read = 0.8
attention = 0.5)"));
  REQUIRE(p);
  CHECK(of(*p, Backend::kCuda).launch.value == 1.5_us);
  CHECK(of(*p, Backend::kCuda).slow_host.value == 2);
  CHECK(of(*p, Backend::kCuda).read.value == 0.9);
  CHECK(of(*p, Backend::kCuda).batch.value == 1.1);
  CHECK(of(*p, Backend::kCuda).attention.value == 1);
  CHECK(of(*p, Backend::kVulkan).launch.value == 3_us);
  CHECK(of(*p, Backend::kVulkan).read.value == 0.8);
  CHECK(of(*p, Backend::kVulkan).attention.value == 0.5);
  for (const auto b : {Backend::kCpu, Backend::kRocm, Backend::kMetal, Backend::kSycl}) {
    CHECK(of(*p, b).launch.value == 3_us);
    CHECK(of(*p, b).read.value == 0.9);
    CHECK(of(*p, b).batch.value == 1);
  }
}

TEST_CASE("What Windows scales and what wide heads scale can be stated", "[runtime]") {
  const auto p =
      load_profile(changed("decode", "expert_cycles", "expert_cycles = 1.5\nwide_heads = 2") +
                   "[windows]\nlaunch = { value = 1.3, kind = \"fitted\", source = \"a fit\" }\n");
  REQUIRE(p);
  CHECK(p->decode.wide_heads.value == 2);
  CHECK(p->windows.launch.value == 1.3);
  CHECK(p->windows.launch.kind == SourceKind::kFitted);
  CHECK(p->windows.cpu.value == 1);
}

TEST_CASE("Latent attention launches what attention does, unless it is stated", "[runtime]") {
  const auto p = load_profile(kProfile);
  REQUIRE(p);
  CHECK(p->kernels.latent.value == p->kernels.attention.value);
  const auto own = load_profile(changed("kernels", "recurrent", "recurrent = 24\nlatent = 31.5"));
  REQUIRE(own);
  CHECK(own->kernels.latent.value == 31.5);
  CHECK(own->kernels.attention.value == 12);
}

TEST_CASE("What a chip's own rows tell is read under its id", "[runtime]") {
  const auto p =
      load_profile(plus("[chip.\"rtx-3090\"]\ndecode = 1.02\nprefill = 0.9\n"
                        "[chip.h100]\nprefill = 1.1\n"));
  REQUIRE(p);
  REQUIRE(p->chips.size() == 2);
  CHECK(p->chips.at("rtx-3090").decode.value == 1.02);
  CHECK(p->chips.at("rtx-3090").prefill.value == 0.9);
  CHECK(p->chips.at("h100").decode.value == 1);
  CHECK_FALSE(load_profile(plus("[chip.h100]\nspeed = 1\n")));
  CHECK_FALSE(load_profile(plus("[chip.h100]\ndecode = 0\n")));
}

TEST_CASE("Measured speeds lie in a spread of their regime, else of all", "[runtime]") {
  const auto p = load_profile(plus(R"([[spread]]
metric = "tg_tps"
regime = "all"
low = 0.7
high = 1.4
rows = 100
chips = 10
[[spread]]
metric = "tg_tps"
regime = "resident"
low = 0.9
high = 1.1
[[spread]]
metric = "pp_tps"
regime = "resident"
low = 0.5
high = 1.5
)"));
  REQUIRE(p);
  REQUIRE(p->spread(SpeedMetric::kDecode, "resident"));
  CHECK(p->spread(SpeedMetric::kDecode, "resident")->low == 0.9);
  REQUIRE(p->spread(SpeedMetric::kDecode, "CPU only"));
  CHECK(p->spread(SpeedMetric::kDecode, "CPU only")->high == 1.4);
  CHECK(p->spread(SpeedMetric::kDecode, "CPU only")->chips == 10);
  REQUIRE(p->spread(SpeedMetric::kPrefill, "resident"));
  CHECK(p->spread(SpeedMetric::kPrefill, "resident")->low == 0.5);
  CHECK(p->spread(SpeedMetric::kPrefill, "CPU only") == nullptr);
  const std::string head = "[[spread]]\nmetric = \"tg_tps\"\n";
  CHECK_FALSE(load_profile(plus(head)));
  CHECK_FALSE(load_profile(plus(head + "regime = \"all\"\nlow = 1.2\nhigh = 1.1\n")));
  CHECK_FALSE(load_profile(plus(head + "regime = \"all\"\nlow = 0\n")));
}

TEST_CASE("A profile states the families whose runs it rests on, by metric and host", "[runtime]") {
  const std::string ampere = "[[measured_family]]\nfamily = \"ampere\"\ndecode_rows = 5\n";
  const std::string rdna4 =
      "[[measured_family]]\nfamily = \"rdna4\"\nslow_host = true\ndecode_rows = 6\n";
  const std::string spread =
      "[[family_spread]]\nmetric = \"tg_tps\"\nregime = \"all\"\nlow = 0.5\nhigh = 2\n"
      "families = 7\n";
  const auto p = load_profile(plus(ampere + rdna4 + spread));
  REQUIRE(p);
  CHECK(p->has_measured("ampere", false, SpeedMetric::kDecode));
  CHECK_FALSE(p->has_measured("ampere", false, SpeedMetric::kPrefill));
  CHECK(p->has_measured("rdna4", true, SpeedMetric::kDecode));
  CHECK_FALSE(p->has_measured("rdna4", false, SpeedMetric::kDecode));
  REQUIRE(p->family_spread(SpeedMetric::kDecode, "resident"));
  CHECK(p->family_spread(SpeedMetric::kDecode, "resident")->chips == 7);
  CHECK(p->spread(SpeedMetric::kDecode, "resident") == nullptr);
  CHECK_FALSE(load_profile(plus("[[measured_family]]\ndecode_rows = 5\n")));
  CHECK_FALSE(load_profile(plus(ampere + "decodes = 1\n")));
  const auto silent = load_profile(plus(""));
  REQUIRE(silent);
  CHECK(silent->has_measured("rdna4", false, SpeedMetric::kPrefill));
}

TEST_CASE("Each required key that is missing is named", "[runtime]") {
  using Keys = std::vector<const char*>;
  const std::pair<const char*, Keys> tables[] = {
      {"", {"name", "era", "source", "kv_policies"}},
      {"memory", {"staging"}},
      {"load", {"chunk", "ssd_share", "host_copy"}},
      {"decode",
       {"crossing", "gpu_crossing", "token", "sample", "tokenize", "kv_cycles", "kv_cycles_quant",
        "kv_without_flash", "stream_share"}},
      {"prefill", {"mapped_share"}},
      {"kernels", {"attention", "recurrent", "ffn", "moe", "head"}},
      {"gpu.default", {"read", "cycles", "launch", "kv_read", "gemm", "tiles", "attention"}},
      {"backend.default", {"launch"}},
      {"batch",
       {"tile_half_rate_batch", "gemm_half_rate_batch", "power", "experts", "expand", "score_bytes",
        "pipeline"}},
      {"cpu",
       {"read", "read_per_thread", "one_token", "unoverlapped_share", "experts", "attention",
        "cache", "barrier_time", "half_rate_batch", "blas"}},
      {"cpu.int8_share", {"scalar"}},
      {"uncertainty", {"decode", "prefill", "load"}}};
  for (const auto& [table, keys] : tables)
    for (const std::string key : keys) {
      const auto p = load_profile(changed(table, key + " = ", ""));
      INFO(table << " without " << key);
      REQUIRE_FALSE(p);
      CHECK(contains(p.error().text(), std::string(table) + (*table ? "." : "") + key));
    }
}

TEST_CASE("A profile without a default GPU, or with no KV policy, is refused", "[runtime]") {
  std::string text = kProfile;
  text.replace(text.find("[gpu.default]"), 13, "[gpu.defualt]");
  const auto no_default = load_profile(text);
  REQUIRE_FALSE(no_default);
  CHECK(contains(no_default.error().text(), "gpu.default"));
  CHECK_FALSE(load_profile(changed("", "kv_policies", "kv_policies = []")));
  const auto refused =
      load_profile(changed("", "kv_policies", "kv_policies = [\"vram\", \"rom\"]"));
  REQUIRE_FALSE(refused);
  CHECK(contains(refused.error().text(), "no KV policy named \"rom\""));
}

TEST_CASE("Shares above what is possible and unknown keys are refused", "[runtime]") {
  struct Line {
    const char* table;
    const char* from;
    const char* to;
  };
  for (const auto& [table, from, to] :
       {Line{"gpu.default", "read", "read = 1.2"},
        {"gpu.default", "cycles", "cycles = 11"},
        {"gpu.default", "launch", "launch = 0"},
        {"gpu.default", "launch", "launch = \"4 us\""},
        {"gpu.default", "kv_read", "kv_read = 1.01"},
        {"gpu.default", "gemm", "gemm = 4.5"},
        {"gpu.default", "tiles", "tiles = -0.1"},
        {"gpu.ampere", "read", "kernel_gap = \"1 us\""},
        {"backend.default", "launch", "launch = 3"},
        {"backend.default", "launch", "launch = \"2 s\""},
        {"batch", "power", "power = 5"},
        {"batch", "pipeline", "pipeline = 1.1"},
        {"batch", "tile_half_rate_batch", "tile_half_rate_batch = -1"},
        {"cpu", "cache", "cache = 0"},
        {"cpu.int8_share", "scalar", "scalar = -2"},
        {"cpu.int8_share", "scalar", "scalar = 11"},
        {"cpu", "blas", "blas = 1.5"},
        {"cpu", "half_rate_batch", "half_rate_batch = -1"},
        {"kernels", "moe", "moe = 14\nlatent = -1"},
        {"decode", "crossing", "crossing = \"45\""},
        {"decode", "kv_without_flash", "kv_without_flash = 0"},
        {"decode", "kv_cycles", "kv_cycles = 11"},
        {"prefill", "mapped_share", "mapped_share = 2"},
        {"cpu", "unoverlapped_share", "unoverlapped_share = -0.5"},
        {"kernels", "moe", "moe = -1"},
        {"memory", "kv_padding", "kv_padding = 0"},
        {"memory", "logits", "logits = \"all\""},
        {"load", "ssd_share", "ssd_shar = 0.8"},
        {"", "era", "era = \"2026\"\ngraphs_since = 1999"},
        {"", "era", "era = \"2026\"\ntiles_since = \"2024\""}}) {
    INFO(table << ": " << to);
    const auto p = load_profile(changed(table, from, to));
    REQUIRE_FALSE(p);
    CHECK(p.error().where);
    CHECK(p.error().where->line > 1);
  }
  CHECK_FALSE(load_profile(plus("[format.q7]\nbatch = 1\n")));
  CHECK_FALSE(load_profile(plus("[format.q8]\nread = 1\n")));
  CHECK_FALSE(load_profile(plus("[backend.opencl]\nread = 1\n")));
  CHECK_FALSE(load_profile(plus("[windows]\nlaunch = 0\n")));
  const std::string wide = "expert_cycles = 1.5\nwide_heads = ";
  CHECK(load_profile(changed("decode", "expert_cycles", wide + "0.1")));
  CHECK_FALSE(load_profile(changed("decode", "expert_cycles", wide + "0")));
  CHECK_FALSE(load_profile(plus("[windows]\ngpu = 1\n")));
  CHECK_FALSE(load_profile(plus("[cpu.flops_per_cycle]\nscalar = 2\n")));
}

TEST_CASE("KV policies, backends and format groups have names of their own", "[runtime]") {
  for (const KvPolicy policy : {KvPolicy::kVram, KvPolicy::kRam, KvPolicy::kStream,
                                KvPolicy::kPaged, KvPolicy::kCombined, KvPolicy::kSpill})
    CHECK(kv_policy_from(name(policy)) == policy);
  CHECK_FALSE(kv_policy_from("VRAM"));
  CHECK_FALSE(kv_policy_from(""));
  std::set<std::string_view> backends, groups;
  for (int b = 0; b < kBackendCount; ++b) backends.insert(name(Backend(b)));
  for (int g = 0; g < kFormatGroupCount; ++g) groups.insert(name(FormatGroup(g)));
  CHECK(backends.size() == kBackendCount);
  CHECK(groups.size() == kFormatGroupCount);
}

TEST_CASE("Rules that nobody wrote are an error that names those there are", "[runtime]") {
  const auto unknown = load_profile(changed("", "rules", "rules = \"pool\""));
  REQUIRE_FALSE(unknown);
  CHECK(contains(unknown.error().message + unknown.error().hint, "pool"));
  CHECK(contains(unknown.error().message + unknown.error().hint, "llama.cpp"));
  const auto missing = load_profile(changed("", "rules", ""));
  REQUIRE_FALSE(missing);
  CHECK(contains(missing.error().message, "rules"));
}
