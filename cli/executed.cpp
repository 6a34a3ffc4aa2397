#include "cli/executed.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>

#include "cli/interrupt.hpp"
#include "core/placement.hpp"
#include "engine/gguf/read_model.hpp"
#include "engine/runtime/cpu_executor.hpp"
#include "engine/runtime/cuda_executor.hpp"
#include "engine/runtime/load.hpp"
#include "engine/runtime/measured_report.hpp"
#include "engine/runtime/process_memory.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "engine/tokenizer/file_vocabulary.hpp"
#include "engine/tokenizer/stream_decoder.hpp"
#include "probe/dram_read.hpp"
#include "probe/host.hpp"

namespace rigcast::cli {
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

// One line on a terminal that the next one replaces.
void say(const std::string& text) {
  if (!::isatty(STDERR_FILENO)) return;
  std::fprintf(stderr, "\r\033[K%s", text.c_str());
  std::fflush(stderr);
}

// A model that is ready to run.
struct Loaded {
  std::unique_ptr<Executor> executor;
  std::optional<Tokenizer> tokenizer;
  Seconds load;
};

using MadeExecutor = Result<std::unique_ptr<Executor>>;

MadeExecutor cpu_executor(const Scenario& s, Result<Model> model) {
  if (!model) return model.error();
  return std::unique_ptr<Executor>(
      std::make_unique<CpuExecutor>(std::make_shared<const Model>(*std::move(model)),
                                    CpuOptions{s.settings.threads, s.kv.types, s.kv.block_tokens,
                                               TokenCount(s.settings.ubatch)}));
}

CudaOptions cuda_options(const Scenario& s, const ExecuteOptions& options) {
  CudaOptions out;
  out.kv_types = s.kv.types;
  out.kv_block = s.kv.block_tokens;
  out.ubatch = TokenCount(s.settings.ubatch);
  out.vram_limit = options.vram_limit;
  out.upload_threads = s.settings.threads;
  return out;
}

Result<Loaded> load_file(const Scenario& s, const ExecuteOptions& options) {
  const Stopwatch watch;
  auto file = GgufFile::open(*s.model_file);
  if (!file) return file.error();
  // A vocabulary of 100,000 tokens takes as long to sort as a gigabyte to read.
  auto tokenizer = std::async(std::launch::async, [&] { return file_tokenizer(*file); });
  auto executor = options.device == Device::kCuda
                      ? make_cuda_executor(*file, cuda_options(s, options))
                      : cpu_executor(s, load_with_pages(*file));
  auto vocabulary = tokenizer.get();
  if (!executor) return executor.error();
  if (!vocabulary) return vocabulary.error();
  return Loaded{*std::move(executor), *std::move(vocabulary), watch.elapsed()};
}

Result<Loaded> load_synthetic(const Scenario& s, const ExecuteOptions& options, Team& team) {
  say("making weights ...");
  const Stopwatch watch;
  auto executor =
      options.device == Device::kCuda
          ? make_synthetic_cuda_executor(s.model, s.tensors, options.seed, cuda_options(s, options))
          : cpu_executor(s, make_synthetic_model(s.model, s.tensors, options.seed, team));
  say("");
  if (!executor) return executor.error();
  return Loaded{*std::move(executor), std::nullopt, watch.elapsed()};
}

Result<Loaded> load(const Scenario& s, const ExecuteOptions& options, Team& team) {
  return options.synthetic ? load_synthetic(s, options, team) : load_file(s, options);
}

// What the workload asks, on weights that are loaded.
class Runner {
 public:
  Runner(Scenario& scenario, const ExecuteOptions& options) : s_(scenario), options_(options) {}

  std::optional<Error> prepare(const Loaded& loaded) {
    if (options_.prompt.empty()) {
      ids_ = random_prompt(s_.workload.prompt_tokens, s_.model.vocabulary, options_.seed);
      if (loaded.tokenizer) text_ = loaded.tokenizer->decode(ids_);
      return std::nullopt;
    }
    if (!loaded.tokenizer)
      return bad_input("--prompt: there is no vocabulary to read text with",
                       options_.synthetic ? "synthetic weights have none: --prompt-tokens N"
                                          : "the file has none: --prompt-tokens N");
    text_ = options_.prompt;
    ids_ = loaded.tokenizer->encode(text_, {true, true});
    s_.workload.prompt_tokens = TokenCount(ids_.size());
    if (s_.workload.last_position() > s_.workload.context)
      return bad_input(
          fmt::format("--prompt: {} tokens and an output of {} exceed the context of {}",
                      ids_.size(), s_.workload.output_tokens, s_.workload.context),
          "--context N, --output-tokens N");
    return std::nullopt;
  }

  Seconds tokenize(const Loaded& loaded) const {
    if (!loaded.tokenizer || text_.empty()) return {};
    const Stopwatch watch;
    const auto ids = loaded.tokenizer->encode(text_, {true, true});
    return ids.empty() ? Seconds{} : watch.elapsed();
  }

  RequestTimes request(Executor& executor, TokenCount output, Recorder* recorder = nullptr) const {
    executor.truncate(0);
    executor.fill(s_.workload.depth);
    Sampler sampler(options_.sampling);
    return run_request(
        executor, ids_, output, sampler, [](std::int32_t) { return !interrupted(); }, recorder);
  }

