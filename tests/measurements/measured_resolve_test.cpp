// A measurement is converted to the scenario that a user would write for the same run.

#include "measurements/resolve.hpp"

#include <map>
#include <random>
#include <sstream>
#include <string>

#include "measurements/read_measurements.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"
#include "tests/measurements/measured_fixture.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using fixtures::contains;

namespace {

Resolver& resolver() {
  static Resolver shared(fixtures::catalogue());
  return shared;
}

Measurement run_of(const std::string& gpu, const std::string& model = "Llama-3.1-8B",
                   const std::string& quant = "Q4_K_M") {
  Measurement m;
  m.gpu = gpu;
  m.gpu_count = gpu == "none" ? 0 : 1;
  m.cpu = "Ryzen 9 7950X";
  m.model = model;
  m.quant = quant;
  m.date = "2025-10";
  m.tool = "llama-bench";
  m.generated = 128;
  m.value = 1;
  return m;
}

ResolvedRun resolved(const Measurement& m) {
  auto run = resolver().resolve(m);
  if (!run) FAIL(run.error().text());
  return *std::move(run);
}

std::string refusal(const Measurement& m) {
  const auto run = resolver().resolve(m);
  return run ? "" : run.error().message;
}

}  // namespace

TEST_CASE("A run on one card is resident, with the settings that are stated", "[measured]") {
  Measurement m = run_of("RTX 3090 24GB");
  m.threads = 8;
  m.batch = 256;
  m.ubatch = 512;
  m.flash_attention = false;
  m.depth = 8192;
  const ResolvedRun run = resolved(m);
  const Scenario& s = *run.scenario;
  CHECK(run.regime == Regime::kResident);
  CHECK(run.chip == "rtx-3090");
  CHECK(run.deep);
  CHECK_FALSE(run.ram_known);
  CHECK_FALSE(s.placement.gpu_layers);  // not stated: what fits
  CHECK(s.settings.threads == 8);
  CHECK(s.settings.ubatch == 256);
  CHECK_FALSE(s.settings.flash_attention);
  CHECK(s.settings.build_year == 2025.75);
  CHECK(s.settings.backend == Backend::kCuda);
  CHECK(s.workload.depth == 8192);
  CHECK(s.workload.prompt_tokens == 1);
  CHECK(s.workload.output_tokens == 128);
  CHECK(s.workload.context == 8448);
  CHECK(s.workload.start == Start::kResident);
  CHECK(contains(run.rig, "3090"));
  CHECK(contains(run.rig, "7950X"));
}

TEST_CASE("A prefill has its prompt and one token of output", "[measured]") {
  Measurement m = run_of("RTX 3090");
  m.metric = Metric::kPp;
  m.prompt = 2048;
  m.generated = 0;
  CHECK(resolved(m).scenario->workload.prompt_tokens == 2048);
  CHECK(resolved(m).scenario->workload.output_tokens == 1);
  m.prompt = 0;
  CHECK(resolved(m).scenario->workload.prompt_tokens == 512);
}

TEST_CASE("Every regime is told, the narrowest limit first", "[measured]") {
  const auto regime = [](const Measurement& m) { return name(resolved(m).regime); };
  CHECK(regime(run_of("none")) == "CPU only");
  CHECK(regime(run_of("Apple M2 Ultra (76-core GPU) 192GB")) == "unified memory");
  Measurement m = run_of("RTX 3090", "Qwen3-30B-A3B");
  CHECK(regime(m) == "resident");
  m.gpu_count = 2;
  CHECK(regime(m) == "several GPUs");
  m.gpu_layers = 20;
  CHECK(regime(m) == "layer split");
  m.gpu_layers = 48;  // the head stays on the host
  CHECK(regime(m) == "layer split");
  m.gpu_layers = 99;
  m.cpu_moe_layers = 400;
  CHECK(regime(m) == "experts in RAM");
  CHECK(resolved(m).scenario->placement.cpu_moe_layers == 48);
  m.kv_location = "cpu";
  CHECK(regime(m) == "KV in RAM");
  CHECK(resolved(m).scenario->kv.policy == KvPolicy::kRam);
  m.gpu_layers = 0;  // the cache is in RAM as its layers are
  m.cpu_moe_layers = 0;
  CHECK(regime(m) == "layer split");
  CHECK(resolved(m).scenario->kv.policy == KvPolicy::kVram);
}

