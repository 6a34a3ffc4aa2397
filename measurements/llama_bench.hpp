#pragma once
// Reads the output of llama-bench with -o csv, -o json and -o jsonl: the same fields in three
// formats. Older builds lack some of them.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "measurements/field_row.hpp"
#include "measurements/measurement.hpp"

namespace rigcast {

/// An array of objects, or an object a line.
Result<std::vector<FieldRow>> llama_bench_json(std::string_view text, const std::string& file);

/// The run of a record. A prompt and an answer measured as one (-pg) have no speed of their own:
/// nullopt.
Result<std::optional<Measurement>> llama_bench_run(const FieldRow& field_row);

/// "llama 8B Q4_K - Medium" is the model "llama 8B" in "Q4_K - Medium".
struct ModelType {
  std::string model;
  std::string quant;
};
ModelType split_model_type(std::string_view text);

}  // namespace rigcast
