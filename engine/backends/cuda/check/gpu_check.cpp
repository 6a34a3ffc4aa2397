#include "engine/backends/cuda/check/gpu_check.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <span>
#include <utility>

#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/backends/cuda/check/checked_models.hpp"
#include "engine/backends/cuda/cuda_device.hpp"
#include "engine/backends/cuda/make_cuda_executor.hpp"
#include "engine/synth/synthetic_model.hpp"

namespace rigcast::engine {
namespace {

constexpr std::uint64_t kSeed = 1;

// A way of splitting tokens into batches for an executor.
struct Batch {
  const char* name;
  std::size_t tokens;  // tokens of one batch
  int times;
};
constexpr Batch kBatches[] = {{"a batch of 100 tokens", 100, 1},  // weights dequantized to FP16
                              {"batches of 40 tokens", 40, 2},    // quantized weights read directly
                              {"batches of 5 tokens", 5, 2},
                              {"single tokens", 1, 6}};

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

std::optional<Error> check_model(const CheckedModel& checked, const std::string& name) {
  ThreadTeam team(1);
  auto model = make_synthetic_model(checked.spec, checked.table, kSeed, team);
  if (!model) return model.error();
  CpuExecutor cpu(std::make_shared<const Model>(*std::move(model)), {});
  auto gpu = make_synthetic_cuda_executor(checked.spec, checked.table, kSeed, {});
  if (!gpu) return gpu.error();
  const auto wrong = difference(**gpu, cpu);
  if (!wrong) return std::nullopt;
  return Error{ErrorKind::kMachine,
               fmt::format("{} computes otherwise than the CPU: logits of a tiny model {} with {}",
                           name, checked.what, *wrong),
               "--device cpu; the driver's update, or a build with "
               "-DRIGCAST_CUDA_ARCHITECTURES=native on this machine, may mend it",
               {}};
}

// Identifies this program by its file on disk.
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

// Appends a line. A failure costs only another check. A line is written by one call, so two
// processes do no harm.
void add_line(const std::filesystem::path& file, const std::string& line) {
  std::error_code failed;
  std::filesystem::create_directories(file.parent_path(), failed);
  std::ofstream(file, std::ios::app) << line + "\n" << std::flush;
}

// Checks models, unless `line` says that they have passed.
std::optional<Error> check_models(std::span<const CheckedModel> models, const GpuDevice& device,
                                  const std::filesystem::path& passed_file,
                                  const std::string& line) {
  if (!passed_file.empty() && has_line(passed_file, line)) return std::nullopt;
  for (const CheckedModel& model : models)
    if (auto error = check_model(model, device.name)) return error;
  release_cuda();  // the next run starts as in a new process
  if (!passed_file.empty()) add_line(passed_file, line);
  return std::nullopt;
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
      if (!(d <= kMaxRoundingDifference))  // also true for NaN
        return fmt::format(
            "{} differ by {:.0f} % of their spread, where rounding explains {:.0f} %", batch.name,
            100 * std::sqrt(d), 100 * std::sqrt(kMaxRoundingDifference));
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

std::optional<Error> check_gpu(const std::filesystem::path& passed_file, const ModelSpec& spec,
                               const TensorTable& tensors) {
  const auto device = cuda_device();
  if (!device) return device.error();
  const std::string line =
      fmt::format("{}, driver {}, {}", device->name, device->driver, program_text());
  const auto like = checked_model_like(spec, tensors);
  if (!like) return like.error();
  const auto models = checked_models();
  if (!models) return models.error();
  if (auto error = check_models(*models, *device, passed_file, line)) return error;
  if (!*like) return std::nullopt;
  return check_models({&**like, 1}, *device, passed_file, line + ", " + (*like)->what);
}

}  // namespace rigcast::engine