TEST_CASE("Layers with experts in RAM are counted without the dense ones before them",
          "[measured]") {
  Measurement m = run_of("RTX 5090", "DeepSeek-R1-0528 671B", "IQ4_KS_R4");
  m.size = 367.77 * 1_GiB;
  m.cpu = "EPYC 9355 32c";
  m.ram_type = "DDR5-6400 12ch";
  m.gpu_layers = 63;
  m.ram_expert_layers = 58;
  const auto leading = [&] { return resolved(m).scenario->placement.cpu_moe_layers; };
  CHECK(leading() == 61);
  m.ram_expert_layers = 57;
  CHECK(leading() == 60);
  m.ram_expert_layers = {};
  m.notes = "exps=CPU, mla=3 fmoe";
  CHECK(leading() == 61);
  m.ram_expert_layers = {};
  m.cpu_moe_layers = 60;  // as the program's option counts
  CHECK(leading() == 60);
  CHECK(resolved(m).regime == Regime::kExpertsInRam);
}

TEST_CASE("As many GPUs are named as there are, or one for all", "[measured]") {
  Measurement m = run_of("RTX 5090 + RTX 3090");
  m.gpu_count = 3;
  CHECK(refusal(m) == "3 GPUs, of which 2 are named");
  m.gpu = "RTX 5090 + RTX 3090 + RTX 3090";
  CHECK(resolved(m).scenario->rig.gpus.size() == 3);
  m.gpu = "RTX 3090";
  CHECK(resolved(m).scenario->rig.gpus.size() == 3);
}

TEST_CASE("Layers of latent attention are light where GPUs share experts", "[measured]") {
  Measurement m = run_of("RTX 5090 + RTX 3090 + RTX 3090", "DeepSeek-R1-0528 671B", "IQ1_S");
  m.gpu_count = 3;
  m.cpu = "Core i9-7980XE";
  m.ram_type = "DDR4 4ch";
  m.gpu_layers = 99;
  m.ram_expert_layers = 34;  // 24 of 2.1 GiB are on GPUs with 80 GiB
  m.ubatch = 4096;
  CHECK(resolved(m).regime == Regime::kExpertsInRam);
}

TEST_CASE("A name says the chip, or too little", "[measured]") {
  CHECK(resolved(run_of("Instinct MI50 (gfx906; VRAM size not stated)")).chip == "mi50-32gb");
  CHECK(contains(refusal(run_of("RX 570", "gemma-3-1b")), "ambiguous"));
  CHECK(refusal(run_of("Apple M2 Ultra (core count/RAM not stated)")) == "the GPU is not named");
  Measurement m = run_of("none");
  for (const auto& [stated, chip] : std::map<std::string, std::string>{
           {"1 socket of 2x Xeon 6980P (128c)", "xeon-6980p"},
           {"Core i9-7980XE 18c 4.2GHz", "core-i9-7980xe"},
           {"Threadripper PRO 7975WX 32c FCLK 2100", "threadripper-pro-7975wx"},
           {"Raspberry Pi 5 16GB", "raspberry-pi-5"},
           {"Xeon QYFS ES (8480 equivalent) W790", "xeon-platinum-8480"}}) {
    m.cpu = stated;
    CHECK(resolved(m).chip == chip);
  }
  m.cpu = "1 socket of 2x Xeon 6980P (128c)";
  m.ram_type = "DDR5 12 channels per socket (type/speed not stated)";
  CHECK(resolved(m).scenario->rig.cpu.sockets == 1);
  m.cpu = "AWS m7a instance (AMD EPYC Genoa class, not stated in file)";
  CHECK(contains(refusal(m), "no CPU named"));
}

