#pragma once
// One operating point of one server under load, as its source states it: nothing is resolved yet.

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace rigcast {

/// Milliseconds, as sources state them.
struct MeasuredPercentiles {
  std::optional<double> mean, p50, p99;
};

struct ServingMeasurement {
  std::string id, source, engine, model, quant, gpu, link;
  int gpus = 1;
  int tensor_parallel = 1, pipeline_parallel = 1, data_parallel = 1;
  std::string arrival;             // "closed", "poisson", "all at once" or "lockstep"
  std::optional<int> concurrency;  // of a closed load; sequences of one that is in lockstep
  std::optional<double> rate;      // requests/s
  double prompt_tokens = 0, output_tokens = 0;  // means
  bool varied_lengths = false;                  // else all requests are alike
  std::optional<int> requests;
  bool speculative = false;
  std::optional<TokenCount> cache_tokens;  // of the KV cache
  std::optional<int> max_sequences, max_step_tokens, slots;
  std::optional<double> memory_share;  // of the GPU's memory
  bool chunked = false;                // told to compute prompts in chunks
  std::optional<double> power_limit;   // W, of each GPU
  int copies = 1;                      // servers that share the requests, each with its own GPUs
  std::string flags;                   // marks of whoever collected it
  int line = 0;

  std::optional<double> output_tokens_per_s;
  MeasuredPercentiles ttft, tpot;

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
