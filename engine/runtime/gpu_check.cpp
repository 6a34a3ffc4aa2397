#include "engine/runtime/gpu_check.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <utility>

#include "core/tensor_table.hpp"
#include "engine/runtime/cpu_executor.hpp"
#include "engine/runtime/cuda_executor.hpp"
#include "engine/synth/synthetic_model.hpp"

namespace rigcast::engine {
namespace {

constexpr std::uint64_t kSeed = 1;

// Squared difference of logits over their variance. Both sides round activations, to 8 bits or to
// halves: 2^-8 of the largest of 32 at most, which 14 products of two layers take to some 1e-3.
// Logits that have nothing to do with each other are 2 apart, those of which one is constant 1.
constexpr double kMostDifference = 0.02;

// One way in which an executor is given tokens.
struct Batch {
  const char* name;
  std::size_t tokens;  // at once
  int times;
};
constexpr Batch kBatches[] = {{"a batch of 100 tokens", 100, 1},  // weights written out as halves
                              {"batches of 40 tokens", 40, 2},    // weights read as they lie
                              {"batches of 5 tokens", 5, 2},
                              {"single tokens", 1, 6}};

// Wide enough for blocks of 256 weights.
ModelSpec tiny_spec(bool experts) {
  ModelSpec m;
  m.id = m.name = "tiny";
  m.source = "made for the check of a GPU";
  m.architecture = experts ? "qwen3moe" : "llama";
  m.layers = 3;
  m.hidden = 256;
  m.heads = 4;
  m.kv_heads = 2;
  m.head_dim = 64;
  m.ffn = experts ? 0 : 512;
  m.vocabulary = 256;
  m.context = 512;
  m.qk_norm = experts;
  if (!experts) return m;
  m.moe.emplace();
  // All are used: a near tie of the router's would send tokens elsewhere without any error.
  m.moe->experts = m.moe->experts_used = 4;
  m.moe->expert_ffn = 512;
  return m;
}

// Every matrix in the next of all formats; the router stays as it is.
void mix_formats(TensorTable& table) {
  std::size_t next = 0;
  for (Tensor& t : table.tensors) {
    if (t.dimensions < 2 || t.role == TensorRole::kRouter || t.role == TensorRole::kBias) continue;
    t.format = static_cast<QuantFormat>(next++ % kQuantFormatCount);
    t.bytes = tensor_bytes(t.format, t.shape[0], t.shape[1] * t.shape[2]);
  }
}

std::span<const std::int32_t> next_tokens(const std::vector<std::int32_t>& all, std::size_t& at,
                                          std::size_t count) {
  const std::size_t first = std::exchange(at, at + count);
  return std::span(all).subspan(first, count);
}

double difference(std::span<const float> got, std::span<const float> expected) {
  double mean = 0, squares = 0, error = 0;
  for (const float v : expected) mean += double(v) / double(expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += std::pow(double(expected[i]) - mean, 2);
    error += std::pow(double(got[i]) - double(expected[i]), 2);
  }
  return error / squares;
}

std::optional<Error> check_model(bool experts, const std::string& name) {
  const ModelSpec spec = tiny_spec(experts);
  const auto mix = QuantMix::from_name("F16");
  auto table = make_tensor_table(spec, *mix);
  if (!table) return table.error();
  mix_formats(*table);
  Team team(1);
  auto model = make_synthetic_model(spec, *table, kSeed, team);
  if (!model) return model.error();
  CpuExecutor cpu(std::make_shared<const Model>(*std::move(model)), {});
  auto gpu = make_synthetic_cuda_executor(spec, *table, kSeed, {});
  if (!gpu) return gpu.error();
  const auto wrong = difference(**gpu, cpu);
  if (!wrong) return std::nullopt;
  return Error{ErrorKind::kMachine,
               fmt::format("{} computes otherwise than the CPU: logits of a tiny model {} with {}",
                           name, experts ? "with experts" : "without experts", *wrong),
               "--device cpu; the driver's update, or a build with "
               "-DRIGCAST_CUDA_ARCHITECTURES=native on this machine, may mend it",
               {}};
}

// This program, as it is on disk.
std::string program_text() {
  struct stat s {};
  if (::stat("/proc/self/exe", &s) != 0) return {};
  return fmt::format("{} bytes of {}.{:09}", s.st_size, s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
}

bool has_line(const std::filesystem::path& file, const std::string& line) {
  std::ifstream in(file);
  for (std::string own; std::getline(in, own);)
    if (own == line) return true;
  return false;
}

// Nothing is lost where this fails. A line is written at once, so two processes do no harm.
void add_line(const std::filesystem::path& file, const std::string& line) {
  std::error_code failed;
  std::filesystem::create_directories(file.parent_path(), failed);
  std::ofstream(file, std::ios::app) << line + "\n" << std::flush;
}

}  // namespace

std::optional<std::string> difference(Executor& got, Executor& expected) {
  std::vector<std::int32_t> tokens(256);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::int32_t((i * i * 31 + i) % 256);
  std::size_t at = 0;
  for (const Batch& batch : kBatches)
    for (int i = 0; i < batch.times; ++i) {
      const auto some = next_tokens(tokens, at, batch.tokens);
      const auto own = got.forward(some, Logits::kAll),
                 right = expected.forward(some, Logits::kAll);
      const double d = difference(own, right);
      if (!(d <= kMostDifference))  // NaN is a difference
        return fmt::format(
            "{} differ by {:.0f} % of their spread, where rounding explains {:.0f} %", batch.name,
            100 * std::sqrt(d), 100 * std::sqrt(kMostDifference));
    }
  return std::nullopt;
}

std::filesystem::path gpu_check_file() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::filesystem::path(cache) / "rigcast" / "gpu-check";
  if (const char* home = std::getenv("HOME"); home && *home)
    return std::filesystem::path(home) / ".cache" / "rigcast" / "gpu-check";
  return {};
}

std::optional<Error> check_gpu(const std::filesystem::path& passed_file) {
  const auto device = cuda_device();
  if (!device) return device.error();
  const std::string line =
      fmt::format("{}, driver {}, {}", device->name, device->driver, program_text());
  if (!passed_file.empty() && has_line(passed_file, line)) return std::nullopt;
  for (const bool experts : {false, true})
    if (auto error = check_model(experts, device->name)) return error;
  leave_cuda();  // what runs next starts as it would in a process of its own
  if (!passed_file.empty()) add_line(passed_file, line);
  return std::nullopt;
}

}  // namespace rigcast::engine
