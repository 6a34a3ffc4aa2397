#include "validation/runs/measure.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <thread>

#include "core/files/interrupt.hpp"
#include "core/scenario/placement.hpp"
#include "engine/backends/backend.hpp"
#include "engine/chat/answer_text.hpp"
#include "engine/chat/chat_prompt.hpp"
#include "engine/load/load.hpp"
#include "engine/memory/lock_pages.hpp"
#include "engine/memory/process_memory.hpp"
#include "engine/placement/host_placement.hpp"
#include "engine/run/measured_report.hpp"
#include "engine/threads/thread_team.hpp"
#include "engine/tokenizer/file_vocabulary.hpp"
#include "probe/dram_read.hpp"
#include "probe/gpu/vram_rates.hpp"
#include "probe/host.hpp"
#include "report/terminal/progress_line.hpp"
#include "validation/runs/local_machine.hpp"
#include "validation/runs/pressure/memory_group.hpp"
#include "validation/runs/pressure/other_programs.hpp"
#include "validation/runs/prompt_length.hpp"

namespace rigcast::validation {
namespace {

using namespace engine;

class Stopwatch {
 public:
  Seconds elapsed() const {
    return Seconds{std::chrono::duration<double>(Clock::now() - begin_).count()};
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin_ = Clock::now();
};

// A model that is ready to run.
struct Loaded {
  std::unique_ptr<Executor> executor;
  std::optional<Tokenizer> tokenizer;
  Seconds load;
};

using MadeExecutor = Result<std::unique_ptr<Executor>>;

// What may leave the GPU, by the policy. How much that is follows from the memory that the engine
// has left, not from a forecast.
void set_cache(const Scenario& s, ExecutorOptions& out) {
  out.cold_type = s.kv.cold_type;
  out.kv_eviction = kv_eviction_of(s);
  if (s.kv.policy == KvPolicy::kCombined) out.host_share.reset();  // measured
}

// Sets the parts of GPU and host for a placement.
std::optional<Error> set_gpu(const Scenario& s, const ExecuteOptions& options,
                             ExecutorOptions& out) {
  auto placement = placement_here(s, options);
  if (!placement) return placement.error();
  set_cache(s, out);
  if (HostPlacement(s.model, *placement).any()) out.placement = *std::move(placement);
  out.vram_limit = options.vram_limit;
  // All cores is the default, not a choice: one must be free for the thread that queues copies.
  const bool all_cores = s.settings.threads >= int(std::thread::hardware_concurrency());
  out.upload_threads = all_cores ? 0 : s.settings.threads;
  out.keep_going = [] { return !interrupted(); };
  return std::nullopt;
}

Allocator locked_pages(const char* what) {
  return [what](std::size_t bytes) {
    auto pages = make_large_pages(bytes);
    lock_pages(pages.get(), bytes, what);
    return pages;
  };
}

void lock_weights(const GgufFile& file) {
  for (const TensorInfo& t : file.tensors()) lock_pages(t.data, std::size_t(t.bytes), "weights");
}

Result<ExecutorOptions> executor_options(const Scenario& s, const ExecuteOptions& options) {
  ExecutorOptions how;
  how.kv_types = s.kv.types;
  how.kv_block = s.kv.block_tokens;
  how.threads = s.settings.threads;
  how.ubatch = TokenCount(s.settings.ubatch);
  how.context = s.workload.context;
  how.ram_limit = options.ram_limit;
  how.stop = stop_flag();
  // Where memory does not suffice, pages that are read ahead of their use leave before it, and
  // those that stay are taken for ones in frequent use.
  if (s.memory) how.weights = s.memory->in_order ? WeightPages::kInOrder : WeightPages::kLazy;
  if (!s.settings.mmap) how.weights = WeightPages::kCopied;
  if (s.memory && s.memory->locks_weights()) how.weight_memory = locked_pages("weights");
  if (s.memory && s.memory->locks_kv()) how.kv_memory = locked_pages("KV cache");
  if (!s.settings.op_offload) how.prefill_offload = PrefillOffloadPolicy::kHost;
  if (options.backend->is_gpu())
    if (auto error = set_gpu(s, options, how)) return *error;
  return how;
}

// Makes an executor for a file's weights, or for random ones.
MadeExecutor executor_of(const Scenario& s, const ExecuteOptions& options, const GgufFile* file) {
  const auto how = executor_options(s, options);
  if (!how) return how.error();
  const EngineBackend& backend = *options.backend;
  return file ? backend.from_file(*file, *how)
              : backend.synthetic(s.model, s.tensors, options.seed, *how);
}

Result<std::unique_ptr<BatchExecutor>> batch_executor_of(const Scenario& s,
                                                         const ExecuteOptions& options) {
  auto how = executor_options(s, options);
  if (!how) return how.error();
  how->kv_block = s.scheduler->block_tokens;
  const EngineBackend& backend = *options.backend;
  if (auto error = check_batch(backend, *how)) return *error;
  const BatchOptions batch = batch_options(s);
  if (options.synthetic) {
    show_progress("making weights ...");
    auto executor = backend.batch_synthetic(s.model, s.tensors, options.seed, *how, batch);
    show_progress("");
    return executor;
  }
  auto file = GgufFile::open(*s.model_file);
  if (!file) return file.error();
  return backend.batch_from_file(*file, *how, batch);
}

Result<Loaded> load_file(const Scenario& s, const ExecuteOptions& options) {
  const Stopwatch watch;
  auto file = GgufFile::open(*s.model_file);
  if (!file) return file.error();
  if (s.memory && s.memory->locks_weights() && s.settings.mmap) lock_weights(*file);
  // A vocabulary of 100,000 tokens takes as long to sort as a gigabyte to read.
  auto vocabulary = std::async(std::launch::async, [&] { return file_tokenizer(*file); });
  auto executor = executor_of(s, options, &*file);
  Result<std::optional<Tokenizer>> read = vocabulary.get();
  if (!executor) return executor.error();
  // Runs on token ids need no vocabulary, whatever the file's is.
  if (!read && options.prompt) return read.error();
  return Loaded{*std::move(executor), read ? *std::move(read) : std::nullopt, watch.elapsed()};
}

Result<Loaded> load_synthetic(const Scenario& s, const ExecuteOptions& options) {
  show_progress("making weights ...");
  const Stopwatch watch;
  auto executor = executor_of(s, options, nullptr);
  show_progress("");
  if (!executor) return executor.error();
  return Loaded{*std::move(executor), std::nullopt, watch.elapsed()};
}

Result<Loaded> load(const Scenario& s, const ExecuteOptions& options) {
  return options.synthetic ? load_synthetic(s, options) : load_file(s, options);
}

// What the kernel read from the first quarter of an answer on, when memory has settled.
class CountedTokens {
 public:
  explicit CountedTokens(TokenCount output) : first_(std::max<TokenCount>(1, output / 4)) {}

