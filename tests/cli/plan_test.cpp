// `rigcast plan` as people type it.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;

namespace {

const std::vector<std::string> kAsked{"plan",    "--gpu",           "rtx-3060-12gb",
                                      "--model", "llama-3.1-8b",    "--context",
                                      "8192",    "--output-tokens", "200"};

Outcome plan(std::vector<std::string> more) {
  more.insert(more.begin(), kAsked.begin(), kAsked.end());
  return run(more);
}

std::size_t widest(const std::string& text) {
  std::size_t most = 0, width = 0;
  for (const char c : text) {
    if (c == '\n') width = 0;
    if (c != '\n' && (c & 0xC0) != 0x80) most = std::max(most, ++width);
  }
  return most;
}

}  // namespace

TEST_CASE("A plan shows the best, the next two, the front and what to type", "[cli][plan]") {
  const Outcome o = plan({});
  INFO(o.out << o.error);
  CHECK(o.exit == 0);
  for (const char* part : {"  best   ", "  then   ", "all on the GPU", "VRAM", "* Q",
                           "  next   llama-server -m llama-3.1-8b-", "-ngl 33"})
    CHECK(contains(o.out, part));
  CHECK(widest(o.out) <= 100);
  CHECK(std::ranges::count(o.out, '\n') <= 44);
}

TEST_CASE("A plan as JSON has choices and why others are none", "[cli][plan]") {
  const Outcome o = plan({"--format", "json"});
  REQUIRE(o.exit == 0);
  const auto j = nlohmann::json::parse(o.out);
  CHECK(j.at("schema") == "rigcast.plan/1");
  REQUIRE(!j.at("choices").empty());
  const auto& best = j["choices"][0];
  CHECK(best.at("report").at("schema") == "rigcast.report/1");
  CHECK(best.at("quality").at("loss_nats") >= 0);
  CHECK(best.at("commands").contains("llama-server"));
  for (const auto& r : j.at("rejected")) CHECK(!r.at("reason").get<std::string>().empty());
}

TEST_CASE("What is emitted for rigcast is forecast as planned", "[cli][plan]") {
  const Outcome scenario = plan({"--emit", "rigcast", "--objective", "speed"});
  REQUIRE(scenario.exit == 0);
  const Outcome j = plan({"--format", "json", "--objective", "speed"});
  const auto best = nlohmann::json::parse(j.out).at("choices").at(0).at("report");
  const Folder folder;
  const std::string file = folder.write("best.toml", scenario.out);
  const Outcome again = run({"simulate", file, "--no-advice", "--format", "json"});
  REQUIRE(again.exit == 0);
  const auto report = nlohmann::json::parse(again.out);
  const auto speed = [](const nlohmann::json& r) {
    return r.at("decode").at("tokens_per_s").get<double>();
  };
  const auto first = [](const nlohmann::json& r) {
    return r.at("ttft").at("warm").at("total_s").get<double>();
  };
  // The simulated clock continues from one scenario to the next.
  CHECK(speed(report) == Approx(speed(best)).epsilon(1e-9));
  CHECK(first(report) == Approx(first(best)).epsilon(1e-9));
}

TEST_CASE("Constraints that no plan meets end with 1, and the nearest is shown", "[cli][plan]") {
  const Outcome o = plan({"--min-tps", "5000"});
  CHECK(o.exit == 1);
  CHECK(contains(o.out, "slower than 5000 tok/s"));
  CHECK(plan({"--min-tps", "30"}).exit == 0);
}

TEST_CASE("What RAM cannot hold runs from the disk, and the plan names what would hold it",
          "[cli][plan]") {
  const Outcome o = run({"plan", "--gpu", "rtx-3060-12gb", "--ram", "2xddr4-3200:16GiB", "--model",
                         "llama-3.3-70b", "--quant", "Q4_K_M"});
  CHECK(o.exit == 0);
  CHECK(contains(o.out, "of the weights: read from the disk"));
  CHECK(contains(o.out, "bound by SSD read"));
  CHECK(contains(o.out, "more RAM holds Q4_K_M; or one more GPU, "));
}

