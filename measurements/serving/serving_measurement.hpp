#pragma once
// One operating point of one server under load, as its source states it: nothing is resolved yet.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace rigcast {

/// Milliseconds, as sources state them.
struct MeasuredPercentiles {
  std::optional<double> mean, p50, p90, p95, p99;
};

/// How the tokens of prompts or answers spread around their mean: what the source states of it.
struct LengthSpread {
  std::optional<double> deviation;                         // standard, in tokens; 0: all are alike
  std::optional<std::pair<TokenCount, TokenCount>> range;  // each length in it is as likely
  std::vector<std::pair<TokenCount, double>> histogram;    // tokens, and how often
};

struct ServingMeasurement {
  std::string id, source, engine, model, quant, gpu, link;
  int gpus = 1;
  int tensor_parallel = 1, pipeline_parallel = 1, data_parallel = 1;
  int expert_parallel = 1;  // GPUs over which whole experts are divided; 1: each is shared by all
  // "closed", "poisson", "gamma", "constant", "all at once" or "lockstep"; of another word nothing
  // is forecast.
  std::string arrival;
  std::optional<int> concurrency;  // of a closed load; sequences of one that is in lockstep
  std::optional<double> rate;      // requests/s
  double cv = 1;                   // of "gamma": standard deviation of the gaps over their mean
  double prompt_tokens = 0, output_tokens = 0;  // means
  bool varied_lengths = false;  // where the spreads state nothing: as conversations, else alike
  LengthSpread prompt_spread, output_spread;
  bool shared_prompt = false, separate_answers = false;  // of one in lockstep
  std::optional<int> requests;
  bool speculative = false;
  std::optional<TokenCount> cache_tokens;  // of the KV cache
  std::optional<int> max_sequences, max_step_tokens, slots;
  std::optional<int> gpu_layers, batch, ubatch, threads;  // as llama.cpp was started
  std::optional<bool> flash_attention;
  std::optional<double> memory_share;  // of the GPU's memory
  bool chunked = false;                // told to compute prompts in chunks
  std::optional<double> power_limit;   // W, of each GPU
  int copies = 1;                      // servers that share the requests, each with its own GPUs
  std::string flags;                   // marks of whoever collected it
  std::vector<std::string> notes;      // what is to be known beside its figures
  std::string obstacle;  // why it cannot be forecast, whatever is given; empty: it can
  int line = 0;

  /// Of all requests together. Of one in lockstep: of the time in which prompts, or answers, are
  /// computed.
  std::optional<double> output_tokens_per_s, prompt_tokens_per_s;
  MeasuredPercentiles ttft, e2e;
  MeasuredPercentiles tpot;  // of requests: (last - first token) / (tokens - 1)
  MeasuredPercentiles itl;   // of all gaps

  /// Whoever collected it found a reason not to trust it, or a figure contradicts another.
  [[nodiscard]] bool is_doubtful() const;
};

/// True if a table's first line names these columns.
bool is_serving_table(std::string_view text);

/// Columns: runtimes/measurements/serving/README.md. Errors: those of read_input(); a column
/// missing, a text that is no number, a negative one.
Result<std::vector<ServingMeasurement>> read_serving_measurements(
    const std::filesystem::path& file);
Result<std::vector<ServingMeasurement>> parse_serving_measurements(std::string_view text,
                                                                   const std::string& file);

}  // namespace rigcast
