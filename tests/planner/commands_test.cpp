#include "planner/commands.hpp"

#include <algorithm>
#include <sstream>

#include "core/text/toml_reader.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "planner/server_commands.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::planner;
using fixtures::scenario;

namespace {

std::string server(const fixtures::Settings& settings) {
  const Scenario s = scenario(settings);
  return shell_text(llama_server_command(s, resolve_placement(s)));
}

// A forecast of given speeds.
Report forecast(const Scenario& s, double tokens_per_s = 50, double prefill_tokens_per_s = 1000) {
  Report r;
  r.scenario = std::make_shared<const Scenario>(s);
  r.placement = resolve_placement(s);
  r.decode_tokens_per_s = tokens_per_s;
  r.prefill_tokens_per_s = prefill_tokens_per_s;
  return r;
}

// The options that a program accepts, from the data of runtimes/options.
std::vector<std::string> options_of(const std::string& runtime, const char* what) {
  const auto file = TomlDocument::read(std::filesystem::path(test::source_dir()) /
                                       "runtimes/options" / (runtime + ".toml"));
  if (!file) FAIL(file.error().text());
  auto options = file->root().table(what).texts("options");
  REQUIRE(!options.empty());
  return options;
}

bool has(const std::vector<std::string>& options, const std::string& word) {
  return std::ranges::find(options, word) != options.end();
}

std::string modelfile(const fixtures::Settings& settings) {
  const Scenario s = scenario(settings);
  return ollama_modelfile(s, resolve_placement(s));
}

}  // namespace

TEST_CASE("A command has the settings that the scenario states", "[planner]") {
  CHECK(server({}) == "llama-server -m llama-3.1-8b-Q4_K_M.gguf -ngl 33 -c 8192 -np 1 -fa on");
  CHECK(
      server({{"placement.gpu_layers", "20"}, {"runtime.threads", "6"}, {"kv.policy", "ram"}}) ==
      "llama-server -m llama-3.1-8b-Q4_K_M.gguf -ngl 20 -t 6 -c 8192 -np 1 -fa on --no-kv-offload");
  CHECK(server({{"kv.type_k", "q8_0"}, {"kv.type_v", "q4_0"}, {"runtime.ubatch", "1024"}}) ==
        "llama-server -m llama-3.1-8b-Q4_K_M.gguf -ngl 33 -ctk q8_0 -ctv q4_0 -ub 1024 -c 8192 "
        "-np 1 -fa on");
  CHECK(server({{"rig.gpu", "[\"2xrtx-3060-12gb\"]"}, {"placement.tensor_split", "[20, 13]"}}) ==
        "llama-server -m llama-3.1-8b-Q4_K_M.gguf -ngl 33 -ts 20,13 -c 8192 -np 1 -fa on");
  CHECK(
      server({{"model.name", "qwen3-30b-a3b"},
              {"placement.gpu_layers", "49"},
              {"placement.cpu_moe_layers", "30"},
              {"runtime.threads", "8"}}) ==
      "llama-server -m qwen3-30b-a3b-Q4_K_M.gguf -ngl 49 --n-cpu-moe 30 -t 8 -c 8192 -np 1 -fa on");
}

TEST_CASE("Layers that draft tokens are counted, as llama.cpp counts them", "[planner]") {
  const fixtures::Settings air{{"model.name", "glm-4.5-air"}, {"runtime.threads", "8"}};
  const auto with = [&](const char* layers) {
    fixtures::Settings settings = air;
    settings.push_back({"placement.gpu_layers", layers});
    return server(settings);
  };
  CHECK(with("0").find("-ngl 0 ") != std::string::npos);
  CHECK(with("47").find("-ngl 48 ") != std::string::npos);  // 46 layers, the head, and one more
  CHECK(with("20").find("-ngl 21 ") != std::string::npos);
  // On the last GPU, without moving a layer of the first.
  CHECK(server({{"model.name", "glm-4.5-air"},
                {"rig.gpu", "[\"2xrtx-a6000\"]"},
                {"placement.gpu_layers", "47"},
                {"placement.tensor_split", "[24, 23]"}})
            .find("-ngl 48 -ts 24,24 ") != std::string::npos);
}