  void add_token() {
    if (++tokens_ == first_) before_ = paged_in();
    if (tokens_ > first_) after_ = paged_in();
  }
  std::optional<TokenPaging> per_token() const {
    if (!before_ || !after_) return std::nullopt;
    const double tokens = double(tokens_ - first_);
    TokenPaging out;
    out.disk = (after_->files - before_->files) / tokens;
    out.swap = (after_->swapped - before_->swapped) / tokens;
    return out;
  }

 private:
  TokenCount first_, tokens_ = 0;
  std::optional<PagedIn> before_, after_;
};

// Runs the workload on loaded weights.
class Runner {
 public:
  Runner(Scenario& scenario, const ExecuteOptions& options) : s_(scenario), options_(options) {}

  std::optional<Error> prepare(const Loaded& loaded) {
    if (!options_.prompt) {
      ids_ = random_prompt(s_.workload.prompt_tokens, s_.model.vocabulary, options_.seed);
      if (loaded.tokenizer) text_ = loaded.tokenizer->decode(ids_);
      return std::nullopt;
    }
    if (!loaded.tokenizer)
      return bad_input("--prompt: there is no vocabulary to read text with",
                       options_.synthetic ? "synthetic weights have none: --prompt-tokens N"
                                          : "the file has none: --prompt-tokens N");
    text_ = *options_.prompt;
    auto ids = prompt_ids(*loaded.tokenizer, options_);
    if (!ids) return ids.error();
    ids_ = *std::move(ids);
    if (ids_.empty()) return bad_input("--prompt: the vocabulary has no token for any of the text");
    return set_prompt_length(s_.workload, TokenCount(ids_.size()), options_);
  }