TEST_CASE("Formats of ik_llama.cpp have the size of their blocks", "[measured]") {
  const auto gib = [](const std::string& quant, const std::string& notes = "") {
    Measurement m = run_of("none", "Llama-3.1-8B", quant);
    m.notes = notes;
    return double(resolved(m).scenario->tensors.bytes()) / 0x1p30;
  };
  constexpr double kSame = 0.03;  // a file so near to a mix is taken as that mix
  // ik_llama.cpp PR 533: files with every matrix in the format, to two decimals.
  CHECK(gib("IQ4_KS (pure)") == Approx(3.98).epsilon(kSame));
  CHECK(gib("IQ5_K (pure)") == Approx(5.14).epsilon(kSame));
  CHECK(gib("IQ6_K (pure)") == Approx(6.19).epsilon(kSame));
  CHECK(gib("Q4_K (pure)") == Approx(8.03e9 * 4.5 / 8 / 0x1p30).epsilon(kSame));
  CHECK(gib("IQ1_S (pure)") == Approx(2.07).epsilon(kSame));  // as published
  const double ends = 2 * 128256.0 * 4096;
  CHECK(gib("IQ2_KL (pure)", "pure quant, output and embedding Q8_0") ==
        Approx(((8.03e9 - ends) * 2.6875 + ends * 8.5) / 8 / 0x1p30).epsilon(kSame));
  CHECK(gib("IQ3_KS") > gib("IQ3_KS (pure)"));
  CHECK(gib("IQ3_KS_R4") == gib("IQ3_KS"));
  CHECK(gib("Q2_K_M") == gib("Q2_K"));
  CHECK(gib("i1-Q4_K_M") == gib("Q4_K_M"));
  Measurement m = run_of("none", "Llama-3.1-8B", "IQ3_K mix");
  CHECK(contains(refusal(m), "no rule for mix"));  // a recipe is not the format of its name
  m = run_of("none", "Qwen3.6-35B-A3B", "UD-Q8_K_XL");
  CHECK(double(resolved(m).scenario->tensors.bytes()) / 0x1p30 == Approx(35.80).epsilon(kSame));
  m.model = "Qwen3.5-35B-A3B";  // of which none is known
  CHECK(contains(refusal(m), "no rule for mix"));
}

TEST_CASE("Other engines, and splits that a runtime has not, are refused", "[measured]") {
  Measurement m = run_of("RTX 3090");
  m.tool = "ktransformers 0.5.2 (kt-kernel + SGLang)";
  CHECK(refusal(m) == "ktransformers is not modelled");
  m = run_of("RTX 3090");
  m.gpu_count = 8;
  m.date = "2026-08";
  m.notes = "8x3090 split mode graph";
  CHECK(contains(refusal(m), "no split mode \"graph\" of llama.cpp"));
  m.notes = "8x3090 split mode row";
  CHECK(contains(refusal(m), "split mode row is not forecast"));
  m.notes = "8x3090 split mode tensor";
  CHECK(resolved(m).shares_layers());
  CHECK(resolved(m).scenario->rig.interconnect == "pcie-host");
  m.notes = "8x3090 split mode tensor, P2P";
  CHECK(resolved(m).scenario->rig.interconnect == "pcie-p2p");
  m.notes = "8x3090 split mode tensor, no P2P";
  CHECK(resolved(m).scenario->rig.interconnect == "pcie-host");
  m.notes = "split mode layer";
  CHECK_FALSE(resolved(m).shares_layers());
  m.gpu_count = 16;
  CHECK(resolved(m).scenario->rig.gpus.size() == 16);
}

TEST_CASE("LocalScore is a runtime of its own, whose speeds are means of nine tests",
          "[measured]") {
  Measurement m = run_of("RTX 3090");
  m.tool = "localscore (llamafile)";
  m.generated = 0;
  CHECK(resolved(m).scenario->runtime.id == "llamafile");
  // 1,024 + 4,096 + 2 x 2,048 + 1,024 + 1,280 + 384 + 64 + 16 tokens of nine prompts, and of
  // answers 16 + 2 x 256 + 768 + 1,024 + 3,072 + 1,152 + 1,024 + 1,536.
  CHECK(resolved(m).scenario->workload.depth == 11984 / 9 + 1);
  CHECK(resolved(m).scenario->workload.output_tokens == 9104 / 9 + 1);
  m.metric = Metric::kPp;
  CHECK(resolved(m).scenario->workload.depth == 0);
  CHECK(resolved(m).scenario->workload.prompt_tokens == 11984 / 9 + 1);
  m.prompt = 512;
  CHECK(resolved(m).scenario->workload.prompt_tokens == 512);
  m.tool = "llamafile-bench 0.8.6";
  CHECK(resolved(m).scenario->runtime.id == "llamafile");
  CHECK(resolved(m).scenario->workload.prompt_tokens == 512);
}

TEST_CASE("A server's cache is as long as stated, a benchmark's as its run", "[measured]") {
  Measurement m = run_of("RTX 3090");
  m.notes = "backend=CUDA; ctx 32768";
  CHECK(resolved(m).scenario->workload.context == 256);
  m.tool = "llama-server";
  CHECK(resolved(m).scenario->workload.context == 32768);
}

