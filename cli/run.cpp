#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <memory>

#include "cli/html/page_output.hpp"
#include "cli/html/report_answer.hpp"
#include "cli/run/run_logits.hpp"
#include "cli/shared/chat_template.hpp"
#include "cli/shared/device_names.hpp"
#include "cli/shared/flag_checks.hpp"
#include "cli/shared/model_argument.hpp"
#include "cli/shared/output.hpp"
#include "cli/shared/scenario_flags.hpp"
#include "cli/verbs.hpp"
#include "core/files/output_file.hpp"
#include "core/scenario/scenario.hpp"
#include "core/text/unit_text.hpp"
#include "engine/backends/backend.hpp"
#include "engine/tokenizer/file_vocabulary.hpp"
#include "validation/runs/local_machine.hpp"
#include "validation/runs/measure.hpp"
#include "validation/runs/pressure/swap_area.hpp"

namespace rigcast::cli {
namespace {

struct Options {
  ScenarioFlags flags;
  OutputOptions output;
  validation::ExecuteOptions execute;
  LogitsOptions logits;
  std::string weights;
  std::string device = "cpu";
  std::string trace_file;
  bool chat = false;
  std::string system, chat_template;
  std::string requests_file;
};

// The prompt is a message to a model in its own chat format.
Result<validation::ChatSettings> chat_of(const Options& options, const Scenario& scenario) {
  const auto file = engine::GgufFile::open(*scenario.model_file);
  if (!file) return file.error();
  const auto tokenizer = engine::file_tokenizer(*file);
  if (!tokenizer) return tokenizer.error();
  if (!*tokenizer)
    return bad_input("--chat: the file has no vocabulary", {}, SourceRef{file->name()});
  const auto format = find_chat_format(options.chat_template, *file, **tokenizer);
  if (!format) return format.error();
  return validation::ChatSettings{*format, options.system};
}

// The number of tokens of a text, or of a file of ids, is known only when it is read, and with it
// the space that the context leaves for output.
std::optional<Error> count_tokens_later(TomlDocument& document, const Options& options,
                                        validation::ExecuteOptions& how) {
  const bool text = options.execute.prompt.has_value();
  if (text) document.erase("workload.prompt_tokens");  // of a scenario file
  const bool ids = !options.logits.tokens_file.empty();
  if ((!text && !ids) || document.has("workload.prompt_tokens")) return std::nullopt;
  how.fill_context = text && !document.has("workload.output_tokens");
  // Ids may exceed the context of the training: where none is stated, it grows with a usual prompt.
  const bool grows = ids && !document.has("workload.context");
  return document.set("workload.prompt_tokens", grows ? "512" : "1",
                      text ? "--prompt" : "--tokens");
}

Result<Scenario> scenario_of(const Options& options, const Catalogue& catalogue,
                             validation::ExecuteOptions& how) {
  auto document = options.flags.document();
  if (!document) return document.error();
  if (auto error = count_tokens_later(*document, options, how)) return *error;
  if (!options.weights.empty()) {
    for (const char* key : {"model.name", "model.quant", "model.size"}) document->erase(key);
    if (auto error = document->set("model.file", toml_text(options.weights), "--weights"))
      return *error;
  }
  const bool limited = document->has("rig.vram_capacity");
  const bool ram_limited = document->has("rig.ram_capacity");
  auto scenario = validation::make_scenario_of_this_machine(*document, catalogue, *how.backend);
  if (scenario && limited && !scenario->rig.gpus.empty())
    how.vram_limit = scenario->rig.gpus.front().memory.value;
  if (scenario && ram_limited) how.ram_limit = scenario->rig.ram.capacity.value;
  return scenario;
}

// The scenario's load, in real time.
int run_load(std::shared_ptr<Scenario> scenario, const validation::ExecuteOptions& how,
             const Options& options) {
  if (options.output.format == Format::kCsv)
    return fail(bad_input("a load has no csv", "--format json, or --requests FILE"));
  if (how.prompt || !options.logits.tokens_file.empty())
    return fail(bad_input("a load has prompts of its own", "leave out --prompt and --tokens"));
  if (!options.trace_file.empty())
    return fail(bad_input("no timeline of a load that is run is recorded",
                          "--requests FILE has the times of each request"));
  if (how.repeat != validation::ExecuteOptions{}.repeat)
    return fail(bad_input("a load is run once", "leave out --repeat"));
  auto executed = validation::execute_load(scenario, how);
  if (!executed) return fail(executed.error());
  std::ranges::copy(scenario->warnings, std::back_inserter(executed->report.warnings));
  if (!options.requests_file.empty())
    if (auto error = write_file(options.requests_file, executed->requests)) return fail(*error);
  if (auto error = emit(options.output, answer_of(executed->report))) return fail(*error);
  return kDone;
}

int run_verb(const Options& options, const Catalogue& catalogue) {
  if (const auto error = check_outputs({options.output.file, options.trace_file,
                                        options.logits.logits_file, options.requests_file}))
    return fail(*error);
  if (const auto error = check_html(options.output, {options.trace_file, options.requests_file}))
    return fail(*error);
  validation::ExecuteOptions how = options.execute;
  const auto backend = engine::built_in_backends().find(options.device);
  if (!backend) return fail(backend.error());
  how.backend = *backend;
  how.sampling.seed = how.seed;
  auto made = scenario_of(options, catalogue, how);
  if (!made) return fail(made.error());
  auto scenario = std::make_shared<Scenario>(*std::move(made));
  if (const auto error =
          check_inputs_stay(*scenario, options.flags.file(),
                            {options.output.file, options.output.html, options.trace_file,
                             options.logits.logits_file, options.requests_file}))
    return fail(*error);
  if (auto error = validation::check_runnable(*scenario, how)) return fail(*error);
  if (options.chat) {
    auto chat = chat_of(options, *scenario);
    if (!chat) return fail(chat.error());
    how.chat = *std::move(chat);
  }
  if (scenario->load) return run_load(scenario, how, options);
  if (!options.requests_file.empty())
    return fail(bad_input("--requests: the scenario has no load", "--users N, or --rate R"));
  if (!options.logits.tokens_file.empty()) return write_logits(*scenario, how, options.logits);
  how.text_to_stderr = options.output.format != Format::kText || !options.output.file.empty();
  how.trace = !options.trace_file.empty();
  validation::SwapOfRuns swap;
  if (scenario->memory && scenario->model_file)
    if (auto error = swap.set(scenario->model_file->parent_path(), scenario->memory))
      return fail(*error);
  auto executed = validation::execute(scenario, how);
  if (!executed) return fail(executed.error());
  std::ranges::copy(scenario->warnings, std::back_inserter(executed->report.warnings));
  if (executed->traced_slowdown) {
    const std::string title = scenario->model.name + " measured";
    if (auto error = write_file(options.trace_file, to_chrome_trace(executed->events, title)))
      return fail(*error);
  }
  Answer answer = answer_of(executed->report);
  if (executed->traced_slowdown)
    answer.timelines = timelines_of(executed->events, scenario->workload.start);
  if (auto error = emit(options.output, answer)) return fail(*error);
  return kDone;
}

void add_options(CLI::App& verb, Options& o) {
  constexpr const char* kGroup = "Execution";
  constexpr std::int64_t kMaxSeed = std::numeric_limits<std::int64_t>::max();
  const auto option = [&](const char* name, auto& value, const std::string& help) {
    return verb.add_option(name, value, help)->group(kGroup);
  };
  option("--weights", o.weights, "a GGUF file to run")->type_name("FILE");
  verb.add_flag("--synthetic", o.execute.synthetic, "random weights of true shape, no file needed")
      ->group(kGroup);
  option("--device", o.device, fmt::format("{}", fmt::join(device_texts(), " or ")))
      ->check(CLI::IsMember(device_names()))
      ->type_name("DEVICE")
      ->capture_default_str();
  CLI::Option* prompt =
      option("--prompt", o.execute.prompt, "text to go on from: the answer is streamed")
          ->check([](const std::string& text) { return text.empty() ? "the text is empty" : ""; })
          ->excludes("--prompt-tokens")
          ->type_name("TEXT");
  CLI::Option* chat =
      verb.add_flag("--chat", o.chat, "the prompt is a message, and the answer alone is shown")
          ->needs(prompt)
          ->group(kGroup);
  option("--system", o.system, "what the model is told before the message")
      ->needs(chat)
      ->type_name("TEXT");
  add_chat_template(verb, o.chat_template)->needs(chat)->group(kGroup);
  option("--repeat", o.execute.repeat, "timed runs from resident weights")
      ->check(integer_within(1, 1000))
      ->type_name("N")
      ->capture_default_str();
  option("--seed", o.execute.seed, "of synthetic weights and of sampling")
      ->check(integer_within(0, kMaxSeed))
      ->type_name("N")
      ->capture_default_str();
  option("--temperature", o.execute.sampling.temperature, "0: always the likeliest token")
      ->check(number_within(0, 100))
      ->type_name("X")
      ->capture_default_str();
  option("--top-k", o.execute.sampling.top_k, "sample among the k likeliest; 0: all")
      ->check(integer_within(0, 1'000'000'000))
      ->type_name("N")
      ->capture_default_str();
  option("--top-p", o.execute.sampling.top_p, "and among those of this probability together")
      ->check(number_within(0, 1))
      ->type_name("P")
      ->capture_default_str();
  CLI::Option* tokens = option("--tokens", o.logits.tokens_file, "token ids to feed, for --logits")
                            ->excludes("--prompt")
                            ->check(not_empty())
                            ->type_name("FILE");
  option("--logits", o.logits.logits_file, "write the logits after every id of --tokens (NumPy)")
      ->needs(tokens)
      ->check(not_empty())
      ->type_name("FILE");
  verb.add_option("--trace", o.trace_file,
                  "write a Chrome/Perfetto trace of one more run, which is not timed")
      ->excludes(tokens)
      ->check(not_empty())
      ->type_name("FILE")
      ->group("Output");
  verb.add_option("--requests", o.requests_file, "write the times of each request of a load (CSV)")
      ->check(not_empty())
      ->type_name("FILE")
      ->group("Output");
}

}  // namespace

void add_run(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("run", "Execute a scenario on this machine and time it");
  auto options = std::make_shared<Options>();
  options->flags.add_to(*verb);
  add_options(*verb, *options);
  options->output.add_to(*verb);
  add_html(*verb, options->output)->excludes("--tokens");
  verb->footer(
      "Examples\n"
      "  rigcast run --model llama-3.2-1b --synthetic\n"
      "  rigcast run --weights model.gguf --prompt \"Once upon a time\" --output-tokens 200\n"
      "  rigcast run --weights model.gguf --chat --prompt \"Why is the sky blue?\"\n"
      "  rigcast run --weights model.gguf --prompt-tokens 512 --output-tokens 128 --start cold\n"
      "  rigcast run --weights model.gguf --tokens ids.txt --logits logits.npy\n"
      "  rigcast run --weights model.gguf --users 4 --load chat --context 8192\n"
      "  rigcast run --model qwen3-0.6b --synthetic --rate 0.5 --load requests.csv --requests "
      "times.csv");
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return run_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