TEST_CASE("The cache of evicted prompts is limited to the RAM that is left", "[planner]") {
  const auto in_ram = [](const char* size) {
    Scenario s = scenario({{"rig.ram_capacity", size}});
    return std::pair(s, resolve_placement(s));
  };
  const auto [ample, whole] = in_ram("64 GiB");
  CHECK_FALSE(has(llama_server_command(ample, whole), "-cram"));
  CHECK(prompt_cache_note(ample, whole).empty());

  const auto [small, placed] = in_ram("8 GiB");
  const Bytes left = plan_memory(small, placed, small.workload.context).devices.back().free();
  REQUIRE(left > 0_B);
  const Words words = llama_server_command(small, placed);
  const auto limit = std::ranges::find(words, "-cram");
  REQUIRE(limit != words.end());
  CHECK(*(limit + 1) == std::to_string(int(left / 1_MiB)));
  CHECK(prompt_cache_note(small, placed).find("-cram " + *(limit + 1) + ": ") == 0);

  // Weights that RAM cannot hold leave nothing.
  const Scenario full =
      scenario({{"rig.gpu", "[]"}, {"rig.ram_capacity", "4 GiB"}, {"workload.context", "1024"}});
  REQUIRE(plan_memory(full, resolve_placement(full), 1024).outside_ram > 0_B);
  const Words least = llama_server_command(full, resolve_placement(full));
  CHECK(shell_text(least).find("-cram 0") != std::string::npos);
}

TEST_CASE("A projector and a draft model are in the server's command alone", "[planner]") {
  Scenario s = scenario({{"draft.name", "llama-3.2-1b"}, {"draft.quant", "Q8_0"}});
  s.projector = Projector{"mmproj-F16.gguf", 1_GiB, false};
  const Words words = llama_server_command(s, resolve_placement(s));
  CHECK(shell_text(words) ==
        "llama-server -m llama-3.1-8b-Q4_K_M.gguf -ngl 33 --mmproj mmproj-F16.gguf "
        "--no-mmproj-offload -md llama-3.2-1b-Q8_0.gguf -ngld 17 -c 8192 -np 1 -fa on");
  const auto options = options_of("llama.cpp", "llama-server");
  for (const Words::value_type& word : words)
    if (word.front() == '-') CHECK(has(options, word));
  CHECK(check_ollama(s));
  s.projector->on_gpu = true;
  CHECK_FALSE(has(llama_server_command(s, resolve_placement(s)), "--no-mmproj-offload"));
}

TEST_CASE("FFNs in RAM are a flag, or tensors by their names", "[planner]") {
  const fixtures::Settings ffns{{"placement.cpu_ffn_layers", "3"}, {"runtime.threads", "8"}};
  CHECK(server(ffns) ==
        "llama-server -m llama-3.1-8b-Q4_K_M.gguf -ngl 33 --n-cpu-ffn 3 -t 8 -c 8192 -np 1 -fa on");
  const Scenario s = scenario(ffns);
  const Words bench = llama_bench_commands(forecast(s)).front();
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
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i].front() != '-') continue;
      INFO(words[i]);
      CHECK(has(options, words[i]));
    }
  };
  check(llama_server_command(s, p), options_of("llama.cpp", "llama-server"));
  for (const Words& words : llama_bench_commands(forecast(s)))
    check(words, options_of("llama.cpp", "llama-bench"));
  // llama-batched-bench has the common options of llama-server, and three of its own.
  auto batched = options_of("llama.cpp", "llama-server");
  batched.insert(batched.end(), {"-npp", "-ntg", "-npl"});
  check(llama_batched_bench_command(s, p, 4, 2), batched);
}

TEST_CASE("A bench of several users has room for each, and repeats the test", "[planner]") {
  const Scenario s = scenario({{"workload.depth", "100"},
                               {"workload.prompt_tokens", "700"},
                               {"workload.output_tokens", "30"}});
  CHECK(shell_text(llama_batched_bench_command(s, resolve_placement(s), 4, 2)) ==
        "llama-batched-bench -m llama-3.1-8b-Q4_K_M.gguf -ngl 33 -fa on -c 3320 -npp 800 -ntg 30 "
        "-npl 4,4");
}

