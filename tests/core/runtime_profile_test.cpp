#include "core/runtime_profile.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/catch.hpp"

using namespace rigcast;

namespace {

namespace fs = std::filesystem;

const std::string kProfile = R"(name = "test"
era = "2026"
source = "made up for a test"
kv_policies = ["vram", "ram"]
[memory]
kv = "grown-by-copy"
kv_padding = 32
logits = "prompt"
staging = "4 MiB"
[load]
chunk = "1 MiB"
ssd_share = 0.8
host_copy = "8 GB/s"
[prefill]
staging = "pageable"
[decode]
crossing = "45 us"
token = "120 us"
sample = "80 us"
tokenize = "1 us"
stream_share = 0.9
[kernels]
attention = 12
ffn = 7
moe = 14
head = 3
[gpu.default]
read_float = 0.78
read_q8 = 0.74
read_q4 = 0.70
read_k = 0.68
read_iq = 0.62
kv_read = 0.60
matmul_float = 0.75
matmul_quant = 0.60
matmul_half_batch = 64
attention = 0.35
kernel_gap = "1.5 us"
[gpu.ampere]
read_k = { value = 0.5, kind = "fitted", source = "a fit" }
[gpu."rdna3.5"]
kernel_gap = "4 us"
[cpu]
read = 0.72
kv_read = 0.28
read_per_thread = "10 GB/s"
operation_gap = "4 us"
[cpu.flops_per_cycle]
scalar = 2
avx2 = 24
[uncertainty]
decode = 0.2
prefill = 0.45
load = 0.4
)";

Result<RuntimeProfile> load(const std::string& text) {
  const fs::path file =
      fs::temp_directory_path() / ("profile-" + std::to_string(getpid()) + ".toml");
  std::ofstream(file, std::ios::binary) << text;
  auto profile = load_runtime_profile(file);
  fs::remove(file);
  return profile;
}

GpuPart part(const std::string& architecture) {
  GpuPart g;
  g.architecture = architecture;
  return g;
}

// The profile without the first line of that key.
std::string without(const std::string& key) {
  std::string text = "\n" + kProfile;
  const auto begin = text.find("\n" + key + " = ");
  REQUIRE(begin != std::string::npos);
  text.erase(begin, text.find('\n', begin + 1) - begin);
  return text;
}

}  // namespace

TEST_CASE("A profile says what a runtime does", "[runtime]") {
  const auto p = load(kProfile);
  REQUIRE(p);
  CHECK(p->name == "test");
  CHECK(p->has(KvPolicy::kRam));
  CHECK_FALSE(p->has(KvPolicy::kPaged));
  CHECK(p->kv_policy_names() == "vram, ram");
  CHECK(p->memory.kv == KvAllocation::kGrownByCopy);
  CHECK(p->memory.kv_padding == 32);
  CHECK(p->memory.logits == LogitsRows::kPrompt);
  CHECK(p->memory.staging == 4_MiB);
  CHECK(p->prefill.staging == Staging::kPageable);
  CHECK(p->decode.crossing.value == 45_us);
  CHECK(p->kernels.moe == 14);
  CHECK(p->cpu.flops_per_cycle.at("avx2").value == 24);
  CHECK(p->uncertainty.prefill.value == 0.45);
}

TEST_CASE("An architecture takes from the default what it does not state", "[runtime]") {
  const auto p = load(kProfile);
  REQUIRE(p);
  const GpuEfficiency& ampere = p->gpu_efficiency(part("ampere"));
  CHECK(ampere.read_k.value == 0.5);
  CHECK(ampere.read_k.kind == SourceKind::kFitted);
  CHECK(ampere.read_k.source == "a fit");
  CHECK(ampere.read_float.value == 0.78);
  CHECK(ampere.read_float.kind == SourceKind::kAssumed);
  CHECK(ampere.kernel_gap.value == 1.5_us);
  CHECK(p->gpu_efficiency(part("rdna3.5")).kernel_gap.value == 4_us);
  CHECK(p->gpu_efficiency(part("rdna3.5")).read_k.value == 0.68);
}

