// Names that people have for models and parts, on the command line.

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/paths.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

const fs::path kRoot = rigcast::test::source_dir();

json simulated(const std::vector<std::string>& more, const std::string& gpu = "rtx-3090") {
  std::vector<std::string> words = {"simulate", "--gpu",       gpu,        "--context",
                                    "2048",     "--no-advice", "--format", "json"};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome o = run(words);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  return json::parse(o.out);
}

std::string warnings(const json& report) { return report.at("warnings").dump(); }

}  // namespace

TEST_CASE("The name of a file that is not there is forecast, with a warning", "[cli]") {
  const json report = simulated({"--model", "Qwen3-8B-Q5_K_M.gguf"});
  CHECK(report["scenario"]["model"]["name"] == "qwen3-8b");
  CHECK(report["scenario"]["model"]["quant"] == "Q5_K_M");
  CHECK(contains(warnings(report), "no file Qwen3-8B-Q5_K_M.gguf"));
  CHECK(contains(warnings(simulated({"--model", "a/Qwen3-8B-GGUF:Q4_K_M", "--quant", "Q8_0"})),
                 "the model's name says Q4_K_M"));
}

TEST_CASE("A run needs weights, and a name has none", "[cli]") {
  check_refused({"run", "--model", "Qwen3-8B-Q4_K_M.gguf"}, {"there are no weights"});
}

TEST_CASE("A name's mix takes the place of the scenario file's", "[cli]") {
  const Folder folder;
  const std::string file =
      folder.write("s.toml", "[rig]\ngpu = 'rtx-3090'\n[model]\nname = 'phi-4'\nquant = 'Q8_0'\n");
  const auto quant_of = [&](const char* model) {
    const Outcome o = run({"simulate", file, "--model", model, "--context", "2048", "--no-advice",
                           "--format", "json"});
    REQUIRE(o.exit == 0);
    return json::parse(o.out)["scenario"]["model"]["quant"];
  };
  CHECK(quant_of("unsloth/Qwen3-8B-GGUF:Q5_K_M") == "Q5_K_M");
  CHECK(quant_of("qwen3-8b") == "Q8_0");
}

TEST_CASE("A plan keeps to the mix that a name states", "[cli]") {
  const Outcome o = run({"plan", "--gpu", "rtx-3090", "--model", "unsloth/Qwen3-8B-GGUF:Q5_K_M",
                         "--context", "4096", "--output-tokens", "64", "--emit", "llama.cpp"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  CHECK(contains(o.out, "llama-server -m qwen3-8b-Q5_K_M.gguf"));
}

TEST_CASE("An alias keeps its name in titles and commands", "[cli]") {
  const Outcome o = run(
      {"simulate", "--gpu", "rtx-3090", "--model", "qwq-32b", "--context", "2048", "--no-advice"});
  CHECK(o.out.rfind("QwQ 32B Q4_K_M on RTX 3090", 0) == 0);
  const json report = simulated({"--model", "qwq-32b"});
  CHECK(report["scenario"]["model"]["name"] == "qwen2.5-32b");
  CHECK(report["scenario"]["model"]["full_name"] == "QwQ 32B");
  const Outcome emitted =
      run({"plan", "--gpu", "rtx-4090", "--model", "qwq-32b", "--quant", "Q5_K_S", "--context",
           "4096", "--output-tokens", "64", "--emit", "llama.cpp"});
  CHECK(contains(emitted.out, "llama-server -m qwq-32b-Q5_K_S.gguf"));
  CHECK_FALSE(contains(emitted.out, "qwen2.5-32b"));
}

TEST_CASE("A config.json and files of parts are taken by their path", "[cli]") {
  const Folder folder;
  fs::create_directories(folder / "Mine-8B");
  fs::copy_file(kRoot / "tests/data/hugging_face/qwen3-8b.json", folder / "Mine-8B/config.json");
  fs::copy_file(kRoot / "hwprofiles/gpus/rtx-4090.toml", folder / "rtx-4090.toml");
  const json by_name = simulated({"--model", "qwen3-8b"}, "rtx-4090");
  for (const char* model : {"Mine-8B", "Mine-8B/config.json"}) {
    const json mine = simulated({"--model", folder / model}, folder / "rtx-4090.toml");
    CHECK(mine["scenario"]["model"]["name"] == "mine-8b");
    for (const char* key : {"decode", "memory", "ttft"}) CHECK(mine[key] == by_name[key]);
  }
  check_refused({"inspect", folder.write("config.json", "{}")}, {"config.json", "architectures"});
}

TEST_CASE("The user's own folder is merged with what ships, and marked", "[cli]") {
  const Folder data;
  const fs::path gpus = data.path() / "rigcast/hwprofiles/gpus";
  fs::create_directories(gpus);
  fs::copy_file(kRoot / "hwprofiles/gpus/rtx-4090.toml", gpus / "my-card.toml");
  const How how{.environment = {{"XDG_DATA_HOME", data.path().string()}}};
  const Outcome list = run({"list", "gpus", "my-card"}, how);
  INFO(list.error);
  CHECK(contains(list.out, "my-card (own)"));
  const json listed = json::parse(run({"list", "gpus", "--format", "json"}, how).out);
  int own = 0;
  for (const json& entry : listed["entries"]) own += entry["own"].get<bool>();
  CHECK(own == 1);
  CHECK(listed["entries"].size() > 100);
  CHECK(contains(run({"show", "my-card"}, how).out, (gpus / "my-card.toml").string()));
  CHECK(run({"list", "gpus", "my-card"}).exit == 2);
  const How home{.environment = {{"XDG_DATA_HOME", std::nullopt}, {"HOME", data / "none"}}};
  CHECK(run({"list", "ram"}, home).exit == 0);
}

TEST_CASE("validate says which cards a run's GPU may be", "[cli]") {
  const Folder folder;
  const std::string runs = folder.write(
      "runs.jsonl",
      "{\"build_commit\": \"b7189\", \"cpu_info\": \"AMD Ryzen 7 5800X 8-Core Processor\", "
      "\"gpu_info\": \"NVIDIA GeForce RTX 5060 Ti\", \"backends\": \"CUDA\", "
      "\"model_filename\": \"m/Llama-3.1-8B-Q4_K_M.gguf\", \"model_type\": \"llama 8B Q4_K - "
      "Medium\", \"model_size\": 4912898304, \"model_n_params\": 8030261312, \"n_batch\": 2048, "
      "\"n_ubatch\": 512, \"n_threads\": 8, \"type_k\": \"f16\", \"type_v\": \"f16\", "
      "\"n_gpu_layers\": 99, \"n_prompt\": 0, \"n_gen\": 128, \"n_depth\": 0, "
      "\"test_time\": \"2026-01-01T00:00:00Z\", \"avg_ts\": 60.0, \"stddev_ts\": 0.1}\n");
  const Outcome o = run({"validate", "--against", runs});
  CHECK(contains(o.out + o.error, "is ambiguous, it may be rtx-5060-ti-16gb or rtx-5060-ti-8gb"));
}
