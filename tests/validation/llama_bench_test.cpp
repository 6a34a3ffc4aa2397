// llama-bench as a subprocess: the real one over libllama, and programs that misbehave.

#include "validation/runs/llama_cpp/llama_bench.hpp"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

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

constexpr Seconds kShort{1.5};
constexpr double kHalfOfPrinted = 0.005 * (1 << 20) + 1;  // bytes, of a size printed as 5.62 MiB

constexpr const char* kFlags =
    "usage: llama-bench [options]\n"
    "  -m, --model <filename>    (default: models/7B/x.gguf)\n"
    "  -p, --n-prompt <n>        (default: 512)\n  -n, --n-gen <n>\n  -d, --n-depth <n>\n"
    "  -r, --repetitions <n>\n  -o, --output <csv|json|jsonl|md|sql>\n  -ngl, --n-gpu-layers <n>\n"
    "  -fa, --flash-attn <on|off|auto>\n  -t, --threads <n>\n  --prio <-1|0|1|2|3>\n";

// A program that says `help` and, otherwise, does what `body` does, in a shell.
std::string make_program(const Folder& folder, const std::string& body,
                         const std::string& help = kFlags) {
  folder.write("help", help);
  const std::string file =
      folder.write("llama-bench", "#!/bin/sh\nif [ \"$1\" = --help ]; then cat '" +
                                      (folder / "help") + "'; exit 0; fi\n" + body + "\n");
  fs::permissions(file, fs::perms::owner_all);
  return file;
}

LlamaBenchRun run_program(const Folder& folder, const std::string& body, Seconds limit = kShort) {
  const auto bench = find_llama_bench(make_program(folder, body));
  if (!bench) FAIL(bench.error().text());
  return run_llama_bench(*bench, {"llama-bench", "-p", "8", "-n", "0"}, limit);
}

std::string line_of(int prompt, int output, int depth, const std::string& more = "") {
  std::ostringstream out;
  out << R"({"build_commit": "8cf427ff", "build_number": 5163, "backends": "CUDA", )"
      << R"("n_gpu_layers": 99, "n_threads": 1, "n_prompt": )" << prompt << R"(, "n_gen": )"
      << output << R"(, "n_depth": )" << depth << R"(, "samples_ns": [ 10, 20 ],)"
      << R"("samples_ts": [ 300.5, 100, 200 ])" << more << "}\n";
  return out.str();
}

std::string prints(const std::string& text) { return "cat <<'END'\n" + text + "END\n"; }

Report forecast_of(Scenario s) {
  Report r;
  r.placement = resolve_placement(s);
  r.scenario = std::make_shared<const Scenario>(std::move(s));
  r.decode_tokens_per_s = 50;
  r.prefill_tokens_per_s = 1000;
  return r;
}

// On a machine without a GPU, from a file.
Report forecast_of_file(const std::string& file, const fixtures::Settings& more = {}) {
  Scenario s = scenario(fixtures::with({{"rig.gpu", "[]"},
                                        {"model.name", "smollm2-135m"},
                                        {"placement.gpu_layers", "0"},
                                        {"runtime.threads", "1"},
                                        {"workload.prompt_tokens", "40"},
                                        {"workload.output_tokens", "8"},
                                        {"workload.depth", "24"}},
                                       more));
  s.model_file = file;
  return forecast_of(std::move(s));
}

// Neither gone nor over and waited for by nobody.
bool is_running(int process) {
  const std::string status = test::read("/proc/" + std::to_string(process) + "/stat");
  const auto name_end = status.rfind(')');
  return name_end != std::string::npos && status.size() > name_end + 2 &&
         status[name_end + 2] != 'Z' && status[name_end + 2] != 'X';
}

// A signal ends a process that is not the caller's child a little later.
bool ends_soon(int process) {
  for (int i = 0; i < 100 && is_running(process); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return !is_running(process);
}

}  // namespace

