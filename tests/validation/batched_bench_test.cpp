// llama-batched-bench as a subprocess: the real one over libllama, and programs that misbehave.

#include "validation/runs/llama_cpp/batched_bench.hpp"

#include <cstdlib>
#include <filesystem>
#include <string>

#include "perfmodel/resolve_placement.hpp"
#include "tests/catch.hpp"
#include "tests/folder.hpp"
#include "tests/paths.hpp"
#include "tests/peers/llama_cpp.hpp"
#include "tests/sim/scenario_fixtures.hpp"

using namespace rigcast;
using namespace rigcast::validation;
using Catch::Contains;
using fixtures::scenario;
using planner::Words;
using test::Folder;
namespace fs = std::filesystem;

namespace {

constexpr int kUsers = 3;
constexpr double kHalfOfPrinted = 0.005 * (1 << 20) + 1;  // bytes, of a size printed as 5.62 MiB

// As llama.cpp's programs print their common flags.
constexpr const char* kFlags =
    "----- common params -----\n\n"
    "-h,    --help, --usage                  print usage and exit\n"
    "-t,    --threads N                      number of CPU threads\n"
    "-c,    --ctx-size N                     size of the prompt context\n"
    "-m,    --model FNAME                    model path\n"
    "-fa,   --flash-attn [on|off|auto]       set Flash Attention use\n"
    "-ngl,  --gpu-layers, --n-gpu-layers N   layers in VRAM\n"
    "--no-mmap                               do not memory-map model\n"
    "-npp n0,n1,...                          number of prompt tokens\n"
    "-ntg n0,n1,...                          number of text generation tokens\n"
    "-npl n0,n1,...                          number of parallel prompts\n";
constexpr const char* kFormat = "--output-format {md,jsonl}              output format\n";

std::string make_program(const Folder& folder, const std::string& body,
                         const std::string& help = std::string(kFlags) + kFormat) {
  folder.write("help", help);
  const std::string file =
      folder.write("llama-batched-bench", "#!/bin/sh\nif [ \"$1\" = --help ]; then cat '" +
                                              (folder / "help") + "'; exit 0; fi\n" + body + "\n");
  fs::permissions(file, fs::perms::owner_all);
  return file;
}

std::string line_of(int pp, int tg, int pl, double speed_tg, const std::string& more = "") {
  return "{\"n_kv_max\": 4096, \"n_batch\": 2048, \"n_ubatch\": 512, \"flash_attn\": 1, "
         "\"is_pp_shared\": 0, \"n_gpu_layers\": -1, \"n_threads\": 8, \"n_threads_batch\": 8, "
         "\"pp\": " +
         std::to_string(pp) + ", \"tg\": " + std::to_string(tg) +
         ", \"pl\": " + std::to_string(pl) +
         ", \"n_kv\": 96, \"t_pp\": 0.25, \"speed_pp\": 768.0, \"t_tg\": 0.5, "
         "\"speed_tg\": " +
         std::to_string(speed_tg) + ", \"t\": 0.75, \"speed\": 300.0" + more + "}\n";
}

std::string prints(const std::string& text) { return "cat <<'END'\n" + text + "END\n"; }

// 24 + 40 tokens of prompt, 8 of output, on the CPU.
Scenario scenario_of(const std::string& file, const fixtures::Settings& more = {}) {
  Scenario s = scenario(fixtures::with({{"rig.gpu", "[]"},
                                        {"model.name", "smollm2-135m"},
                                        {"placement.gpu_layers", "0"},
                                        {"runtime.threads", "1"},
                                        {"workload.prompt_tokens", "40"},
                                        {"workload.output_tokens", "8"},
                                        {"workload.depth", "24"}},
                                       more));
  s.model_file = file;
  return s;
}

Result<BatchedRun> measure(const std::string& program, const Scenario& s,
                           const BatchedLimits& limits) {
  const auto bench = find_batched_bench(program, "");
  if (!bench) FAIL(bench.error().text());
  return measure_batched(*bench, s, resolve_placement(s), kUsers, limits);
}

}  // namespace

TEST_CASE("Lines of llama-batched-bench are read", "[batched-bench]") {
  const BatchedOutput out = parse_batched_output(
      "ggml_cuda_init: found 1 CUDA devices\n\n" + line_of(64, 8, 3, 48) +
      line_of(64, 8, 1, 20,
              ", \"library\": {\"load_ns\": 1, \"gpu_info\": \"A\", \"buffers\": "
              "[{\"name\": \"CPU\", \"kind\": \"KV\", \"bytes\": 1024}]}"));
  if (out.error) FAIL(out.error->text());
  REQUIRE(out.tests.size() == 2);
  const BatchedTest& t = out.tests[0];
  CHECK(t.prompt == 64);
  CHECK(t.output == 8);
  CHECK(t.sequences == 3);
  CHECK_FALSE(t.prompt_is_shared);
  CHECK(t.prompt_time.value == 0.25);
  CHECK(t.output_time.value == 0.5);
  CHECK(t.prompt_tokens_per_s == 768);
  CHECK(t.output_tokens_per_s == 48);  // of all: 3 * 8 / 0.5
  CHECK(t.gpu_layers == -1);
  CHECK_FALSE(t.gpu);
  CHECK(out.tests[1].gpu == "A");
  REQUIRE(out.tests[1].buffers.size() == 1);
  CHECK(out.tests[1].buffers[0].bytes.value == 1024);
}

