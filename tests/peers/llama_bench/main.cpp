// llama-bench over libllama and libggml of a folder: measures with llama.cpp itself where there is
// no build of its own program. The same flags and lines, for what `rigcast` asks of it.

#include <cstdlib>
#include <exception>

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

}  // namespace

int main(int count, char** words) try {
  const Command command = parse_command({words + 1, words + count});
  if (command.help)
    std::fputs(help_text().c_str(), stdout);
  else
    run(command);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "llama-bench: %s\n", e.what());
  return 1;
}