TEST_CASE("Lines of llama-bench are read, of old releases too", "[llama-bench]") {
  const BenchOutput out = parse_bench_output(
      "ggml_cuda_init: found 1 CUDA devices\n\n" + line_of(512, 0, 0) + line_of(0, 128, 4096) +
      R"({"n_prompt": 64, "n_gen": 16, "samples_ts": [ 7 ], "flash_attn": true})" + "\n");
  REQUIRE_FALSE(out.error);
  CHECK(out.other_lines == 1);
  CHECK(out.build->commit == "8cf427ff");
  CHECK(out.build->number == 5163);
  REQUIRE(out.tests.size() == 3);
  CHECK(out.tests[0].prompt == 512);
  CHECK(out.tests[0].tokens_per_s == std::vector<double>{300.5, 100, 200});
  CHECK(out.tests[0].median() == 200);
  CHECK(out.tests[0].mean() == Approx(600.5 / 3));
  CHECK(out.tests[1].depth == 4096);
  CHECK(out.tests[1].backends == "CUDA");
  CHECK(out.tests[2].depth == 0);
  CHECK_FALSE(out.tests[2].load);
}

TEST_CASE("What our llama-bench adds is read", "[llama-bench]") {
  const std::string added = R"(, "library": {"load_ns": 2500000000, "buffers": [{"name": "CUDA0",)"
                            R"( "kind": "KV", "bytes": 1048576}], "gpus": [{"name": "CUDA0",)"
                            R"( "free_before": 9000, "free_after": 2000, "total": 10000}]})";
  const BenchOutput read = parse_bench_output(line_of(8, 0, 0, added));
  REQUIRE(read.tests.size() == 1);
  const BenchTest& t = read.tests.front();
  CHECK(t.load->value == 2.5);
  REQUIRE(t.buffers.size() == 1);
  CHECK(t.buffers[0].kind == "KV");
  CHECK(t.buffers[0].bytes.value == 1048576);
  REQUIRE(t.gpus.size() == 1);
  CHECK(t.gpus[0].used.value == 7000);
}

TEST_CASE("A line that is no test ends the reading with an error", "[llama-bench]") {
  const std::string deep = std::string(200000, '[') + std::string(200000, ']');
  for (const std::string& wrong :
       {std::string("{"),
        std::string("{}"),
        std::string(R"({"n_prompt": 8)"),
        std::string(R"({"n_prompt": 8, "n_gen": 0})"),
        std::string(R"({"n_prompt": "8", "n_gen": 0, "samples_ts": [1]})"),
        std::string(R"({"n_prompt": -8, "n_gen": 0, "samples_ts": [1]})"),
        std::string(R"({"n_prompt": 8.5, "n_gen": 0, "samples_ts": [1]})"),
        std::string(R"({"n_prompt": 0, "n_gen": 0, "samples_ts": [1]})"),
        std::string(R"({"n_prompt": 8e30, "n_gen": 0, "samples_ts": [1]})"),
        std::string(R"({"n_prompt": 8, "n_gen": 0, "samples_ts": []})"),
        std::string(R"({"n_prompt": 8, "n_gen": 0, "samples_ts": [0]})"),
        std::string(R"({"n_prompt": 8, "n_gen": 0, "samples_ts": [1, -3]})"),
        std::string(R"({"n_prompt": 8, "n_gen": 0, "samples_ts": [null]})"),
        std::string(R"({"n_prompt": 8, "n_gen": 0, "samples_ts": [1e999]})"),
        std::string(R"({"n_prompt": 8, "n_gen": 0, "samples_ts": [1e300]})"),
        std::string(R"({"n_prompt": 8, "n_gen": 0, "samples_ts": [inf]})"),
        std::string(R"({"n_prompt": 8, "n_gen": 0, "samples_ts": [1], "library": 7})"),
        std::string(R"({"n_prompt": 8, "n_gen": 0, "samples_ts": [1], "library": {"load_ns": 0,)"
                    R"( "buffers": [7]}})"),
        "{\"n_prompt\": " + deep + "}",
        std::string("{\0\xff\xfe}", 5)}) {
    INFO(wrong.substr(0, 200));
    const BenchOutput out = parse_bench_output(line_of(4, 0, 0) + wrong + "\n" + line_of(4, 0, 0));
    CHECK(out.tests.size() == 1);
    REQUIRE(out.error);
    CHECK(out.error->kind == ErrorKind::kMachine);
    CHECK_THAT(out.error->message, Contains("line 2"));
  }
}