TEST_CASE("A line of llama-batched-bench that is no test ends the reading", "[batched-bench]") {
  std::string no_speed = line_of(8, 8, 1, 1), infinite = line_of(8, 8, 1, 1);
  no_speed.replace(no_speed.find("speed_tg"), 8, "speed_xx");
  infinite.replace(infinite.find("1.000000"), 8, "inf");
  for (const std::string& wrong :
       {std::string("{\n"), std::string("{}\n"), no_speed, infinite, line_of(8, 8, 0, 1),
        line_of(-8, 8, 1, 1), line_of(8, 8, 1, 0), line_of(8, 8, 1, 1, ", \"library\": 7"),
        line_of(8, 8, 1, 1, ", \"library\": {\"gpu_info\": \"\", \"buffers\": [7]}")}) {
    INFO(wrong);
    const BatchedOutput out =
        parse_batched_output(line_of(8, 8, 1, 1) + wrong + line_of(8, 8, 1, 1));
    CHECK(out.tests.size() == 1);
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::kMachine);
    CHECK_THAT(out.error->message, Contains("line 2"));
  }
}

TEST_CASE("llama-batched-bench is looked for beside llama-bench, then in $PATH",
          "[batched-bench]") {
  const Folder folder, other;
  make_program(folder, "exit 9");
  const auto beside = find_batched_bench(std::nullopt, folder / "llama-bench");
  if (!beside) FAIL(beside.error().text());
  CHECK(beside->program == folder / "llama-batched-bench");
  CHECK(beside->flags.contains("-npl"));

  const std::string before = std::getenv("PATH");
  ::setenv("PATH", (folder.path().string() + ":" + before).c_str(), 1);
  const auto in_path = find_batched_bench(std::nullopt, other / "llama-bench");
  ::setenv("PATH", before.c_str(), 1);
  if (!in_path) FAIL(in_path.error().text());
  CHECK(in_path->program == folder / "llama-batched-bench");

  const auto refused = [&](const std::optional<std::string>& path) {
    const auto found = find_batched_bench(path, other / "llama-bench");
    REQUIRE_FALSE(found);
    CHECK(found.error().kind == ErrorKind::kBadInput);
    CHECK_FALSE(found.error().hint.empty());
    return found.error().message;
  };
  CHECK_THAT(refused(std::nullopt), Contains("none on $PATH"));
  CHECK_THAT(refused(folder / "none"), Contains("not a program"));
  CHECK_THAT(refused("/bin/true"), Contains("is no llama-batched-bench"));
  CHECK_THAT(refused(make_program(folder, "", kFlags)), Contains("too old"));
  CHECK_THAT(refused(make_program(folder, "", "-m\n-npl\n")), Contains("other flags"));
}

TEST_CASE("Every user has a sequence, and repetitions are one process", "[batched-bench]") {
  const Folder folder;
  const std::string lines = line_of(64, 8, 3, 30) + line_of(64, 8, 3, 90) + line_of(64, 8, 3, 48);
  const auto run = measure(make_program(folder, prints(lines)),
                           scenario_of("x.gguf", {{"runtime.mmap", "false"}}), {Seconds{5}, 3});
  if (!run) FAIL(run.error().text());
  if (run->error) FAIL(run->error->text());
  CHECK(run->command == Words{folder / "llama-batched-bench",
                              "-m",
                              "x.gguf",
                              "-ngl",
                              "0",
                              "-t",
                              "1",
                              "--no-mmap",
                              "-fa",
                              "on",
                              "-c",
                              "216",
                              "-npp",
                              "64",
                              "-ntg",
                              "8",
                              "-npl",
                              "3,3,3",
                              "--output-format",
                              "jsonl"});
  CHECK(run->tests.size() == 3);
  CHECK(run->output_tokens_per_s() == 48);
  CHECK(run->prompt_tokens_per_s() == 768);
}

