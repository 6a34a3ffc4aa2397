#include "report/report.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/text/unit_text.hpp"
#include "report/report_csv.hpp"
#include "report/report_from_json.hpp"
#include "report/report_json.hpp"
#include "report/report_text.hpp"
#include "report/terminal/text_chart.hpp"
#include "report/terminal/text_style.hpp"
#include "tests/catch.hpp"
#include "tests/core/model_fixtures.hpp"

namespace rigcast {
namespace {

using Json = nlohmann::ordered_json;

Rig gaming_rig() {
  Rig rig;
  rig.name = "NVIDIA GeForce RTX 3060 12GB";
  GpuPart gpu;
  gpu.id = "rtx-3060-12gb";
  gpu.name = "NVIDIA GeForce RTX 3060 12GB";
  gpu.memory = {12_GiB, SourceKind::kSpec, "data sheet"};
  rig.gpus = {gpu};
  rig.cpu.id = "core-i7-8700";
  rig.cpu.name = "Intel Core i7-8700";
  rig.ram.id = "2xddr4-2666";
  rig.ram.name = "2 x DDR4-2666";
  rig.ram.capacity = {32_GiB, SourceKind::kSpec, "size given with the kit"};
  rig.ssd.id = "sata-ssd";
  rig.ssd.name = "SATA SSD";
  HostLink link;
  link.pcie = {3, 16};
  rig.links = {link};
  rig.vram_reserved.value = 300_MiB;
  rig.gpu_context.value = 400_MiB;
  rig.ram_reserved.value = 2_GiB;
  return rig;
}

Scenario scenario() {
  Scenario s;
  s.rig = gaming_rig();
  s.model = fixtures::llama_3_1_8b();
  s.model.id = "llama-3.1-8b";
  s.model.name = "Llama 3.1 8B";
  s.model.context = 131072;
  s.quant = "Q6_K";
  const auto table = make_tensor_table(s.model, *QuantMix::from_name("Q6_K"));
  REQUIRE(table.ok());
  s.tensors = *table;
  s.runtime.id = s.runtime.name = "llama.cpp";
  s.runtime.era = "2026";
  s.settings = {6, 2048, 512, true};
  s.workload = {.prompt_tokens = 512, .output_tokens = 32256, .context = 32768};
  s.workload.start = Start::kCold;
  return s;
}

DeviceMemory device(std::string name, Tier tier) {
  DeviceMemory d;
  d.device = std::move(name);
  d.tier = tier;
  return d;
}

MemoryPlan memory_that_fits() {
  DeviceMemory gpu = device("GPU 0", Tier::kVram);
  gpu.weights = Bytes{5.7 * 0x1p30};
  gpu.kv = 4_GiB;
  gpu.activations = 560_MiB;
  gpu.overhead = 700_MiB;
  gpu.capacity = 12_GiB;
  DeviceMemory host = device("host", Tier::kRam);
  host.weights = 410_MiB;
  host.staging = 16_MiB;
  host.page_cache = Bytes{5.7 * 0x1p30};
  host.overhead = 2_GiB;
  host.capacity = 32_GiB;
  return {.devices = {gpu, host}, .resident_tokens = {}, .spilled = {}, .outside_ram = {}};
}

Cliff vram_cliff() {
  return {.axis = CliffAxis::kPosition,
          .at_tokens = 30208,
          .before_tokens_per_s = 26.04,
          .after_tokens_per_s = 4.1,
          .cause = "KV blocks leave VRAM and come back over PCI-E",
          .device = "GPU 0",
          .tier = Tier::kVram};
}

Report predicted() {
  Report r;
  auto s = std::make_shared<Scenario>(scenario());
  r.scenario = s;
  r.placement.gpu_layers = 33;
  r.resident = TtftBreakdown{0_s, 1_ms, 200_us, Seconds{0.3091}, 100_us};
  r.warm = TtftBreakdown{Seconds{0.59}, 1_ms, 200_us, Seconds{0.3091}, 100_us};
  r.cold = TtftBreakdown{Seconds{13.2}, 1_ms, 200_us, Seconds{0.3091}, 100_us};
  r.prefill_tokens_per_s = 1652.4;
  r.decode_tokens_per_s = 31.26;
  r.tpot = {Seconds{0.032}, Seconds{0.03}, Seconds{0.038}, Seconds{0.24}};
  for (TokenCount t = 0; t <= 32768; t += 1024) {
    const double speed = t > 30208 ? 4.1 : 43.0 / (1 + double(t) / 46000);
    r.by_position.push_back({t, speed, Seconds{1 / speed}, Resource::kVram});
  }
  r.memory = memory_that_fits();
  r.timeline = {{0, "GPU 0", 7_GiB}, {32768, "GPU 0", 11_GiB}};
  r.max_context = 30208;
  r.cliffs = {vram_cliff()};
  r.prefill_bound = {Resource::kGpu, 0.83};
  r.decode_bound = {Resource::kVram, 0.91};
  r.warm_bound = {Resource::kH2d, 0.61};
  r.cold_bound = {Resource::kSsd, 0.94};
  r.utilisation[std::size_t(Resource::kVram)] = 0.91;
  r.traffic_bytes[std::size_t(Resource::kVram)] = 1.5e12;
  r.tokens_per_s_interval = Interval{29.1, 33.4};
  r.ttft_interval = Interval{11.9, 15.1};
  r.inputs = {0, 4, 2, 9, 3};
  r.assumed = {"PCI-E latency", "VRAM reserved by a desktop", "RAM reserved"};
  r.advice = {{"KV type q8_0", "--kv-type q8_0", 33.1, Seconds{13.5}, 0.06, "no cliff", 0.002},
              {"context 28,672", "--context 28672", 31.3, Seconds{13.5}, 0.0, "safely inside"},
              {"Q5_K_M", "--quant Q5_K_M", 36.2, Seconds{11.8}, 1.4, ""},
              {"a fourth", "--fourth", 1.0, 1_s, 0.0, ""}};
  r.warnings = {"the slot runs at PCI-E 3x16, the card can do 4x16"};
  return r;
}

Report too_large() {
  Report r = predicted();
  r.fits = false;
  r.memory.devices[0].kv = 16_GiB;
  r.max_context = 34816;
  auto s = std::make_shared<Scenario>(*r.scenario);
  s->workload.context = 131072;
  r.scenario = s;
  r.errors = {"does not fit: GPU 0 needs 22.9 GiB of 12.0 GiB, 10.9 GiB too much"};
  r.advice = {{"KV in RAM", "--kv ram", 9.1, Seconds{0.9}, 0.0, ""}};
  return r;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

bool has(const std::string& text, const std::string& phrase) {
  return text.find(phrase) != std::string::npos;
}

void check_widths(const std::string& text, std::size_t width = 100) {
  for (const std::string& line : lines_of(text)) {
    INFO(line);
    CHECK(text_width(line) <= width);
    CHECK((line.empty() || line.back() != ' '));
  }
}

std::vector<std::string> keys(const Json& json) {
  std::vector<std::string> out;
  for (const auto& [key, value] : json.items()) out.push_back(key);
  return out;
}

using Keys = std::vector<std::string>;

}  // namespace

TEST_CASE("JSON has the keys of the contract, in its order", "[report]") {
  const Json json = Json::parse(to_json(predicted()));
  CHECK(keys(json) == Keys{"schema",
                           "origin",
                           "scenario",
                           "ttft",
                           "longest_context",
                           "by_context",
                           "outside_ram_bytes",
                           "prefill_tokens_per_s",
                           "decode",
                           "memory",
                           "timeline",
                           "cliffs",
                           "bottleneck",
                           "utilisation",
                           "traffic_bytes",
                           "interval",
                           "inputs",
                           "inputs_assumed",
                           "correction",
                           "serving",
                           "measured",
                           "advice",
                           "fits",
                           "errors",
                           "warnings"});
  CHECK(json["schema"] == "rigcast.report/1");
  CHECK(keys(json["scenario"]) == Keys{"rig", "model", "placement", "kv", "runtime", "workload"});
  CHECK(keys(json["ttft"]["cold"]) == Keys{"total_s", "bound_by", "breakdown_s"});
  CHECK(keys(json["ttft"]["cold"]["breakdown_s"]) ==
        Keys{"load", "tokenize", "transfer", "prefill", "sample"});
  CHECK(keys(json["decode"]) == Keys{"tokens_per_s", "tpot_s", "by_position"});
  CHECK(keys(json["decode"]["by_position"][0]) ==
        Keys{"tokens", "tokens_per_s", "tpot_s", "bound_by", "spread", "interval"});
  CHECK(keys(json["memory"][0]) == Keys{"device", "tier", "weights", "kv", "activations", "staging",
                                        "page_cache", "overhead", "total", "capacity"});
  CHECK(keys(json["cliffs"][0]) == Keys{"axis", "at_tokens", "before_tokens_per_s",
                                        "after_tokens_per_s", "cause", "device", "tier",
                                        "until_tokens"});
  CHECK(keys(json["interval"]) ==
        Keys{"tokens_per_s", "ttft_s", "prefill_tokens_per_s", "unmeasured"});
  CHECK(keys(json["interval"]["unmeasured"]) == Keys{"decode", "prefill"});
  CHECK(keys(json["inputs"]) == Keys{"measured", "fitted", "published", "spec", "assumed"});
  CHECK(keys(json["advice"][0]) ==
        Keys{"change", "tokens_per_s", "ttft_s", "gain", "flags", "loss_nats"});
  CHECK(keys(json["traffic_bytes"]) == Keys{"ssd", "ram", "pcie_h2d", "pcie_d2h", "vram"});
}

TEST_CASE("JSON carries the figures unrounded and bytes as integers", "[report]") {
  const Report r = predicted();
  const Json json = Json::parse(to_json(r));
  CHECK(json["origin"] == "predicted");
  CHECK(json["ttft"]["cold"]["total_s"].get<double>() == r.cold->total().value);
  CHECK(json["decode"]["tokens_per_s"].get<double>() == r.decode_tokens_per_s);
  CHECK(json["decode"]["by_position"].size() == r.by_position.size());
  CHECK(json["decode"]["by_position"][1]["tokens_per_s"].get<double>() ==
        r.by_position[1].tokens_per_s);
  CHECK(json["decode"]["by_position"][0]["bound_by"] == "vram");
  CHECK(json["memory"][0]["kv"].is_number_integer());
  CHECK(json["memory"][0]["kv"] == std::int64_t(4) << 30);
  CHECK(json["memory"][1]["tier"] == "ram");
  CHECK(json["cliffs"][0]["axis"] == "position");
  CHECK(json["bottleneck"]["prefill"]["resource"] == "gpu");
  CHECK(json["utilisation"].size() == std::size_t(kResourceCount));
  CHECK(json["utilisation"]["vram"] == 0.91);
  CHECK(json["traffic_bytes"]["vram"] == 1'500'000'000'000);
  CHECK(json["interval"]["tokens_per_s"] == Json::array({29.1, 33.4}));
  CHECK(json["inputs"]["spec"] == 9);
  CHECK(json["fits"] == true);
}

TEST_CASE("JSON holds the scenario as resolved, in the words of a scenario file", "[report]") {
  const Json s = Json::parse(to_json(predicted()))["scenario"];
  CHECK(s["rig"]["gpu"] == Json::array({"rtx-3060-12gb"}));
  CHECK(s["rig"]["gpu_names"][0] == "NVIDIA GeForce RTX 3060 12GB");
  CHECK(s["rig"]["gpu_memory_bytes"][0] == std::int64_t(12) << 30);
  CHECK(s["rig"]["ram"] == "2xddr4-2666:32GiB");
  CHECK(s["rig"]["pcie"] == Json::array({"3x16"}));
  CHECK(s["rig"]["vram_reserved"] == "300 MiB");
  CHECK(s["model"]["name"] == "llama-3.1-8b");
  CHECK(s["model"]["kv_bytes_per_token"] == 131072);
  CHECK(s["model"]["tensor_bytes"].is_number_integer());
  CHECK(s["placement"]["gpu_layers"] == 33);
  CHECK(s["placement"]["gpu_layers_auto"] == true);
  CHECK(s["kv"]["policy"] == "vram");
  CHECK(s["kv"]["type_k"] == "f16");
  CHECK(s["runtime"]["name"] == "llama.cpp");
  CHECK(s["workload"]["start"] == "cold");
  CHECK(s["workload"]["context"] == 32768);
}

TEST_CASE("What is absent or no number is null in JSON", "[report]") {
  Report r = predicted();
  r.warm.reset();
  r.ttft_interval.reset();
  r.decode_tokens_per_s = std::numeric_limits<double>::quiet_NaN();
  r.prefill_tokens_per_s = std::numeric_limits<double>::infinity();
  r.cold->load.value = std::numeric_limits<double>::infinity();
  r.memory.devices[0].kv.value = std::numeric_limits<double>::quiet_NaN();
  r.errors = {"a name with \xff in it"};
  const std::string text = to_json(r);
  const Json json = Json::parse(text);
  CHECK(json["ttft"]["warm"].is_null());
  CHECK(json["ttft"]["cold"]["total_s"].is_null());
  CHECK(json["interval"]["ttft_s"].is_null());
  CHECK(json["decode"]["tokens_per_s"].is_null());
  CHECK(json["prefill_tokens_per_s"].is_null());
  CHECK(json["memory"][0]["kv"].is_null());
  CHECK_FALSE(has(text, "nan"));
  CHECK_FALSE(has(text, "inf"));
  r.scenario.reset();
  CHECK(Json::parse(to_json(r))["scenario"].is_null());
}

TEST_CASE("A report without anything in it is still JSON", "[report]") {
  const Json json = Json::parse(to_json(Report{}));
  CHECK(json["memory"].empty());
  CHECK(json["cliffs"].is_array());
  CHECK(json["ttft"]["resident"].is_null());
}

TEST_CASE("A report that is read back is the same report", "[report]") {
  Report odd = predicted();
  odd.origin = Origin::kMeasured;
  odd.decode_tokens_per_s = std::numeric_limits<double>::quiet_NaN();
  odd.measured = MeasuredFigures{3, BytesPerSecond{1e9}, {}, {0.01, 0.25}};
  odd.by_position.push_back({7, 1.5, Seconds{0.1}, Resource::kH2d, Interval{1, 2}});
  odd.cliffs.push_back({CliffAxis::kContext, 9, 2, 1, "a cause", "GPU 0", Tier::kRam, {}});
  odd.cliffs.push_back({CliffAxis::kPosition, 9, 2, 1, "a cause", "GPU 0", Tier::kVram, 99});
  odd.advice.push_back({"a change", "--flag", 3, Seconds{4}, 0.5, "", 0.01});
  odd.advice.push_back({"another", "--flag", 3, Seconds{4}, 0.5, "", std::nullopt});
  odd.errors = {"an error"};
  for (const Report& report : {predicted(), too_large(), odd, Report{}}) {
    const std::string text = to_json(report);
    const auto again = report_from_json(text, report.scenario);
    if (!again) FAIL(again.error().text());
    CHECK(to_json(*again) == text);
  }
}

TEST_CASE("What is no report says where", "[report]") {
  const std::string kEnd = " is not as docs/report.md has it";
  const auto message = [](Json json) {
    const auto report = report_from_json(json.dump(), nullptr);
    return report ? std::string() : report.error().message;
  };
  const Json good = Json::parse(to_json(predicted()));
  CHECK(message(good).empty());
  const auto with = [&](const char* path, Json value) {
    Json changed = good;
    changed[Json::json_pointer(path)] = std::move(value);
    return message(changed);
  };
  CHECK(with("/schema", "rigcast.report/2").ends_with(": schema" + kEnd));
  CHECK(with("/origin", "guessed").ends_with(": origin" + kEnd));
  CHECK(with("/decode", 3).ends_with(": decode/" + kEnd));
  CHECK(with("/decode/tokens_per_s", "fast").ends_with(": decode/tokens_per_s" + kEnd));
  CHECK(with("/interval/ttft_s", Json::array({1})).ends_with(": interval/ttft_s" + kEnd));
  CHECK(with("/bottleneck/decode/resource", "luck").ends_with("bottleneck/decode/resource" + kEnd));
  CHECK(with("/memory", "much").ends_with(": memory" + kEnd));
  CHECK_FALSE(report_from_json("[]", nullptr));
  CHECK_FALSE(report_from_json("{", nullptr));
}

TEST_CASE("CSV has one line a position under its header", "[report]") {
  Report r = predicted();
  r.by_position = {{512, 42.5, Seconds{0.0235}, Resource::kVram},
                   {4096, 4.0, Seconds{0.25}, Resource::kH2d}};
  r.warm.reset();
  r.resident = TtftBreakdown{0_s, 0_s, 0_s, Seconds{0.5}, 0_s};
  r.cold = TtftBreakdown{Seconds{13}, 0_s, 0_s, Seconds{0.5}, 0_s};
  r.prefill_tokens_per_s = 1024;
  CHECK(to_csv(r) ==
        "tokens,tokens_per_s,tpot_s,bound_by,ttft_resident_s,ttft_warm_s,ttft_cold_s,"
        "prefill_tokens_per_s\n"
        "512,42.5,0.0235,vram,0.5,,13.5,1024\n"
        "4096,4,0.25,pcie_h2d,0.5,,13.5,1024\n");
  r.by_position.clear();
  CHECK(lines_of(to_csv(r)).size() == 1);
}

TEST_CASE("The text says the answer first, then the reason, then what to do", "[report]") {
  const std::string text = to_text(predicted(), {});
  INFO(text);
  const auto lines = lines_of(text);
  CHECK(lines[0].starts_with("Llama 3.1 8B Q6_K on RTX 3060 12GB, llama.cpp (2026)  "));
  CHECK(lines[0].ends_with("  fits in VRAM up to 30,208 tokens"));
  CHECK(has(text, "  first token  310 ms "));
  CHECK(has(text, "512-token prompt, resident"));
  CHECK(has(text, "bound by GPU compute 83 %"));
  CHECK(has(text, "13.5 s (11.9 to 15.1)"));
  CHECK(has(text, "bound by SSD read 94 %"));
  CHECK(has(text, "13.2 s from SSD"));
  CHECK(has(text, "tokenize 1.00 ms, transfer 200 us, prefill 309 ms"));
  CHECK(has(text, "prefill      1,650 tok/s"));
  CHECK(has(text, "speed        31.3 tok/s (29.1 to 33.4)"));
  CHECK(has(text, "mean of 32,256 tokens"));
  CHECK(has(text, "cliff at 30,208 tokens"));
  CHECK(has(text, "26.0 -> 4.10 tok/s; KV blocks leave VRAM"));
  CHECK(has(text, "-> --kv-type q8_0"));
  CHECK(has(text, "6 % faster, 33.1 tok/s, loses 0.002 nats, no cliff"));
  CHECK(has(text, "2.40 x as fast, 36.2 tok/s, TTFT 11.8 s"));
  CHECK_FALSE(has(text, "a fourth"));
  CHECK(has(text, "inputs 9 spec, 4 fitted, 2 published, 3 assumed: PCI-E latency, VRAM reserved"));
  CHECK(has(text, "note   the slot runs at PCI-E 3x16"));
  CHECK(has(lines.back(), "--format json"));
  CHECK(text.back() == '\n');
  CHECK(lines.size() <= 40);
  check_widths(text);
}

TEST_CASE("Memory is a bar for every device that holds anything, with its figures", "[report]") {
  Report r = predicted();
  DeviceMemory idle = device("GPU 1", Tier::kVram);
  idle.overhead = 300_MiB;
  idle.capacity = 12_GiB;
  r.memory.devices.insert(r.memory.devices.begin() + 1, idle);
  const std::string text = to_text(r, {});
  INFO(text);
  CHECK(has(text, "█ weights   ▓ KV ▒ buffers ░ reserved · page cache   free"));
  CHECK(has(text, "VRAM      12.0"));
  CHECK(has(text, "RAM       32.0"));
  CHECK(has(text, "5.70   4.00      0.55       0.68            -   1.07"));
  CHECK_FALSE(has(text, "GPU 1"));
  // Longer names of devices leave the figures where they can be seen.
  for (DeviceMemory& d : r.memory.devices)
    if (d.tier == Tier::kVram) d.device = "GPUs 10-11";
  Scenario several = scenario();
  several.rig.gpus.push_back(several.rig.gpus.front());
  r.scenario = std::make_shared<const Scenario>(std::move(several));
  const std::string groups = to_text(r, {});
  INFO(groups);
  CHECK(has(groups, "GPUs 10-11    12.0"));
  CHECK(has(groups, "5.70   4.00      0.55       0.68            -   1.07"));
}

TEST_CASE("Few positions are a table besides", "[report]") {
  Report r = predicted();
  r.by_position = {{512, 42.5, Seconds{0.0235}, Resource::kVram},
                   {32000, 4.0, Seconds{0.25}, Resource::kH2d}};
  const std::string text = to_text(r, {});
  INFO(text);
  CHECK(has(text, "  at token            512    32,000\n"));
  CHECK(has(text, "  tok/s              42.5      4.00\n"));
  CHECK(has(text, "  bound by           VRAM     PCI-E\n"));
  r.by_position.resize(1);
  CHECK(has(to_text(r, {}), "  at token            512\n"));
  CHECK_FALSE(has(to_text(r, {}), "└"));  // one point is no curve
  CHECK_FALSE(has(to_text(predicted(), {}), "at token "));
}

TEST_CASE("What does not fit says by how much, where, and what would", "[report]") {
  const std::string text = to_text(too_large(), {});
  INFO(text);
  const auto lines = lines_of(text);
  CHECK(lines[0].ends_with("does not fit: short by 10.9 GiB on GPU 0"));
  CHECK(has(text, "GPU 0 needs 22.9 GiB of 12.0 GiB"));
  CHECK(has(text, "×"));
  CHECK(has(text, "-10.9"));
  CHECK(has(text, "up to a context of 34,816 tokens in place of 131,072"));
  CHECK(has(text, "-> --kv ram"));
  CHECK_FALSE(has(text, "first token  "));
  CHECK_FALSE(has(text, "cliff"));
  CHECK_FALSE(has(text, "speed"));
  CHECK(has(lines.back(), "rigcast list"));
  check_widths(text);
}

TEST_CASE("The fit is told by where the model is", "[report]") {
  Report r = predicted();
  auto s = std::make_shared<Scenario>(*r.scenario);
  r.scenario = s;
  r.placement.gpu_layers = 20;
  CHECK(has(lines_of(to_text(r, {}))[0], "20 of 32 layers on the GPU"));
  r.placement.gpu_layers = 32;
  CHECK(has(lines_of(to_text(r, {}))[0], "32 of 32 layers on the GPU, head on the CPU"));
  r.placement.gpu_layers = 33;
  r.placement.cpu_moe_layers = 12;
  CHECK(has(to_text(r, {}), "fits up to 30,208 tokens, experts of 12 layers in RAM\n"));
  r.placement.cpu_moe_layers = 0;
  s->kv.policy = KvPolicy::kStream;
  CHECK(has(lines_of(to_text(r, {}))[0], "fits up to 30,208 tokens, KV in RAM"));
  s->rig.gpus.push_back(s->rig.gpus[0]);
  CHECK(has(lines_of(to_text(r, {}))[0], "on 2 x RTX 3060 12GB,"));
  s->rig.gpus.clear();
  CHECK(has(lines_of(to_text(r, {}))[0], "on Core i7-8700,"));
  CHECK(has(lines_of(to_text(r, {}))[0], "fits in RAM up to 30,208 tokens"));
  r.origin = Origin::kMeasured;
  CHECK(has(lines_of(to_text(r, {}))[0], "(2026), measured"));
}

TEST_CASE("A cliff between samples is a step, a slope behind a cliff stays one", "[report]") {
  Report r = predicted();
  r.by_position = {{0, 40, Seconds{0.025}, Resource::kVram},
                   {10000, 10, Seconds{0.1}, Resource::kH2d},
                   {20000, 9, Seconds{0.11}, Resource::kH2d}};
  r.cliffs[0].at_tokens = 5000;
  r.cliffs[0].before_tokens_per_s = 40;
  r.cliffs[0].after_tokens_per_s = 10;
  const std::string full_to_the_cliff = "│" + repeat("█", 13) + "  ";  // of 52 columns
  CHECK(has(to_text(r, {}), full_to_the_cliff));
  r.by_position[1].tokens_per_s = 30;
  r.cliffs[0].until_tokens = 20000;
  r.cliffs[0].after_tokens_per_s = 9;
  CHECK(has(to_text(r, {}), "falls from 5,000 tokens"));
  CHECK(has(to_text(r, {}), "  falls  from 5,000 to 20,000 tokens: 40.0 -> 9.00 tok/s; KV"));
  CHECK_FALSE(has(to_text(r, {}), full_to_the_cliff));
}

TEST_CASE("Colour adds escape codes and nothing else", "[report]") {
  for (const Report& r : {predicted(), too_large()}) {
    const std::string plain = to_text(r, {});
    const std::string coloured = to_text(r, {.colour = true});
    CHECK_FALSE(has(plain, "\x1b"));
    CHECK(has(coloured, "\x1b[1m"));
    CHECK(has(coloured, "\x1b[33m"));
    std::string stripped;
    for (std::size_t i = 0; i < coloured.size(); ++i) {
      if (coloured[i] == '\x1b') {
        i = coloured.find('m', i);
      } else {
        stripped += coloured[i];
      }
    }
    CHECK(stripped == plain);
    check_widths(coloured);
  }
}

TEST_CASE("Long names and messages stay inside the screen", "[report]") {
  Report r = predicted();
  auto s = std::make_shared<Scenario>(*r.scenario);
  s->model.name = "A model with a name as long as the names of merges of merges tend to become";
  s->workload.prompt_tokens = 1'000'000;
  s->workload.depth = 1'000'000;
  r.scenario = s;
  r.cold_bound = {Resource::kHandoff, 1.0};
  r.warnings = {std::string(60, 'w') + " " + std::string(60, 'v'), std::string(150, 'u'),
                "bell \a and \x1b[31m red"};
  r.cliffs = {vram_cliff(), vram_cliff(), vram_cliff(), vram_cliff()};
  r.cliffs[0].cause = "a cause that takes its time, " + r.cliffs[0].cause + ", and then some more";
  r.cliffs[1].axis = CliffAxis::kContext;
  r.cliffs[1].after_tokens_per_s = 0;
  r.advice[0].flags = "--kv-type q8_0 --quant Q5_K_M --gpu-layers 30 --context 28672";
  const std::string text = to_text(r, {});
  INFO(text);
  check_widths(text);
  CHECK_FALSE(has(text, "\x1b"));
  CHECK(has(text, "context beyond 30,208 tokens: 26.0 tok/s, then does not run"));
  CHECK(has(text, "1 more: --format json"));
  check_widths(to_text(r, {.width = 80}), 80);
}

TEST_CASE("Text copes with figures that are none", "[report]") {
  Report r = predicted();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  r.by_position[3].tokens_per_s = nan;
  r.cold->load.value = r.advice[0].tokens_per_s = r.decode_bound.share = nan;
  const std::string text = to_text(r, {});
  INFO(text);
  CHECK_FALSE(has(text, "nan"));
  Report empty;
  empty.scenario = r.scenario;
  check_widths(to_text(empty, {}));
}

TEST_CASE("Numbers have three significant digits", "[report]") {
  CHECK(three_digits(0) == "0");
  CHECK(three_digits(0.3149) == "0.315");
  CHECK(three_digits(0.0012345) == "0.00123");
  CHECK(three_digits(9.996) == "10.0");
  CHECK(three_digits(43.04) == "43.0");
  CHECK(three_digits(999.6) == "1,000");
  CHECK(three_digits(30248) == "30,200");
  CHECK(three_digits(-10.94) == "-10.9");
  CHECK(time_interval_text(310_ms, 0.27, 0.3649) == " (270 to 365)");
  CHECK(clip("überlang", 5) == "über…");
  CHECK(text_width(clip("\x1b[1müberlang\x1b[0m", 5)) == 5);
}

TEST_CASE("A chart falls where the curve does", "[report]") {
  const std::vector<ChartPoint> points = {{0, 40}, {700, 40}, {700, 10}, {1000, 10}};
  const auto lines = draw_chart(points, {.columns = 10, .rows = 2});
  REQUIRE(lines.size() == 4);
  CHECK(lines[0] == "  tok/s   40.0 │███████   ");
  CHECK(lines[1] == "          20.0 │███████▄▄▄");
  CHECK(has(lines[2], "└┴"));
  CHECK(has(lines[3], "tokens"));
}

TEST_CASE("A bar has the capacity's length and shows what is beyond it", "[report]") {
  const BarSegment fits[] = {{5, "a"}, {0.01, "b"}, {2, "c"}};
  CHECK(draw_bar(fits, 10, 10) == "aaaaacc   ");
  const BarSegment small[] = {{0.05, "a"}, {0, "b"}, {2, "c"}};
  CHECK(draw_bar(small, 10, 10) == "ac        ");
  const BarSegment over[] = {{8, "a"}, {8, "c"}};
  CHECK(draw_bar(over, 8, 8, "x") == "aaaaxxxx");
  CHECK(draw_bar({}, 0, 3) == "   ");
}

}  // namespace rigcast