  Seconds tokenize(const Loaded& loaded) const {
    if (!loaded.tokenizer || text_.empty()) return {};
    const Stopwatch watch;
    const auto ids = prompt_ids(*loaded.tokenizer, text_);
    return ids.empty() ? Seconds{} : watch.elapsed();
  }

  RequestTimes request(Executor& executor, TokenCount output, Recorder* recorder = nullptr) const {
    executor.truncate(0);
    executor.fill(s_.workload.depth);
    Sampler sampler(options_.sampling);
    return run_request(
        executor, ids_, output, sampler, [](std::int32_t) { return !interrupted(); }, recorder);
  }

  // The same under pressure.
  RequestTimes counted_request(Executor& executor, std::vector<TokenPaging>& paging) const {
    executor.truncate(0);
    executor.fill(s_.workload.depth);
    Sampler sampler(options_.sampling);
    CountedTokens counted(s_.workload.output_tokens);
    RequestTimes times =
        run_request(executor, ids_, s_.workload.output_tokens, sampler, [&](std::int32_t) {
          counted.add_token();
          return !interrupted();
        });
    if (const auto per_token = counted.per_token()) paging.push_back(*per_token);
    return times;
  }

  // Streams what it decodes.
  RequestTimes answer(const Loaded& loaded) const {
    std::FILE* out = options_.text_to_stderr ? stderr : stdout;
    const auto put = [&](const std::string& text) {
      std::fwrite(text.data(), 1, text.size(), out);
      std::fflush(out);
    };
    const Tokenizer& tokenizer = *loaded.tokenizer;
    AnswerText text(tokenizer, answer_options(tokenizer));
    std::vector<TokenId> ends;
    if (options_.chat) ends = turn_ends(options_.chat->format, tokenizer);
    bool reasons = false;
    const auto put_part = [&](const AnswerPart& part) {
      if (reasons && !part.text.empty()) put("\n\n");
      reasons = !part.reasoning.empty() || (reasons && part.text.empty());
      put(part.reasoning + part.text);
    };
    Sampler sampler(options_.sampling);
    Executor& executor = *loaded.executor;
    if (!options_.chat) put(text_);
    executor.fill(s_.workload.depth);
    auto times =
        run_request(executor, ids_, s_.workload.output_tokens, sampler, [&](std::int32_t id) {
          if (tokenizer.ends_generation(id) || std::ranges::find(ends, id) != ends.end())
            return false;
          put_part(text.push(id));
          return !interrupted();
        });
    put_part(text.finish());
    put("\n\n");
    return times;
  }

  TokenCount output() const { return s_.workload.output_tokens; }

 private:
  AnswerOptions answer_options(const Tokenizer& tokenizer) const {
    if (!options_.chat) return {.continues = true};
    return {.harmony = options_.chat->format == ChatFormat::kGptOss,
            .continues = !tokenizer.is_control(ids_.back())};
  }

