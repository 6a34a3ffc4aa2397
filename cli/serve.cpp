#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <thread>

#include "cli/serve/served_cache.hpp"
#include "cli/shared/chat_template.hpp"
#include "cli/shared/device_names.hpp"
#include "cli/shared/flag_checks.hpp"
#include "cli/shared/output.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/verbs.hpp"
#include "core/files/interrupt.hpp"
#include "core/scenario/scenario.hpp"
#include "core/text/unit_text.hpp"
#include "engine/backends/backend.hpp"
#include "engine/serve/http/server.hpp"
#include "engine/serve/kv_tiers.hpp"
#include "engine/serve/serving_loop.hpp"
#include "engine/tokenizer/file_vocabulary.hpp"
#include "report/terminal/progress_line.hpp"
#include "report/terminal/text_style.hpp"
#include "validation/runs/local_machine.hpp"
#include "validation/runs/measure.hpp"

namespace rigcast::cli {
namespace {

constexpr TokenCount kDefaultContext = 8192;

struct Options {
  ScenarioFlags flags;
  validation::ExecuteOptions execute;
  std::string weights;
  std::string device = "cpu";
  std::string alias;
  std::string chat_template;
  engine::HttpOptions http;
  int parallel = 16;
  int max_waiting = 256;
  TokenCount kv_tokens = 0;
};

// Tells that the cache on disk is gone.
struct DiskWatch final : engine::ServingObserver {
  void lost_disk(const std::string& why) override {
    fmt::print(stderr,
               "rigcast: the cache on disk failed, and prompts are computed anew from now on: {}\n",
               why);
  }
};

// The keys of [scheduler] that a server follows are taken out of it.
Result<SchedulerPolicy> take_kv_disk(TomlDocument& document) {
  SchedulerPolicy policy;
  policy.restore = KvRestore::kAuto;
  const TomlTable scheduler = document.root().table("scheduler");
  read_kv_disk(scheduler, policy);
  refuse_idle_restore(scheduler, policy);
  if (auto error = document.error()) return *error;
  for (const char* key : {"scheduler.kv_disk", "scheduler.kv_restore"}) document.erase(key);
  if (document.root().table("scheduler").keys().empty()) document.erase("scheduler");
  return policy;
}

// Keys of a scenario that a server does not follow: its requests are what clients send.
std::optional<Error> refuse_unserved(const TomlDocument& document) {
  struct Unserved {
    const char *key, *name, *instead;
  };
  constexpr Unserved kUnserved[] = {
      {"scheduler", "[scheduler], --max-sequences and --ram-cache",
       "--parallel, --kv-tokens, --kv-disk"},
      {"load", "--rate, --load, --turns and --slo", "rigcast run serves a load of its own"},
      {"workload.users", "--users", "--parallel; rigcast run --users serves a load of its own"},
      {"workload.prompt_tokens", "--prompt-tokens", "--context"},
      {"workload.output_tokens", "--output-tokens", "max_tokens of a request"},
      {"workload.depth", "--depth", "prompts of that length"},
      {"workload.start", "--start", "a server's model is resident"}};
  for (const Unserved& u : kUnserved)
    if (document.has(u.key))
      return bad_input(
          fmt::format("a server does not take {}: its clients say what they ask for", u.name),
          u.instead);
  return std::nullopt;
}

Result<Scenario> scenario_of(const Options& options, const Catalogue& catalogue,
                             validation::ExecuteOptions& how, SchedulerPolicy& disk) {
  auto document = options.flags.document();
  if (!document) return document.error();
  const auto kv_disk = take_kv_disk(*document);
  if (!kv_disk) return kv_disk.error();
  disk = *kv_disk;
  if (auto error = refuse_unserved(*document)) return *error;
  for (const char* key : {"model.name", "model.quant", "model.size"}) document->erase(key);
  if (auto error = document->set("model.file", toml_text(options.weights), "--weights"))
    return *error;
  const bool has_context = document->has("workload.context");
  const bool has_block = document->has("kv.block_tokens");
  const bool vram_limited = document->has("rig.vram_capacity");
  const bool ram_limited = document->has("rig.ram_capacity");
  auto scenario = validation::make_scenario_of_this_machine(*document, catalogue, *how.backend);
  if (!scenario) return scenario;
  if (!has_context)
    scenario->workload.context = std::min<TokenCount>(scenario->model.context, kDefaultContext);
  if (!has_block && scenario->runtime.server)  // as a load is forecast, and run
    scenario->kv.block_tokens = scenario->runtime.server->scheduler.block_tokens;
  if (vram_limited && !scenario->rig.gpus.empty())
    how.vram_limit = scenario->rig.gpus.front().memory.value;
  if (ram_limited) how.ram_limit = scenario->rig.ram.capacity.value;
  return scenario;
}

// A model with its vocabulary, read from one file.
struct Opened {
  engine::GgufFile file;
  engine::ServedModel model;
};

Result<Opened> open_model(const Options& options) {
  auto file = engine::GgufFile::open(options.weights);
  if (!file) return file.error();
  auto tokenizer = engine::file_tokenizer(*file);
  if (!tokenizer) return tokenizer.error();
  if (!*tokenizer)
    return bad_input("the file has no vocabulary, without which no text is served", {},
                     SourceRef{options.weights});
  for (const std::string& warning : (*tokenizer)->warnings())
    fmt::print(stderr, "rigcast: {}\n", warning);
  const auto format = find_chat_format(options.chat_template, *file, **tokenizer);
  Result<engine::ChatPrompt> chat = format ? engine::ChatPrompt::make(*format, **tokenizer)
                                           : Result<engine::ChatPrompt>(format.error());
  if (!chat && !options.chat_template.empty()) return chat.error();
  if (!chat) fmt::print(stderr, "rigcast: chats are not served: {}\n", chat.error().text());
  std::string id = options.alias;
  if (id.empty()) id = std::filesystem::path(options.weights).stem().string();
  return Opened{*std::move(file),
                engine::ServedModel::make(std::move(id), **std::move(tokenizer), std::move(chat))};
}

std::string url_of(const engine::HttpOptions& options, std::uint16_t port) {
  const bool v6 = options.host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", options.host, v6 ? "]" : "", port);
}

std::string restored_text(const SchedulerPolicy& policy, const engine::RestoreRates& rates) {
  const auto disk = rates.copy_rate(engine::KvTier::kDisk);
  const auto tokens = rates.tokens_per_s();
  if (policy.restore != KvRestore::kAuto || !disk || !tokens)
    return std::string(name(policy.restore));
  return fmt::format("what is faster, now {} or {}", text(*disk), rate_text(*tokens));
}

void print_start(const Options& options, const engine::ServingLoop& loop,
                 const engine::BatchLimits& limits, const SchedulerPolicy& policy,
                 const engine::RestoreRates& rates, const std::string& model,
                 const std::string& chat, const std::string& url) {
  fmt::print("{} at {}/v1, {}\n", model, url,
             chat.empty() ? "completions alone" : "chat template " + chat);
  fmt::print("  context {} tokens; up to {} requests at once, {}; KV cache of {} tokens\n",
             loop.context(), limits.step_sequences,
             options.max_waiting > 0 ? fmt::format("{} more wait", options.max_waiting)
                                     : "any number waits",
             TokenCount(limits.blocks) * limits.block_tokens);
  if (policy.disk_cache.value > 0)
    fmt::print("  {} for more of it in {}; what comes back from there: {}\n",
               text_gib(policy.disk_cache), policy.disk_folder, restored_text(policy, rates));
  fmt::print("  control-C ends it\n");
  std::fflush(stdout);
}

void print_end(const engine::CompletionsState& state) {
  fmt::print(
      "served {} requests, {} cancelled, {} failed, {} refused; {} tokens of prompts, {} of "
      "them from the cache ({} from disk), and {} of answers\n",
      state.completed, state.cancelled, state.failed, state.refused, state.prompt_tokens,
      state.cached_prompt_tokens, state.disk_prompt_tokens, state.output_tokens);
}

int serve(const Options& options, Opened opened, engine::BatchExecutor& executor,
          TokenCount context, const SchedulerPolicy& disk) {
  const engine::BatchLimits limits = executor.limits();
  engine::ServingOptions serving{engine::engine_policy(limits), context};
  serving.policy.max_waiting = std::size_t(options.max_waiting);
  serving.policy.disk_cache = disk.disk_cache;
  serving.policy.disk_folder = disk.disk_folder;
  serving.policy.restore = disk.restore;
  executor.warm_up();
  const auto tiers = engine::make_kv_tiers(executor, serving.policy);
  if (!tiers) return fail(tiers.error());
  serving.disk = tiers->disk.get();
  serving.rates = tiers->rates;
  DiskWatch watch;
  auto loop = engine::ServingLoop::start(executor, serving, &watch);
  if (!loop) return fail(loop.error());
  const std::string model = opened.model.id;
  const std::string chat =
      opened.model.chat ? std::string(engine::name_of(opened.model.chat->format())) : "";
  auto server = engine::HttpServer::start(options.http, std::move(opened.model), **loop);
  if (!server) return fail(server.error());
  print_start(options, **loop, limits, serving.policy, serving.rates, model, chat,
              url_of(options.http, (*server)->port()));
  while (!interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  (*server)->stop();
  (*loop)->stop();
  print_end((*loop)->state());
  return kDone;
}

int serve_verb(const Options& options, const Catalogue& catalogue) try {
  const OnInterrupt on_interrupt;
  validation::ExecuteOptions how = options.execute;
  const auto backend = engine::built_in_backends().find(options.device);
  if (!backend) return fail(backend.error());
  how.backend = *backend;
  SchedulerPolicy disk;
  auto scenario = scenario_of(options, catalogue, how, disk);
  if (!scenario) return fail(scenario.error());
  if (auto error = validation::check_runnable(*scenario, how)) return fail(*error);
  auto opened = open_model(options);
  if (!opened) return fail(opened.error());
  const auto batch = batch_options(
      *scenario, how, {options.parallel, options.kv_tokens, disk.disk_cache.value > 0});
  if (!batch) return fail(batch.error());
  show_progress("reading weights ...");
  auto executor = validation::make_batch_executor(*scenario, how, *batch, opened->file);
  show_progress("");
  if (!executor) return fail(executor.error());
  for (const std::string& warning : scenario->warnings)
    fmt::print(stderr, "rigcast: {}\n", warning);
  return serve(options, *std::move(opened), **executor, scenario->workload.context, disk);
} catch (const Interrupted&) {
  return fail({ErrorKind::kMachine, "interrupted before anything was served", {}, {}});
}

void add_engine_options(CLI::App& verb, Options& o) {
  constexpr const char* kGroup = "Execution";
  verb.add_option("--weights", o.weights, "the GGUF file to serve")
      ->required()
      ->check(not_empty())
      ->type_name("FILE")
      ->group(kGroup);
  verb.add_option("--device", o.device, "cpu, or a GPU's")
      ->check(CLI::IsMember(device_names()))
      ->type_name("DEVICE")
      ->capture_default_str()
      ->group(kGroup);
  add_chat_template(verb, o.chat_template)->group(kGroup);
  verb.add_option("--parallel", o.parallel, "requests that are computed at once")
      ->check(integer_within(1, 256))
      ->type_name("N")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option(
          "--kv-tokens", o.kv_tokens,
          "tokens of the KV cache that requests share; default: what VRAM or a RAM limit "
          "leaves, else the context of each of --parallel, as far as half of the free memory "
          "goes")
      ->check(integer_within(1, 1'000'000'000))
      ->type_name("N")
      ->group(kGroup);
}

void add_http_options(CLI::App& verb, Options& o) {
  constexpr const char* kGroup = "Server";
  verb.add_option("--host", o.http.host, "address to listen on; 0.0.0.0: all, with an API key")
      ->check(not_empty())
      ->type_name("ADDRESS")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--port", o.http.port, "0: any that is free")
      ->check(integer_within(0, 65535))
      ->type_name("N")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--api-key", o.http.api_key,
                  "what clients have to show; better in $RIGCAST_API_KEY, which others do not see")
      ->check(not_empty())
      ->envname("RIGCAST_API_KEY")
      ->type_name("KEY")
      ->group(kGroup);
  verb.add_option("--alias", o.alias, "the model's name for clients; default: the file's")
      ->check(not_empty())
      ->type_name("NAME")
      ->group(kGroup);
  verb.add_option("--max-waiting", o.max_waiting,
                  "requests in the queue; more get 429 and come again; 0: any number")
      ->check(integer_within(0, 1'000'000))
      ->type_name("N")
      ->capture_default_str()
      ->group(kGroup);
  verb.add_option("--max-connections", o.http.max_connections, "clients that are connected at once")
      ->check(integer_within(1, 100'000))
      ->type_name("N")
      ->capture_default_str()
      ->group(kGroup);
}

}  // namespace

void add_serve(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb =
      app.add_subcommand("serve", "Serve a model over HTTP, in the shape of OpenAI's API");
  auto options = std::make_shared<Options>();
  options->flags.add_to(*verb);
  add_engine_options(*verb, *options);
  add_http_options(*verb, *options);
  verb->footer(
      "Examples\n"
      "  rigcast serve --weights model.gguf --context 4096 --parallel 8\n"
      "  curl http://127.0.0.1:8080/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"messages\": [{\"role\": \"user\", \"content\": \"Hello\"}], \"stream\": true}'\n"
      "  curl http://127.0.0.1:8080/metrics\n"
      "Others reach it only with a key:\n"
      "  RIGCAST_API_KEY=$(openssl rand -hex 16) rigcast serve --weights model.gguf --host "
      "0.0.0.0\n"
      "A file whose chat template is not known: --chat-template names one of those above.");
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return serve_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
