// list and show: filters, and the keys that docs/catalogue.md promises.

#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

json listed(const std::vector<std::string>& words) {
  std::vector<std::string> all = {"list"};
  all.insert(all.end(), words.begin(), words.end());
  all.insert(all.end(), {"--format", "json"});
  const Outcome o = run(all);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  return json::parse(o.out);
}

std::set<std::string> keys_of(const json& object) {
  std::set<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.insert(key);
  return keys;
}

const json& entry(const json& list, const std::string& id) {
  for (const json& one : list.at("entries"))
    if (one.at("id") == id) return one;
  FAIL("no " + id);
  return list;
}

using Keys = std::set<std::string>;

Keys with_part_keys(Keys own) {
  own.merge(Keys{"id", "name", "vendor", "aliases", "own", "released", "launch_price_usd",
                 "launch_price_date"});
  return own;
}

}  // namespace

TEST_CASE("The JSON of a list has the documented keys, with numbers in plain units", "[cli]") {
  const std::map<std::string, Keys> keys = {
      {"gpus",
       with_part_keys({"architecture", "memory_bytes", "unified_memory", "bandwidth_bytes_per_s",
                       "l2_bytes", "fp16_tensor_flop_per_s", "fp16_tensor_fp16acc_flop_per_s",
                       "int8_tensor_op_per_s", "fp32_flop_per_s", "units", "pcie_generation",
                       "pcie_lanes", "board_power_w"})},
      {"cpus", with_part_keys({"architecture", "cores", "efficiency_cores", "threads", "sockets",
                               "simd", "clock_hz", "base_clock_hz", "boost_clock_hz",
                               "memory_channels", "memory_type", "bandwidth_bytes_per_s"})},
      {"ram", with_part_keys({"bandwidth_bytes_per_s", "capacity_bytes"})},
      {"ssds", with_part_keys({"interface", "sequential_read_bytes_per_s"})},
      {"models",
       {"id", "name", "architecture", "aliases", "own", "released", "parameters", "q4_k_m_bytes",
        "q4_k_m_active_bytes", "kv_bytes_per_token", "kv_bytes_per_token_past_windows",
        "window_tokens", "layers", "experts", "experts_used", "context_tokens"}},
      {"rigs", {"id", "name", "aliases", "own", "gpus", "cpu", "ram"}},
      {"runtimes", {"id", "name", "aliases", "own", "era", "base", "kv_policies"}},
      {"loads",
       {"id", "own", "source", "description", "arrival", "prompt_tokens_mean", "output_tokens_mean",
        "turns", "think_time_s", "slo"}},
      {"slos", {"id", "own", "source", "slo"}},
      {"quants", {"id", "has_rule", "nearest", "bits_per_weight", "model", "model_bytes"}},
  };
  for (const auto& [what, expected] : keys) {
    const json list = listed({what});
    INFO(what);
    CHECK(list.at("schema") == "rigcast.catalogue/1");
    CHECK(list.at("list") == what);
    CHECK(keys_of(list) == Keys{"schema", "list", "entries"});
    for (const json& one : list.at("entries")) {
      INFO(one.at("id"));
      CHECK(keys_of(one) == expected);
      for (const auto& [key, value] : one.items()) {
        const bool is_figure = key.ends_with("_bytes") || key.ends_with("_per_s") ||
                               key.ends_with("_w") || key.ends_with("_hz") ||
                               key.ends_with("_usd") || key.ends_with("_tokens");
        INFO(key << " " << value);
        if (is_figure) CHECK((value.is_number() || value.is_null()));
      }
    }
  }
}