TEST_CASE("A program is a llama-bench by the flags that it names", "[llama-bench]") {
  const Folder folder;
  const auto bench = find_llama_bench(make_program(folder, "exit 9"));
  if (!bench) FAIL(bench.error().text());
  CHECK(bench->flags.contains("-p"));
  CHECK(bench->flags.contains("--n-prompt"));
  CHECK(bench->flags.contains("--prio"));
  CHECK_FALSE(bench->flags.contains("-1"));
  CHECK_FALSE(bench->flags.contains("-lm"));

  const auto refused = [&](const std::optional<std::string>& path) {
    const auto found = find_llama_bench(path);
    REQUIRE_FALSE(found);
    CHECK(found.error().kind == ErrorKind::kBadInput);
    CHECK_FALSE(found.error().hint.empty());
    return found.error().message;
  };
  CHECK_THAT(refused(folder / "none"), Contains("not a program"));
  CHECK_THAT(refused(folder.path().string()), Contains("not a program"));
  CHECK_THAT(refused("/bin/true"), Contains("is no llama-bench"));
  CHECK_THAT(refused(make_program(folder, "", "  -p, --n-prompt\n")), Contains("other flags"));
  const auto says = [&](const std::string& text) {
    const std::string file = folder.write("other", text);
    fs::permissions(file, fs::perms::owner_all);
    return refused(file);
  };
  CHECK_THAT(says("#!/bin/sh\nkill -SEGV $$\n"), Contains("signal 11"));
  CHECK_THAT(says("#!/bin/sh\nyes\n"), Contains("stopped"));
  CHECK_THAT(says("no program"), Contains("cannot be started") || Contains("exit code"));
}

TEST_CASE("Without --llama-bench the first llama-bench of $PATH counts", "[llama-bench]") {
  const Folder folder;
  make_program(folder, "exit 9");
  const std::string before = std::getenv("PATH");
  ::setenv("PATH", ("/nowhere:" + folder.path().string() + ":" + before).c_str(), 1);
  const auto found = find_llama_bench(std::nullopt);
  ::setenv("PATH", "/nowhere", 1);
  const auto none = find_llama_bench(std::nullopt);
  ::setenv("PATH", before.c_str(), 1);
  if (!found) FAIL(found.error().text());
  CHECK(found->program == folder / "llama-bench");
  REQUIRE_FALSE(none);
  CHECK_THAT(none.error().message, Contains("$PATH"));
}

TEST_CASE("A command is put in the flags that a llama-bench has", "[llama-bench]") {
  const LlamaBench old{"/x/llama-bench", {"-m", "-p", "-n", "-r", "-o", "-mmp", "-ncmoe"}};
  const LlamaBench now{"/x/llama-bench", {"-m", "-lm", "-mmp", "--n-cpu-moe"}};
  const Words asked{"llama-bench", "-m", "f.gguf", "--n-cpu-moe", "3", "-lm", "none"};
  const auto in_old = in_flags_of(old, asked), in_now = in_flags_of(now, asked);
  REQUIRE(in_old);
  REQUIRE(in_now);
  CHECK(*in_old == Words{"/x/llama-bench", "-m", "f.gguf", "-ncmoe", "3", "-mmp", "0"});
  CHECK(*in_now == Words{"/x/llama-bench", "-m", "f.gguf", "--n-cpu-moe", "3", "-lm", "none"});
  for (const Words& lacking : {Words{"llama-bench", "-d", "100"}, {"llama-bench", "-lm", "dio"}}) {
    const auto refused = in_flags_of(old, lacking);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().kind == ErrorKind::kBadInput);
    CHECK_THAT(refused.error().message, Contains("no flag " + lacking[1]));
  }
}

TEST_CASE("What a run printed is kept, with its results", "[llama-bench]") {
  const Folder folder;
  const LlamaBenchRun run =
      run_program(folder, "echo \"$@\" >&2\n" + prints("a driver's note\n" + line_of(8, 0, 0)));
  CHECK_FALSE(run.error);
  REQUIRE(run.tests.size() == 1);
  CHECK(run.build->number == 5163);
  CHECK_THAT(run.out, Contains("a driver's note") && Contains("samples_ts"));
  CHECK(run.err == "-p 8 -n 0 -o jsonl\n");
  CHECK(run.command.front() == folder / "llama-bench");
  CHECK(run.elapsed.value > 0);
}

