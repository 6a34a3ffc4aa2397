#include "engine/backends/cpu/batch/make_cpu_batch_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "core/scenario/engine_sizes.hpp"
#include "core/text/unit_text.hpp"
#include "engine/backends/cpu/batch/batch_bytes.hpp"
#include "engine/backends/cpu/batch/cpu_batch_executor.hpp"
#include "engine/backends/cpu/load_for_cpu.hpp"
#include "engine/backends/cpu/make_cpu_executor.hpp"
#include "engine/backends/cpu/recurrent/recurrent_states.hpp"
#include "engine/model/model_bytes.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::engine {
namespace {

using Made = Result<std::unique_ptr<BatchExecutor>>;

std::optional<Error> check(const ExecutorOptions& options, const BatchOptions& batch) {
  if (auto error = check_cache_on_cpu(options.kv_types)) return error;
  if (options.kv_block < 1 || batch.step_tokens < 1 || batch.step_sequences < 1 ||
      batch.host_blocks < 0 || batch.checkpoints < 0 || batch.blocks.value_or(1) < 1)
    return bad_input(
        "an executor of many sequences has at least one block, of one token, and steps of at least "
        "one token and one sequence");
  if (!batch.blocks && !options.ram_limit)
    return bad_input(
        "the number of blocks for keys and values is open: it follows from a limit of "
        "RAM, and there is none",
        "give --ram-limit, or the number of blocks");
  return std::nullopt;
}

// The number of blocks for which the limit has room, beside weights, buffers, the host's pool and
// that of windows.
Result<int> blocks_within(Bytes limit, const Model& model, const BatchLimits& limits,
                          KvTypes types) {
  const CpuBlockBytes bytes = cpu_block_bytes(model, types, limits.block_tokens);
  const double block = limits.window_blocks > 0 ? bytes.all : bytes.sum();
  const double states =
      double(state_bytes(model)) * double(limits.step_sequences + limits.checkpoints);
  const double taken = double(model_bytes(model)) + cpu_batch_buffer_bytes(model, limits) +
                       block * limits.host_blocks + bytes.window * limits.window_blocks + states;
  if (block <= 0 && taken <= limit.value) return int(kMaxKvBlocks);  // no layer has any
  const double room = (limit.value - taken) / block;
  if (room < 1)
    return Error{ErrorKind::kDoesNotFit,
                 fmt::format("a RAM limit of {} leaves no room for keys and values: weights, "
                             "buffers and the pool of moved blocks take {}, and a block {}",
                             text_gib(limit), text_gib(Bytes{taken}), text_gib(Bytes{block}))};
  return int(std::min(room, double(std::numeric_limits<int>::max())));
}

// The same pool with windows apart, if it is larger than that of windows.
std::optional<BatchLimits> with_windows_apart(BatchLimits limits, const Model& model,
                                              const ExecutorOptions& options,
                                              const BatchOptions& batch) {
  if (!batch.windows_apart || limits.host_blocks > 0) return std::nullopt;
  limits.checkpoints = batch.checkpoints;
  const TokenCount windows =
      window_pool_blocks(model.spec, limits.step_sequences, limits.step_tokens, limits.block_tokens,
                         limits.checkpoints);
  if (windows == 0 || windows > std::numeric_limits<int>::max()) return std::nullopt;
  limits.window_blocks = int(windows);
  limits.window = model.spec.window->tokens;
  if (!batch.blocks) {
    const auto blocks = blocks_within(*options.ram_limit, model, limits, options.kv_types);
    if (!blocks || *blocks <= limits.blocks) return std::nullopt;
    limits.blocks = *blocks;
  }
  return limits.window_blocks < limits.blocks ? std::optional(limits) : std::nullopt;
}

Made made_of(Result<Model> model, const ExecutorOptions& options, const BatchOptions& batch) {
  if (!model) return model.error();
  choose_rope_factors(*model, options.context);
  return make_cpu_batch_executor(std::make_shared<const Model>(*std::move(model)), options, batch);
}

}  // namespace

Made make_cpu_batch_executor(std::shared_ptr<const Model> model, const ExecutorOptions& options,
                             const BatchOptions& batch) {
  if (auto error = check(options, batch)) return *std::move(error);
  if (auto error = check_layers_on_cpu(*model)) return *std::move(error);
  BatchLimits limits{options.kv_block, batch.blocks.value_or(0), batch.host_blocks,
                     batch.step_tokens, batch.step_sequences};
  if (model->spec.recurrent) limits.checkpoints = batch.checkpoints;
  if (!batch.blocks) {
    const auto blocks = blocks_within(*options.ram_limit, *model, limits, options.kv_types);
    if (!blocks) return blocks.error();
    limits.blocks = *blocks;
  }
  limits = with_windows_apart(limits, *model, options, batch).value_or(limits);
  CpuOptions own{options.threads, options.kv_types, options.kv_block, batch.step_tokens};
  own.kv_memory = options.kv_memory;
  own.ram = Ram(options.ram_limit);
  own.stop = options.stop;
  return std::unique_ptr<BatchExecutor>(
      std::make_unique<CpuBatchExecutor>(std::move(model), own, limits));
}

Made make_cpu_batch_executor(const GgufFile& file, const ExecutorOptions& options,
                             const BatchOptions& batch) {
  if (auto error = check(options, batch)) return *std::move(error);  // before pages are read
  return made_of(load_for_cpu(file, options), options, batch);
}

Made make_synthetic_cpu_batch_executor(const ModelSpec& spec, const TensorTable& tensors,
                                       std::uint64_t seed, const ExecutorOptions& options,
                                       const BatchOptions& batch) {
  if (auto error = check(options, batch)) return *std::move(error);
  ThreadTeam team(options.threads, ThreadTeam::kSpinTime, options.stop);
  return made_of(make_synthetic_model(spec, tensors, seed, team), options, batch);
}

}  // namespace rigcast::engine
