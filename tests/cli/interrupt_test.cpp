// An interrupted program ends quickly and cleanly, whatever it does.

#include <sys/stat.h>

#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"
#include "tests/paths.hpp"

using namespace rigcast::cli_test;
using namespace std::chrono_literals;
using nlohmann::json;

namespace {

constexpr const char* kModel = "smollm2-135m";

// The limit is half a second, of processor time of one thread, since other programs may run here.
// Besides that the process only frees memory. Sanitizers make all of it several times as slow.
#ifdef __SANITIZE_ADDRESS__
constexpr double kCpuSeconds = 5;
#else
constexpr double kCpuSeconds = 0.5;
#endif

void check_ended_at_once(const Outcome& o, const char* what) {
  std::cout << "  after an interrupt " << what << ": " << o.seconds_left << " s, of the processor "
            << o.cpu_seconds_left << " s\n";
  INFO(what << ": " << o.error);
  CHECK(o.cpu_seconds_left < kCpuSeconds);
  CHECK(o.seconds_left < 5.0);  // a machine that does much else
}

// Minutes of a prompt on one thread.
std::vector<std::string> long_prompt(const std::vector<std::string>& more) {
  std::vector<std::string> words = {
      "run",   "--model",         kModel,  "--threads",       "1", "--quant", "Q8_0", "--context",
      "32768", "--prompt-tokens", "30000", "--output-tokens", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool any_file(const std::string& folder) { return !std::filesystem::is_empty(folder); }

// More than a header: the program computes. It also tries early whether it can write there at all.
bool any_rows(const std::string& folder) {
  std::error_code gone;  // a file may be renamed or removed meanwhile
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (const auto bytes = entry.file_size(gone); !gone && bytes > 4096) return true;
  return false;
}

std::string ids_file(const Folder& folder, int count) {
  std::ofstream ids(folder / "ids.txt");
  for (int i = 0; i < count; ++i) ids << i % 40'000 << '\n';
  return folder / "ids.txt";
}

}  // namespace

TEST_CASE("An interrupt ends a prompt at once", "[cli][run]") {
  for (const auto after : {150ms, 700ms, 2500ms}) {
    const Outcome o = run(long_prompt({"--synthetic"}), {.interrupt_after = after});
    CHECK((o.exit == 3 || o.exit == 128 + SIGINT));  // before it listens
    if (o.exit == 3) CHECK(contains(o.error, "interrupted before a run was over"));
    CHECK(o.out.empty());
    check_ended_at_once(o, "within a prompt");
  }
}

TEST_CASE("An interrupt ends starts from a file, cold or warm, at once", "[cli][run]") {
  const Folder folder;
  const std::string file = folder / "x.gguf";
  REQUIRE(run({"synth", kModel, "--quant", "Q8_0", "-o", file}).exit == 0);
  for (const auto after : {100ms, 300ms, 1500ms}) {
    const Outcome o = run({"run", "--weights", file, "--threads", "1", "--context", "8192",
                           "--prompt-tokens", "8000", "--output-tokens", "2"},
                          {.interrupt_after = after});
    CHECK((o.exit == 3 || o.exit == 128 + SIGINT));
    if (o.exit == 3) CHECK(contains(o.error, "interrupted before a run was over"));
    check_ended_at_once(o, "of a start from a file");
  }
}

TEST_CASE("An interrupt ends the measurement of memory at once, and the report is there",
          "[cli][run]") {
  const Folder folder;
  // The run itself takes milliseconds, seconds under sanitizers; memory is read for seconds.
  Outcome o;
  for (const auto after : {1800ms, 3600ms, 7200ms}) {
    o = run({"run", "--model", kModel, "--synthetic", "--threads", "1", "--prompt-tokens", "4",
             "--output-tokens", "4", "--repeat", "2", "--format", "json"},
            {.interrupt_after = after});
    check_ended_at_once(o, "while memory is measured");
    if (o.exit == 0) break;
  }
  REQUIRE(o.exit == 0);
  const json report = json::parse(o.out);
  CHECK(report["decode"]["tokens_per_s"].get<double>() > 0);
  if (!report["measured"]["ceiling_bytes_per_s"].is_null()) return;  // it was over before
  if (report["measured"]["runs"] == 2)
    CHECK(contains(report["warnings"].dump(),
                   "interrupted: the memory's own rate was not measured\""));
}

TEST_CASE("A program that is started without interrupts is not ended by one", "[cli][run]") {
  const std::vector<std::string> words = {
      "run", "--model",         kModel, "--synthetic", "--threads", "1",        "--prompt-tokens",
      "4",   "--output-tokens", "100",  "--repeat",    "1",         "--format", "json"};
  const Outcome o = run(words, {.interrupt_after = 300ms, .ignored = {SIGINT}});
  REQUIRE(o.exit == 0);
  CHECK_FALSE(contains(json::parse(o.out)["warnings"].dump(), "interrupted"));
}

TEST_CASE("A file past the limit of the shell is an error, and nothing of it is left", "[cli]") {
  const Folder folder;
  const Outcome o =
      run({"synth", kModel, "--layers", "1", "-o", folder / "x.gguf"}, {.max_file = 1 << 20});
  INFO(o.error);
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "cannot write " + (folder / "x.gguf")));
  CHECK(contains(o.error, "the file takes"));
  CHECK_FALSE(any_file(folder / ""));
}