TEST_CASE("Listed figures are those of the files", "[cli]") {
  const json gpus = listed({"gpus"});
  const json& card = entry(gpus, "rtx-3090");
  CHECK(card.at("memory_bytes") == 24ll << 30);
  CHECK(card.at("bandwidth_bytes_per_s") == 936'000'000'000ll);
  CHECK(card.at("pcie_generation") == 4);
  CHECK(card.at("pcie_lanes") == 16);
  CHECK(entry(gpus, "apple-m1-max-32c").at("launch_price_usd").is_null());
  CHECK(entry(gpus, "apple-m1-max-32c").at("pcie_lanes").is_null());
  const json gemma = entry(listed({"models"}), "gemma-3-27b");
  // 2 x 16 heads x 128 values x 2 bytes, in 62 layers, of which 10 have no window.
  CHECK(gemma.at("kv_bytes_per_token") == 62 * 2 * 16 * 128 * 2);
  CHECK(gemma.at("kv_bytes_per_token_past_windows") == 10 * 2 * 16 * 128 * 2);
  CHECK(gemma.at("window_tokens") == 1024);
}

TEST_CASE("A list can be searched by words in ids, names, aliases, vendors, architectures",
          "[cli]") {
  const json blackwell = listed({"gpus", "blackwell"});
  for (const json& gpu : blackwell.at("entries"))
    CHECK((contains(gpu.dump(), "blackwell") || contains(gpu.dump(), "Blackwell")));
  CHECK(listed({"gpus", "BLACKWELL"}).at("entries").size() > 8);
  const json both = listed({"gpus", "5060", "ti"});
  CHECK(both.at("entries").size() == 2);
  const Outcome alias = run({"list", "models", "qwq"});
  CHECK(alias.exit == 0);
  CHECK(contains(alias.out, "qwen2.5-32b"));
  CHECK(contains(alias.out, "also QwQ 32B"));
  check_refused({"list", "gpus", "blackwel", "5090x"}, {"no gpus with \"blackwel 5090x\""});
  check_refused({"list", "gpus", "blackwlel"}, {"did you mean blackwell?", "shows all"});
}

TEST_CASE("list quants tells which mixes have no rule", "[cli]") {
  const json list = listed({"quants"});
  CHECK(contains(run({"list", "quants"}).out, "llama-3.1-8b"));  // whose sizes they are
  CHECK(entry(list, "Q4_K_M").at("has_rule") == true);
  CHECK(entry(list, "Q4_K_XL").at("nearest") == "Q4_K_L");
  CHECK(entry(list, "Q4_K_XL").at("bits_per_weight").is_null());
  check_refused(quick({"--quant", "Q4_K_XL"}),
                {"the quant mix Q4_K_XL has no rule here", "--quant Q4_K_L --model-size"});
  check_refused(quick({"--quant", "UD-Q4_K_XL"}), {"the size of UD-Q4_K_XL is not known for"});
}

TEST_CASE("show has every figure with its kind and source", "[cli]") {
  const Outcome text = run({"show", "rtx-4090"});
  CHECK(text.exit == 0);
  for (const char* part : {"NVIDIA GeForce RTX 4090", "memory.bandwidth", "1008 GB/s", "spec",
                           "[1] NVIDIA GeForce RTX 4090 specifications"})
    CHECK(contains(text.out, part));
  const json shown = json::parse(run({"show", "rtx-5060-ti-8gb", "--format", "json"}).out);
  CHECK(shown.at("schema") == "rigcast.show/1");
  const json& one = shown.at("entries").at(0);
  CHECK(keys_of(one) == Keys{"list", "entry", "file", "figures"});
  CHECK(one.at("entry").at("memory_bytes") == 8ll << 30);
  bool seen = false;
  for (const json& figure : one.at("figures")) {
    CHECK(keys_of(figure) == Keys{"key", "value", "kind", "source"});
    if (figure.at("key") != "compute.fp16_tensor") continue;
    seen = true;
    CHECK(figure.at("value") == "47.41 TFLOP/s");
    CHECK(contains(figure.at("source"), "half of the FP16-accumulate figure"));
  }
  CHECK(seen);
}

TEST_CASE("show finds models, runtimes, rigs, mixes and aliases", "[cli]") {
  const auto list_of = [](const char* name) -> std::string {
    const Outcome o = run({"show", name, "--format", "json"});
    INFO(name << o.error);
    REQUIRE(o.exit == 0);
    return json::parse(o.out).at("entries").at(0).at("list");
  };
  CHECK(list_of("qwen3-8b") == "models");
  CHECK(list_of("qwq-32b") == "models");
  CHECK(list_of("Qwen/Qwen3-8B") == "models");
  CHECK(list_of("llama.cpp") == "runtimes");
  CHECK(list_of("ollama") == "runtimes");
  CHECK(list_of("dual-rtx-3090") == "rigs");
  CHECK(list_of("core-i7-8700") == "cpus");
  CHECK(list_of("NVIDIA GeForce RTX 4090") == "gpus");
  CHECK(list_of("sata-ssd") == "ssds");
  CHECK(list_of("q4_k_m") == "quants");
  check_refused({"show", "rtx-4900"}, {"nothing is named \"rtx-4900\"", "did you mean rtx-4090"});
  check_refused({"show", "RTX 5060 Ti"}, {"is ambiguous"});
  check_refused({"show", "rtx-4090", "--format", "csv"}, {"no CSV"});
}

TEST_CASE("inspect says what a token takes before and past the windows", "[cli]") {
  const Outcome text = run({"inspect", "gemma-3-27b"});
  CHECK(contains(text.out, "507,904 B of KV for every cached one"));
  CHECK(contains(text.out, "81,920 B past the window of 1,024"));
  const json model = json::parse(run({"inspect", "gemma-3-27b", "--format", "json"}).out);
  CHECK(model.at("kv_bytes_per_token") == 507904);
  CHECK(model.at("kv_bytes_per_token_past_windows") == 81920);
  CHECK_FALSE(contains(run({"inspect", "qwen3-8b"}).out, "past the window"));
}
