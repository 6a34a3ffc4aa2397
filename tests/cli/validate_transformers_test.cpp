// validate with Hugging Face transformers as the judge: the real one where Python has it, and
// Pythons that misbehave.

#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

// Runs of a tiny model on the cores of a named rig, so that nothing is probed; `quants` by name.
std::string suite(const Folder& folder, const std::vector<std::string>& quants) {
  const std::string rig =
      folder.write("rig.toml",
                   "gpu = []\ncpu = \"ryzen-9-7950x\"\ncpu_cores = 2\nram = \"2xddr5-6000:64GiB\"\n"
                   "ssd = \"samsung-990-pro\"\n");
  std::string text;
  for (const std::string& quant : quants)
    text += "[[run]]\nname = \"" + quant + "\"\nscenario.rig.name = \"" + rig +
            "\"\nscenario.model = { name = \"smollm2-135m\", quant = \"" + quant +
            "\" }\nscenario.runtime.threads = 2\n"
            "scenario.workload = { prompt_tokens = 16, output_tokens = 4 }\n";
  return folder.write("suite.toml", text);
}

Outcome validate(const Folder& folder, const std::string& suite,
                 const std::vector<std::string>& more, const std::string& limit = "300") {
  std::vector<std::string> words{"validate", suite,           "--runtime",    "transformers",
                                 "--keep",   folder / "kept", "--time-limit", limit,
                                 "--format", "json"};
  words.insert(words.end(), more.begin(), more.end());
  return run(words);
}

// Answers --versions, says of runs in F16 that memory did not suffice, and has figures of others.
std::string python(const Folder& folder) {
  const auto echo = [](const std::string& rest) {
    return "echo '{\"schema\": \"rigcast.transformers/1\", " + rest + "}' ;;\n";
  };
  const std::string figures =
      R"("status": "ok", "versions": {}, "ttft_s": [0.5, 0.5, 0.5], "decode_s": [0.3, 0.3, 0.3],)"
      R"("token_s": [0.1, 0.1, 0.1], "prompt_tokens": 16, "output_tokens": 4, "depth": 0,)"
      R"("handover_s": 0,)"
      R"("attention": "sdpa", "prompt_device": "cpu", "decode_device": "cpu",)"
      R"("memory": {"cpu": {"weights": 100, "kv": 10, "peak_growth": 200}})";
  const std::string file =
      folder.write("python", "#!/bin/sh\ncase \"$2\" in\n--versions) " +
                                 echo(R"("status": "ok", "versions": {})") + "*'\"float16\"'*) " +
                                 echo(R"("status": "out of memory", "error": "MemoryError")") +
                                 "*) " + echo(figures) + "esac\n");
  fs::permissions(file, fs::perms::owner_all);
  return file;
}

}  // namespace

TEST_CASE("Transformers itself is what a forecast is held against", "[cli][validate]") {
  const Folder folder;
  const Outcome o = validate(folder, suite(folder, {"BF16"}), {});
  if (o.exit == 2 && contains(o.error, "pip install")) {
    WARN("skipped: no torch and transformers for python3");
    return;
  }
  INFO(o.error);
  REQUIRE(o.exit == 0);
  std::map<std::string, json> rows;
  const json v = json::parse(o.out);
  for (const json& row : v["rows"]) rows[row["metric"]] = row;
  for (const char* metric :
       {"decode.tokens_per_s", "prefill_tokens_per_s", "ttft.resident.total_s", "memory.0.total"}) {
    INFO(metric);
    REQUIRE(rows.contains(metric));
    CHECK(rows[metric]["measured"].get<double>() > 0);
  }
  const Outcome again = run({"validate", "--replay", folder / "kept", "--format", "json"});
  REQUIRE(again.exit == 0);
  CHECK(json::parse(again.out)["rows"].size() == v["rows"].size());
}

TEST_CASE("A run of transformers that fails leaves the others", "[cli][validate]") {
  const Folder folder;
  const Outcome o =
      validate(folder, suite(folder, {"F16", "F32", "Q8_0", "BF16"}), {"--python", python(folder)});
  INFO(o.error << o.out);
  REQUIRE(o.exit == 0);
  const json v = json::parse(o.out);
  std::map<std::string, std::string> skipped;
  for (const json& s : v["skipped"]) skipped[s["id"]] = s["reason"];
  REQUIRE(skipped.size() == 3);
  CHECK(contains(skipped["F16"], "out of memory: MemoryError"));
  CHECK(contains(skipped["F32"], "F32"));  // its cache would be F32 as well, the forecast's is F16
  CHECK(contains(skipped["Q8_0"], "not in Q8_0"));
  REQUIRE_FALSE(v["rows"].empty());
  for (const json& row : v["rows"]) {
    CHECK(row["id"] == "BF16");
    if (row["metric"] == "decode.tokens_per_s") CHECK(row["measured"] == 10);
    if (row["metric"] == "memory.0.total") CHECK(row["measured"] == 200);
  }
  const fs::path kept = folder / "kept";
  CHECK(contains(read(kept / "04.transformers.json"), "ttft_s"));
  CHECK(contains(read(kept / "04.transformers.txt"), "run_transformers.py"));
  CHECK(contains(read(kept / "01.transformers.json"), "MemoryError"));
  CHECK(fs::exists(kept / "01.forecast.json"));
  CHECK_FALSE(fs::exists(kept / "01.measured.json"));

  const Outcome packed = run({"validate", "--pack", kept.string(), "-o", folder / "runs.jsonl.gz"});
  REQUIRE(packed.exit == 0);
  const Outcome again =
      run({"validate", "--replay", folder / "runs.jsonl.gz", "--as-written", "--format", "json"});
  REQUIRE(again.exit == 0);
  CHECK(json::parse(again.out)["rows"].size() == v["rows"].size());
}

TEST_CASE("A hang of transformers ends at the time limit", "[cli][validate]") {
  const Folder folder;
  const std::string file = folder.write(
      "python",
      "#!/bin/sh\n[ \"$2\" = --versions ] || sleep 100\n"
      "echo '{\"schema\": \"rigcast.transformers/1\", \"status\": \"ok\", \"versions\": {}}'\n");
  fs::permissions(file, fs::perms::owner_all);
  const Outcome o = validate(folder, suite(folder, {"BF16"}), {"--python", file}, "1");
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "stopped after 1 s"));
  CHECK(o.seconds < 60);
}

TEST_CASE("What transformers cannot be asked for is refused first", "[cli][validate]") {
  const Folder folder;
  const std::string runs = suite(folder, {"BF16"});
  const auto refused = [&](const std::vector<std::string>& words, const char* text) {
    std::vector<std::string> all{"validate", runs, "--keep", folder / "kept"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome o = run(all);
    INFO(o.error);
    CHECK(o.exit == 2);
    CHECK(contains(o.error, text));
    CHECK_FALSE(fs::exists(folder / "kept"));
  };
  refused({"--runtime", "transformers", "--python", folder / "none"}, "not a program");
  refused({"--runtime", "transformers", "--python", "/bin/true"}, "--python");
  refused({"--python", python(folder)}, "--runtime transformers");
  refused({"--runtime", "transformers", "--python", python(folder), "--file"}, "--file");
}