TEST_CASE("Cards of two kinds are one rig and one chip", "[measured]") {
  Measurement m = run_of("RTX 5090 + RTX 4090");
  m.gpu_count = 2;
  m.pcie = "5.0 x16 + 4.0 x16";
  m.notes = "tensor-split 25,75";
  const ResolvedRun run = resolved(m);
  CHECK(run.chip == "rtx-4090+rtx-5090");
  CHECK(run.scenario->placement.tensor_split == std::vector<double>{25, 75});
  CHECK(text(run.scenario->rig.links.at(0).pcie) == "5x16");
  CHECK(text(run.scenario->rig.links.at(1).pcie) == "4x16");
  Measurement four = run_of("RTX 3090");
  four.gpu_count = 4;
  CHECK(resolved(four).chip == "rtx-3090");
  CHECK(resolved(four).scenario->rig.gpus.size() == 4);
  CHECK(contains(resolved(four).rig, "4 x "));
}

TEST_CASE("Memory in a name counts where the part has another", "[measured]") {
  CHECK(resolved(run_of("Apple M3 Ultra 512GB")).scenario->rig.ram.capacity.value == 512_GiB);
  CHECK(resolved(run_of("RTX 2080 Ti 22GB")).scenario->rig.gpus[0].memory.value == 22_GiB);
  CHECK(resolved(run_of("RTX 3090 24GB")).scenario->rig.gpus[0].memory.value == 24_GiB);
}

TEST_CASE("RAM is known when its bandwidth follows from what is stated", "[measured]") {
  Measurement m = run_of("none");
  CHECK_FALSE(resolved(m).ram_known);
  m.ram_type = "DDR5-6000 dual channel 64GB";
  CHECK(resolved(m).ram_known);
  CHECK(resolved(m).scenario->rig.ram.bandwidth.value == 96_GBps);
  CHECK(resolved(m).scenario->rig.ram.capacity.value == 64_GiB);
  m.ram_bandwidth = 64_GBps;
  CHECK(resolved(m).scenario->rig.ram.bandwidth.value == 64_GBps);
  m.cpu = "2x Xeon E5-2697A v4";
  m.ram_bandwidth.reset();
  m.ram_type = "DDR4-2400, 4ch per socket";
  CHECK(resolved(m).scenario->rig.ram.bandwidth.value.value == Approx(8 * 19.2e9));
  m.cpu = "Apple M2 Max (CPU)";
  m.ram_type = "LPDDR5 unified";
  CHECK(resolved(m).ram_known);
  CHECK(resolved(m).scenario->rig.ram.bandwidth.value > 300_GBps);
}

TEST_CASE("A CPU that nobody names is a desktop's of its RAM's generation and threads",
          "[measured]") {
  const auto cpu = [](const std::string& ram, std::optional<int> threads) {
    Measurement m = run_of("RTX 3090");
    m.cpu = "";
    m.ram_type = ram;
    m.threads = threads;
    return resolved(m).scenario->rig.cpu.id;
  };
  CHECK(cpu("", {}) == "ryzen-7-5800x");
  CHECK(cpu("DDR4-3200", 8) == "ryzen-7-5800x");
  CHECK(cpu("DDR4-3200", 9) == "ryzen-9-5950x");
  CHECK(cpu("", 16) == "ryzen-9-5950x");
  CHECK(cpu("DDR5-6000 96GB", {}) == "ryzen-7-7700x");
  CHECK(cpu("DDR5-6000 96GB", 8) == "ryzen-7-7700x");
  CHECK(cpu("DDR5-6000 96GB", 12) == "ryzen-9-7900x");
  CHECK(cpu("DDR5-6000 96GB", 13) == "ryzen-9-7950x");
}

TEST_CASE("What is assumed of the CPU is no part of the rig's name", "[measured]") {
  Measurement m = run_of("RTX 3090");
  m.cpu = "";
  CHECK_FALSE(contains(resolved(m).rig, "Ryzen"));
  CHECK(resolved(m).chip == "rtx-3090");
  CHECK(resolved(run_of("Apple M2 Ultra (76-core GPU)")).scenario->rig.cpu.architecture ==
        "apple-m2");  // a chip includes its CPU
}

