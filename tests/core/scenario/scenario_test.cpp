// What a scenario file says is what the scenario holds, and what it leaves out has a default.

#include "core/scenario/scenario.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "core/scenario/placement.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;
using fixtures::contains;
using fixtures::scenario;

namespace {

const std::string kSmall = "[rig]\ngpu = 'rtx-3060-12gb'\n[model]\nname = 'mistral-7b-v0.3'\n";

Scenario made(const std::string& text) {
  auto s = scenario(text);
  INFO(text);
  if (!s) FAIL(s.error().text());
  return *std::move(s);
}

bool warns(const Scenario& s, const std::string& part) {
  return std::ranges::any_of(s.warnings, [&](const std::string& w) { return contains(w, part); });
}

}  // namespace

TEST_CASE("Every key of a full scenario arrives where it belongs", "[scenario]") {
  const Scenario s = made(fixtures::kFullScenario);
  REQUIRE(s.rig.gpus.size() == 1);
  CHECK(s.rig.gpus[0].id == "rtx-3060-12gb");
  CHECK(s.rig.cpu.id == "core-i7-8700");
  CHECK(s.rig.ram.capacity.value == 32_GiB);
  CHECK(s.rig.ssd.id == "sata-ssd");
  CHECK(text(s.rig.links.at(0).pcie) == "3x16");
  CHECK(s.rig.os == OperatingSystem::kLinux);
  CHECK(s.rig.vram_reserved.value == 300_MiB);
  CHECK(s.model.id == "mistral-7b-v0.3");
  CHECK(s.quant == "Q4_K_M");
  CHECK(s.tensors.layers.size() == 32);
  CHECK_FALSE(s.placement.gpu_layers);
  CHECK(s.placement.decode_device == DecodeDevice::kGpu);
  CHECK(s.kv.policy == KvPolicy::kPaged);
  CHECK(s.kv.types.k == QuantFormat::kF16);
  CHECK(s.kv.types.v == QuantFormat::kF16);
  CHECK(s.kv.threshold == 0.95);
  CHECK(s.kv.hot_tokens == 512);
  CHECK(s.kv.block_tokens == 128);
  CHECK(s.kv.cold_type == QuantFormat::kQ4_0);
  CHECK(s.kv.evict == Eviction::kOldest);
  CHECK(s.kv.prefetch);
  CHECK(s.runtime.id == "rigcast");
  CHECK(s.settings.threads == 6);
  CHECK(s.settings.batch == 2048);
  CHECK(s.settings.ubatch == 512);
  CHECK(s.settings.flash_attention);
  CHECK(s.workload.prompt_tokens == 512);
  CHECK(s.workload.output_tokens == 6656);
  CHECK(s.workload.context == 8192);
  CHECK(s.workload.users == 1);
  CHECK(s.workload.start == Start::kWarm);
  CHECK(s.workload.last_position() == 7167);
  CHECK(s.warnings.empty());
}

TEST_CASE("Every key can be given another value", "[scenario]") {
  std::string text = fixtures::kFullScenario;
  const auto replace = [&](const std::string& from, const std::string& to) {
    REQUIRE(contains(text, from));
    text.replace(text.find(from), from.size(), to);
  };
  replace("os = \"linux\"", "os = \"windows\"");
  replace("vram_reserved = \"300 MiB\"", "vram_reserved = \"1 GiB\"");
  replace("gpu_layers = \"auto\"", "gpu_layers = 20");
  replace("decode_device = \"gpu\"", "decode_device = \"cpu\"");
  replace("policy = \"paged\"", "policy = \"combined\"");
  replace("type_k = \"f16\"", "type_k = \"q8_0\"");
  replace("threshold = 0.95", "threshold = 0.5");
  replace("hot_tokens = 512", "hot_tokens = 0");
  replace("evict = \"oldest\"", "evict = \"lru\"");
  replace("prefetch = true", "prefetch = false");
  replace("threads = 6", "threads = 2");
  replace("ubatch = 512", "ubatch = 128");
  replace("flash_attention = true", "flash_attention = false");
  replace("output_tokens = 6656", "output_tokens = 10");
  replace("start = \"warm\"", "depth = 100\nstart = \"cold\"");
  const Scenario s = made(text);
  CHECK(s.rig.os == OperatingSystem::kWindows);
  CHECK(s.rig.vram_reserved.value == 1_GiB);
  CHECK(s.placement.gpu_layers == 20);
  CHECK(s.placement.decode_device == DecodeDevice::kCpu);
  CHECK(s.kv.policy == KvPolicy::kCombined);
  CHECK(s.kv.types.k == QuantFormat::kQ8_0);
  CHECK(s.kv.types.v == QuantFormat::kF16);
  CHECK(s.kv.threshold == 0.5);
  CHECK(s.kv.hot_tokens == 0);
  CHECK(s.kv.evict == Eviction::kLru);
  CHECK_FALSE(s.kv.prefetch);
  CHECK(s.settings.threads == 2);
  CHECK(s.settings.ubatch == 128);
  CHECK_FALSE(s.settings.flash_attention);
  CHECK(s.workload.depth == 100);
  CHECK(s.workload.last_position() == 621);
  CHECK(s.workload.start == Start::kCold);
}

