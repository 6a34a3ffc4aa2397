#include "engine/backends/cpu/make_cpu_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "engine/backends/cpu/cpu_executor.hpp"
#include "engine/backends/cpu/load_for_cpu.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {

namespace {

Result<std::unique_ptr<Executor>> executor_of(Result<Model> model, const ExecutorOptions& options) {
  if (!model) return model.error();
  if (auto error = check_layers_on_cpu(*model)) return *error;
  choose_rope_factors(*model, options.context);
  CpuOptions own{options.threads, options.kv_types, options.kv_block, options.ubatch};
  own.ram = Ram(options.ram_limit);
  if (options.kv_memory) own.kv_memory = own.ram.tracked("KV cache", options.kv_memory);
  own.stop = options.stop;
  if (!options.window_rings) own.window_blocks = 0;
  return std::unique_ptr<Executor>(
      std::make_unique<CpuExecutor>(std::make_shared<const Model>(*std::move(model)), own));
}

}  // namespace

std::optional<Error> check_cache_on_cpu(KvTypes types) {
  constexpr std::array kExecuted = {QuantFormat::kF32, QuantFormat::kF16, QuantFormat::kQ8_0,
                                    QuantFormat::kQ4_0};
  for (const QuantFormat type : {types.k, types.v})
    if (std::ranges::find(kExecuted, type) == kExecuted.end())
      return bad_input(fmt::format("a cache of {} is not executed", info(type).name),
                       "--kv-type f32, f16, q8_0 or q4_0; forecasts know more");
  return std::nullopt;
}

Result<std::unique_ptr<Executor>> make_cpu_executor(const GgufFile& file,
                                                    const ExecutorOptions& options) {
  if (auto error = check_cache_on_cpu(options.kv_types)) return *std::move(error);
  return executor_of(load_for_cpu(file, options), options);
}

Result<std::unique_ptr<Executor>> make_synthetic_cpu_executor(const ModelSpec& spec,
                                                              const TensorTable& tensors,
                                                              std::uint64_t seed,
                                                              const ExecutorOptions& options) {
  if (auto error = check_cache_on_cpu(options.kv_types)) return *std::move(error);
  ThreadTeam team(options.threads, ThreadTeam::kSpinTime, options.stop);
  return executor_of(make_synthetic_model(spec, tensors, seed, team), options);
}

}  // namespace rigcast::engine