TEST_CASE("A bench times the output where the request has it: after the prompt", "[planner]") {
  const Scenario s = scenario({{"workload.depth", "100"},
                               {"workload.prompt_tokens", "700"},
                               {"workload.output_tokens", "30"}});
  const auto benches = llama_bench_commands(forecast(s));
  REQUIRE(benches.size() == 2);
  const std::string common = "llama-bench -m llama-3.1-8b-Q4_K_M.gguf -ngl 33 -fa 1 ";
  CHECK(shell_text(benches[0]) == common + "-p 700 -n 0 -d 100");
  CHECK(shell_text(benches[1]) == common + "-p 0 -n 30 -d 800");
}

TEST_CASE("A bench takes minutes: a part of a long answer at its middle, and fewer repetitions",
          "[planner]") {
  const Scenario s =
      scenario({{"workload.prompt_tokens", "512"}, {"workload.output_tokens", "7680"}});
  // 10 tok/s: 300 tokens in half a minute. 4202 tokens before them take 4.2 s: three repetitions.
  const auto benches = llama_bench_commands(forecast(s, 10));
  CHECK(shell_text(benches[1]).ends_with("-p 0 -n 300 -d 4202 -r 3"));
  CHECK(shell_text(benches[0]).ends_with("-p 512 -n 0"));
  // So slow that not even one repetition takes minutes: the shortest answer, once.
  CHECK(shell_text(llama_bench_commands(forecast(s, 0.05))[1]).ends_with("-n 16 -d 4344 -r 1"));
}

TEST_CASE("A Modelfile has the context, the layers and the environment", "[planner]") {
  CHECK(modelfile({{"kv.type_k", "q8_0"}, {"kv.type_v", "q8_0"}}) ==
        "# OLLAMA_FLASH_ATTENTION=1\n# OLLAMA_KV_CACHE_TYPE=q8_0\n# OLLAMA_NUM_PARALLEL=1\n"
        "FROM ./llama-3.1-8b-Q4_K_M.gguf\nPARAMETER num_ctx 8192\nPARAMETER num_batch 512\n"
        "PARAMETER num_gpu 33\n");
}

TEST_CASE("A Modelfile has only what Ollama can be told", "[planner]") {
  const std::string all = modelfile({{"kv.type_k", "q4_0"},
                                     {"kv.type_v", "q4_0"},
                                     {"runtime.mmap", "false"},
                                     {"placement.gpu_layers", "20"}}) +
                          modelfile({{"runtime.flash_attention", "false"}});
  int parameters = 0, variables = 0, notes = 0;
  std::istringstream in(all);
  for (std::string line; std::getline(in, line);) {
    INFO(line);
    std::istringstream words(line);
    std::string first, second;
    words >> first >> second;
    if (first == "PARAMETER") {
      CHECK(has(options_of("ollama", "modelfile"), second));
      ++parameters;
    } else if (first == "#" && second == "num_gpu:") {
      CHECK(has(options_of("ollama", "modelfile"), "num_gpu"));
      ++notes;
    } else if (first == "#") {
      CHECK(has(options_of("ollama", "environment"), second.substr(0, second.find('='))));
      ++variables;
    } else {
      CHECK(first == "FROM");
    }
  }
  CHECK(parameters == 5 + 3);
  CHECK(variables == 3 + 2);
  CHECK(notes == 1);  // the first of the two is partly on the GPU
  CHECK(all.find("# num_gpu: the head and 19 layers, as llama-server counts; Ollama's own engine "
                 "takes 20 layers") != std::string::npos);
}

TEST_CASE("A NUMA policy is a word of llama.cpp's command", "[planner]") {
  for (const std::string policy : {"distribute", "isolate"})
    CHECK(server({{"runtime.numa", policy}}).find(" --numa " + policy + " ") != std::string::npos);
  CHECK(server({{"runtime.numa", "none"}}).find("--numa") == std::string::npos);
  // No release has it, and on one node there is nothing to mirror.
  CHECK(server({{"runtime.numa", "mirror"}}).find("--numa") == std::string::npos);
}