TEST_CASE("A virtual machine has a core for every two of its threads", "[measured]") {
  const auto cores = [](const std::string& cpu) {
    Measurement m = run_of("none");
    m.cpu = cpu;
    return resolved(m).scenario->rig.cpu.cores;
  };
  CHECK(cores("EPYC 9355") == 32);
  CHECK(cores("EPYC 9355 (VM, 56 threads)") == 28);
  CHECK(cores("EPYC 9355 (VM 8 threads)") == 4);
  CHECK(cores("EPYC 9355 (VM, 64 threads)") == 32);
  CHECK(cores("EPYC 9355 (VM, 900 threads)") == 32);  // no more than there are
  CHECK(cores("EPYC 9355 (56 threads)") == 32);
}

TEST_CASE("Notes on sockets, experts and a BLAS become settings", "[measured]") {
  Measurement m = run_of("RTX 3090", "Qwen3-30B-A3B");
  CHECK(resolved(m).scenario->settings.numa == NumaPolicy::kNone);
  CHECK_FALSE(resolved(m).scenario->settings.cpu_blas);
  CHECK(resolved(m).scenario->model.moe->experts_used == 8);
  m.notes = "numa distribute, -ser 4,1, CPU BLAS";
  CHECK(resolved(m).scenario->settings.numa == NumaPolicy::kDistribute);
  CHECK(resolved(m).scenario->settings.cpu_blas);
  CHECK_FALSE(resolved(m).scenario->settings.op_offload);
  CHECK(resolved(m).scenario->model.moe->experts_used == 4);
  m.notes = "ser=9,1";  // at most nine: all that the model takes
  CHECK(resolved(m).scenario->model.moe->experts_used == 8);
  m.model = "Llama-3.1-8B";
  m.notes = "ser=4,1";
  CHECK(refusal(m).empty());  // nothing to leave out
}

TEST_CASE("A mix without a rule is the nearest one, at the file's size", "[measured]") {
  Measurement m = run_of("RTX 3090", "Llama-3.1-8B", "UD-Q4_K_XL");
  CHECK(refusal(m) == "no rule for mix UD-Q4_K_XL and no file size stated");
  m.size = 4.64 * 1_GiB;
  const ResolvedRun run = resolved(m);
  CHECK(run.scenario->quant == "Q4_K_M");
  const Measurement exact = run_of("RTX 3090");
  CHECK(double(resolved(exact).scenario->tensors.bytes()) ==
        Approx(4.58 * (1_GiB).value).epsilon(0.01));
  Measurement odd = exact;
  odd.size = 6_GiB;  // of a known mix, but not its size
  CHECK(resolved(odd).scenario->quant == "Q4_K_M");
  CHECK(double(resolved(odd).scenario->tensors.bytes()) == Approx((6_GiB).value).epsilon(1e-4));
  CHECK(refusal(run_of("RTX 3090", "Llama-3.1-8B", "")) == "no quant mix and no file size stated");
  odd.size = 60_GiB;
  CHECK(contains(refusal(odd), "the quant mix gives"));
}

TEST_CASE("Types of the cache, flash attention and the runtime follow the source", "[measured]") {
  Measurement m = run_of("RTX 3090");
  m.type_k = "q8_kv";
  m.type_v = "q8_0";
  m.flash_attention = false;  // a quantised V cache needs it
  CHECK(resolved(m).quantized_kv);
  CHECK(resolved(m).scenario->settings.flash_attention);
  m.type_k = m.type_v = "bf16";
  CHECK_FALSE(resolved(m).quantized_kv);
  m.flash_attention.reset();
  m.date = "2025-08";
  CHECK_FALSE(resolved(m).scenario->settings.flash_attention);
  m.date = "2025-09";
  CHECK(resolved(m).scenario->settings.flash_attention);
  m.tool = "ollama via llmfit bench";
  CHECK_FALSE(resolved(m).scenario->settings.flash_attention);
  m.tool = "llama-bench (ik_llama.cpp)";
  CHECK_FALSE(resolved(m).scenario->settings.flash_attention);
  CHECK(resolved(m).scenario->runtime.id == "ik-llama.cpp");
  m.notes = "backend=CUDA,BLAS mmap=0";
  CHECK_FALSE(resolved(m).scenario->settings.op_offload);
  CHECK_FALSE(resolved(m).scenario->settings.mmap);
}

TEST_CASE("The system is taken from its name", "[measured]") {
  const auto os = [](const std::string& stated) {
    Measurement m = run_of("RTX 3090");
    m.os = stated;
    return resolved(m).scenario->rig.os;
  };
  CHECK(os("Windows 10") == OperatingSystem::kWindows);
  CHECK(os("WSL2 Ubuntu 24.04") == OperatingSystem::kWsl2);
  CHECK(os("Kubuntu") == OperatingSystem::kLinux);
  CHECK(os("") == OperatingSystem::kLinux);
  CHECK(resolved(run_of("Apple M4 24GB")).scenario->rig.os == OperatingSystem::kMacos);
}

