// What shells and manuals get of the tree of verbs and options.
#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/program.hpp"
#include "tests/paths.hpp"

using namespace rigcast::cli_test;

namespace {

using Words = std::vector<std::string>;

// The words alone, without their help.
Words completed(Words words) {
  words.insert(words.begin(), "__complete");
  const Outcome o = run(words);
  INFO(o.error);
  REQUIRE(o.exit == 0);
  Words out;
  std::istringstream in(o.out);
  for (std::string line; std::getline(in, line);) out.push_back(line.substr(0, line.find('\t')));
  return out;
}

bool has(const Words& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

bool is_installed(const std::string& program) {
  return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

std::string output_of(const std::string& command) {
  const Folder folder;
  const std::string path = fs::path(rigcast::test::program()).parent_path().string();
  const std::string all = "PATH=" + path + ":$PATH; " + command;
  folder.write("script", all);
  const std::string file = folder / "out";
  INFO(all);
  CHECK(std::system(("bash " + (folder / "script") + " >" + file + " 2>&1").c_str()) == 0);
  return read(file);
}

const Words kVerbs{"recommend", "simulate",  "explain",    "capacity", "plan",
                   "compare",   "sweep",     "run",        "serve",    "validate",
                   "inspect",   "calibrate", "probe",      "synth",    "tokenize",
                   "list",      "show",      "completion", "man",      "ui"};

}  // namespace

TEST_CASE("Verbs, flags and their words complete", "[cli][completion]") {
  Words verbs = completed({""}), all = kVerbs;
  std::ranges::sort(verbs);
  std::ranges::sort(all);
  CHECK(verbs == all);
  CHECK(completed({"sw"}) == Words{"sweep"});
  CHECK(completed({"help", "sim"}) == Words{"simulate"});
  CHECK(has(completed({"--v"}), "--version"));
  CHECK(completed({"sweep", "--merg"}) == Words{"--merge"});
  CHECK(completed({"simulate", "--start", "w"}) == Words{"warm"});
  CHECK(completed({"simulate", "--start=w"}) == Words{"--start=warm"});
  CHECK(completed({"simulate", "--start", "=", "w"}) == Words{"warm"});
  CHECK(completed({"simulate", "--decode-device", ""}) == Words{"gpu", "cpu"});
  CHECK(completed({"simulate", "--gpu-layers", ""}) == Words{"auto"});
  CHECK(completed({"simulate", "--format", "j"}) == Words{"json"});
  CHECK(completed({"plan", "--kv", "s"}) == Words{"stream", "spill"});
  CHECK(completed({"list", "run"}) == Words{"runtimes"});
  CHECK(completed({"no-such-verb", ""}).empty());
  CHECK(completed({"simulate", "--no-such-flag=", ""}).empty());
}

TEST_CASE("Ids of the catalogue complete", "[cli][completion]") {
  CHECK(has(completed({"simulate", "--gpu", "rtx-3060"}), "rtx-3060-12gb"));
  CHECK(completed({"simulate", "--gpu", "rtx-3090,rtx-4090"}).front() == "rtx-3090,rtx-4090");
  CHECK(has(completed({"simulate", "--gpu=rtx-3060"}), "--gpu=rtx-3060-12gb"));
  CHECK(has(completed({"plan", "--model", "llama-3.1"}), "llama-3.1-8b"));
  CHECK(has(completed({"plan", "--quant", "Q4_K"}), "Q4_K_M"));
  CHECK(has(completed({"plan", "--rig", "th"}), "this"));
  CHECK(has(completed({"plan", "--runtime", "v"}), "vllm"));
  CHECK(has(completed({"simulate", "--load", "c"}), "chat"));
  CHECK(has(completed({"show", "llama-3.1"}), "llama-3.1-8b"));
  CHECK(has(completed({"show", "rtx-3060"}), "rtx-3060-12gb"));
  CHECK(has(completed({"inspect", "llama-3.1"}), "llama-3.1-8b"));
  CHECK(completed({"simulate", "--gpu", "no-such-card"}).empty());
}

// Most of the time of a short command is the loader's, which resolves the symbols of the libraries:
// how long that takes is up to the machine and to packages, so it is measured beside.
TEST_CASE("A completion takes hardly more time than the program's start", "[cli][completion]") {
  const auto best_of = [](const Words& words, double best) {
    return std::min(best, run(words).cpu_seconds);
  };
  double completion = 10, start = 10;
  for (int i = 0; i < 9; ++i) {
    completion = best_of({"__complete", "simulate", "--model", "llama"}, completion);
    start = best_of({"--version"}, start);
  }
  INFO(completion << " s, the start alone " << start << " s");
#ifndef __SANITIZE_ADDRESS__
  CHECK(completion < 1.5 * start);
#endif
}

TEST_CASE("Shells take their scripts", "[cli][completion]") {
  CHECK(output_of("source <(rigcast completion bash); COMP_WORDS=(rigcast plan --model llama-3.1-8)"
                  "; COMP_CWORD=3; _rigcast; echo \"${COMPREPLY[@]}\"") == "llama-3.1-8b\n");
  CHECK(output_of("source <(rigcast completion bash); COMP_WORDS=(rigcast sw); COMP_CWORD=1; "
                  "_rigcast; echo \"${COMPREPLY[@]}\"") == "sweep\n");
  if (is_installed("fish"))
    CHECK(contains(output_of("fish --no-config -c 'rigcast completion fish | source; complete -C "
                             "\"rigcast plan --model llama-3.1-8\"'"),
                   "llama-3.1-8b"));
  if (is_installed("zsh"))
    CHECK(output_of("zsh -f -c 'compdef() { echo $1 $2 }; source <(rigcast completion zsh); "
                    "_describe() { print -l $found }; words=(rigcast plan --model llama-3.1-8); "
                    "CURRENT=4; _rigcast'") == "_rigcast rigcast\nllama-3.1-8b\n");
  const Outcome other = run({"completion", "csh"});
  CHECK(other.exit == 2);
  CHECK(contains(other.error, "bash, zsh or fish"));
}

TEST_CASE("Every verb has a manual page without faults", "[cli][completion]") {
  const Folder folder;
  Words pages{""};
  pages.insert(pages.end(), kVerbs.begin(), kVerbs.end());
  for (const std::string& verb : pages) {
    INFO(verb);
    const Outcome o = run(verb.empty() ? Words{"man"} : Words{"man", verb});
    REQUIRE(o.exit == 0);
    CHECK(contains(o.out, verb.empty() ? ".Nm rigcast\n" : ".Nm \"rigcast\\-" + verb + "\"\n"));
    if (!is_installed("mandoc")) continue;
    const std::string file = folder.write("page.1", o.out);
    CHECK(output_of("mandoc -T lint -W warning " + file).empty());
  }
  CHECK(contains(run({"man", "sweep"}).out, "Fl \"\\-merge\""));
  CHECK(run({"man", "no-such-verb"}).exit == 2);
}