TEST_CASE("What llama-batched-bench cannot measure is refused before it runs", "[batched-bench]") {
  const Folder folder;
  const std::string program = make_program(folder, "touch '" + (folder / "ran") + "'");
  Scenario no_file = scenario_of(""), engine = scenario_of("x", {{"runtime.name", "rigcast"}});
  no_file.model_file.reset();
  for (const auto& [s, says] : {std::pair{no_file, "needs a model file"},
                                {engine, "rigcast"},
                                {scenario_of("x", {{"kv.type_k", "q8_0"}}), "no flag -ctk"}}) {
    const auto run = measure(program, s, {Seconds{5}, 1});
    REQUIRE_FALSE(run);
    CHECK(run.error().kind == ErrorKind::kBadInput);
    CHECK_THAT(run.error().message, Contains(says));
  }
  CHECK_FALSE(fs::exists(folder / "ran"));
}

TEST_CASE("A llama-batched-bench that fails is an error that says how", "[batched-bench]") {
  const Folder folder;
  struct Case {
    std::string body, says;
    ErrorKind kind = ErrorKind::kMachine;
  };
  const std::string good = prints(line_of(64, 8, 3, 48));
  for (const Case& c : std::vector<Case>{
           {"exit 0", "printed no result"},
           {"echo 'error: unable to load model' >&2; exit 1", "exit code 1: error: unable to load"},
           {"kill -SEGV $$", "signal 11"},
           {"head -c 100000 /dev/urandom", "llama-batched-bench"},
           {"printf '{\"pp\": 8, '", "cut"},
           {good + "kill -ABRT $$", "signal 6"},
           {good + "sleep 100", "stopped after 1.5 s"},
           {"yes", "more than results"},
           {"echo 'failed to allocate buffer for kv cache' >&2; exit 1", "kv cache",
            ErrorKind::kDoesNotFit},
           {good + good, "other tests"},
           {prints(line_of(64, 8, 2, 48)), "other tests"},
           {prints(line_of(65, 8, 3, 48)), "other tests"},
       }) {
    INFO(c.body);
    const auto run =
        measure(make_program(folder, c.body), scenario_of("x.gguf"), {Seconds{1.5}, 1});
    REQUIRE(run);
    REQUIRE(run->error);
    INFO(run->error->text());
    CHECK(run->error->kind == c.kind);
    CHECK_THAT(run->error->message, Contains(c.says));
    CHECK(run->error->message.size() < 1000);
    CHECK(run->elapsed.value < 30);
  }
}

TEST_CASE("A scenario with a GPU is not measured by a llama-batched-bench that finds none",
          "[batched-bench]") {
  const Folder folder;
  Scenario s = scenario({{"workload.prompt_tokens", "64"}, {"workload.output_tokens", "8"}});
  s.model_file = "x.gguf";
  const auto error_with = [&](const std::string& more) {
    const auto run =
        measure(make_program(folder, prints(line_of(64, 8, 3, 48, more))), s, {Seconds{5}, 1});
    REQUIRE(run);
    return run->error ? run->error->message : "";
  };
  const auto library = [](const std::string& gpu) {
    return ", \"library\": {\"gpu_info\": \"" + gpu + "\", \"buffers\": []}";
  };
  CHECK(error_with("") == "");  // llama.cpp's own does not tell it
  CHECK(error_with(library("NVIDIA GeForce RTX 3060")) == "");
  CHECK_THAT(error_with(library("")), Contains("found no GPU"));
}

TEST_CASE("Several users are measured with llama.cpp itself", "[batched-bench][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  ::setenv("LLAMA_CPP_FOLDER", test::llama_cpp_folder()->c_str(), 1);
  const Folder folder;
  const std::string file = folder / "model.gguf", program = folder / "llama-batched-bench";
  const std::string make = test::program() + " synth smollm2-135m --layers 4 -o " + file + " >" +
                           (folder / "synth") + " 2>&1";
  REQUIRE(std::system(make.c_str()) == 0);
  fs::create_symlink(LLAMA_BENCH_PROGRAM, program);
  const auto run = measure(program, scenario_of(file), {Seconds{300}, 2});
  if (!run) FAIL(run.error().text());
  if (run->error) FAIL(run->error->text());
  REQUIRE(run->tests.size() == 2);
  for (const BatchedTest& t : run->tests) {
    CHECK(t.prompt == 64);
    CHECK(t.sequences == kUsers);
    CHECK(t.threads == 1);
    CHECK(t.gpu == "");
    CHECK(t.output_tokens_per_s == Approx(kUsers * 8 / t.output_time.value));
    double kv = 0;
    for (const BenchBuffer& b : t.buffers)
      if (b.kind == "KV") kv += b.bytes.value;
    // 4 layers, keys and values of 3 heads of 64 in FP16; each user's part is a multiple of 256.
    CHECK(kv == Approx(kUsers * 256.0 * 4 * 2 * 3 * 64 * 2).margin(kHalfOfPrinted));
  }
  const auto missing = measure(program, scenario_of(folder / "none.gguf"), {Seconds{60}, 1});
  REQUIRE(missing);
  REQUIRE(missing->error);
  CHECK_THAT(missing->error->message, Contains("exit code 1") && Contains("no file"));
}
