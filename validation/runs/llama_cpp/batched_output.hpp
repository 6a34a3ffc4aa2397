#pragma once
// What llama-batched-bench prints with `--output-format jsonl`.

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "validation/runs/llama_cpp/bench_output.hpp"

namespace rigcast::validation {

/// One line: prompts of several sequences, then their outputs, a token of each at a time. Field
/// names: tools/batched-bench of https://github.com/ggml-org/llama.cpp.
struct BatchedTest {
  TokenCount prompt = 0, output = 0;  // of each sequence: `pp`, `tg`
  int sequences = 0;                  // `pl`
  bool prompt_is_shared = false;
  Seconds prompt_time, output_time;  // of all sequences: `t_pp`, `t_tg`
  // Of all sequences together: `speed_pp`, `speed_tg`. One step decodes a token of each.
  double prompt_tokens_per_s = 0, output_tokens_per_s = 0;
  int gpu_layers = 0, threads = 0;
  // Told by our llama-batched-bench alone:
  std::optional<std::string> gpu;  // names of devices; "": none
  std::vector<BenchBuffer> buffers;
};

struct BatchedOutput {
  std::vector<BatchedTest> tests;
  std::optional<Error> error;  // of the first line that begins as an object and is none of a test
};

/// Reads lines up to the first that is cut or wrong; those before it stay.
BatchedOutput parse_batched_output(const std::string& text);

}  // namespace rigcast::validation