  // Streams what it decodes.
  RequestTimes answer(const Loaded& loaded) const {
    std::FILE* out = options_.text_to_stderr ? stderr : stdout;
    const auto put = [&](const std::string& text) {
      std::fwrite(text.data(), 1, text.size(), out);
      std::fflush(out);
    };
    const Tokenizer& tokenizer = *loaded.tokenizer;
    StreamDecoder stream(tokenizer, {.special = false, .continues = true});
    Sampler sampler(options_.sampling);
    Executor& executor = *loaded.executor;
    put(text_);
    executor.fill(s_.workload.depth);
    auto times =
        run_request(executor, ids_, s_.workload.output_tokens, sampler, [&](std::int32_t id) {
          if (tokenizer.ends_generation(id)) return false;
          put(stream.push(id));
          return !interrupted();
        });
    put(stream.finish() + "\n\n");
    return times;
  }

  TokenCount output() const { return s_.workload.output_tokens; }

 private:
  Scenario& s_;
  const ExecuteOptions& options_;
  std::vector<std::int32_t> ids_;
  std::string text_;
};

DeviceMemory host_memory(const Scenario& s, const Executor& executor) {
  DeviceMemory host{"host", Tier::kRam, {}, {}, {}, {}, {}, {}, {}};
  host.weights = Bytes{double(s.tensors.bytes())};
  for (const DeviceMemory& gpu : executor.gpus()) host.weights -= gpu.weights;
  host.kv = executor.host_cache();
  host.overhead = Bytes{std::max(0.0, (peak_memory() - host.weights - host.kv).value)};
  host.capacity = probe::read_host().memory;
  return host;
}

// A start from the file, cold or warm, to the first token. Nothing of it stays.
Result<StartTimes> time_start(const Scenario& s, const ExecuteOptions& options,
                              const Runner& runner, bool cold) {
  say(cold ? "cold start ..." : "warm start ...");
  if (cold)
    if (auto error = drop_from_page_cache(*s.model_file)) return *error;
  auto loaded = load_file(s, options);
  if (!loaded) return loaded.error();
  const Seconds tokenize = runner.tokenize(*loaded);
  return StartTimes{loaded->load, tokenize, runner.request(*loaded->executor, 1)};
}

double slowdown(const MeasuredRuns& runs, const RequestTimes& traced) {
  const auto total = [](const RequestTimes& r) { return r.tokens.at_s.back(); };
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

}  // namespace

MadeExecutor make_executor(const Scenario& s, const ExecuteOptions& options) {
  Team team(s.settings.threads);
  auto loaded = load(s, options, team);
  if (!loaded) return loaded.error();
  return std::move(loaded->executor);
}

Result<Executed> execute(std::shared_ptr<Scenario> scenario, const ExecuteOptions& options) {
  Scenario& s = *scenario;
  const OnInterrupt on_interrupt;
  Team team(s.settings.threads);
  Runner runner(s, options);
  MeasuredRuns runs;
  Executed out;
  const bool timed = options.prompt.empty();
  const bool from_file = s.model_file.has_value();
  if (timed && from_file) {
    if (auto error = runner.prepare({})) return *error;
    for (const bool cold : {true, false}) {
      auto start = time_start(s, options, runner, cold);
      if (!start) return start.error();
      (cold ? runs.cold : runs.warm) = *start;
    }
  }
  reset_peak_memory();
  auto loaded = load(s, options, team);
  if (!loaded) return loaded.error();
  if (auto error = runner.prepare(*loaded)) return *error;
  Executor& executor = *loaded->executor;
  runs.tokenize = runner.tokenize(*loaded);
  if (timed) {
    runner.request(executor, std::min<TokenCount>(2, runner.output()));  // buffers, clocks
    for (int i = 0; i < options.repeat && !interrupted(); ++i) {
      say(fmt::format("run {} of {} ...", i + 1, options.repeat));
      runs.resident.push_back(runner.request(executor, runner.output()));
    }
  } else {
    runs.resident.push_back(runner.answer(*loaded));
    runs.warm = StartTimes{loaded->load, runs.tokenize, runs.resident.front()};
  }
  runs.gpus = executor.gpus();
  runs.host = host_memory(s, executor);
  if (options.trace) {
    Recorder recorder;
    out.traced_slowdown = slowdown(runs, runner.request(executor, runner.output(), &recorder));
    out.events = recorder.events();
  }
  if (timed) say("reading memory ...");
  if (runs.gpus.empty()) runs.dram_ceiling = BytesPerSecond{probe::dram_read(team).median};
  say("");
  const int gpu_layers = options.device == Device::kCuda ? s.model.layers + 1 : 0;
  out.report = measured_report(scenario, place(s, gpu_layers), runs);
  if (interrupted())
    out.report.warnings.push_back("interrupted: fewer runs or tokens than asked for");
  out.busy = busy_text(runs);
  if (out.busy) out.report.warnings.push_back(*out.busy);
  if (out.traced_slowdown)
    out.report.warnings.push_back(
        fmt::format("the traced run took {:.1f} % longer than the fastest timed one",
                    100 * *out.traced_slowdown));
  return out;
}

}  // namespace rigcast::cli
