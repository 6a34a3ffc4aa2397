#include "planner/commands.hpp"

#include <algorithm>

#include "core/memory.hpp"
#include "core/toml_reader.hpp"
#include "tests/catch.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::planner;
using fixtures::scenario;

namespace {

std::string server(const fixtures::Settings& settings) {
  const Scenario s = scenario(settings);
  return shell_text(llama_server_command(s, resolve_placement(s)));
}

// The options that a program has, kept as data.
std::vector<std::string> options_of(const char* program) {
  const auto file = TomlDocument::read(std::filesystem::path(RIGCAST_SOURCE_DIR) /
                                       "runtimes/options/llama.cpp.toml");
  if (!file) FAIL(file.error().text());
  return file->root().table(program).texts("options");
}

}  // namespace

TEST_CASE("A command says what the scenario settles", "[planner]") {
  CHECK(server({}) == "llama-server -m llama-3.1-8b-Q4_K_M.gguf -ngl 33 -c 8192 -fa on");
  CHECK(server({{"placement.gpu_layers", "20"}, {"runtime.threads", "6"}, {"kv.policy", "ram"}}) ==
        "llama-server -m llama-3.1-8b-Q4_K_M.gguf -ngl 20 -t 6 -c 8192 -fa on --no-kv-offload");
  CHECK(server({{"kv.type_k", "q8_0"}, {"kv.type_v", "q4_0"}, {"runtime.ubatch", "1024"}}) ==
        "llama-server -m llama-3.1-8b-Q4_K_M.gguf -ngl 33 -ctk q8_0 -ctv q4_0 -ub 1024 -c 8192 "
        "-fa on");
  CHECK(server({{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}, {"placement.tensor_split", "[20, 13]"}}) ==
        "llama-server -m llama-3.1-8b-Q4_K_M.gguf -ngl 33 -ts 20,13 -c 8192 -fa on");
  CHECK(server({{"model.name", "qwen3-30b-a3b"},
                {"placement.gpu_layers", "49"},
                {"placement.cpu_moe_layers", "30"},
                {"runtime.threads", "8"}}) ==
        "llama-server -m qwen3-30b-a3b-Q4_K_M.gguf -ngl 49 --n-cpu-moe 30 -t 8 -c 8192 -fa on");
}

TEST_CASE("FFNs in RAM are a flag, or tensors by their names", "[planner]") {
  const Settings ffns{{"placement.cpu_ffn_layers", "3"}, {"runtime.threads", "8"}};
  CHECK(server(ffns) ==
        "llama-server -m llama-3.1-8b-Q4_K_M.gguf -ngl 33 --n-cpu-ffn 3 -t 8 -c 8192 -fa on");
  const Scenario s = scenario(ffns);
  const Words bench = llama_bench_command(s, resolve_placement(s));
  const auto pattern = std::ranges::find(bench, "-ot");
  REQUIRE(pattern != bench.end());
  CHECK(*(pattern + 1) == "blk\\.(0|1|2)\\.ffn_(gate|up|down)\\.weight=CPU");
  const std::string ik = server(fixtures::with(ffns, {{"runtime.name", "ik-llama.cpp"}}));
  CHECK(ik.find(" -ot 'blk") != std::string::npos);
  CHECK(ik.find("--n-cpu-ffn") == std::string::npos);
}

TEST_CASE("Commands have only options that their programs have", "[planner]") {
  const Scenario s = scenario({{"rig.gpu", "[\"2xrtx-3060-12gb\"]"},
                               {"model.name", "qwen3-30b-a3b"},
                               {"placement.gpu_layers", "30"},
                               {"placement.tensor_split", "[20, 10]"},
                               {"placement.cpu_moe_layers", "40"},
                               {"kv.policy", "ram"},
                               {"kv.type_k", "q8_0"},
                               {"kv.type_v", "q8_0"},
                               {"runtime.batch", "4096"},
                               {"runtime.ubatch", "1024"},
                               {"workload.depth", "100"}});
  const Placement p = resolve_placement(s);
  const auto check = [](const Words& words, const std::vector<std::string>& options) {
    REQUIRE(options.size() > 10);
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i].front() != '-') continue;
      INFO(words[i]);
      CHECK(std::ranges::find(options, words[i]) != options.end());
    }
  };
  check(llama_server_command(s, p), options_of("llama-server"));
  check(llama_bench_command(s, p), options_of("llama-bench"));
}

TEST_CASE("A Modelfile has the context, the layers and the environment", "[planner]") {
  const Scenario s = scenario({{"kv.type_k", "q8_0"}, {"kv.type_v", "q8_0"}});
  CHECK(ollama_modelfile(s, resolve_placement(s)) ==
        "# OLLAMA_FLASH_ATTENTION=1\n# OLLAMA_KV_CACHE_TYPE=q8_0\n"
        "FROM ./llama-3.1-8b-Q4_K_M.gguf\nPARAMETER num_ctx 8192\nPARAMETER num_batch 512\n"
        "PARAMETER num_gpu 33\n");
}

TEST_CASE("Words are quoted where a shell would take them apart", "[planner]") {
  CHECK(shell_text({"a", "b c", "it's", ""}) == "a 'b c' 'it'\\''s' ''");
  CHECK(shell_text({"x;rm", "$HOME"}) == "'x;rm' '$HOME'");
}
