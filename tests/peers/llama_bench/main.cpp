// llama-bench over libllama and libggml of a folder: measures with llama.cpp itself where there is
// no build of its own program. The same flags and lines, for what `rigcast` asks of it. Called by
// the name llama-batched-bench it is that program.

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "tests/peers/llama_bench/batched_bench.hpp"
#include "tests/peers/llama_bench/output.hpp"

namespace {

using namespace llama_bench;

// Of the libraries: beside this program, unless the environment names one.
std::filesystem::path folder() {
  if (const char* named = std::getenv("LLAMA_CPP_FOLDER")) return named;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

void run(const Command& command) {
  Library library(folder(), command.verbose);
  if (command.numa) library->llama_numa_init(command.numa);
  Bench bench(library, command);
  Output out(command.output, stdout), err(command.output_err, stderr);
  for (const Test& test : command.tests) {
    const TestResult result = bench.run(test);
    out.print(result, library);
    err.print(result, library);
  }
  out.end();
  err.end();
}

void bench(const std::vector<std::string>& words) {
  const Command command = parse_command(words);
  if (command.help)
    std::fputs(help_text().c_str(), stdout);
  else
    run(command);
}

void print_row(const BatchedResult& r) {
  std::printf("| %6d | %6d | %4d | %8lld | %8.3f | %9.2f | %8.3f | %9.2f |\n", r.pp, r.tg, r.pl,
              static_cast<long long>(r.cells), r.prompt_s, r.prompt_tokens_per_s(), r.output_s,
              r.output_tokens_per_s());
}

// Every combination that the cache holds.
void run(const BatchedCommand& command) {
  Library library(folder(), command.verbose);
  BatchedBench bench(library, command);
  if (!command.jsonl)
    std::puts(
        "|     PP |     TG |    B |     N_KV |   T_PP s |  S_PP t/s |   T_TG s |  S_TG t/s |\n"
        "|-------:|-------:|-----:|---------:|---------:|----------:|---------:|----------:|");
  for (const int pp : command.n_pp)
    for (const int tg : command.n_tg)
      for (const int pl : command.n_pl) {
        if (bench.cells_needed(pp, tg, pl) > bench.cache_tokens()) continue;
        const BatchedResult result = bench.run(pp, tg, pl);
        if (command.jsonl)
          std::puts(batched_line(result, command, bench, library).c_str());
        else
          print_row(result);
        std::fflush(stdout);
      }
}

void batched_bench(const std::vector<std::string>& words) {
  const BatchedCommand command = parse_batched_command(words);
  if (command.help)
    std::fputs(batched_help_text().c_str(), stdout);
  else
    run(command);
}

}  // namespace

int main(int count, char** words) {
  const bool is_batched = count > 0 && std::string_view(words[0]).ends_with("llama-batched-bench");
  try {
    (is_batched ? batched_bench : bench)({words + std::min(count, 1), words + count});
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "llama-%sbench: %s\n", is_batched ? "batched-" : "", e.what());
    return 1;
  }
}
