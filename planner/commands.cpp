#include "planner/commands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/model/kv_bytes.hpp"
#include "perfmodel/memory.hpp"

namespace rigcast::planner {
namespace {

std::string file_name(const std::optional<std::filesystem::path>& file, const ModelSpec& model,
                      const std::string& quant) {
  return file ? file->string() : fmt::format("{}-{}.gguf", model.file_stem(), quant);
}

std::string split_text(const std::vector<double>& shares, char between) {
  std::string out;
  for (const double share : shares)
    out += fmt::format("{}{:g}", out.empty() ? "" : std::string(1, between), share);
  return out;
}

// A pattern of matrix names, for programs without --n-cpu-ffn.
std::string ffn_pattern(int layers) {
  std::vector<int> numbers(std::size_t(layers), 0);
  std::iota(numbers.begin(), numbers.end(), 0);
  return fmt::format("blk\\.({})\\.ffn_(gate|up|down)\\.weight=CPU", fmt::join(numbers, "|"));
}

// Layers as llama.cpp counts them: those that draft tokens, at the end of the file, are among them,
// although it loads no weights of theirs.
int counted_layers(const ModelSpec& model, int gpu_layers) {
  return gpu_layers > 0 ? gpu_layers + model.nextn_layers : 0;
}

// The shares of the GPUs; with layers that draft tokens the layers of each, so that these, which
// are counted on the last GPU, move no other.
std::vector<double> counted_split(const Scenario& s, const Placement& p) {
  if (s.model.nextn_layers == 0) return s.placement.tensor_split;
  std::vector<double> counts(s.rig.gpus.size());
  for (const LayerPlacement& layer : p.layers)
    if (layer.weights != kHost) ++counts[std::size_t(layer.weights)];
  if (p.head != kHost) ++counts[std::size_t(p.head)];
  const auto last =
      std::ranges::find_if(counts.rbegin(), counts.rend(), [](double count) { return count > 0; });
  if (last != counts.rend()) *last += s.model.nextn_layers;
  return counts;
}

enum class Program { kServer, kBench };

// Adds the flags that llama-server and llama-bench share.
void add_common(const Scenario& s, const Placement& p, Program program, Words& words) {
  const auto add = [&](const char* flag, std::string value) {
    words.insert(words.end(), {flag, std::move(value)});
  };
  add("-m", gguf_file_of(s));
  if (s.rig.gpus.empty()) {
    add("-ngl", "0");
  } else {
    add("-ngl", fmt::format("{}", counted_layers(s.model, p.gpu_layers)));
    if (s.placement.split_mode != kSplitByLayer) add("-sm", s.placement.split_mode);
    if (s.rig.gpus.size() > 1 && !s.placement.tensor_split.empty())
      add("-ts", split_text(counted_split(s, p), program == Program::kServer ? ',' : '/'));
  }
  if (p.cpu_moe_layers > 0) add("--n-cpu-moe", fmt::format("{}", p.cpu_moe_layers));
  if (const int ffns = s.placement.cpu_ffn_layers; ffns > 0) {
    const bool has_flag = program == Program::kServer && s.runtime.id == "llama.cpp";
    add(has_flag ? "--n-cpu-ffn" : "-ot", has_flag ? fmt::format("{}", ffns) : ffn_pattern(ffns));
  }
  if (s.kv.types.k != QuantFormat::kF16) add("-ctk", kv_type_name(s.kv.types.k));
  if (s.kv.types.v != QuantFormat::kF16) add("-ctv", kv_type_name(s.kv.types.v));
  if (s.settings.batch != 2048) add("-b", fmt::format("{}", s.settings.batch));
  if (s.settings.ubatch != 512) add("-ub", fmt::format("{}", s.settings.ubatch));
  if (p.gpu_layers <= s.model.layers || p.cpu_moe_layers + s.placement.cpu_ffn_layers > 0)
    add("-t", fmt::format("{}", s.settings.threads));
  const bool mirrors = s.settings.numa == NumaPolicy::kMirror;  // no flag of any release
  if (s.settings.numa != NumaPolicy::kNone && !(mirrors && s.rig.cpu.nodes() <= 1))
    add("--numa", std::string(name(s.settings.numa)));
  if (!s.settings.mmap)
    add("-lm", "none");
  else if (s.memory && s.memory->locks_weights())
    add("-lm", "mlock");
}

// The types that Ollama offers for a cache (runtimes/options/ollama.toml).
constexpr QuantFormat kOllamaTypes[] = {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0};

// What a line of llama-bench measures.
struct Bench {
  TokenCount prompt = 0, output = 0, depth = 0;
  Seconds once;  // of one repetition
};

constexpr Seconds kBenchTime{120};  // of all repetitions of one line
constexpr Seconds kAnswerTime{30};  // of the tokens of an answer that are measured
constexpr TokenCount kShortestAnswer = 16;
constexpr int kDefaultRepetitions = 5;  // llama-bench's own

// The part of the answer that is measured, around its middle.
Bench bench_of_answer(const Report& r) {
  const Workload& w = r.scenario->workload;
  const auto in_time = TokenCount(kAnswerTime.value * r.decode_tokens_per_s);
  const TokenCount tokens =
      std::min(w.output_tokens, std::clamp<TokenCount>(in_time, kShortestAnswer, 512));
  const TokenCount depth = w.depth + w.prompt_tokens + (w.output_tokens - tokens) / 2;
  const double seconds =
      double(depth) / r.prefill_tokens_per_s + double(tokens) / r.decode_tokens_per_s;
  return {0, tokens, depth, Seconds{seconds}};
}

Bench bench_of_prompt(const Report& r) {
  const Workload& w = r.scenario->workload;
  const double seconds = double(w.depth + w.prompt_tokens) / r.prefill_tokens_per_s;
  return {w.prompt_tokens, 0, w.depth, Seconds{seconds}};
}

Words with_bench(Words words, const Bench& b) {
  const auto add = [&](const char* flag, TokenCount value) {
    words.insert(words.end(), {flag, fmt::format("{}", value)});
  };
  add("-p", b.prompt);
  add("-n", b.output);
  if (b.depth > 0) add("-d", b.depth);
  const int repetitions = int(std::clamp(kBenchTime / b.once, 1.0, double(kDefaultRepetitions)));
  if (repetitions < kDefaultRepetitions) add("-r", repetitions);
  return words;
}

// True for a GPU whose cache is in host memory, which neither program does by default.
bool has_cache_off_gpu(const StepContext& s) {
  return keeps_cache_in_ram(s.kv.policy) && !s.rig.gpus.empty();
}

// llama-server keeps the KV of evicted prompts in RAM, up to so many MiB (--cache-ram): llama.cpp
// PR 16391, merged 2025-10, and ik_llama.cpp PR 954.
constexpr double kPromptCacheMib = 8192;

// MiB of RAM that weights, KV and buffers leave for that cache, or that were asked for; nullopt: as
// much as it takes by default.
std::optional<int> prompt_cache_limit(const Scenario& s, const Placement& p) {
  const MemoryPlan memory = plan_memory(s, p, s.workload.context);
  const Bytes left = memory.devices.back().free() + memory.ram_cache;
  const double asked =
      s.load && s.scheduler ? std::floor(s.scheduler->ram_cache / 1_MiB) : kPromptCacheMib;
  const double mib = std::max(0.0, std::min(asked, std::floor(left / 1_MiB)));
  return mib != kPromptCacheMib ? std::optional(int(mib)) : std::nullopt;
}

// A vision projector and a draft model. By default the draft model's layers are where they fit.
void add_companions(const Scenario& s, Words& words) {
  const bool has_gpu = !s.rig.gpus.empty();
  if (s.projector) {
    words.insert(words.end(), {"--mmproj", s.projector->file.string()});
    if (!s.projector->on_gpu) words.push_back("--no-mmproj-offload");
  }
  if (!s.draft) return;
  const DraftModel& draft = *s.draft;
  const int layers = has_gpu ? counted_layers(draft.model, draft.model.layers + 1) : 0;
  words.insert(words.end(), {"-md", file_name(draft.file, draft.model, draft.quant), "-ngld",
                             fmt::format("{}", layers)});
}

}  // namespace

std::string gguf_file_of(const Scenario& s) { return file_name(s.model_file, s.model, s.quant); }

bool is_llama_cpp(const RuntimeProfile& runtime, KvPolicy policy) {
  const bool is_theirs =
      runtime.id == "llama.cpp" || runtime.id == "ik-llama.cpp" || runtime.id == "ollama";
  return is_theirs && (policy == KvPolicy::kVram || policy == KvPolicy::kRam);
}

Words llama_server_command(const Scenario& s, const Placement& p) {
  Words words{"llama-server"};
  add_common(s, p, Program::kServer, words);
  add_companions(s, words);
  // One slot: by default there are four, and windows and recurrent states have a cache for each.
  // Slots share the context evenly.
  const std::size_t slots = s.load && s.scheduler ? s.scheduler->sequences : 1;
  words.insert(words.end(), {"-c", fmt::format("{}", TokenCount(slots) * s.workload.context), "-np",
                             fmt::format("{}", slots)});
  if (s.load && s.scheduler && s.scheduler->unified) words.push_back("-kvu");
  words.insert(words.end(), {"-fa", s.settings.flash_attention ? "on" : "off"});
  if (const auto* mode = find_split_mode(s.runtime.split_modes, s.placement.split_mode);
      mode && !mode->fits)
    words.insert(words.end(), {"-fit", "off"});
  if (has_cache_off_gpu(s)) words.push_back("--no-kv-offload");
  if (!s.settings.op_offload) words.push_back("--no-op-offload");
  if (const auto limit = prompt_cache_limit(s, p))
    words.insert(words.end(), {"-cram", fmt::format("{}", *limit)});
  return words;
}

std::string prompt_cache_note(const Scenario& s, const Placement& p) {
  const auto limit = prompt_cache_limit(s, p);
  if (!limit) return "";
  return fmt::format(
      "-cram {}: llama-server keeps evicted prompts in RAM, up to {:.0f} MiB by default, and {} "
      "are "
      "left",
      *limit, kPromptCacheMib, *limit > 0 ? fmt::format("{} MiB", *limit) : "none");
}

std::vector<Words> llama_bench_commands(const Report& forecast) {
  const Scenario& s = *forecast.scenario;
  Words words{"llama-bench"};
  add_common(s, forecast.placement, Program::kBench, words);
  words.insert(words.end(), {"-fa", s.settings.flash_attention ? "1" : "0"});
  if (has_cache_off_gpu(s)) words.insert(words.end(), {"-nkvo", "1"});
  if (!s.settings.op_offload) words.insert(words.end(), {"-nopo", "1"});
  return {with_bench(words, bench_of_prompt(forecast)),
          with_bench(words, bench_of_answer(forecast))};
}

Words llama_batched_bench_command(const Scenario& s, const Placement& p, int users,
                                  int repetitions) {
  Words words{"llama-batched-bench"};
  add_common(s, p, Program::kServer, words);
  words.insert(words.end(), {"-fa", s.settings.flash_attention ? "on" : "off"});
  if (has_cache_off_gpu(s)) words.push_back("--no-kv-offload");
  if (!s.settings.op_offload) words.push_back("--no-op-offload");
  const Workload& w = s.workload;
  const TokenCount prompt = w.depth + w.prompt_tokens;
  const std::vector<int> same(std::size_t(repetitions), users);
  words.insert(words.end(), {"-c", fmt::format("{}", users * (prompt + w.output_tokens)), "-npp",
                             fmt::format("{}", prompt), "-ntg", fmt::format("{}", w.output_tokens),
                             "-npl", fmt::format("{}", fmt::join(same, ","))});
  return words;
}

std::optional<Error> check_ollama(const StepContext& s) {
  if (s.runtime.id != "llama.cpp" && s.runtime.id != "ollama")
    return bad_input(fmt::format("Ollama runs llama.cpp, the scenario {}", s.runtime.name),
                     "--runtime llama.cpp");
  if (s.kv.policy != KvPolicy::kVram)
    return bad_input(fmt::format("Ollama has no KV policy {}", name(s.kv.policy)), "--kv vram");
  if (s.kv.types.k != s.kv.types.v)
    return bad_input(
        fmt::format("Ollama has one type for keys and values, not {}", text(s.kv.types)),
        fmt::format("--kv-type {}", kv_type_name(s.kv.types.k)));
  if (std::ranges::find(kOllamaTypes, s.kv.types.k) == std::end(kOllamaTypes))
    return bad_input(fmt::format("Ollama has no KV type {}", text(s.kv.types)),
                     "--kv-type f16, q8_0 or q4_0");
  if (s.placement.cpu_moe_layers > 0)
    return bad_input("Ollama keeps no experts apart from their layer", "without --cpu-moe");
  if (s.placement.cpu_ffn_layers > 0)
    return bad_input("Ollama keeps no FFN apart from its layer", "without --cpu-ffn");
  if (s.projector || s.draft)
    return bad_input("the Modelfile has the model alone", "without --mmproj and --model-draft");
  if (s.settings.numa != NumaPolicy::kNone || !s.settings.op_offload)
    return bad_input("Ollama takes neither --numa nor --op-offload off", "without these flags");
  return std::nullopt;
}

namespace {

// What num_gpu means of a model that is partly on the GPU depends on what runs it. llama-server
// gets it as -ngl (llm/llama_server.go at 869e7249; which releases have that was not found).
// Ollama's own engine takes layers from the last one on, and drops the head first where not all are
// asked for (assignLayers in llm/server.go at 5dbb81b7).
std::string num_gpu_note(const Scenario& s, int count) {
  const int layers = layers_without_head(s, count);
  const char* head = layers < count ? "the head and " : "";
  return fmt::format(
      "num_gpu: {}{} layers, as llama-server counts; Ollama's own engine takes {} layers and keeps "
      "the head on the CPU",
      head, layers, count);
}

}  // namespace

std::string ollama_modelfile(const Scenario& s, const Placement& p) {
  std::string out;
  out += fmt::format("# OLLAMA_FLASH_ATTENTION={}\n", s.settings.flash_attention ? 1 : 0);
  if (s.kv.types.k != QuantFormat::kF16)
    out += fmt::format("# OLLAMA_KV_CACHE_TYPE={}\n", kv_type_name(s.kv.types.k));
  // Each further request has a cache of its own.
  const std::size_t slots = s.load && s.scheduler ? s.scheduler->sequences : 1;
  out += fmt::format("# OLLAMA_NUM_PARALLEL={}\n", slots);
  const std::string file = gguf_file_of(s);
  out += fmt::format("FROM {}{}\n", file.find('/') == std::string::npos ? "./" : "", file);
  out += fmt::format("PARAMETER num_ctx {}\n", s.workload.context);
  out += fmt::format("PARAMETER num_batch {}\n", s.settings.ubatch);
  if (!s.rig.gpus.empty() && p.gpu_layers > 0 && p.gpu_layers <= s.model.layers)
    out += fmt::format("# {}\n", num_gpu_note(s, p.gpu_layers));
  out += fmt::format("PARAMETER num_gpu {}\n",
                     s.rig.gpus.empty() ? 0 : counted_layers(s.model, p.gpu_layers));
  if (p.gpu_layers <= s.model.layers)
    out += fmt::format("PARAMETER num_thread {}\n", s.settings.threads);
  if (!s.settings.mmap) out += "PARAMETER use_mmap false\n";
  return out;
}

std::string shell_text(const Words& words) {
  std::string out;
  for (const std::string& word : words) {
    const bool plain = std::ranges::all_of(word, [](unsigned char c) {
      return std::isalnum(c) ||
             std::string_view("-_./,:=+").find(char(c)) != std::string_view::npos;
    });
    std::string text = word;
    if (!plain || word.empty()) {
      text = "'";
      for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
      text += "'";
    }
    out += (out.empty() ? "" : " ") + text;
  }
  return out;
}

}  // namespace rigcast::planner