TEST_CASE("What Ollama cannot be told is refused, its KV types among it", "[planner]") {
  const auto types = options_of("ollama", "kv");
  for (const char* type : {"f32", "f16", "bf16", "q8_0", "q5_1", "q4_0", "iq4_nl"}) {
    INFO(type);
    const auto error = check_ollama(scenario({{"kv.type_k", type}, {"kv.type_v", type}}));
    CHECK(error.has_value() != has(types, type));
  }
  const auto differ = check_ollama(scenario({{"kv.type_k", "q8_0"}, {"kv.type_v", "q4_0"}}));
  REQUIRE(differ);
  CHECK(differ->message == "Ollama has one type for keys and values, not q8_0/q4_0");
  for (const auto& [key, value] : {std::pair{"kv.policy", "ram"},
                                   {"runtime.name", "ik-llama.cpp"},
                                   {"runtime.numa", "distribute"},
                                   {"runtime.op_offload", "false"}})
    CHECK(check_ollama(scenario({{key, value}})));
  CHECK(check_ollama(
      scenario({{"model.name", "qwen3-30b-a3b"}, {"placement.cpu_moe_layers", "30"}})));
}

TEST_CASE("Commands of servers with blocks have the limits of the scenario", "[planner]") {
  const fixtures::Settings bf16 = {{"model.quant", "BF16"}, {"load.users", "2"}};
  const auto command = [&](const char* runtime, const fixtures::Settings& more) {
    return shell_text(paged_command(
        scenario(fixtures::with(fixtures::with(bf16, {{"runtime.name", runtime}}), more))));
  };
  CHECK(command("vllm", {}) ==
        "vllm serve meta-llama/Llama-3.1-8B --dtype bfloat16 --max-model-len 8192 "
        "--gpu-memory-utilization 0.9 --max-num-seqs 256 --max-num-batched-tokens 2048");
  CHECK(command("vllm", {{"scheduler.ram_cache", "16 GiB"}, {"scheduler.prefix_cache", "false"}})
            .ends_with("--kv-offloading-size 16 --no-enable-prefix-caching"));
  const auto contains = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos;
  };
  const auto on_gpus = [](const char* gpus, fixtures::Settings more) {
    more.emplace_back("rig.gpu", gpus);
    return more;
  };
  CHECK(contains(command("vllm", on_gpus("[\"8xrtx-3090\"]", {{"placement.pipeline_parallel", "2"},
                                                              {"placement.data_parallel", "2"}})),
                 "--tensor-parallel-size 2 --pipeline-parallel-size 2 --data-parallel-size 2"));
  CHECK(contains(command("sglang", on_gpus("[\"2xrtx-3090\"]", {{"placement.data_parallel", "2"}})),
                 "bfloat16 --dp-size 2"));
  CHECK(command("sglang", {}) ==
        "python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B --dtype bfloat16 "
        "--context-length 8192 --mem-fraction-static 0.697 --max-running-requests 2048 "
        "--chunked-prefill-size 2048");
  CHECK(command("sglang", {{"scheduler.ram_cache", "16 GB"}})
            .ends_with("--enable-hierarchical-cache --hicache-size 16"));
  // SGLang's size is of each rank; vLLM's of all of them.
  const auto with_ram = [&](const char* runtime) {
    return command(runtime, on_gpus("[\"2xrtx-3090\"]", {{"scheduler.ram_cache", "16 GB"}}));
  };
  CHECK(contains(with_ram("sglang"), "--tp-size 2"));
  CHECK(with_ram("sglang").ends_with("--hicache-size 8"));
  CHECK(with_ram("vllm").ends_with("--kv-offloading-size 15"));
  // Only what the programs take.
  for (const auto& [runtime, table] : {std::pair{"vllm", "serve"}, {"sglang", "launch_server"}}) {
    const auto options = options_of(runtime, table);
    std::istringstream words(
        command(runtime, {{"scheduler.ram_cache", "16 GiB"}, {"scheduler.prefix_cache", "false"}}));
    int flags = 0;
    for (std::string word; words >> word;)
      if (word.starts_with("--")) {
        CHECK(has(options, word));
        ++flags;
      }
    CHECK(flags >= 7);
  }
}

