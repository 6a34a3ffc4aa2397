// The many ways in which people and programs write the names of parts, mixes and settings.

#include <string>
#include <vector>

#include "core/hardware/hardware_names.hpp"
#include "core/model/model_names.hpp"
#include "measurements/build_month.hpp"
#include "measurements/name_resolver.hpp"
#include "measurements/parsed_notes.hpp"
#include "measurements/quant_label.hpp"
#include "tests/catch.hpp"
#include "tests/core/catalogue_fixture.hpp"

using namespace rigcast;

namespace {

std::string gpu(const std::string& name) {
  static NameResolver lookup(fixtures::catalogue());
  const auto part = lookup.gpu(name);
  return part ? part->id : "";
}

std::string cpu(const std::string& name) {
  static NameResolver lookup(fixtures::catalogue());
  const auto part = lookup.cpu(name);
  return part ? part->id : "";
}

std::string model(const std::string& name, std::optional<double> params_b = {}) {
  static NameResolver lookup(fixtures::catalogue());
  const auto spec = lookup.model(name, params_b);
  return spec ? spec->id : "";
}

std::string mix(const std::string& label) {
  const auto found = mix_of_label(label);
  return found ? found->name() : "";
}

ParsedNotes parsed_notes(const std::string& notes, const std::string& tool = "llama-bench") {
  Measurement m;
  m.notes = notes;
  m.tool = tool;
  return parse_notes(m);
}

std::string built(const std::string& build, const std::string& date,
                  const std::string& tool = "llama-bench") {
  Measurement m;
  m.build = build;
  m.date = date;
  m.tool = tool;
  const auto month = build_month(m);
  return month ? month->text() : "";
}

}  // namespace

