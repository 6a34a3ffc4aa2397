// validate with llama-bench as the judge: the real one over libllama, and programs that misbehave.

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/paths.hpp"
#include "tests/peers/llama_cpp.hpp"

using namespace rigcast::cli_test;
using nlohmann::json;

namespace {

constexpr const char* kRig =
    "gpu = []\ncpu = \"ryzen-9-7950x\"\ncpu_cores = 2\nram = \"2xddr5-6000:64GiB\"\n"
    "ssd = \"samsung-990-pro\"\n";

// Runs of a tiny model on a named rig, so that nothing is probed.
std::string suite(const Folder& folder, const std::vector<int>& outputs) {
  const std::string rig = folder.write("rig.toml", kRig);
  std::string text;
  for (const int tokens : outputs)
    text += "[[run]]\nname = \"" + std::to_string(tokens) + " tokens\"\nscenario.rig.name = \"" +
            rig +
            "\"\nscenario.model = { name = \"smollm2-135m\", quant = \"Q8_0\" }\n"
            "scenario.runtime.threads = 1\n"  // two would wait for each other on a busy machine
            "scenario.workload = { prompt_tokens = 16, output_tokens = " +
            std::to_string(tokens) + " }\n";
  return folder.write("suite.toml", text);
}

Outcome validate(const Folder& folder, const std::string& suite, const std::string& bench) {
  return run({"validate", suite, "--runtime", "llama.cpp", "--llama-bench", bench, "--keep",
              folder / "kept", "--scratch", folder / "", "--time-limit", "60", "--format", "json"});
}

// A llama-bench that answers --help, and otherwise does what `body` does.
std::string program(const Folder& folder, const std::string& body) {
  const std::string help =
      "  -m, --model <f>\n  -p, --n-prompt <n>\n  -n, --n-gen <n>\n  -d, --n-depth <n>\n"
      "  -r, --repetitions <n>\n  -o, --output <f>\n  -ngl, --n-gpu-layers <n>\n"
      "  -fa, --flash-attn <n>\n  -t, --threads <n>\n";
  const std::string file =
      folder.write("bench", "#!/bin/sh\nif [ \"$1\" = --help ]; then printf '%s' '" + help +
                                "'; exit 0; fi\n" + body + "\n");
  fs::permissions(file, fs::perms::owner_all);
  return file;
}

// A llama-bench whose tests all run at 100 tokens per second; `before`: what it does first.
std::string steady_program(const Folder& folder, const std::string& before = "") {
  return program(
      folder,
      before +
          "p=0; n=0; d=0\n"
          "while [ $# -gt 1 ]; do case $1 in -p) p=$2;; -n) n=$2;; -d) d=$2;; esac; shift; done\n"
          "echo '{\"build_commit\": \"x\", \"build_number\": 1, \"backends\": \"CPU\", "
          "\"n_prompt\": '$p', \"n_gen\": '$n', \"n_depth\": '$d', \"samples_ts\": [100]}'");
}

bool has_weights(const Folder& folder) {
  for (const auto& file : fs::directory_iterator(folder / ""))
    if (file.path().extension() == ".gguf") return true;
  return false;
}

}  // namespace

TEST_CASE("llama.cpp itself is what a forecast is held against", "[cli][validate][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  const Folder folder;
  const std::string bench = *rigcast::test::llama_cpp_folder() + "/llama-bench";
  const Outcome o = validate(folder, suite(folder, {8}), bench);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const json v = json::parse(o.out);
  std::map<std::string, json> rows;
  for (const json& row : v["rows"]) rows[row["metric"]] = row;
  for (const char* metric : {"decode.tokens_per_s", "prefill_tokens_per_s", "ttft.warm.total_s",
                             "ttft.cold.breakdown_s.load", "memory.0.total"}) {
    INFO(metric);
    REQUIRE(rows.contains(metric));
    CHECK(rows[metric]["measured"].get<double>() > 0);
  }
  CHECK_FALSE(has_weights(folder));
  for (const char* file : {"01.llama-bench.jsonl", "01.llama-bench.txt", "01.forecast.json"})
    CHECK(fs::file_size(fs::path(folder / "kept") / file) > 0);

  const Outcome again = run({"validate", "--replay", folder / "kept", "--format", "json"});
  REQUIRE(again.exit == 0);
  CHECK(json::parse(again.out)["rows"].size() == v["rows"].size());
}