TEST_CASE("What a server with blocks cannot run is refused", "[planner]") {
  const Scenario vllm = scenario({{"model.quant", "BF16"}, {"runtime.name", "vllm"}});
  CHECK_FALSE(check_paged(vllm, "vllm"));
  CHECK(check_paged(vllm, "sglang"));
  CHECK(check_paged(scenario({}), "vllm")->message == "the plan is for llama.cpp");
  Scenario unknown = vllm;
  unknown.model.source = "a log of somebody";
  CHECK(check_paged(unknown, "vllm"));
}

TEST_CASE("Words are quoted where a shell would take them apart", "[planner]") {
  CHECK(shell_text({"a", "b c", "it's", ""}) == "a 'b c' 'it'\\''s' ''");
  CHECK(shell_text({"x;rm", "$HOME"}) == "'x;rm' '$HOME'");
}

TEST_CASE("The engine's server is told what it has flags for; else there is no command",
          "[planner][serving]") {
  const auto command = [](fixtures::Settings more) {
    more.insert(more.end(), {{"runtime.name", "rigcast"}, {"workload.users", "4"}});
    const Scenario s = scenario(more);
    return shell_text(server_command(s, resolve_placement(s)));
  };
  CHECK(command({{"scheduler.max_sequences", "4"}, {"workload.context", "4096"}}) ==
        "rigcast serve --weights llama-3.1-8b-Q4_K_M.gguf --device cuda --gpu-layers 33 --context "
        "4096 --parallel 4 --kv-tokens 16384");
  // The pool that is planned: what layers leave of 12 GB.
  const std::string filled = command({{"scheduler.max_sequences", "16"}});
  INFO(filled);
  const auto at = filled.find("--kv-tokens ");
  REQUIRE(at != std::string::npos);
  const int tokens = std::stoi(filled.substr(at + 12));
  CHECK(tokens > 4 * 8192);
  CHECK(tokens < 8 * 8192);
  CHECK(tokens % 32 == 0);
  CHECK(command({{"scheduler.pool_tokens", "16384"}}) ==
        "rigcast serve --weights llama-3.1-8b-Q4_K_M.gguf --device cuda --gpu-layers 33 --context "
        "8192 --parallel 16 --kv-tokens 16384");
  CHECK(command({{"rig.gpu", "[]"},
                 {"placement.gpu_layers", "0"},
                 {"runtime.threads", "6"},
                 {"kv.type_k", "q8_0"},
                 {"kv.type_v", "q8_0"},
                 {"scheduler.max_sequences", "2"},
                 {"scheduler.pool_tokens", "8192"},
                 {"scheduler.token_budget", "256"},
                 {"scheduler.kv_disk", "/var/kv:20GiB"},
                 {"scheduler.kv_restore", "always"}}) ==
        "rigcast serve --weights llama-3.1-8b-Q4_K_M.gguf --device cpu --threads 6 --kv-type q8_0 "
        "--context 8192 --parallel 2 --kv-tokens 8192 --batch 256 --ubatch 256 --kv-disk "
        "/var/kv:20GiB --kv-restore always");
  for (const auto& [key, value] : {std::pair{"scheduler.ram_cache", "8 GiB"},
                                   {"scheduler.reserve", "answers"},
                                   {"scheduler.victim", "fewest-generated"},
                                   {"scheduler.max_sequences", "300"},
                                   {"kv.type_v", "q8_0"},
                                   {"rig.gpu", "[\"rx-7900-xtx\"]"},
                                   {"rig.gpu", "[\"2xrtx-3090\"]"}}) {
    INFO(key << " = " << value);
    CHECK(command({{key, value}}).empty());
  }
  // A policy that no scenario with a load has.
  Scenario s = scenario({{"runtime.name", "rigcast"}, {"workload.users", "4"}});
  s.kv.policy = KvPolicy::kCombined;
  CHECK(server_command(s, resolve_placement(s)).empty());
}