TEST_CASE("A program that fails is an error that says how, with what it wrote", "[llama-bench]") {
  const Folder folder;
  struct Case {
    std::string body, says;
    ErrorKind kind = ErrorKind::kMachine;
    std::size_t tests = 0;
  };
  const std::string good = prints(line_of(8, 0, 0));
  for (const Case& c : std::vector<Case>{
           {"exit 0", "printed no result"},
           {"exit 3", "exit code 3"},
           {"echo 'error: failed to load model' >&2; exit 1", "exit code 1: error: failed to load"},
           {"kill -SEGV $$", "signal 11"},
           {"kill -KILL $$", "too little memory"},
           {"head -c 100000 /dev/urandom", "llama-bench"},
           {"echo no results here", "printed no result"},
           {"printf '{\"n_prompt\": 8, '", "cut"},
           {good + "printf '{\"n_prompt\": 8, '", "cut", ErrorKind::kMachine, 1},
           {good + "exit 1", "exit code 1", ErrorKind::kMachine, 1},
           {good + "kill -ABRT $$", "signal 6", ErrorKind::kMachine, 1},
           {"echo 'cudaMalloc failed: out of memory' >&2; exit 1", "out of memory",
            ErrorKind::kDoesNotFit},
           {"echo 'failed to allocate buffer for kv cache' >&2; kill -ABRT $$", "kv cache",
            ErrorKind::kDoesNotFit},
           {"sleep 100", "stopped after 1.5 s"},
           {"trap '' TERM INT HUP; sleep 100", "stopped after"},
           {good + "sleep 100", "stopped after", ErrorKind::kMachine, 1},
           {"while :; do echo x >&2; done", "stopped after"},
           {"yes", "more than results"},
           {"yes >&2 & exit 3", "exit code 3"},
           {"yes & exit 3", "exit code 3"},
           {"head -c 20000000 /dev/zero", "more than results"},
       }) {
    INFO(c.body);
    const LlamaBenchRun run = run_program(folder, c.body);
    REQUIRE(run.error);
    INFO(run.error->text());
    CHECK(run.error->kind == c.kind);
    CHECK_THAT(run.error->message, Contains(c.says));
    CHECK(run.error->message.size() < 1000);
    CHECK(run.tests.size() == c.tests);
    CHECK(run.err.size() <= 64 << 10);
    CHECK(run.elapsed.value < 30);
  }
}

TEST_CASE("No process of a run outlives it", "[llama-bench]") {
  const Folder folder;
  const std::string note = folder / "processes";
  // A child that keeps standard output open does not keep the result back.
  for (const std::string& end : {prints(line_of(8, 0, 0)), std::string("wait")}) {
    const LlamaBenchRun run = run_program(
        folder, "sleep 300 & echo $! >'" + note + "'\necho $$ >>'" + note + "'\n" + end);
    INFO(end);
    CHECK(run.elapsed.value < 30);
    CHECK(run.tests.size() == (end == "wait" ? 0 : 1));
    std::istringstream processes(test::read(note));
    int seen = 0;
    for (int process; processes >> process; ++seen) CHECK(ends_soon(process));
    CHECK(seen == 2);
  }
}

TEST_CASE("What cannot be measured with llama-bench is refused before it runs", "[llama-bench]") {
  const Folder folder;
  const auto bench = find_llama_bench(make_program(folder, "touch '" + (folder / "ran") + "'"));
  REQUIRE(bench);
  const auto refused = [&](const Report& forecast) {
    const auto measured = measure_with(*bench, forecast, {kShort});
    REQUIRE_FALSE(measured);
    CHECK(measured.error().kind == ErrorKind::kBadInput);
    CHECK_FALSE(fs::exists(folder / "ran"));
    return measured.error().message;
  };
  CHECK_THAT(refused(forecast_of(scenario())), Contains("needs a model file"));
  CHECK_THAT(refused(forecast_of(scenario({{"runtime.name", "rigcast"}}))), Contains("rigcast"));
  // Its help, above, has no -ctk.
  CHECK_THAT(refused(forecast_of_file("x.gguf", {{"kv.type_k", "q8_0"}})),
             Contains("no flag -ctk"));
}

