#pragma once
// Flags of llama-bench, and the tests that they ask for.

#include <string>
#include <vector>

#include "tests/peers/llama_bench/settings.hpp"

namespace llama_bench {

enum class Format { kNone, kCsv, kJson, kJsonl, kMarkdown };

struct Command {
  std::vector<Test> tests;
  int repetitions = 5;
  int delay = 0;  // seconds before each test
  bool warmup = true;
  bool verbose = false;
  bool help = false;
  int numa = 0;  // of llama_numa_init: 0 none, 1 distribute, 2 isolate, 3 numactl
  Format output = Format::kMarkdown;
  Format output_err = Format::kNone;
};

/// Reads the words after the program's name. Throws Failure for what llama-bench does not know or
/// this program does not do.
Command parse_command(const std::vector<std::string>& words);

/// The text of --help: flags as llama-bench prints them, one a line.
std::string help_text();

}  // namespace llama_bench