TEST_CASE("A GPU and a model are enough, and what was assumed is said", "[scenario]") {
  const Scenario s = made(kSmall);
  CHECK(s.quant == "Q4_K_M");
  CHECK(s.runtime.id == "llama.cpp");
  CHECK(s.kv.policy == KvPolicy::kVram);
  CHECK(s.kv.types.k == QuantFormat::kF16);
  CHECK_FALSE(s.placement.gpu_layers);
  CHECK(s.workload.prompt_tokens == 512);
  CHECK(s.workload.start == Start::kWarm);
  CHECK(s.settings.batch == 2048);
  CHECK(s.settings.threads == s.rig.cpu.cores);
  CHECK(warns(s, "no CPU given"));
  CHECK(warns(s, "no RAM given"));
  CHECK(warns(s, "no SSD given"));
  CHECK(s.rig.ram.bandwidth.kind == SourceKind::kAssumed);
}

TEST_CASE("A machine without a GPU decodes on its CPU", "[scenario]") {
  const Scenario s = made(
      "[rig]\ncpu = 'core-i7-8700'\n[model]\nname = 'mistral-7b-v0.3'\n"
      "[placement]\ndecode_device = 'cpu'\n[runtime]\nname = 'rigcast'\n");
  CHECK(s.rig.gpus.empty());
  CHECK(s.placement.decode_device == DecodeDevice::kPlacement);
  CHECK(contains(fixtures::error_of("[rig]\n[model]\nname = 'phi-4'\n[kv]\npolicy = 'paged'\n"
                                    "[runtime]\nname = 'rigcast'\n"),
                 "needs a GPU"));
  CHECK(contains(fixtures::error_of("[rig]\ngpu = []\nvram_capacity = '8 GiB'\n"
                                    "[model]\nname = 'phi-4'\n"),
                 "there is no GPU whose memory this would be"));
}

TEST_CASE("What is set wins over the file, whatever it was", "[scenario]") {
  auto document = TomlDocument::parse(fixtures::kFullScenario, "s.toml");
  REQUIRE(document);
  REQUIRE_FALSE(document->set("rig.gpu", "['2xrtx-3090']", "--gpu"));
  REQUIRE_FALSE(document->set("placement.tensor_split", "[3, 1]", "--tensor-split"));
  REQUIRE_FALSE(document->set("kv.threshold", "0.8", "--set kv.threshold"));
  REQUIRE_FALSE(document->set("workload.start", "\"cold\"", "--start"));
  const auto s = make_scenario(*document, fixtures::catalogue());
  REQUIRE(s);
  CHECK(s->rig.gpus.size() == 2);
  CHECK(s->rig.gpus[1].id == "rtx-3090");
  CHECK(s->rig.links.size() == 2);
  CHECK(s->placement.tensor_split == std::vector<double>{3, 1});
  CHECK(s->kv.threshold == 0.8);
  CHECK(s->workload.start == Start::kCold);
}