TEST_CASE("GPUs are found by what people, drivers and programs call them", "[measured]") {
  CHECK(gpu("RTX 3090 24GB") == "rtx-3090");
  CHECK(gpu("NVIDIA GeForce RTX 3090") == "rtx-3090");
  CHECK(gpu("NVIDIA GeForce RTX 4070 Laptop GPU") == "rtx-4070-laptop");
  CHECK(gpu("NVIDIA RTX 6000 Ada Generation") == "rtx-6000-ada-48gb");
  CHECK(gpu("NVIDIA A100-SXM4-80GB") == "a100-sxm-80gb");
  CHECK(gpu("NVIDIA H100 80GB HBM3") == "h100-sxm");
  CHECK(gpu("Intel(R) Arc(TM) B580 Graphics") == "arc-b580");
  CHECK(gpu("AMD Radeon RX 7900 XTX (RADV NAVI31)") == "rx-7900-xtx");
  CHECK(gpu("AMD Radeon Pro 5600M 8GB (Metal)") == "radeon-pro-5600m");
  CHECK(gpu("Apple M1 Max (32-core GPU) 64GB") == "apple-m1-max-32c");
  CHECK(gpu("M1 Max Mac Studio (10 core - 64GB)") == "apple-m1-max-32c");
  CHECK(gpu("M1 Ultra (48 GPU Core) 64GB") == "apple-m1-ultra-48c");
  CHECK(gpu("Apple M4 Pro 10P+4E+20GPU 24GB") == "apple-m4-pro-20c");
  CHECK(gpu("Apple M1 4P+4E+7GPU 16GB") == "apple-m1-7c");
  CHECK(gpu("Radeon 8060S (Strix Halo 395+) 128GB") == "strix-halo-128gb");
  CHECK(gpu("Radeon 890M iGPU (Strix Point)") == "radeon-890m");
  CHECK(gpu("Voodoo 2").empty());
  CHECK(gpu(std::string(100'000, '(')).empty());
}

TEST_CASE("Lists of GPUs are taken apart, and none is none", "[measured]") {
  using Names = std::vector<std::string>;
  CHECK(gpu_names("RTX 5090 + RTX 4090") == Names{"RTX 5090", "RTX 4090"});
  CHECK(gpu_names("NVIDIA GeForce RTX 3090, NVIDIA GeForce RTX 3090").size() == 2);
  CHECK(gpu_names("Radeon 8060S (Strix Halo 395+, 128GB)").size() == 1);
  CHECK(gpu_names("none").empty());
  CHECK(gpu_names("").empty());
  CHECK(is_unnamed("unknown CUDA GPU (not stated)"));
  CHECK(is_unnamed("CUDA GPU (model not stated; 5-8 GB VRAM used)"));
  CHECK(is_unnamed("Apple M2 (GPU cores/RAM not stated)"));
  CHECK_FALSE(is_unnamed("Instinct MI50 (gfx906; VRAM size not stated)"));
  CHECK(is_unnamed("not stated (32 threads)"));
  CHECK(is_unnamed("AM5 desktop (16 threads)"));
  CHECK_FALSE(is_unnamed("RTX 3090"));
}

TEST_CASE("CPUs are found by what people and systems call them", "[measured]") {
  CHECK(cpu("AMD Ryzen 9 7950X 16-Core Processor") == "ryzen-9-7950x");
  CHECK(cpu("13th Gen Intel(R) Core(TM) i7-13700K") == "core-i7-13700k");
  CHECK(cpu("Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz") == "core-i7-8700");
  CHECK(cpu("EPYC 9355 32c NPS1") == "epyc-9355");
  CHECK(cpu("EPYC 7343 16c") == "epyc-7343");
  CHECK(cpu("2x Xeon Gold 6138 (20c each)") == "2x-xeon-gold-6138");
  CHECK(cpu("Pi 5 - 16GB") == "raspberry-pi-5");
  CHECK(cpu("Ryzen 7 7840HS w/ Radeon 780M Graphics") == "ryzen-7-7840hs");
  CHECK(cpu("EPYC 56c").empty());
}

TEST_CASE("RAM is read as far as it is stated", "[measured]") {
  const StatedRam server = stated_ram("12ch DDR5-6000 ECC");
  CHECK(server.type == "ddr5");
  CHECK(server.mega_transfers == 6000);
  CHECK(server.channels == 12);
  CHECK(stated_ram("DDR4-2400, 4ch per socket").per_socket);
  CHECK(stated_ram("DDR4-2666, 12 channels total (16x32GB)").capacity == 512_GiB);
  CHECK(stated_ram("DDR4-2666, 12 channels total (16x32GB)").channels == 12);
  CHECK(stated_ram("DDR4-3200 dual channel 128GB").channels == 2);
  CHECK(stated_ram("DDR4-3200 dual channel 128GB").capacity == 128_GiB);
  CHECK_FALSE(stated_ram("DDR5 96GB (2 DIMM)").mega_transfers);
  CHECK(stated_ram("2xddr5-6000:64GiB").channels == 2);
  CHECK(stated_ram("2xddr5-6000:64GiB").mega_transfers == 6000);
  CHECK(stated_ram("LPDDR5x-8000 256-bit").type == "lpddr5x");
  CHECK(stated_ram("31 GiB").type.empty());
  CHECK(stated_ram("31 GiB").capacity == 31_GiB);
  CHECK(stated_ram("DDR4-2933 6x16GB").capacity == 96_GiB);
}

TEST_CASE("PCI-E is read as slots and rates", "[measured]") {
  using Slots = std::vector<std::string>;
  CHECK(stated_pcie("PCIe 5.0 x16", 1).slots == Slots{"5x16"});
  CHECK(stated_pcie("5.0 x16 + 4.0 x16", 2).slots == Slots{"5x16", "4x16"});
  CHECK(stated_pcie("PCIe via Pi CM5/Pi 5 (Gen2/3 x1)", 1).slots == Slots{"3x1"});
  CHECK(stated_pcie("PCIe 3.0 x8/x8", 2).slots == Slots{"3x8"});
  const StatedPcie rated = stated_pcie("PCIe 4.0 x16, 24.1 GB/s effective H2D", 1);
  CHECK(rated.slots == Slots{"4x16"});
  CHECK(rated.h2d->value == Approx(24.1e9));
  const StatedPcie mixed = stated_pcie("4070 24.6 GB/s; 3060 gen3 x4 ~3.5 GB/s", 2);
  CHECK(mixed.slots == Slots{"5x16", "3x4"});
  CHECK_FALSE(mixed.h2d);
  CHECK(stated_pcie("riser", 1).slots.empty());
}

TEST_CASE("Models are found without annotations, publisher and mix", "[measured]") {
  CHECK(model("Llama-3-8B") == "llama-3-8b");
  CHECK(model("Meta-Llama-3.1-8B-Instruct-Q4_K_M") == "llama-3.1-8b");
  CHECK(model("Qwen2.5-7B-Instruct-UD-Q4_K_XL.gguf") == "qwen2.5-7b");
  CHECK(model("unsloth/Qwen3-8B-GGUF") == "qwen3-8b");
  CHECK(model("Llama-3.1-8B (shisa-v2)") == "llama-3.1-8b");
  CHECK(model("DeepSeek-V3 671B (ubergarm quant)") == "deepseek-v3");
  CHECK(model("gptoss:20b") == "gpt-oss-20b");
  CHECK(model("Qwen3-8B-some-finetune").empty());
  CHECK(model("Qwen3-8B-some-finetune", 8.19) == "qwen3-8b");
  CHECK(model("Qwen3-8B-some-finetune", 70.0).empty());
  CHECK(model(std::string(10'000, '-')).empty());
}

TEST_CASE("Labels of mixes mean rules, or none", "[measured]") {
  CHECK(mix("Q4_K - Medium") == "Q4_K_M");
  CHECK(mix("Q3_K - Large") == "Q3_K_L");
  CHECK(mix("Q2_K - Small") == "Q2_K_S");
  CHECK(mix("q4_0") == "Q4_0");
  CHECK(mix("MXFP4 MoE") == "MXFP4");
  CHECK(mix("MXFP4 (F16 other tensors)") == "F16");  // experts stay as they were released
  CHECK(mix("IQ4_XS - 4.25 bpw") == "IQ4_XS");
  CHECK(mix("UD-Q4_K_M") == "Q4_K_M");
  CHECK(mix("ollama default") == "Q4_K_M");
  CHECK(mix("UD-Q4_K_XL").empty());
  CHECK(mix("IQ4_K").empty());
  CHECK(mix("smol-IQ4_KSS").empty());
  CHECK(mix("Q2_K - Medium") == "Q2_K");
  CHECK(mix("").empty());
  CHECK(bits_per_weight_of_label("THIREUS-6.2478 mix") == 6.2478);
  CHECK(bits_per_weight_of_label("IQ2_XXS - 2.0625 bpw") == 2.0625);
  CHECK(bits_per_weight_of_label("4.5 bpw dynamic") == 4.5);
  CHECK_FALSE(bits_per_weight_of_label("Q4_0"));
}

TEST_CASE("A label is a format with marks of its maker", "[measured]") {
  const auto name = [](const char* label) { return parse_quant_label(label).name; };
  CHECK(name("IQ3_KS_R4 (pure)") == "IQ3_KS_R4");
  CHECK(name("IQ4_K_R4 pure") == "IQ4_K_R4");
  CHECK(name("i1-Q4_K_M") == "Q4_K_M");
  CHECK(name("IQ2_XXS mix (10.9 GB)") == "IQ2_XXS");
  CHECK(name("smol-IQ3_K") == "IQ3_K");
  CHECK(name("Q8R16") == "Q8_0");
  CHECK(name("Q4_K_4") == "Q4_K_M");
  CHECK(name("UD-Q4_K_XL") == "UD-Q4_K_XL");
  CHECK(parse_quant_label("IQ3_KS (pure)").pure);
  CHECK_FALSE(parse_quant_label("IQ3_KS").pure);
  for (const char* recipe : {"IQ3_K_R4 mix", "mix-IQ3_K", "smol-IQ3_K", "IQ2_XXS mix (10.9 GB)"})
    CHECK(parse_quant_label(recipe).recipe);
  CHECK_FALSE(parse_quant_label("IQ3_K_R4").recipe);
  CHECK(parse_quant_label("IQ2_XXS mix (10.9 GB)").size->value == Approx(10.9e9));
  CHECK(parse_quant_label("Q3_K_M (12.5 GiB)").size->value == Approx(12.5 * 0x1p30));
  CHECK_FALSE(parse_quant_label("mix (ubergarm, fits 24GB)").size);
  CHECK_FALSE(parse_quant_label("Q4_K_M").size);
  CHECK(parse_quant_label("3.068 bpw Thireus mix").bits == 3.068);
}

TEST_CASE("Notes tell another engine, a split, a context", "[measured]") {
  for (const char* tool :
       {"ktransformers 0.5.2 (kt-kernel + SGLang)", "exllamav3 (perf.py)", "vLLM"})
    CHECK_FALSE(parsed_notes("", tool).other_engine.empty());
  for (const char* tool :
       {"llama-bench", "ollama", "llama-sweep-bench (ik_llama.cpp)", "llamafile-bench 0.8.6"})
    CHECK(parsed_notes("", tool).other_engine.empty());
  CHECK(parsed_notes("8x3090 split mode graph -sas").split_mode == "graph");
  CHECK(parsed_notes("backend=CUDA; -sm tensor on 2 of 3 cards").split_mode == "tensor");
  CHECK(parsed_notes("split mode row").split_mode == "row");
  CHECK(parsed_notes("64K ctx; headless").context == 64 * 1024);
  for (const char* by_layers :
       {"split mode layer", "layer split over 2 GPUs", "sm none", "-sm layer"})
    CHECK(parsed_notes(by_layers).split_mode.empty());
  CHECK(parsed_notes("CPU/RAM not stated; ctx 163840").context == 163840);
  CHECK(parsed_notes("post-reboot, ctx 200K, VRAM 11.0 GB").context == 200 * 1024);
  CHECK(parsed_notes("c=44K, upstream FA").context == 44 * 1024);
  CHECK(parsed_notes("mla=3 fmoe amb=256, 112k context").context == 112 * 1024);
  for (const char* other : {"amb=512", "llama-fit-params split for ctx 10k", "context shift"})
    CHECK(parsed_notes(other).context == 0);
  CHECK(parsed_notes("pure quant, output and embedding Q8_0").format_of_ends == "q8_0");
  CHECK(parsed_notes("--fit 1: part of the experts in RAM").fitted_placement);
  CHECK(parsed_notes("experts mostly in RAM (--fit on), medians of 3").fitted_placement);
  CHECK_FALSE(parsed_notes("--fit off").fitted_placement);
}

TEST_CASE("Notes tell settings that have no column", "[measured]") {
  CHECK(parsed_notes("best FA run for backend Vulkan,RPC; 221 GB/s").backend == "vulkan");
  CHECK(parsed_notes("toolbox rocm-7.14").backend == "rocm");
  CHECK(parsed_notes("backend=Metal").backend == "metal");
  CHECK(parsed_notes("backend=CUDA,BLAS ot=exps=CPU").backend == "cuda");
  CHECK(parsed_notes("full offload").backend.empty());
  CHECK(parsed_notes("backend=CUDA,BLAS").no_op_offload);
  CHECK(parsed_notes("build WITH CPU BLAS: slow").no_op_offload);
  CHECK_FALSE(parsed_notes("no BLAS: weights streamed").no_op_offload);
  CHECK_FALSE(parsed_notes("backend=Metal,BLAS").no_op_offload);
  CHECK(parsed_notes("backend=CUDA mmap=0 fmoe=1").no_mmap);
  CHECK_FALSE(
      parsed_notes("mmap=0 uses pinned buffers, mmap=1 pageable; backend=CUDA mmap=1").no_mmap);
  CHECK(parsed_notes("all weights on GPU; nkvo=1").kv_in_ram);
  CHECK(parsed_notes("(-nkvo 1, state stays)").kv_in_ram);
  CHECK_FALSE(parsed_notes("nkvo=0").kv_in_ram);
  CHECK(parsed_notes("--kv-gpu-layers 8 of 16 layers").some_kv_in_ram);
  CHECK_FALSE(parsed_notes("--kv-gpu-layers 0 of 16 layers").some_kv_in_ram);
  CHECK(parsed_notes("ts=23.00/23.00").tensor_split == std::vector<double>{23, 23});
  CHECK(parsed_notes("tensor-split 25,75; CPU 64428 MiB").tensor_split ==
        std::vector<double>{25, 75});
  CHECK(parsed_notes("split-mode tensor, 131K").split_mode == "tensor");
  CHECK(parsed_notes("numa distribute; warm").numa_distribute);
  CHECK_FALSE(parsed_notes("NUMA off, distributed prompts").numa_distribute);
  for (const char* in_ram :
       {"all experts in RAM", "hybrid decode", "hybrid; prefill streams experts",
        "exps=CPU, mla=3 fmoe", "experts in RAM (-ot), mla=2", "experts in RAM, 2 GPUs"})
    CHECK(parsed_notes(in_ram).all_experts_in_ram);
  for (const char* some : {"experts mostly in RAM", "part of the experts in RAM, count not stated",
                           "experts of n_cpu_moe layers in RAM"})
    CHECK_FALSE(parsed_notes(some).all_experts_in_ram);
  CHECK(parsed_notes("op offload of MoE off").no_op_offload);
  CHECK_FALSE(parsed_notes("hybrid, 16 of 65 layers full attention").all_experts_in_ram);
  CHECK(parsed_notes("-rtr -ser 4,1").experts_used == 4);
  CHECK(parsed_notes("ser=12,0.5 fmoe=1").experts_used == 12);
  for (const char* other : {"", "ser=0,1", "-ser 4", "laser=4,1", "user 4,1"})
    CHECK_FALSE(parsed_notes(other).experts_used);
  CHECK(parsed_notes("backend=Vulkan RADV, no matrix cores, no int dot").no_matrix_units);
  CHECK(parsed_notes("int dot: 1 | matrix cores: none").no_matrix_units);
  CHECK_FALSE(parsed_notes("backend=Vulkan, matrix cores NV_coopmat2").no_matrix_units);
  CHECK(parsed_notes("backend=CUDA,BLAS").cpu_blas);
  CHECK(parsed_notes("build WITH CPU BLAS: slow").cpu_blas);
  CHECK_FALSE(parsed_notes("no BLAS: weights streamed").cpu_blas);
  CHECK_FALSE(parsed_notes("nopo=1").cpu_blas);
  CHECK(parsed_notes("", "ollama via llmfit bench").ollama);
  CHECK_FALSE(parsed_notes("", "llama.cpp or ollama (see linked issue)").ollama);
  CHECK(parsed_notes("", "llama-bench (ik_llama.cpp)").ik_llama);
}

TEST_CASE("A build's month comes from its number, else from the source's date", "[measured]") {
  CHECK(built("b228aba9 (2860)", "2026-08") == "2024-05");
  CHECK(built("6118 (6c7e9a54)", "2026-08") == "2025-08");
  CHECK(built("b10456", "") == "2026-08");
  CHECK(built("3667 (e3fec173)", "2025-05-06", "llama-bench (ik_llama.cpp)") == "2025-05");
  CHECK(built("May 2024 snapshot", "2024-05") == "2024-05");
  CHECK(built("b99999", "2025-01-02") == "2025-01");
  CHECK(built("", "2026").empty());
  CHECK(built("", "2025-13").empty());
  CHECK(built("", "1999-01").empty());
}
