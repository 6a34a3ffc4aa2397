#include "measurements/serving/resolve_serving.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/catalogue/find_model.hpp"
#include "core/model/model_names.hpp"
#include "core/model/quantized_model.hpp"
#include "core/text/freetext.hpp"
#include "measurements/model_fragment.hpp"
#include "measurements/parsed_notes.hpp"
#include "measurements/resolve.hpp"
#include "measurements/rig_fragment.hpp"
#include "measurements/serving/measured_lengths.hpp"

namespace rigcast {
namespace {

bool is_lockstep(const ServingMeasurement& m) { return m.arrival == "lockstep"; }

std::string given_runtime(const TomlDocument& given) {
  return given.root().table("runtime").text_or("name", "");
}

// Our name of the program; empty: it is not forecast. Clients that say vllm talk to whatever has
// its interface.
std::string runtime_of(const ServingMeasurement& m, const TomlDocument& given) {
  constexpr std::array kForecast{"vllm", "sglang", "tensorrt-llm", "llama.cpp"};
  const std::string runtime = given_runtime(given);
  if (!runtime.empty() && (m.engine.empty() || m.engine == "vllm")) return runtime;
  return std::ranges::find(kForecast, m.engine) == kForecast.end() ? "" : m.engine;
}

bool has_slots(const std::string& runtime) {
  return runtime == "llama.cpp" || runtime == "ollama" || runtime == "rigcast";
}

// "gguf-q4_k_m" as the label of a mix.
std::string gguf_quant(const std::string& stated) {
  const std::string label = freetext::lower(stated);
  return label.starts_with("gguf-") ? label.substr(5) : label;
}

// The recipe of weights that a server read from safetensors; without a word of it, of those that
// the model's name states, else as they were published. The experts of gpt-oss have one format
// alone.
Result<std::string> served_quant(const ServingMeasurement& m, const ModelSpec& model,
                                 const TomlDocument& given) {
  if (given.has("model.quant")) return given.root().table("model").text("quant");
  if (model.architecture == "gpt-oss") return std::string("BF16");
  const std::string stated = m.quant.empty() ? stated_model(m.model).quant : m.quant;
  if (stated.empty()) return default_served_quant(model);
  if (const auto mix = served_mix_of_label(stated)) return mix->name();
  return bad_input(fmt::format("weights in \"{}\" are not forecast", freetext::clipped(stated)));
}

Result<ModelFragment> served_fragment(const ServingMeasurement& m, NameResolver& resolver,
                                      const TomlDocument& given) {
  auto spec = resolver.model(m.model, std::nullopt);
  if (!spec) return bad_input(fmt::format("no model named \"{}\"", freetext::clipped(m.model)));
  const auto quant = served_quant(m, *spec, given);
  if (!quant) return quant.error();
  const auto size = resolver.size_of(*spec, *quant);
  if (!size) return bad_input(fmt::format("{} cannot be stored as {}", spec->id, *quant));
  ModelFragment fragment;
  fragment.toml = fmt::format("[model]\nname = \"{}\"\nquant = \"{}\"\n", spec->id, *quant);
  fragment.size = Bytes{size->bytes};
  fragment.spec = std::move(spec);
  return fragment;
}

bool gives_rig(const TomlDocument& given) { return given.has("rig.name") || given.has("rig.gpu"); }
bool gives_model(const TomlDocument& given) {
  return given.has("model.name") || given.has("model.file");
}

// Why the run is not one that can be forecast; empty: it is.
std::string obstacle(const ServingMeasurement& m, const TomlDocument& given) {
  constexpr double kMaxLockstepTokens = 1 << 24;  // of all prompts: more than any cache holds
  if (!m.obstacle.empty()) return m.obstacle;
  const std::string runtime = runtime_of(m, given);
  if (runtime.empty()) return fmt::format("the program {} is not forecast", m.engine);
  if (const std::string wanted = given_runtime(given); !wanted.empty() && runtime != wanted)
    return fmt::format("ran on {}, not on {}", runtime, wanted);
  if (m.speculative) return "speculative decoding is not forecast";
  const int of_server = m.tensor_parallel * m.pipeline_parallel * m.data_parallel;
  if (std::max(1, m.gpus) != of_server * m.copies || (of_server > 1 && has_slots(runtime)))
    return "GPUs that share requests so are not forecast";
  if (m.expert_parallel > 1 && m.expert_parallel != m.tensor_parallel * m.data_parallel)
    return "experts that are divided over some of the GPUs are not forecast";
  if (m.copies > 1 && m.concurrency.value_or(m.copies) % m.copies != 0)
    return "servers with unequal shares of the users are not forecast";
  if (m.prompt_tokens < 1 || m.output_tokens < 1) return "lengths are not stated";
  if (is_lockstep(m) && m.concurrency.value_or(0) < 1)
    return "the number of sequences is not stated";
  if (is_lockstep(m) && *m.concurrency * (m.prompt_tokens + m.output_tokens) > kMaxLockstepTokens)
    return "more tokens than a cache holds";
  const bool slots = has_slots(runtime) && !is_lockstep(m);
  if (slots && !m.slots && !given.has("scheduler.slots"))
    return "the number of slots is not stated";
  return {};
}

constexpr int kForQuantiles = 1000;  // requests that 99 % quantiles need

// The load of one of several servers that share the requests.
ServingMeasurement of_one_server(ServingMeasurement m) {
  if (m.copies <= 1) return m;
  const auto share = [&](auto& figure) {
    if (figure) *figure = std::max<std::decay_t<decltype(*figure)>>(1, *figure / m.copies);
  };
  share(m.concurrency);
  share(m.requests);
  for (auto* rate : {&m.rate, &m.output_tokens_per_s})
    if (*rate) **rate /= m.copies;
  m.gpus /= m.copies;
  return m;
}

// How the GPUs exchange, and how much power they have.
std::string rig_settings(const ServingMeasurement& m) {
  std::string toml;
  if (freetext::contains(freetext::lower(m.link), "p2p")) toml += "interconnect = \"pcie-p2p\"\n";
  if (m.power_limit) toml += fmt::format("power_limit = \"{} W\"\n", *m.power_limit);
  return toml;
}

Result<std::string> load_of(const ServingMeasurement& m) {
  std::string toml = fmt::format("[load]\nprompt_tokens = {}\noutput_tokens = {}\n",
                                 lengths_toml(m.prompt_tokens, m.prompt_spread, m.varied_lengths),
                                 lengths_toml(m.output_tokens, m.output_spread, m.varied_lengths));
  const int requests = std::max(kForQuantiles, m.requests.value_or(0));
  const bool has_gaps = m.arrival == "poisson" || m.arrival == "gamma" || m.arrival == "constant";
  if (has_gaps && m.rate && *m.rate > 0) {
    toml += fmt::format("arrival = \"{}\"\nrate = {:.6f}\nrequests = {}\n", m.arrival, *m.rate,
                        requests);
    return m.arrival == "gamma" ? toml + fmt::format("cv = {:.6f}\n", m.cv) : toml;
  }
  if (m.arrival == "closed" && m.concurrency.value_or(0) > 0)
    return toml + fmt::format("arrival = \"closed\"\nusers = {}\nrequests = {}\n", *m.concurrency,
                              std::max(kForQuantiles, 10 * *m.concurrency));
  if (m.arrival == "all at once" && m.requests.value_or(0) > 0)
    return toml + fmt::format("arrival = \"burst\"\nrequests = {}\n", *m.requests);
  return bad_input(
      fmt::format("a load of the kind \"{}\" is not forecast", freetext::clipped(m.arrival)));
}

// A request has room for its tokens.
TokenCount context_of(const ServingMeasurement& m) {
  const double tokens = longest(m.prompt_tokens, m.prompt_spread, m.varied_lengths) +
                        longest(m.output_tokens, m.output_spread, m.varied_lengths);
  return TokenCount(std::ceil(std::min(tokens, 1e9) / 256) + (is_lockstep(m) ? 0 : 1)) * 256;
}

std::string scheduler_of(const ServingMeasurement& m, const std::string& runtime) {
  std::string toml = "[scheduler]\n";
  if (has_slots(runtime)) {
    // Prompts of benchmarks differ from one another.
    toml += "prefix_cache = false\n";
    const auto slots = is_lockstep(m) ? m.concurrency : m.slots;
    return slots ? toml + fmt::format("slots = {}\n", *slots) : toml;
  }
  if (m.max_sequences) toml += fmt::format("max_sequences = {}\n", *m.max_sequences);
  if (m.memory_share) toml += fmt::format("memory_share = {}\n", *m.memory_share);
  if (m.max_step_tokens) toml += fmt::format("token_budget = {}\n", *m.max_step_tokens);
  if (m.chunked) toml += "chunked = true\n";
  return toml;
}

std::string settings_of(const ServingMeasurement& m, const std::string& runtime) {
  std::string toml = fmt::format("[runtime]\nname = \"{}\"\n", runtime);
  if (m.batch && *m.batch > 0) toml += fmt::format("batch = {}\n", *m.batch);
  if (m.ubatch && *m.ubatch > 0) toml += fmt::format("ubatch = {}\n", *m.ubatch);
  if (m.flash_attention) toml += fmt::format("flash_attention = {}\n", *m.flash_attention);
  if (m.gpu_layers == 0 && m.threads.value_or(0) > 0)
    toml += fmt::format("threads = {}\n", *m.threads);
  toml += "[placement]\n";
  if (m.gpu_layers) toml += fmt::format("gpu_layers = {}\n", *m.gpu_layers);
  if (m.pipeline_parallel > 1) toml += fmt::format("pipeline_parallel = {}\n", m.pipeline_parallel);
  if (m.expert_parallel > 1) toml += "expert_parallel = true\n";
  if (m.data_parallel > 1) toml += fmt::format("data_parallel = {}\n", m.data_parallel);
  return toml;
}

// A label of how the weights are stored; empty: not stated. Some models are released in one format
// alone.
std::string stated_quant(const ServingMeasurement& m, const TomlDocument& given,
                         NameResolver& resolver) {
  if (given.has("model.quant")) return given.root().table("model").text("quant");
  if (!m.quant.empty()) return gguf_quant(m.quant);
  const auto model = resolver.model(m.model, std::nullopt);
  const std::string usual = model ? default_quant(*model) : "";
  return usual == "Q4_K_M" ? "" : usual;
}

Measurement named(const ServingMeasurement& m, const TomlDocument& given, NameResolver& resolver) {
  Measurement out;
  out.id = m.id;
  out.gpu = m.gpu;
  out.gpu_count = m.gpus;
  out.pcie = m.link;
  out.model = m.model;
  out.quant = stated_quant(m, given, resolver);
  return out;
}

// What the source states, of rig and model only where nothing is given.
Result<std::string> stated_toml(const ServingMeasurement& m, NameResolver& resolver,
                                const TomlDocument& given) {
  const Measurement names = named(m, given, resolver);
  std::string toml;
  Bytes size;
  if (!gives_model(given)) {
    const bool served = !has_slots(runtime_of(m, given));
    const auto model = served ? served_fragment(m, resolver, given)
                              : model_fragment(names, ParsedNotes{}, resolver);
    if (!model) return model.error();
    toml += model->toml;
    size = model->size;
  }
  if (!gives_rig(given)) {
    const auto rig = rig_fragment(names, size, resolver);
    if (!rig) return rig.error();
    toml += rig->toml + rig_settings(m);
  }
  const std::string runtime = runtime_of(m, given);
  toml += settings_of(m, runtime);
  const bool alike = is_lockstep(m);  // else the load states lengths
  toml += fmt::format(
      "[workload]\ncontext = {}\nprompt_tokens = {}\noutput_tokens = {}\nstart = \"resident\"\n",
      context_of(m), alike ? std::llround(m.prompt_tokens) : 1,
      alike ? std::llround(m.output_tokens) : 1);
  toml += scheduler_of(m, runtime);
  if (is_lockstep(m)) return toml;
  const auto load = load_of(m);
  return load ? toml + *load : load;
}

}  // namespace

std::optional<Error> missing_facts(const ServingMeasurement& m, const TomlDocument& given,
                                   NameResolver& resolver) {
  if (!m.obstacle.empty() || m.speculative) return std::nullopt;  // no flag would help
  std::vector<std::string> facts, flags;
  const auto miss = [&](std::string fact, std::string flag) {
    facts.push_back(std::move(fact));
    flags.push_back(std::move(flag));
  };
  const std::string runtime = runtime_of(m, given);
  if (m.engine.empty() && runtime.empty())
    miss("which program served", "--runtime vllm, or llama.cpp");
  if (!gives_rig(given) && m.gpu.empty())
    miss("the machine", "--gpu rtx-4090, or --rig with its name or file (this: this machine)");
  if (!gives_model(given) && !resolver.model(m.model, std::nullopt))
    miss(m.model.empty()
             ? "the model"
             : fmt::format("a model that is known (\"{}\" is not)", freetext::clipped(m.model)),
         "--model llama-3.1-8b, or a file");
  const bool has_quant = gives_model(given)
                             ? given.has("model.file") || given.has("model.quant") ||
                                   states_quant(given.root().table("model").text_or("name", ""))
                             : !stated_quant(m, given, resolver).empty() || states_quant(m.model);
  if (!has_quant)
    miss("how the weights are stored", "--quant BF16 as released, else Q4_K_M or another mix");
  const bool slots = has_slots(runtime) && !is_lockstep(m);
  if (slots && !m.slots && !given.has("scheduler.slots"))
    miss("how many requests run at once", "--slots 4, the server's -np");
  if (facts.empty()) return std::nullopt;
  return bad_input(fmt::format("not stated: {}", fmt::join(facts, ", ")),
                   fmt::format("{}", fmt::join(flags, "\n  ")), SourceRef{m.source, m.line, 1});
}

Result<ResolvedServing> resolve_serving(const ServingMeasurement& all, NameResolver& resolver,
                                        const TomlDocument& given) {
  if (const std::string reason = obstacle(all, given); !reason.empty()) return bad_input(reason);
  const ServingMeasurement m = of_one_server(all);
  const auto toml = stated_toml(m, resolver, given);
  if (!toml) return toml.error();
  const auto stated = TomlDocument::parse(*toml, m.id);
  if (!stated) return stated.error();
  TomlDocument document = given.clone();
  // Lengths that are given are those of all requests.
  TomlDocument source = stated->clone();
  for (const char* key : {"prompt_tokens", "output_tokens"})
    if (given.has(std::string("workload.") + key)) source.erase(std::string("load.") + key);
  document.merge_defaults(source);
  auto scenario = make_scenario(document, resolver.catalogue());
  if (!scenario) return scenario.error();
  ResolvedServing out{m, std::make_shared<const Scenario>(*std::move(scenario)), {}};
  out.chip = chip_of(out.scenario->rig);
  return out;
}

Result<ResolvedServing> resolve_serving(const ServingMeasurement& m, NameResolver& resolver) {
  return resolve_serving(m, resolver, TomlDocument(m.id));
}

}  // namespace rigcast