TEST_CASE("A named rig brings its parts, and the scenario's own figures win", "[scenario]") {
  const Scenario s =
      made("[rig]\nname = 'dual-rtx-3090'\nram_bandwidth = '64 GB/s'\n[model]\nname = 'phi-4'\n");
  CHECK(s.rig.gpus.size() == 2);
  CHECK(s.rig.ram.bandwidth.value == 64_GBps);
  CHECK(s.rig.ram.bandwidth.kind == SourceKind::kAssumed);
}

TEST_CASE("Any figure of the rig can be overridden", "[scenario]") {
  const Scenario s = made(
      "[rig]\ngpu = 'rtx-3060-12gb'\nvram_capacity = '10 GiB'\nvram_bandwidth = '300 GB/s'\n"
      "gpu_fp16 = '40 TFLOP/s'\nram_capacity = '48 GiB'\nram_bandwidth = '50 GB/s'\n"
      "pcie_h2d = '9 GB/s'\npcie_d2h = '8 GB/s'\npcie_pageable = '4 GB/s'\n"
      "pcie_latency = '7 us'\nssd_read = '3 GB/s'\ngpu_context = '500 MiB'\n"
      "ram_reserved = '1 GiB'\ncpu_cores = 4\n[model]\nname = 'phi-4'\n");
  CHECK(s.rig.gpus[0].memory.value == 10_GiB);
  CHECK(s.rig.gpus[0].bandwidth.value == 300_GBps);
  CHECK(s.rig.gpus[0].fp16_tensor->value == 40_TFLOPs);
  CHECK(s.rig.ram.capacity.value == 48_GiB);
  CHECK(s.rig.ram.bandwidth.value == 50_GBps);
  CHECK(s.rig.links[0].h2d.value == 9_GBps);
  CHECK(s.rig.links[0].d2h.value == 8_GBps);
  CHECK(s.rig.links[0].pageable.value == 4_GBps);
  CHECK(s.rig.links[0].latency.value == 7_us);
  CHECK(s.rig.ssd.sequential_read.value == 3_GBps);
  CHECK(s.rig.gpu_context.value == 500_MiB);
  CHECK(s.rig.ram_reserved.value == 1_GiB);
  CHECK(s.rig.cpu.cores == 4);
  CHECK(s.rig.usable_vram(0) == 10_GiB - 300_MiB);
}

TEST_CASE("Memory nodes of a rig come with their rates, and threads stay in one of them",
          "[scenario]") {
  const std::string rig =
      "[rig]\ngpu = []\ncpu = 'epyc-9354'\nnuma_nodes = 4\nnode_read = '80 GB/s'\n"
      "remote_read = '30 GB/s'\n[model]\nname = 'phi-4'\n";
  const Scenario s = made(rig);
  CHECK(s.rig.cpu.nodes() == 4);
  CHECK(s.rig.cpu.node_read->value == 80_GBps);
  CHECK(s.rig.cpu.remote_read->value == 30_GBps);
  CHECK(s.settings.threads == 32);
  CHECK(made(rig + "[runtime]\nnuma = 'mirror'\n").settings.threads == 32);
  const Scenario one = made(rig + "[runtime]\nnuma = 'isolate'\n");
  CHECK(one.settings.threads == 8);
  const Scenario many = made(rig + "[runtime]\nnuma = 'isolate'\nthreads = 32\n");
  CHECK(many.settings.threads == 16);  // two to a core
  CHECK(std::ranges::any_of(many.warnings, [](const std::string& warning) {
    return contains(warning, "32 threads on one memory node that runs 16");
  }));
}

TEST_CASE("The card and its slot agree on the slower generation and the fewer lanes",
          "[scenario]") {
  const auto link = [](const std::string& pcie) {
    return text(
        made("[rig]\ngpu = 'rtx-3060-12gb'\npcie = '" + pcie + "'\n[model]\nname = 'phi-4'\n")
            .rig.links[0]
            .pcie);
  };
  CHECK(link("3x16") == "3x16");
  CHECK(link("4x8") == "4x8");
  CHECK(link("5x16") == "4x16");
}