TEST_CASE("An interrupt ends logits at once, and nothing is left of them", "[cli][run]") {
  const Folder folder, out;
  const Outcome o = run({"run", "--model", kModel, "--synthetic", "--threads", "1", "--context",
                         "32768", "--tokens", ids_file(folder, 30'000), "--logits", out / "x.npy"},
                        {.interrupt_once = [&] { return any_rows(out / ""); }});
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "interrupted before all logits were written"));
  CHECK_FALSE(any_file(out / ""));
  check_ended_at_once(o, "of logits");
}

TEST_CASE("The program leaves no incomplete file, however it ends", "[cli][synth]") {
  for (const std::vector<int>& signals :
       {std::vector{SIGTERM}, std::vector{SIGHUP}, std::vector{SIGINT, SIGINT},
        std::vector{SIGTERM, SIGINT}}) {
    const Folder folder;
    const Outcome o =
        run({"synth", "llama-3.1-8b", "--quant", "F16", "-o", folder / "x.gguf"},
            {.interrupt_once = [&] { return any_file(folder / ""); }, .signals = signals});
    INFO("signal " << signals.front() << " and " << signals.size() - 1 << " more: " << o.error);
    if (signals.size() == 1) CHECK(o.exit == 3);
    CHECK((o.exit == 3 || o.exit == 128 + signals.back()));
    CHECK_FALSE(any_file(folder / ""));
    check_ended_at_once(o, "of synth");
  }
}

TEST_CASE("An interrupt ends a validation at once, while it probes and while it runs",
          "[cli][validate]") {
  for (const auto after : {600ms, 2500ms}) {
    const Folder folder;
    const Outcome o = run({"validate", "--model", kModel, "--prompt-tokens", "8000", "--context",
                           "8192", "--output-tokens", "2", "--threads", "1", "--scratch",
                           folder / "", "--keep", folder / "kept"},
                          {.interrupt_after = after});
    CHECK((o.exit == 3 || o.exit == 128 + SIGINT));
    check_ended_at_once(o, "of a validation that probes");
  }
  const Folder folder;
  std::ofstream(folder / "rig.toml") << "gpu = []\ncpu = \"ryzen-9-7950x\"\ncpu_cores = 1\n"
                                        "ram = \"2xddr5-6000:64GiB\"\nssd = \"samsung-990-pro\"\n";
  const auto runs = [&] { return std::filesystem::exists(folder / "kept/01.unfinished.txt"); };
  const Outcome o = run(
      {"validate", "--rig", folder / "rig.toml", "--model", kModel, "--prompt-tokens", "8000",
       "--context", "8192", "--output-tokens", "2", "--threads", "1", "--keep", folder / "kept"},
      {.interrupt_after = 2500ms, .interrupt_once = runs});
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "interrupted"));
  CHECK(o.seconds_left < 3.0);  // of two processes; the prompt takes half a minute
  check_ended_at_once(o, "of a validation that runs");
}