TEST_CASE("If nothing fits, the error names what would", "[cli][plan]") {
  const Outcome o = run({"plan", "--gpu", "rtx-3060-12gb", "--ram", "2xddr4-3200:16GiB", "--model",
                         "llama-3.1-70b", "--mmap", "off", "--quant", "Q2_K"});
  CHECK(o.exit == 1);
  CHECK(contains(o.error, "does not fit in any of"));
  CHECK(contains(o.error, "more RAM holds Q2_K; or one more GPU, "));
  CHECK(contains(o.error, " USD ("));
}

TEST_CASE("If nothing fits, the answer is in the file alone", "[cli][plan]") {
  const rigcast::test::Folder folder;
  const std::string file = folder / "plan.json";
  std::vector<std::string> words = {
      "plan",   "--gpu", "rtx-3060-12gb", "--ram", "2xddr4-3200:16GiB", "--model", "llama-3.1-70b",
      "--mmap", "off",   "--quant",       "Q2_K",  "--format",          "json"};
  const Outcome shown = run(words);
  CHECK(shown.exit == 1);
  words.insert(words.end(), {"-o", file});
  const Outcome o = run(words);
  CHECK(o.exit == 1);
  CHECK(o.out.empty());
  CHECK(contains(o.error, "does not fit in any of"));
  std::ifstream in(file);
  CHECK(std::string(std::istreambuf_iterator<char>(in), {}) == shown.out);
  // An error before there is an answer is on standard output.
  CHECK(contains(
      run({"plan", "--gpu", "none-such", "--model", "llama-3.1-8b", "--format", "json", "-o", file})
          .out,
      "rigcast.error/1"));
}

TEST_CASE("Settings of flags are kept", "[cli][plan]") {
  const Outcome o = plan({"--quant", "Q5_K_M", "--gpu-layers", "20", "--emit", "llama.cpp"});
  REQUIRE(o.exit == 0);
  CHECK(contains(o.out, "llama-3.1-8b-Q5_K_M.gguf -ngl 20 "));
  CHECK(contains(o.out, "\nllama-bench "));
}