TEST_CASE("A chip with unified memory has one pool, sized by the RAM asked for", "[scenario]") {
  const Scenario s =
      made("[rig]\ngpu = 'apple-m2-ultra-76c'\nram = '64 GiB'\n[model]\nname = 'phi-4'\n");
  CHECK(s.rig.unified());
  CHECK(s.rig.ram.capacity.value == 64_GiB);
  CHECK(s.rig.usable_vram(0) <= 64_GiB);
  CHECK(contains(fixtures::error_of("[rig]\ngpu = 'apple-m2-ultra-76c'\nram = '2xddr4-2666'\n"
                                    "[model]\nname = 'phi-4'\n"),
                 "give its size alone"));
  CHECK(contains(fixtures::error_of("[rig]\ngpu = ['apple-m2-ultra-76c', 'rtx-3090']\n"
                                    "[model]\nname = 'phi-4'\n"),
                 "the only one of its rig"));
}

TEST_CASE("All layers on the GPU may be asked for as 99 or 999, as people do", "[scenario]") {
  for (const char* n : {"33", "99", "999"})
    CHECK(made(kSmall + "[placement]\ngpu_layers = " + n + "\n").placement.gpu_layers == 33);
  CHECK(made(kSmall + "[placement]\ngpu_layers = 0\n").placement.gpu_layers == 0);
}

TEST_CASE("The backend is what drives the GPUs, unless another one is asked for", "[scenario]") {
  const auto backend = [](const std::string& gpus, const std::string& more = "",
                          const std::string& os = "linux") {
    const std::string rig = "[rig]\ngpu = " + gpus + "\nos = '" + os + "'\n";
    return made(rig + "[model]\nname = 'phi-4'\n[runtime]\n" + more).settings.backend;
  };
  CHECK(backend("'rtx-3090'") == Backend::kCuda);
  CHECK(backend("'rx-7900-xtx'") == Backend::kRocm);
  CHECK(backend("'rx-7900-xtx'", "", "windows") == Backend::kVulkan);
  CHECK(backend("'apple-m2-ultra-76c'") == Backend::kMetal);
  CHECK(backend("'radeon-pro-5600m'", "", "macos") == Backend::kMetal);
  CHECK(backend("'arc-b580'") == Backend::kVulkan);
  CHECK(backend("['rtx-3090', 'rx-7900-xtx']") == Backend::kVulkan);
  CHECK(backend("[]") == Backend::kCpu);
  CHECK(backend("[]", "backend = 'cuda'") == Backend::kCpu);
  CHECK(backend("'rtx-3090'", "backend = 'auto'") == Backend::kCuda);
  CHECK(backend("'rtx-3090'", "backend = 'vulkan'") == Backend::kVulkan);
  CHECK(backend("'arc-b580'", "backend = 'sycl'") == Backend::kSycl);
  CHECK(contains(fixtures::error_of("[rig]\ngpu = 'rx-7900-xtx'\n[model]\nname = 'phi-4'\n"
                                    "[runtime]\nbackend = 'cuda'\n"),
                 "\"auto\" is rocm here"));
  CHECK(contains(fixtures::error_of("[rig]\ngpu = 'apple-m4-10c'\n[model]\nname = 'phi-4'\n"
                                    "[runtime]\nbackend = 'vulkan'\n"),
                 "vulkan does not drive"));
}

TEST_CASE("GPUs of two vendors are forecast with Vulkan by llama.cpp alone, which is said",
          "[scenario]") {
  const std::string text =
      "[rig]\ngpu = ['rtx-4090', 'rx-7900-xtx']\n[model]\nname = 'phi-4'\n[runtime]\n";
  const auto notes = [](const Scenario& s) {
    return std::ranges::count_if(s.warnings, [](const std::string& w) {
      return contains(w, "no backend but vulkan in common");
    });
  };
  CHECK(notes(made(text)) == 1);
  CHECK(notes(made("[rig]\ngpu = ['rtx-4090', 'rtx-3090']\n[model]\nname = 'phi-4'\n")) == 0);
  for (const char* runtime : {"transformers", "rigcast"})
    CHECK(contains(fixtures::error_of(text + "name = '" + runtime + "'\n"),
                   "does not run on NVIDIA GeForce RTX 4090 and AMD Radeon RX 7900 XTX together"));
}

