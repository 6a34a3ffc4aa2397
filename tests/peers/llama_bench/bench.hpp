#pragma once
// Runs tests as llama-bench does.

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/peers/llama_bench/command.hpp"
#include "tests/peers/llama_bench/library.hpp"

namespace llama_bench {

struct Sample {
  std::int64_t ns = 0;          // by this program's clock
  std::int64_t library_ns = 0;  // by the library's own counters: prompt and evaluation
};

struct UsedMemory {
  std::string device;
  // Bytes; before the model was loaded, when the process has its CUDA context already.
  std::size_t free_before = 0, free_after = 0, total = 0;
};

struct TestResult {
  Test test;
  std::string model_type;
  std::uint64_t model_size = 0, model_n_params = 0;  // bytes, parameters
  int gpu_layers = 0;
  std::string time;          // of its begin, RFC 3339
  std::int64_t load_ns = 0;  // of its model, before the first test that uses it
  std::vector<Sample> samples;
  std::vector<Buffer> buffers;
  std::vector<UsedMemory> gpus;  // after the last sample

  double tokens_per_s(const Sample& s) const {
    return 1e9 * (test.n_prompt + test.n_gen) / double(s.ns);
  }
};

class Bench {
 public:
  Bench(Library& library, const Command& command) : library_(library), command_(command) {}

  /// Throws Failure where a model cannot be loaded, a context not be made or tokens not be decoded.
  /// The model of the test before stays where it is the same.
  TestResult run(const Test& test);

 private:
  void load(const ModelSettings& settings);
  void decode_prompt(llama_h::Context& context, int tokens, const Test& test);
  void decode_output(llama_h::Context& context, int tokens);
  void fill_depth(llama_h::Context& context, const Test& test);
  Sample time_once(llama_h::Context& context, const Test& test);
  llama_h::Token first_token(bool is_start);

  Library& library_;
  const Command& command_;
  std::optional<ModelSettings> loaded_;
  Library::Model model_{nullptr, nullptr};
  std::int64_t load_ns_ = 0;
  std::vector<DeviceMemory> before_;  // the model was loaded
  int depth_ = 0;                     // tokens in state_
  std::vector<std::uint8_t> state_;   // of the cache after a depth, so that it is filled once
  std::minstd_rand random_;
};

}  // namespace llama_bench