TEST_CASE("A plan for GPUs that share every layer keeps all on them, and says so to llama.cpp",
          "[cli][plan]") {
  const Outcome o = run({"plan", "--gpu", "2xrtx-3060-12gb", "--model", "llama-3.1-8b", "--context",
                         "8192", "--split-mode", "tensor", "--emit", "llama.cpp"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  CHECK(contains(o.out, "llama-server "));
  CHECK(contains(o.out, " -sm tensor "));
  CHECK(contains(o.out, " -fit off"));
  CHECK_FALSE(contains(o.out, " -ctk "));
  CHECK_FALSE(contains(o.out, " -ts "));
}

TEST_CASE("Settings that Ollama does not have are refused before planning", "[cli][plan]") {
  const Outcome o = plan({"--emit", "ollama", "--set", "kv.type_k=q8_0"});
  CHECK(o.exit == 2);
  CHECK(contains(o.error, "--emit ollama: Ollama has one type for keys and values, not q8_0/f16"));
  CHECK(plan({"--emit", "ollama", "--kv", "ram"}).exit == 2);
  CHECK(contains(plan({"--split-mode", "row"}).error, "split mode row is not forecast"));
  const Outcome json = plan({"--kv", "ram", "--format", "json"});
  REQUIRE(json.exit == 0);
  const auto all = nlohmann::json::parse(json.out);
  const auto& commands = all.at("choices").at(0).at("commands");
  CHECK(commands.at("ollama").is_null());
  CHECK(commands.at("llama-bench").size() == 2);
  CHECK(plan({"--emit", "llama.cpp", "--format", "json"}).exit == 2);
}

TEST_CASE("A plan for vLLM or SGLang is its command, or says why there is none", "[cli][plan]") {
  const auto emit = [&](const char* program, std::vector<std::string> more) {
    more.insert(more.begin(), {"plan", "--gpu", "rtx-4090", "--model", "llama-3.2-3b"});
    more.insert(more.end(), {"--emit", program});
    return run(more);
  };
  const Outcome vllm = emit("vllm", {});
  INFO(vllm.out << vllm.error);
  CHECK(contains(vllm.out, "vllm serve "));
  CHECK(contains(vllm.out, " --dtype bfloat16 "));
  CHECK(contains(emit("sglang", {}).out, "sglang.launch_server --model-path "));
  // Nobody measured what FP8 loses: it cannot be ranked, but has a command.
  const Outcome fp8 = emit("vllm", {"--quant", "FP8", "--kv-type", "fp8"});
  CHECK(contains(fp8.out, " --quantization fp8 --kv-cache-dtype fp8 "));
  CHECK(contains(emit("vllm", {"--quant", "INT4"}).error, "a repository of their own"));
  const Outcome ranked = run({"plan", "--gpu", "rtx-4090", "--model", "llama-3.2-3b", "--runtime",
                              "vllm", "--quant", "FP8"});
  CHECK(ranked.exit == 2);
  CHECK(contains(ranked.error, "which is not known of FP8"));
  const Outcome quantized = emit("vllm", {"--quant", "Q4_K_M"});
  CHECK(quantized.exit == 2);
  CHECK(contains(quantized.error, "BF16"));
  const Outcome partly = emit("vllm", {"--gpu-layers", "10"});
  CHECK(partly.exit == 2);
  CHECK(contains(partly.error, "all layers on the GPU"));
  CHECK(emit("vllm", {"--runtime", "llama.cpp"}).exit == 2);
}

TEST_CASE("Wishes in a wrong form are refused", "[cli][plan]") {
  for (const auto& [flag, value] : {std::pair{"--max-ttft", "soon"},
                                    {"--headroom", "much"},
                                    {"--max-ttft", "2"},
                                    {"--min-tps", "nan"},
                                    {"--max-loss", "-1"},
                                    {"--objective", "beauty"},
                                    {"--format", "yaml"},
                                    {"--emit", "word"}})
    CHECK(plan({flag, value}).exit == 2);
}

TEST_CASE("A plan as CSV has a line for every simulated way", "[cli][plan]") {
  const Outcome o = plan({"--format", "csv"});
  REQUIRE(o.exit == 0);
  CHECK(o.out.starts_with("what,quant,type_k,type_v,policy,gpu_layers,"));
  const auto j = nlohmann::json::parse(plan({"--format", "json"}).out);
  const auto ways = std::ptrdiff_t(j.at("choices").size() + j.at("rejected").size());
  CHECK(std::ranges::count(o.out, '\n') == ways + 1);
}

TEST_CASE("The JSON of a plan has the keys that docs/report.md states", "[cli][plan]") {
  const auto j = nlohmann::json::parse(plan({"--format", "json"}).out);
  for (const char* key :
       {"schema", "options", "too_large", "crossover", "would_fit", "choices", "rejected"})
    CHECK(j.contains(key));
  CHECK(j.at("would_fit").is_null());
  for (const char* key : {"what", "scenario", "report", "quality", "first_token_s", "request_s",
                          "turn_s", "unmet", "on_front", "knee", "commands"})
    CHECK(j.at("choices").at(0).contains(key));
  // A loaded model, unless a start is stated.
  const double loaded = j.at("choices").at(0).at("first_token_s").get<double>();
  const auto cold = nlohmann::json::parse(plan({"--format", "json", "--start", "cold"}).out);
  CHECK(cold.at("choices").at(0).at("first_token_s").get<double>() > 2 * loaded);
}