TEST_CASE("Builds before 2026 keep the values of latent attention as well", "[scenario]") {
  const std::string lite = "[rig]\ngpu = 'rtx-4090'\n[model]\nname = 'deepseek-v2-lite'\n";
  const auto keeps = [&](const std::string& runtime) {
    return made(lite + "[runtime]\n" + runtime).model.mla->caches_values;
  };
  CHECK_FALSE(keeps(""));
  CHECK_FALSE(keeps("build = '2026-02'\n"));
  CHECK(keeps("build = '2025-12'\n"));
  CHECK_FALSE(keeps("build = '2025-12'\nname = 'ik-llama.cpp'\n"));
  const auto told = [&](const std::string& build) {
    return warns(made(lite + "[runtime]\nbuild = '" + build + "'\n"), "before 2025-05 caches");
  };
  CHECK(told("2025-04"));
  CHECK_FALSE(told("2025-05"));
  const Scenario drafted =
      made(lite + "[draft]\nname = 'deepseek-v2-lite'\n[runtime]\nbuild = '2025-12'\n");
  CHECK(drafted.draft->model.mla->caches_values);
}

TEST_CASE("Who counts layers as llama.cpp does is told which count here", "[scenario]") {
  const std::string air =
      "[rig]\ngpu = 'h100-sxm'\n[model]\nname = 'glm-4.5-air'\n[placement]\ngpu_layers = ";
  CHECK(made(air + "47\n").placement.gpu_layers == 47);
  CHECK(contains(fixtures::error_of(air + "48\n"), "46 layers and the output head"));
  const auto hint = scenario(air + "48\n");
  REQUIRE_FALSE(hint);
  CHECK(contains(hint.error().hint, "llama.cpp's -ngl"));
}

TEST_CASE("A build is a month, or the profile's own era", "[scenario]") {
  const std::string head = kSmall + "[runtime]\nbuild = ";
  CHECK_FALSE(made(kSmall).settings.build_year);
  CHECK(made(head + "'2024-07'\n").settings.build_year == 2024.5);
  CHECK(made(head + "'2023-01'\n").settings.build_year == 2023.0);
  for (const char* bad : {"''", "'2024'", "'2024-13'", "'2024-00'", "'2022-12'", "'2024-7'",
                          "'2024_07'", "'abcd-ef'", "'2100-01'", "'2024-071'"})
    CHECK(contains(fixtures::error_of(head + bad + "\n"), "no month of a build"));
}

TEST_CASE("Settings of the runtime arrive, with llama.cpp's defaults", "[scenario]") {
  const Scenario usual = made(kSmall);
  CHECK(usual.settings.mmap);
  CHECK(usual.settings.op_offload);
  CHECK(usual.settings.numa == NumaPolicy::kNone);
  CHECK_FALSE(usual.settings.cpu_blas);
  const Scenario other = made(kSmall +
                              "[runtime]\nmmap = false\nop_offload = false\n"
                              "numa = 'distribute'\ncpu_blas = true\n");
  CHECK_FALSE(other.settings.mmap);
  CHECK_FALSE(other.settings.op_offload);
  CHECK(other.settings.numa == NumaPolicy::kDistribute);
  CHECK(other.settings.cpu_blas);
}

TEST_CASE("Without op offload, the prefill of host layers stays on the CPU", "[scenario]") {
  const std::string layers = kSmall + "[placement]\ngpu_layers = 10\n[runtime]\nop_offload = ";
  CHECK(place(made(layers + "true\n"), 10).layers.front().prefill_on == 0);
  CHECK(place(made(layers + "false\n"), 10).layers.front().prefill_on == kHost);
}

TEST_CASE("The engine's server computes the host's parts of prompts on the host", "[scenario]") {
  const std::string engine = kSmall + "[placement]\ngpu_layers = 10\n[runtime]\nname = 'rigcast'\n";
  const std::string load = "[workload]\nusers = 4\n";
  CHECK(place(made(engine), 10).layers.front().prefill_on == 0);
  CHECK(place(made(engine + load), 10).layers.front().prefill_on == kHost);
  CHECK(place(made(engine + "op_offload = false\n" + load), 10).layers.front().prefill_on == kHost);
  CHECK(contains(fixtures::error_of(engine + "op_offload = true\n" + load), "the host computes"));
}