TEST_CASE("What llama.cpp measured corrects the rig that it ran on", "[cli][validate][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  const Folder folder;
  const std::string bench = *rigcast::test::llama_cpp_folder() + "/llama-bench";
  const std::string rig = folder / "rig.toml", kept = folder / "kept";
  const Outcome o = run({"validate", suite(folder, {8}), "--runtime", "llama.cpp", "--llama-bench",
                         bench, "--keep", kept, "--scratch", folder / ""});
  INFO(o.error << o.out);
  REQUIRE(o.exit == 0);
  const std::string next = "  next   rigcast calibrate --own " + kept + " --rig " + rig + "\n";
  CHECK(o.out.ends_with(next));

  const std::vector<std::string> forecast{"simulate",     "--rig",       rig,        "--model",
                                          "smollm2-135m", "--no-advice", "--format", "json"};
  const json before = json::parse(run(forecast).out);
  const Outcome own = run({"calibrate", "--own", kept, "--rig", rig, "--format", "json"});
  INFO(own.error << own.out);
  REQUIRE(own.exit == 0);
  const json result = json::parse(own.out);
  CHECK(result["kept"] == json{{"runs", 1}, {"used", 1}});
  CHECK(result["runs"].size() == 2);
  const json after = json::parse(run(forecast).out);
  const auto speed = [](const json& r) { return r["decode"]["tokens_per_s"].get<double>(); };
  const double factor = result["corrections"]["llama.cpp"]["decode"]["factor"];
  // The file holds four digits after the point; the runtime's own work on the host stays.
  CHECK((speed(after) - speed(before)) * (factor - 1) >= 0);
  CHECK(after["correction"]["decode"]["factor"].get<double>() == Approx(factor).margin(0.0001));
}

TEST_CASE("A run of llama-bench that fails leaves the others", "[cli][validate]") {
  const Folder folder;
  const std::string bench = steady_program(
      folder,
      "case \"$*\" in *\"-n 8 \"*) echo 'CUDA error: out of memory' >&2; kill -9 $$;; esac\n");
  const Outcome o = validate(folder, suite(folder, {8, 9}), bench);
  INFO(o.error << o.out);
  REQUIRE(o.exit == 0);
  const json v = json::parse(o.out);
  REQUIRE(v["skipped"].size() == 1);
  CHECK(v["skipped"][0]["id"] == "8 tokens");
  CHECK(contains(v["skipped"][0]["reason"].get<std::string>(), "out of memory"));
  CHECK(v["rows"].size() >= 2);
  for (const json& row : v["rows"]) CHECK(row["id"] == "9 tokens");
  CHECK_FALSE(has_weights(folder));
}

TEST_CASE("The command that corrects a rig is named where it would work", "[cli][validate]") {
  const Folder folder;
  const std::string bench = steady_program(folder), named = suite(folder, {8});
  const auto text_of = [&](const std::string& runs) {
    const Outcome o = run({"validate", runs, "--runtime", "llama.cpp", "--llama-bench", bench,
                           "--keep", folder / "kept", "--scratch", folder / ""});
    INFO(o.error);
    REQUIRE(o.exit == 0);
    return o.out;
  };
  CHECK(contains(text_of(named), "next   rigcast calibrate --own"));
  // Parts have no file beside which a correction could be.
  std::string parts = read(named);
  const std::string name = "scenario.rig.name = \"" + (folder / "rig.toml") + "\"";
  parts.replace(
      parts.find(name), name.size(),
      "scenario.rig = { gpu = [], cpu = \"ryzen-9-7950x\", ram = \"2xddr5-6000:64GiB\" }");
  CHECK_FALSE(contains(text_of(folder.write("parts.toml", parts)), "calibrate"));
}

TEST_CASE("What no program runs is refused before anything is measured", "[cli][validate]") {
  const Folder folder;
  const std::string runs = suite(folder, {8});
  const auto refused = [&](const std::vector<std::string>& words, const char* text) {
    std::vector<std::string> all{"validate", runs, "--keep", folder / "kept"};
    all.insert(all.end(), words.begin(), words.end());
    const Outcome o = run(all);
    INFO(o.error);
    CHECK(o.exit == 2);
    CHECK(contains(o.error, text));
    CHECK_FALSE(has_weights(folder));
  };
  refused({"--runtime", "llama.cpp", "--llama-bench", folder / "none"}, "none");
  refused({"--runtime", "llama.cpp", "--llama-bench", folder / "suite.toml"}, "suite.toml");
  refused({"--llama-bench", "/bin/true"}, "--runtime llama.cpp");
  // A profile that is named by its file is the same runtime.
  refused({"--runtime", rigcast::test::source_path("/runtimes/llama.cpp.toml"), "--llama-bench",
           folder / "none"},
          "none");
  refused({"--runtime", "ik_llama.cpp"}, "is forecast, not run");
  refused({"--server", "https://127.0.0.1:1"}, "only http");
  refused({"--server", "http://192.0.2.1:8080"}, "has to run there too");
  refused({"--server", "http://127.0.0.1:1", "--llama-bench", "/bin/true"}, "--llama-bench");
  refused({"--server", ""}, "--server");
}

TEST_CASE("A server that does not answer is told with its address", "[cli][validate]") {
  const Folder folder;
  const Outcome o = run({"validate", "--model", "llama-3.2-1b", "--server", "http://127.0.0.1:1",
                         "--keep", folder / "kept"});
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "http://127.0.0.1:1: connecting"));
  CHECK(contains(o.error, "start llama-server"));
}
