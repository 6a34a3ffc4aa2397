#pragma once
// Flags of llama-batched-bench: prompts of several sequences, then their outputs, in batches.

#include <string>
#include <vector>

#include "tests/peers/llama_bench/settings.hpp"

namespace llama_bench {

struct BatchedCommand {
  ModelSettings model;
  ContextSettings context;
  int cache_tokens = 0;                // -c, of all sequences; 0: the model's
  int threads = 0, threads_batch = 0;  // 0: one for each core; as many as `threads`
  std::vector<int> n_pp, n_tg, n_pl;   // tokens of a prompt and of an output; sequences
  bool prompt_shared = false;          // one prompt for all
  bool cache_unified = false;
  bool jsonl = false;
  bool verbose = false;
  bool help = false;
};

/// Reads the words after the program's name. Throws Failure for what llama-batched-bench does not
/// know or this program does not do.
BatchedCommand parse_batched_command(const std::vector<std::string>& words);

std::string batched_help_text();

}  // namespace llama_bench