TEST_CASE("Results of another test than the one asked for are an error", "[llama-bench]") {
  const Folder folder;
  const auto bench = find_llama_bench(make_program(folder, prints(line_of(40, 0, 24))));
  REQUIRE(bench);
  const auto measured = measure_with(*bench, forecast_of_file("x.gguf"), {kShort});
  REQUIRE(measured);
  CHECK_FALSE(measured->prefill.error);  // 40 tokens after 24
  CHECK(measured->spread() == Approx(200.5 / 200));
  REQUIRE(measured->decode.error);  // asked for 8 after 64
  CHECK_THAT(measured->decode.error->message, Contains("another test"));
  for (const std::string told : {R"("n_threads": 1)", R"("n_threads": 2)"}) {
    INFO(told);
    std::string line = line_of(40, 0, 24);
    line.replace(line.find(R"("n_threads": 1)"), told.size(), told);
    const auto other = find_llama_bench(make_program(folder, prints(line)));
    REQUIRE(other);
    const auto of_threads = measure_with(*other, forecast_of_file("x.gguf"), {kShort});
    REQUIRE(of_threads);
    CHECK(of_threads->prefill.error.has_value() == (told.back() == '2'));
  }
}

TEST_CASE("Tests of one process that ends early keep what was measured", "[llama-bench]") {
  const Folder folder;
  const std::string count = folder / "count";
  const Report first = forecast_of_file("x.gguf"), second = forecast_of_file("x.gguf");
  const Report* both[] = {&first, &second};
  const auto measure = [&](const std::string& end) {
    fs::remove(count);
    const auto bench = find_llama_bench(
        make_program(folder, "echo x >>'" + count + "'\n" + prints(line_of(40, 0, 24)) + end));
    REQUIRE(bench);
    auto measured = measure_with(*bench, both, {kShort});
    REQUIRE(measured);
    REQUIRE(measured->size() == 2);
    CHECK_FALSE((*measured)[0].prefill.error);
    CHECK((*measured)[0].prefill.tests.size() == 1);
    REQUIRE((*measured)[1].prefill.error);
    return (*measured)[1].prefill.error->message;
  };
  CHECK_THAT(measure("exit 1"), Contains("exit code 1"));
  // One that is too slow is not waited for again: a process for the prompts, one for the answers.
  CHECK_THAT(measure("exec sleep 60"), Contains("stopped after"));
  CHECK(test::read(count) == "x\nx\n");
}

TEST_CASE("Only the first process of a measurement may begin with a cold cache", "[llama-bench]") {
  const Folder folder;
  const std::string body = "echo x >> '" + (folder / "processes") + "'\n";
  const auto measured = [&](std::vector<Report> reports, int* processes) {
    std::vector<const Report*> all;
    for (const Report& report : reports) all.push_back(&report);
    // A test of the prompt, or of the answer, as the flags say it.
    const auto bench = find_llama_bench(make_program(
        folder, body + "p=0; n=0; d=0; while [ $# -gt 1 ]; do case $1 in -p) p=$2;; -n) n=$2;; "
                       "-d) d=$2;; esac; shift; done\n"
                       "echo '{\"n_prompt\": '$p', \"n_gen\": '$n', \"n_depth\": '$d', "
                       "\"gpu_info\": \"a GPU\", \"samples_ts\": [10]}'"));
    REQUIRE(bench.ok());
    auto out = measure_with(*bench, all, {kShort, 1});
    REQUIRE(out.ok());
    *processes = 0;
    std::ifstream lines(folder / "processes");
    for (std::string line; std::getline(lines, line);) ++*processes;
    return *std::move(out);
  };
  folder.write("model.gguf", "");
  // Threads and depth differ: these are two commands.
  const auto report = [&](const char* threads, const char* depth) {
    Scenario s = scenario({{"runtime.name", "llama.cpp"},
                           {"runtime.threads", threads},
                           {"workload.depth", depth},
                           {"workload.prompt_tokens", "16"},
                           {"workload.output_tokens", "4"}});
    s.model_file = folder / "model.gguf";
    return forecast_of(std::move(s));
  };
  int processes = 0;
  const auto two = measured({report("2", "0"), report("4", "256")}, &processes);
  CHECK(processes == 4);
  CHECK(two[0].prefill.first_process);
  CHECK_FALSE(two[1].prefill.first_process);
  for (const LlamaBenchMeasurement& one : two) CHECK_FALSE(one.decode.first_process);
}