TEST_CASE("An architecture without a table of its own is the default", "[runtime]") {
  const auto p = load(kProfile);
  REQUIRE(p);
  CHECK(p->gpu_efficiency(part("never-heard-of")).read_k.value == 0.68);
  CHECK(p->gpu_efficiency(part("")).read_k.value == 0.68);
}

TEST_CASE("Every block format has the read share of its family", "[runtime]") {
  const auto p = load(kProfile);
  REQUIRE(p);
  const GpuEfficiency& e = p->gpu.at("default");
  CHECK(e.read_share(QuantFormat::kF16).value == 0.78);
  CHECK(e.read_share(QuantFormat::kQ8_0).value == 0.74);
  CHECK(e.read_share(QuantFormat::kQ4_0).value == 0.70);
  CHECK(e.read_share(QuantFormat::kQ6_K).value == 0.68);
  CHECK(e.read_share(QuantFormat::kMXFP4).value == 0.62);
  for (int f = 0; f < kQuantFormatCount; ++f) CHECK(e.read_share(QuantFormat(f)).value > 0);
}

TEST_CASE("Each required key that is missing is named", "[runtime]") {
  for (const char* key :
       {"name", "era", "source", "staging", "chunk", "ssd_share", "host_copy", "crossing", "token",
        "sample", "tokenize", "stream_share", "attention", "ffn", "moe", "head", "read_float",
        "read_q8", "read_q4", "read_k", "read_iq", "kv_read", "matmul_float", "matmul_quant",
        "matmul_half_batch", "kernel_gap", "read_per_thread", "operation_gap", "scalar", "decode",
        "prefill", "load"}) {
    const auto p = load(without(key));
    INFO(key);
    REQUIRE_FALSE(p);
    CHECK(p.error().text().find(key) != std::string::npos);
  }
}

TEST_CASE("A profile without a default GPU, or with no KV policy, is refused", "[runtime]") {
  std::string text = kProfile;
  text.replace(text.find("[gpu.default]"), 13, "[gpu.defualt]");
  const auto no_default = load(text);
  REQUIRE_FALSE(no_default);
  CHECK(no_default.error().text().find("gpu.default") != std::string::npos);
  std::string none = kProfile;
  none.replace(none.find("[\"vram\", \"ram\"]"), 15, "[]");
  CHECK_FALSE(load(none));
  std::string unknown = kProfile;
  unknown.replace(unknown.find("\"ram\""), 5, "\"rom\"");
  const auto refused = load(unknown);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().text().find("no KV policy named \"rom\"") != std::string::npos);
}

TEST_CASE("Shares above what is possible and unknown keys are refused", "[runtime]") {
  for (const auto& [from, to] : {std::pair{"read_k = 0.68", "read_k = 1.2"},
                                 {"kv_read = 0.28", "kv_read = 0"},
                                 {"kernel_gap = \"1.5 us\"", "kernel_gap = 1.5"},
                                 {"crossing = \"45 us\"", "crossing = \"45\""},
                                 {"scalar = 2", "scalar = -2"},
                                 {"kv_padding = 32", "kv_padding = 0"},
                                 {"ssd_share = 0.8", "ssd_shar = 0.8"},
                                 {"kv = \"grown-by-copy\"", "kv = \"grown\""}}) {
    std::string text = kProfile;
    const auto at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, std::string(from).size(), to);
    INFO(to);
    const auto p = load(text);
    REQUIRE_FALSE(p);
    CHECK(p.error().where);
    CHECK(p.error().where->line > 1);
  }
}

TEST_CASE("KV policies have names that lead back to them", "[runtime]") {
  for (const KvPolicy policy : {KvPolicy::kVram, KvPolicy::kRam, KvPolicy::kStream,
                                KvPolicy::kPaged, KvPolicy::kCombined, KvPolicy::kSpill})
    CHECK(kv_policy_from(name(policy)) == policy);
  CHECK_FALSE(kv_policy_from("VRAM"));
  CHECK_FALSE(kv_policy_from(""));
}
