#pragma once
// Runs tests as llama-batched-bench does.

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/peers/llama_bench/batched_settings.hpp"
#include "tests/peers/llama_bench/library.hpp"

namespace llama_bench {

/// One test: `pl` prompts of `pp` tokens, or one for all, then `tg` tokens of each sequence.
struct BatchedResult {
  int pp = 0, tg = 0, pl = 0;
  std::int64_t cells = 0;          // of the cache that it needs
  std::int64_t prompt_tokens = 0;  // that were computed
  double prompt_s = 0, output_s = 0;

  double prompt_tokens_per_s() const { return double(prompt_tokens) / prompt_s; }
  double output_tokens_per_s() const { return double(pl) * tg / output_s; }
  double tokens_per_s() const {
    return (double(prompt_tokens) + double(pl) * tg) / (prompt_s + output_s);
  }
};

class BatchedBench {
 public:
  /// Loads the model and makes a cache for the most sequences of any test. Throws Failure where the
  /// library does not.
  BatchedBench(Library& library, const BatchedCommand& command);

  /// Cells of the cache: a test that needs more is left out.
  std::int64_t cache_tokens() const;
  std::int64_t cells_needed(int pp, int tg, int pl) const;
  /// Throws Failure where tokens cannot be decoded.
  BatchedResult run(int pp, int tg, int pl);
  std::int64_t load_ns() const { return load_ns_; }

 private:
  class Batch;
  void warm_up();
  void decode(Batch& batch, bool wait_for_each);
  void share_prompt(int pp, int pl);
  llama_h::Token token();

  Library& library_;
  const BatchedCommand& command_;
  std::int64_t load_ns_ = 0;
  Library::Model model_;
  Library::ThreadPool threads_, threads_batch_;
  Library::Context context_;
  std::minstd_rand random_;
};

/// The line of one test. https://github.com/ggml-org/llama.cpp, tools/batched-bench: `speed_pp` and
/// `speed_tg` are of all sequences together, times are seconds, and n_kv are the cells that the
/// test needs of n_kv_max. `library` is this program's own.
std::string batched_line(const BatchedResult& result, const BatchedCommand& command,
                         const BatchedBench& bench, const Library& library);

}  // namespace llama_bench