TEST_CASE("Builds for Metal have a BLAS on the CPU, unless it is said otherwise", "[scenario]") {
  const std::string mac = "[rig]\ngpu = 'apple-m2-ultra-76c'\n[model]\nname = 'phi-4'\n";
  CHECK(made(mac).settings.cpu_blas);
  CHECK_FALSE(made(mac + "[runtime]\ncpu_blas = false\n").settings.cpu_blas);
}

TEST_CASE("A token may be routed to fewer experts, or to more", "[scenario]") {
  const std::string head = "[rig]\ngpu = 'rtx-3090'\n[model]\nname = 'qwen3-30b-a3b'\n";
  const auto used = [&](const std::string& more) {
    return made(head + more).model.moe->experts_used;
  };
  CHECK(used("") == 8);
  CHECK(used("experts_used = 4\n") == 4);
  CHECK(used("experts_used = 1\n") == 1);
  CHECK(used("experts_used = 128\n") == 128);
  const Scenario few = made(head + "experts_used = 4\n"), usual = made(head);
  CHECK(few.tensors.bytes() == usual.tensors.bytes());
  CHECK(few.tensors.active_bytes(few.model) < usual.tensors.active_bytes(usual.model));
}

TEST_CASE("A file's true size scales every tensor, and no element of it", "[scenario]") {
  const Scenario usual = made(kSmall);
  const Scenario larger = made(kSmall + "size = '5 GiB'\n");
  const double tensors = double(larger.tensors.tensors.size());
  CHECK(std::abs(double(larger.tensors.bytes()) - (5_GiB).value) <= tensors);
  CHECK(larger.tensors.elements() == usual.tensors.elements());
  const double share = double(larger.tensors.bytes()) / double(usual.tensors.bytes());
  const WeightGroup& ffn = larger.tensors.layers[7].ffn;
  CHECK(ffn.elements() == usual.tensors.layers[7].ffn.elements());
  CHECK(double(ffn.bytes()) == Approx(share * double(usual.tensors.layers[7].ffn.bytes())));
  CHECK(double(larger.tensors.head.bytes()) == Approx(share * double(usual.tensors.head.bytes())));
  CHECK(contains(fixtures::error_of(kSmall + "size = '500 MiB'\n"), "the quant mix gives"));
  CHECK(contains(fixtures::error_of(kSmall + "size = '50 GiB'\n"), "the quant mix gives"));
}

TEST_CASE("A context beyond what the model was trained for is a warning", "[scenario]") {
  CHECK(warns(made(kSmall + "[workload]\ncontext = 65536\noutput_tokens = 1\n"), "trained for"));
  CHECK_FALSE(warns(made(kSmall + "[workload]\ncontext = 8192\n"), "trained for"));
}

TEST_CASE("More threads than the CPU runs is a warning, and the forecast takes all", "[scenario]") {
  const Scenario s =
      made("[rig]\ncpu = 'core-i7-8700'\n[model]\nname = 'phi-4'\n[runtime]\nthreads = 64\n");
  CHECK(s.settings.threads == 12);
  CHECK(warns(s, "64 threads"));
}

TEST_CASE("Without a context limit it grows with what is asked for", "[scenario]") {
  const Scenario s = made(kSmall + "[workload]\nprompt_tokens = 20000\noutput_tokens = 100\n");
  CHECK(s.workload.context >= 20100);
}

TEST_CASE("Prompt and output may fill the context to the last token, and not one more",
          "[scenario]") {
  const std::string head = kSmall + "[workload]\ncontext = 4096\nprompt_tokens = 4000\n";
  CHECK(made(head + "output_tokens = 96\n").workload.last_position() == 4095);
  const std::string error = fixtures::error_of(head + "output_tokens = 97\n");
  CHECK(contains(error, "4,097 tokens of prompt and output do not fit into a context of 4,096"));
  CHECK(contains(error, "--context 4097"));
}
