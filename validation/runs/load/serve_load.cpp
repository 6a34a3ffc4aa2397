#include "validation/runs/load/serve_load.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "core/files/interrupt.hpp"
#include "core/model/kv_bytes.hpp"
#include "core/scenario/engine_sizes.hpp"
#include "core/serving/pool_tokens.hpp"
#include "core/text/unit_text.hpp"
#include "engine/serve/kv_tiers.hpp"
#include "engine/serve/serving_loop.hpp"
#include "load/offered_load.hpp"
#include "report/serving/request_csv.hpp"
#include "report/serving/serving_figures.hpp"
#include "report/terminal/progress_line.hpp"
#include "validation/runs/load/load_prompts.hpp"
#include "validation/runs/load/load_recorder.hpp"
#include "validation/runs/load/replay_load.hpp"

namespace rigcast::validation {
namespace {

Bytes block_bytes(const Scenario& s) {
  return Bytes{kv_bytes_per_token(s.model, s.kv.types) * double(s.scheduler->block_tokens)};
}

void add_warnings(const ReplayedLoad& replayed, const LoadRecorder& recorder, Report& report) {
  const std::size_t failed = recorder.failed();
  if (failed > 0 || !replayed.failure.empty())
    report.warnings.push_back(
        fmt::format("{} of {} requests failed, and are counted in no figure; the first one: {}",
                    text_count(std::int64_t(failed)), text_count(std::int64_t(replayed.asked)),
                    replayed.failure));
  if (!recorder.disk_failure().empty())
    report.warnings.push_back(
        fmt::format("the cache on disk failed, and prompts were computed anew from then on: {}",
                    recorder.disk_failure()));
  if (replayed.interrupted)
    report.warnings.push_back(
        fmt::format("interrupted: figures are of the {} requests that had their answer by then",
                    text_count(std::int64_t(report.serving->figures.requests))));
}

// What was served, in figures of the executor's pools.
ServedLoad served_load(const Scenario& s, const ServingRun& run, const engine::BatchLimits& limits,
                       std::size_t shortened) {
  const TokenCount tokens = TokenCount(limits.blocks) * limits.block_tokens;
  return {.run = run,
          .cache_tokens = tokens,
          .whole_cache_tokens = tokens,
          .cache_units = std::size_t(limits.blocks),
          .ram = block_bytes(s) * double(limits.host_blocks),
          .disk = s.scheduler->disk_cache,
          .is_open = s.load->is_open() && s.load->arrival != ArrivalProcess::kBurst,
          .shortened = shortened,
          .slo = s.load->slo};
}

std::optional<Error> check(const Scenario& s) {
  if (s.placement.groups.data > 1)
    return bad_input("the engine runs as one, not as several that share the load",
                     "leave out --data-parallel");
  return engine::Scheduler::check(*s.scheduler);
}

RestoreFigures restore_figures(const engine::RestoreRates& rates, std::int64_t computed_anew) {
  return {.from_ram = rates.copy_rate(engine::KvTier::kHost),
          .from_disk = rates.copy_rate(engine::KvTier::kDisk),
          .prompt_tokens_per_s = rates.tokens_per_s().value_or(0),
          .computed_anew = computed_anew};
}

// Serves the load with the executor.
Result<ReplayedLoad> serve(const Scenario& s, const LoadOptions& options,
                           engine::BatchExecutor& executor, const engine::KvTiers& tiers,
                           OfferedLoad& offered, LoadRecorder& recorder,
                           std::optional<RestoreFigures>& restore) {
  const auto server = engine::ServingLoop::start(
      executor, {*s.scheduler, s.workload.context, tiers.disk.get(), tiers.rates}, &recorder);
  if (!server) return server.error();
  LoadPrompts prompts(s.model.vocabulary, options.seed);
  ReplayOptions how;
  how.sampling = options.sampling;
  how.keep_going = [] { return !interrupted(); };
  how.progress = [](std::size_t asked) {
    show_progress(fmt::format("{} requests asked ...", asked));
  };
  ReplayedLoad replayed = replay_load(offered, **server, prompts, recorder, recorder.start(), how);
  (*server)->stop();
  show_progress("");
  if (tiers.decides) restore = restore_figures((*server)->rates(), recorder.computed_anew());
  return replayed;
}

}  // namespace

engine::BatchOptions batch_options(const Scenario& s) {
  const SchedulerPolicy& policy = *s.scheduler;
  engine::BatchOptions batch;
  const PoolTokens pool = pool_tokens(s);
  batch.blocks = int(pool.most / policy.block_tokens);
  batch.least_blocks = int(pool.least / policy.block_tokens);
  if (policy.prefix_cache) batch.host_blocks = int(std::floor(policy.ram_cache / block_bytes(s)));
  batch.step_tokens = policy.step_tokens;
  batch.step_sequences = int(policy.sequences);
  if (policy.prefix_cache) batch.checkpoints = server_checkpoints(s.model, policy.sequences);
  batch.windows_apart = policy.ram_cache.value <= 0 && policy.disk_cache.value <= 0;
  return batch;
}

Result<ExecutedLoad> serve_load(std::shared_ptr<const Scenario> scenario,
                                engine::BatchExecutor& executor, const LoadOptions& options) {
  const Scenario& s = *scenario;
  RIGCAST_ASSERT(s.load && s.scheduler);
  if (auto error = check(s)) return *error;
  const auto offered = offer(*s.load, s.workload.context);
  if (!offered) return offered.error();
  executor.warm_up();  // no request of the load waits for that
  const auto tiers = engine::make_kv_tiers(executor, *s.scheduler);
  if (!tiers) return tiers.error();
  LoadRecorder recorder(std::chrono::steady_clock::now(), block_bytes(s));
  std::optional<RestoreFigures> restore;
  const auto replayed = serve(s, options, executor, *tiers, **offered, recorder, restore);
  if (!replayed) return replayed.error();
  ServingRun run = recorder.run();
  run.restore = restore;
  if (run.load.empty()) {
    const char* why = replayed->interrupted ? "interrupted before a request had its answer"
                                            : "no request had its answer";
    return Error{ErrorKind::kMachine, replayed->failure.empty() ? why : replayed->failure};
  }
  const ServedLoad served = served_load(s, run, executor.limits(), (*offered)->shortened());
  ExecutedLoad out;
  out.report.origin = Origin::kMeasured;
  out.report.serving = ServingReport{text(*s.load), figures_of(served), {}, {}};
  out.report.max_context = s.workload.context;
  out.report.measured = MeasuredFigures{.runs = 1, .read = {}, .ceiling = {}};
  add_warnings(*replayed, recorder, out.report);
  out.report.scenario = std::move(scenario);
  out.requests = request_csv(served);
  return out;
}

}  // namespace rigcast::validation