TEST_CASE("What cannot be forecast says why", "[measured]") {
  CHECK(refusal(run_of("unknown CUDA GPU (not stated)")) == "the GPU is not named");
  CHECK(refusal(run_of("Voodoo 2")) == "no GPU named \"Voodoo 2\"");
  CHECK(refusal(run_of("RTX 3090", "GPT-2")) == "no model named \"GPT-2\"");
  Measurement m = run_of("none");
  m.cpu = "";
  CHECK(refusal(m) == "neither a GPU nor a CPU is named");
  m.cpu = "Raspberry Pi CM5 Cluster (10x 16GB)";
  CHECK(contains(refusal(m), "no CPU named"));
  m = run_of("RTX 3090");
  m.gpu_count = 20;
  CHECK(contains(refusal(m), "at most 16 GPUs"));
  m = run_of("RTX 3090");
  m.type_k = "q3_x";
  CHECK(contains(refusal(m), "no KV type"));
  m = run_of("RX 7900 XTX");
  m.notes = "backend=CUDA";
  CHECK(contains(refusal(m), "does not drive"));
  m = run_of("RTX 4070");
  m.gpu_layers = 99;
  m.notes = "--kv-gpu-layers 8 of 16";
  CHECK(contains(refusal(m), "some layers"));
  m = run_of("RTX 3090");
  m.cpu = "Abacus";
  CHECK(refusal(m).empty());  // nothing runs there
  m.gpu_layers = 10;
  CHECK(contains(refusal(m), "no CPU named"));
}

TEST_CASE("Runs of llama-bench resolve as ours do", "[measured]") {
  for (const std::string* file : {&fixtures::kBenchmarkCsv, &fixtures::kBenchCsv,
                                  &fixtures::kBenchJson, &fixtures::kBenchJsonLines}) {
    const auto rows = parse_measurements(*file, "m");
    REQUIRE(rows);
    for (const Measurement& m : *rows) CHECK(refusal(m) == "");
  }
}

TEST_CASE("Texts of any kind resolve or are refused, nothing else", "[measured]") {
  std::mt19937 random(11);
  const auto rows = parse_measurements(fixtures::kBenchmarkCsv, "m");
  REQUIRE(rows);
  const std::string letters = "\"\\\n[]{}=#'x10 24GB(),+-;:./\xff";
  std::size_t refused = 0;
  for (int i = 0; i < 600; ++i) {
    Measurement m = (*rows)[std::size_t(i) % rows->size()];
    std::string* const texts[] = {&m.gpu,   &m.cpu,  &m.ram_type, &m.pcie,   &m.os,
                                  &m.model, &m.date, &m.quant,    &m.type_k, &m.notes};
    std::string& text = *texts[random() % std::size(texts)];
    for (auto n = 1 + random() % 5; n > 0; --n)
      text.insert(random() % (text.size() + 1), 1, letters[random() % letters.size()]);
    const auto run = resolver().resolve(m);
    refused += !run;
    if (!run) CHECK_FALSE(run.error().message.empty());
  }
  CHECK(refused > 20);
}

TEST_CASE("The measurements that ship resolve, all but those that say too little", "[measured]") {
  const auto rows =
      read_measurements(std::string(test::source_dir()) + "/runtimes/measurements/benchmarks.csv");
  REQUIRE(rows);
  CHECK(rows->size() == 5453);
  std::size_t trusted = 0;
  std::size_t resolved_rows = 0;
  std::map<std::string, int> reasons;
  std::map<std::string, int> regimes;
  for (const Measurement& m : *rows) {
    if (m.doubtful()) continue;
    ++trusted;
    const auto run = resolver().resolve(m);
    resolved_rows += run.ok();
    if (run) ++regimes[std::string(name(run->regime))];
    if (!run) ++reasons[run.error().message];
  }
  std::ostringstream why;
  for (const auto& [reason, count] : reasons) why << count << " " << reason << "\n";
  INFO(resolved_rows << " of " << trusted << " resolved; the rest:\n" << why.str());
  CHECK(double(resolved_rows) >= 0.85 * double(trusted));
  CHECK(regimes.size() == kRegimeCount);
}