TEST_CASE("Every verb ends at once where it alone is interrupted, and says what is kept", "[cli]") {
  struct Case {
    std::vector<std::string> words;
    std::chrono::milliseconds after;
    const char* text;  // nullptr: the signal ends it, as nothing is kept
  };
  const std::string measurements =
      rigcast::test::source_path("/runtimes/measurements/benchmarks.csv");
  const std::vector<std::string> gpu = {"--gpu", "rtx-3060-12gb", "--model", "llama-3.1-8b"};
  for (const Case& c : std::initializer_list<Case>{
           {{"simulate", "--context", "131072", "--output-tokens", "130000", "--exact"},
            300ms,
            nullptr},
           {{"plan", "--objective", "context"}, 100ms, nullptr},
           {{"compare", "--budget", "3000", "--model", "llama-3.1-8b"}, 700ms, nullptr},
           {{"calibrate", "--against", measurements, "-o", "fit"}, 1500ms, nullptr},
           {{"sweep", "--set", "placement.gpu_layers=0..32", "--set", "workload.depth=0..7000:10",
             "-o", "x.csv"},
            1500ms,
            "the same command goes on from there"},
           {{"probe", "-o", "x.toml"}, 1500ms, "nothing is kept"},
           {{"synth", "llama-3.1-8b", "--quant", "F16", "-o", "x.gguf"},
            300ms,
            "nothing of it is kept"},
           {long_prompt({"--synthetic"}), 1500ms, "nothing of it is kept"}}) {
    const Folder folder;
    std::vector<std::string> words = c.words;
    if (words.front() == "simulate" || words.front() == "plan" || words.front() == "sweep")
      words.insert(words.end(), gpu.begin(), gpu.end());
    const Outcome o =
        run(words,
            {.folder = folder.path().string(), .interrupt_after = c.after, .leader_alone = true});
    INFO(words.front() << ": " << o.error);
    if (o.exit == 0) continue;                    // a fast machine
    const bool listens = o.exit != 128 + SIGINT;  // it may not have begun to
    CHECK((!listens || (c.text && o.exit == 3 && contains(o.error, c.text))));
    for (const std::string& name : folder.names()) CHECK((name == "fit" || name == "x.csv.part"));
    check_ended_at_once(o, words.front().c_str());
  }
}

TEST_CASE("A validation that alone is interrupted ends its run, and says how to go on",
          "[cli][validate]") {
  const Folder folder;
  const std::string rig =
      folder.write("rig.toml",
                   "gpu = []\ncpu = \"ryzen-9-7950x\"\ncpu_cores = 1\nram = \"2xddr5-6000:64GiB\"\n"
                   "ssd = \"samsung-990-pro\"\n");
  std::string suite;
  for (const char* tokens : {"9", "100000"})
    suite += std::string("[[run]]\nname = \"") + tokens + "\"\nscenario.rig.name = \"" + rig +
             "\"\nscenario.model.name = \"smollm2-135m\"\nscenario.runtime.threads = 1\n"
             "scenario.workload = { prompt_tokens = 8, context = 200000, output_tokens = " +
             tokens + " }\n";
  const std::string kept = folder / "kept";
  const auto second_runs = [&] { return std::filesystem::exists(kept + "/02.unfinished.txt"); };
  const Outcome o = run({"validate", folder.write("suite.toml", suite), "--keep", kept, "--repeat",
                         "1", "--scratch", folder / ""},
                        {.interrupt_once = second_runs, .leader_alone = true});
  INFO(o.error);
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "runs that are over are kept in " + kept));
  CHECK(contains(o.error, "--resume"));
  CHECK(std::filesystem::exists(kept + "/01.measured.json"));
  CHECK(o.seconds_left < 3.0);
  check_ended_at_once(o, "of a validation's run");
}

TEST_CASE("A model file that is cut off while it is read is named", "[cli][run]") {
  const Folder folder, out;
  const std::string file = folder / "x.gguf";
  REQUIRE(run({"synth", kModel, "--quant", "Q8_0", "-o", file}).exit == 0);
  const auto cut = [&] {
    if (!any_rows(out / "")) return false;
    std::filesystem::resize_file(file, 1 << 20);
    return true;
  };
  const Outcome o = run({"run", "--weights", file, "--threads", "2", "--context", "32768",
                         "--tokens", ids_file(folder, 30'000), "--logits", out / "x.npy"},
                        {.interrupt_once = cut, .signals = {}});
  INFO(o.error);
  CHECK(o.exit == 3);
  CHECK(contains(o.error, "rigcast: " + file + ": it was made shorter while it was read"));
  CHECK_FALSE(any_file(out / ""));
}

TEST_CASE("Who asks for an answer does not wait for a measurement of memory", "[cli][run]") {
  const Folder folder;
  rigcast::engine::GgufHeader header =
      rigcast::engine::fixtures::header_of(rigcast::engine::fixtures::tiny("llama"), "F16");
  rigcast::engine::fixtures::set_tiny_vocabulary(header);
  header.set("tokenizer.ggml.eos_token_id", std::uint32_t(2));
  header.set("tokenizer.ggml.unknown_token_id", std::uint32_t(0));
  rigcast::engine::fixtures::write_sparse(header, folder / "x.gguf");
  const Outcome o = run({"run", "--weights", folder / "x.gguf", "--prompt", "EF", "--output-tokens",
                         "4", "--context", "64", "--format", "json"});
  INFO(o.error);
  REQUIRE(o.exit == 0);
  const json r = json::parse(o.out);
  CHECK(r["measured"]["ceiling_bytes_per_s"].is_null());
  CHECK(r["decode"]["tokens_per_s"].get<double>() > 0);
}