TEST_CASE("A scenario with a GPU is not measured by a llama-bench without", "[llama-bench]") {
  const Folder folder;
  Scenario s = scenario();
  s.model_file = "x.gguf";
  const auto prefill_of = [&](const std::string& gpu) {
    const auto bench = find_llama_bench(
        make_program(folder, prints(line_of(512, 0, 0, ", \"gpu_info\": \"" + gpu + "\""))));
    REQUIRE(bench);
    const auto measured = measure_with(*bench, forecast_of(s), {kShort});
    REQUIRE(measured);
    return measured->prefill;
  };
  CHECK_FALSE(prefill_of("NVIDIA GeForce RTX 3060").error);
  REQUIRE(prefill_of("").error);
  CHECK_THAT(prefill_of("").error->message, Contains("found no GPU"));
}

TEST_CASE("A scenario that does not fit is not tried again for its decode", "[llama-bench]") {
  const Folder folder;
  const std::string count = folder / "count";
  const auto bench = find_llama_bench(
      make_program(folder, "echo x >>'" + count + "'; echo 'out of memory' >&2; exit 1"));
  REQUIRE(bench);
  const auto measured = measure_with(*bench, forecast_of_file("x.gguf"), {kShort});
  REQUIRE(measured);
  CHECK(measured->prefill.error->kind == ErrorKind::kDoesNotFit);
  CHECK(measured->decode.error->kind == ErrorKind::kDoesNotFit);
  CHECK(test::read(count) == "x\n");
}

TEST_CASE("A scenario is measured with llama.cpp itself", "[llama-bench][llama.cpp]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  ::setenv("LLAMA_CPP_FOLDER", test::llama_cpp_folder()->c_str(), 1);
  const Folder folder;
  const std::string file = folder / "model.gguf";
  const std::string make =
      test::program() + " synth smollm2-135m -o " + file + " >" + (folder / "synth") + " 2>&1";
  REQUIRE(std::system(make.c_str()) == 0);
  const auto bench = find_llama_bench(LLAMA_BENCH_PROGRAM);
  if (!bench) FAIL(bench.error().text());

  const auto measured =
      measure_with(*bench, forecast_of_file(file, {{"runtime.mmap", "false"}}), {Seconds{120}});
  if (!measured) FAIL(measured.error().text());
  for (const LlamaBenchRun* run : {&measured->prefill, &measured->decode}) {
    if (run->error) FAIL(run->error->text());
    REQUIRE(run->tests.size() == 1);
    const BenchTest& t = run->tests.front();
    CHECK(t.tokens_per_s.size() == 5);
    CHECK(t.threads == 1);
    CHECK(t.model_file == file);
    REQUIRE(t.load);
    CHECK(t.load->value > 0);
    CHECK(t.load->value < run->elapsed.value);
    CHECK_FALSE(run->build->commit.empty());
    double kv = 0, weights = 0;
    for (const BenchBuffer& b : t.buffers) {
      if (b.kind == "KV") kv += b.bytes.value;
      if (b.kind == "model") weights += b.bytes.value;
      CHECK_THAT(b.name, !Contains("Mapped"));  // -lm none
    }
    // 30 layers, keys and values of 3 heads of 64 in FP16, for 256 tokens: contexts are multiples.
    CHECK(kv == Approx(256.0 * 30 * 2 * 3 * 64 * 2).margin(kHalfOfPrinted));
    CHECK(weights > 0.5 * double(fs::file_size(file)));
  }
  CHECK(measured->prefill.tests[0].prompt == 40);
  CHECK(measured->prefill.tests[0].depth == 24);
  CHECK(measured->decode.tests[0].output == 8);
  CHECK(measured->decode.tests[0].depth == 64);
  // Of a prompt, weights are read once for all its tokens.
  CHECK(measured->prefill.tests[0].median() > measured->decode.tests[0].median());

  const auto missing = measure_with(*bench, forecast_of_file(folder / "none.gguf"), {Seconds{60}});
  REQUIRE(missing);
  REQUIRE(missing->prefill.error);
  CHECK_THAT(missing->prefill.error->message, Contains("exit code 1") && Contains("no file"));
}
