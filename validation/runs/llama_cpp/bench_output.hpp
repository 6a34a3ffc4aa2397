#pragma once
// What llama-bench prints with `-o jsonl`, of any release, and what a llama-bench over libllama
// (tests/peers/llama_bench) adds.

#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace rigcast::validation {

struct BenchBuild {
  std::string commit;  // as it tells: "8cf427ff", a release's name, "unknown"
  int number = 0;      // 0: not told
};

/// A buffer as the library reports it, to a hundredth of a MiB.
struct BenchBuffer {
  std::string name;  // "CUDA0", "CPU_Mapped"
  std::string kind;  // "model", "KV", "RS", "compute", "output"
  Bytes bytes;
};

struct BenchGpu {
  std::string name;
  Bytes used;  // from before the model was loaded to after the last repetition: buffers, and what
               // its libraries took while they computed, without the process's CUDA context
  Bytes total;
};

/// One line: a prompt, an output or both, after `depth` tokens.
struct BenchTest {
  TokenCount prompt = 0, output = 0, depth = 0;
  std::vector<double> tokens_per_s;  // of every repetition; never empty
  std::string backends;              // "CPU", "CUDA"
  std::string cpu, gpu;              // names of devices
  std::string model_file, key_type;  // "": not told
  std::string line;                  // all of it, as it was printed
  int gpu_layers = 0;
  int threads = 0;
  // Told by our llama-bench alone:
  std::optional<Seconds> load;  // of the model, by whatever was in the page cache
  std::vector<BenchBuffer> buffers;
  std::vector<BenchGpu> gpus;

  double mean() const;
  double median() const;
};

struct BenchOutput {
  std::optional<BenchBuild> build;  // absent: no line
  std::vector<BenchTest> tests;
  int other_lines = 0;         // not JSON objects, such as a driver's notes
  std::optional<Error> error;  // of the first line that begins as an object and is none of a test
};

/// Reads lines up to the first that is cut or wrong; those before it stay.
BenchOutput parse_bench_output(const std::string& text);

}  // namespace rigcast::validation