  Scenario& s_;
  const ExecuteOptions& options_;
  std::vector<std::int32_t> ids_;
  std::string text_;
};

// Nothing was timed that could be told.
Error stopped() {
  return {ErrorKind::kMachine,
          "interrupted before a run was over",
          "nothing of it is kept: the same command begins it anew",
          {}};
}

// Memory of the process beyond the engine's accounts is not part of a limit.
DeviceMemory memory_of_host(DeviceMemory host) {
  if (host.capacity.value > 0) return host;
  host.overhead = std::max(Bytes{}, peak_memory() - host.needed());
  host.capacity = probe::read_host().memory;
  return host;
}

// A start from the file, cold or warm, to the first token. Nothing of it stays.
Result<StartTimes> time_start(const Scenario& s, const ExecuteOptions& options,
                              const Runner& runner, bool cold) {
  show_progress(cold ? "cold start ..." : "warm start ...");
  // A GPU's weights are read past the page cache, so that the cold start has left nothing there.
  if (auto error = cold ? drop_from_page_cache(*s.model_file, stop_flag())
                        : bring_into_page_cache(*s.model_file, stop_flag()))
    return *error;
  auto loaded = load_file(s, options);
  if (!loaded) return interrupted() ? stopped() : loaded.error();
  const Seconds tokenize = runner.tokenize(*loaded);
  return StartTimes{loaded->load, tokenize, runner.request(*loaded->executor, 1)};
}

// Up to the last token that was traced.
double slowdown(const MeasuredRuns& runs, const RequestTimes& traced) {
  const std::size_t last = traced.tokens.at_s.size() - 1;
  const auto total = [&](const RequestTimes& r) {
    return r.tokens.at_s[std::min(last, r.tokens.at_s.size() - 1)];
  };
  double best = total(runs.resident.front());
  for (const RequestTimes& r : runs.resident) best = std::min(best, total(r));
  return total(traced) / best - 1;
}

// Threads spin at barriers, so they use all of the time that they get.
std::optional<std::string> busy_text(const MeasuredRuns& runs) {
  constexpr double kUndisturbed = 0.93;  // the threads sleep while one samples
  double share = 1;
  for (const RequestTimes& r : runs.resident) share = std::min(share, r.cpu_share);
  if (share >= kUndisturbed) return std::nullopt;
  return fmt::format("the machine was busy: threads waited for a processor {:.0f} % of the time",
                     100 * (1 - share));
}

std::optional<Error> time_starts(const Scenario& s, const ExecuteOptions& options, Runner& runner,
                                 MeasuredRuns& runs) {
  if (auto error = runner.prepare({})) return *error;
  for (const bool cold : {true, false}) {
    auto start = time_start(s, options, runner, cold);
    if (!start) return start.error();
    if (interrupted()) return stopped();
    (cold ? runs.cold : runs.warm) = *start;
  }
  return std::nullopt;
}

// Under pressure every page is to count to the group: those that are in memory already do not.
std::optional<Error> enter_group(const Scenario& s, const ExecuteOptions& options,
                                 std::unique_ptr<MemoryGroup>& group) {
  if (options.backend->is_gpu())
    return bad_input("[memory]: runs under pressure are the CPU's", "--device cpu");
  if (options.synthetic)
    return bad_input("[memory]: weights that can be read again are a file's", "--weights FILE");
  if (auto error = check_pressure(s.memory, true)) return error;
  if (!s.memory->limit) return std::nullopt;
  if (s.settings.neighbours > 0)
    return bad_input("neighbours would take memory within the limit, which is not forecast",
                     "run one or the other");
  if (auto error = drop_from_page_cache(*s.model_file, stop_flag())) return error;
  auto entered = MemoryGroup::enter(*s.memory);
  if (!entered) return entered.error();
  group = *std::move(entered);
  return std::nullopt;
}

// A run that was cut short is no median of anything; as the only one it tells what there is.
std::optional<Error> time_resident(const Loaded& loaded, const ExecuteOptions& options,
                                   const Runner& runner, bool pressed, MeasuredRuns& runs) {
  Executor& executor = *loaded.executor;
  runs.tokenize = runner.tokenize(loaded);
  if (options.prompt) {
    runs.resident.push_back(runner.answer(loaded));
    runs.warm = StartTimes{loaded.load, runs.tokenize, runs.resident.front()};
    return std::nullopt;
  }
  try {
    runner.request(executor, std::min<TokenCount>(2, runner.output()));  // buffers, clocks
    for (int i = 0; i < options.repeat && !interrupted(); ++i) {
      show_progress(fmt::format("run {} of {} ...", i + 1, options.repeat));
      RequestTimes times = pressed ? runner.counted_request(executor, runs.paging)
                                   : runner.request(executor, runner.output());
      const bool tells = runs.resident.empty() && times.ids.size() > 1;
      if (!interrupted() || tells) runs.resident.push_back(std::move(times));
    }
  } catch (const Interrupted&) {
  }
  return runs.resident.empty() ? std::optional(stopped()) : std::nullopt;
}

void trace_one_more(Executor& executor, const Runner& runner, const MeasuredRuns& runs,
                    const ExecuteOptions& options, Executed& out) try {
  if (interrupted()) return;
  show_progress("traced run ...");
  Recorder recorder;
  const TokenCount tokens =
      std::min(runner.output(), options.traced_tokens.value_or(runner.output()));
  const RequestTimes traced = runner.request(executor, tokens, &recorder);
  if (interrupted()) return;
  out.traced_slowdown = slowdown(runs, traced);
  out.events = recorder.events();
} catch (const Interrupted&) {
}

// Measures the memories that decode reads: the GPU's if there is one, the host's if it computes a
// part. It takes seconds, and is skipped if the user waits for an answer.
void measure_memory(const ExecuteOptions& options, const Placement& placement, const Scenario& s,
                    ThreadTeam& team, MeasuredRuns& runs) try {
  if (options.prompt || interrupted()) return;
  const bool gpu = options.backend->is_gpu();
  if (gpu) {
    show_progress("reading the GPU's memory ...");
    runs.vram_ceiling = options.vram_ceiling ? *options.vram_ceiling
                                             : BytesPerSecond{probe::vram_read(stop_flag()).median};
  }
  if (gpu && !HostPlacement(s.model, placement).any()) return;
  show_progress("reading memory ...");
  runs.dram_ceiling = BytesPerSecond{probe::dram_read(team).median};
} catch (const Interrupted&) {
}

// A text on what is missing because of the interruption.
std::string interrupted_text(const Executed& out, const ExecuteOptions& options,
                             const MeasuredRuns& runs) {
  const TokenCount tokens = out.report.scenario->workload.output_tokens;
  const bool cut = std::ranges::any_of(
      runs.resident, [&](const RequestTimes& run) { return TokenCount(run.ids.size()) < tokens; });
  std::vector<std::string_view> missing;
  if (cut || runs.resident.size() < std::size_t(options.prompt ? 1 : options.repeat))
    missing.push_back("fewer runs or tokens than asked for");
  if (options.trace && !out.traced_slowdown) missing.push_back("no trace");
  if (!options.prompt && out.report.measured->ceiling.value <= 0)
    missing.push_back("the memory's own rate was not measured");
  return fmt::format("interrupted: {}", fmt::join(missing, ", "));
}

void add_warnings(Executed& out, const ExecuteOptions& options, const MeasuredRuns& runs) {
  std::vector<std::string>& warnings = out.report.warnings;
  const Scenario& s = *out.report.scenario;
  const int layers = out.report.placement.gpu_layers;
  if (options.backend->is_gpu() && !s.placement.gpu_layers && layers <= s.model.layers)
    warnings.push_back(layers == s.model.layers
                           ? "the head does not fit into the GPU's memory: it is on the host"
                           : fmt::format("{} of {} layers fit into the GPU's memory: the others "
                                         "and the head are on the host",
                                         layers, s.model.layers));
  if (auto warning = past_training(s.model, s.workload.last_position()))
    warnings.push_back(*std::move(warning));
  if (interrupted()) warnings.push_back(interrupted_text(out, options, runs));
  if (out.busy) warnings.push_back(*out.busy);
  if (out.traced_slowdown)
    warnings.push_back(fmt::format("the traced run took {:.1f} % longer than the fastest timed one",
                                   100 * *out.traced_slowdown));
}

}  // namespace

std::optional<std::string> past_training(const ModelSpec& model, TokenCount positions) {
  if (positions <= model.context) return std::nullopt;
  return fmt::format(
      "{} positions, and the model was trained on {} positions: what it says past "
      "them means nothing, its speed does",
      positions, model.context);
}

MadeExecutor make_executor(const Scenario& s, const ExecuteOptions& options) {
  auto loaded = load(s, options);
  if (!loaded) return loaded.error();
  return std::move(loaded->executor);
}

Result<std::unique_ptr<BatchExecutor>> make_batch_executor(const Scenario& s,
                                                           const ExecuteOptions& options,
                                                           const BatchOptions& batch,
                                                           const GgufFile& file) {
  const EngineBackend& backend = *options.backend;
  const auto how = executor_options(s, options);
  if (!how) return how.error();
  if (auto error = check_batch(backend, *how)) return *error;
  return backend.batch_from_file(file, *how, batch);
}

Result<ExecutedLoad> execute_load(std::shared_ptr<const Scenario> scenario,
                                  const ExecuteOptions& options) {
  const OnInterrupt on_interrupt;
  const auto placement = placement_here(*scenario, options);
  if (!placement) return placement.error();
  reset_peak_memory();
  const auto executor = batch_executor_of(*scenario, options);
  if (!executor) return executor.error();
  auto out = serve_load(std::move(scenario), **executor, {options.seed, options.sampling});
  if (!out) return out.error();
  out->report.placement = *placement;
  out->report.memory.devices = (*executor)->gpus();
  out->report.memory.devices.push_back(memory_of_host((*executor)->host()));
  return out;
}

Result<Executed> execute(std::shared_ptr<Scenario> scenario, const ExecuteOptions& options) try {
  Scenario& s = *scenario;
  const OnInterrupt on_interrupt;
  if (auto error = read_prompt_length(s, options)) return *error;
  const auto placement = placement_here(s, options);
  if (!placement) return placement.error();
  ThreadTeam team(s.settings.threads, ThreadTeam::kSpinTime, stop_flag());
  Runner runner(s, options);
  MeasuredRuns runs;
  Executed out;
  if (!options.prompt && s.model_file && !s.memory)
    if (auto error = time_starts(s, options, runner, runs)) return *error;
  std::unique_ptr<MemoryGroup> group;
  if (s.memory)
    if (auto error = enter_group(s, options, group)) return *error;
  auto others = OtherPrograms::begin(s.settings.neighbours, s.memory, s.model_file);
  if (!others) return others.error();
  reset_peak_memory();
  auto loaded = load(s, options);
  if (!loaded) return interrupted() ? stopped() : loaded.error();
  if (group)
    if (auto error = drop_from_page_cache(*s.model_file, stop_flag())) return *error;
  if (auto error = runner.prepare(*loaded)) return *error;
  others->start();
  if (auto error = time_resident(*loaded, options, runner, bool(s.memory), runs)) return *error;
  const std::optional<std::string> beside = others->text();
  *others = {};
  runs.gpus = loaded->executor->gpus();
  runs.host = memory_of_host(loaded->executor->host());
  if (options.trace) trace_one_more(*loaded->executor, runner, runs, options, out);
  loaded->executor.reset();  // its memory is free for the measurement
  group.reset();
  measure_memory(options, *placement, s, team, runs);
  show_progress("");
  out.report = measured_report(scenario, *placement, runs);
  out.busy = busy_text(runs);
  if (beside) out.report.warnings.push_back(*beside);
  add_warnings(out, options, runs);
  return out;
} catch (const Interrupted&) {
  return stopped();
}

}  // namespace rigcast::validation
