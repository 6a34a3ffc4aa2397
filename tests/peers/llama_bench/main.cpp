// llama-bench over libllama and libggml of a folder: measures with llama.cpp itself where there is
// no build of its own program. The same flags and lines, for what `rigcast` asks of it. Called by
// the name llama-batched-bench it is that program; as llama-server-memory it takes llama-server's
// flags, and tells the memory of its buffers alone.

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "tests/peers/llama_bench/batched_bench.hpp"
#include "tests/peers/llama_bench/output.hpp"
#include "tests/peers/llama_bench/server_memory.hpp"

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

void memory_of_server(const std::vector<std::string>& words) {
  const ServerCommand command = parse_server_command(words);
  if (command.help) {
    std::fputs(server_help_text().c_str(), stdout);
    return;
  }
  Library library(folder(), command.verbose);
  std::puts(server_memory(library, command).c_str());
}

struct Program {
  const char* name;
  void (*run)(const std::vector<std::string>& words);
};

// By the name that it was called with.
Program program_of(std::string_view path) {
  for (const Program& p : {Program{"llama-batched-bench", batched_bench},
                           Program{"llama-server-memory", memory_of_server}})
    if (path.ends_with(p.name)) return p;
  return {"llama-bench", bench};
}

}  // namespace

int main(int count, char** words) {
  const Program program = program_of(count > 0 ? words[0] : "");
  try {
    program.run({words + std::min(count, 1), words + count});
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s: %s\n", program.name, e.what());
    return 1;
  }
}
