#pragma once
// Settings of models, contexts and tests.

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace llama_bench {

/// What ends the program with exit code 1: its text is for standard error.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Override {
  std::string pattern;      // of tensor names, a regular expression
  std::string buffer_type;  // "CPU", "CUDA0"
  bool operator==(const Override&) const = default;
};

/// Settings of a model in memory: tests with equal ones share it.
struct ModelSettings {
  std::string file = "models/7B/ggml-model-q4_0.gguf";
  std::optional<int> gpu_layers;  // absent: the library's default
  int cpu_moe_layers = 0;
  int split_mode = 1;  // index into kSplitModes
  int main_gpu = 0;
  std::string load_mode = "auto";
  std::vector<float> tensor_split;
  std::vector<Override> overrides;
  bool operator==(const ModelSettings&) const = default;
};

inline constexpr const char* kSplitModes[] = {"none", "layer", "row", "tensor"};

struct CacheType {
  const char* name;
  int ggml_type;
};

/// Settings of a context, with what its cache holds.
struct ContextSettings {
  int n_batch = 2048, n_ubatch = 512;
  CacheType type_k{"f16", 1}, type_v{"f16", 1};
  bool no_kv_offload = false;
  int flash_attn = -1;  // -1: the library decides
  bool no_op_offload = false;
};

/// One test: a line of output.
struct Test : ContextSettings {
  ModelSettings model;
  int n_prompt = 0, n_gen = 0, n_depth = 0;
  int threads = 0;  // 0: one for each core
};

}  // namespace llama_bench
