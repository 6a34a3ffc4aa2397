#include "measurements/serving/resolve_serving.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "core/model/model_names.hpp"
#include "core/model/quantized_model.hpp"
#include "core/text/freetext.hpp"
#include "measurements/model_fragment.hpp"
#include "measurements/parsed_notes.hpp"
#include "measurements/resolve.hpp"
#include "measurements/rig_fragment.hpp"

namespace rigcast {
namespace {

// Our name of a program; empty: it is not forecast.
std::string runtime_of(const std::string& engine) {
  constexpr std::array kForecast{"vllm", "sglang", "tensorrt-llm", "llama.cpp"};
  return std::ranges::find(kForecast, engine) == kForecast.end() ? "" : engine;
}

// "gguf-q4_k_m" as the label of a mix.
std::string gguf_quant(const std::string& stated) {
  const std::string label = freetext::lower(stated);
  return label.starts_with("gguf-") ? label.substr(5) : label;
}

// The recipe of weights that a server read from safetensors; without a word of it, of those that
// the model's name states, else as they were published. The experts of gpt-oss have one format
// alone.
Result<std::string> served_quant(const ServingMeasurement& m, const ModelSpec& model) {
  if (model.architecture == "gpt-oss") return std::string("BF16");
  const std::string stated = m.quant.empty() ? stated_model(m.model).quant : m.quant;
  if (stated.empty()) return default_served_quant(model);
  if (const auto mix = served_mix_of_label(stated)) return mix->name();
  return bad_input(fmt::format("weights in \"{}\" are not forecast", freetext::clipped(stated)));
}

Result<ModelFragment> served_fragment(const ServingMeasurement& m, NameResolver& resolver) {
  auto spec = resolver.model(m.model, std::nullopt);
  if (!spec) return bad_input(fmt::format("no model named \"{}\"", freetext::clipped(m.model)));
  const auto quant = served_quant(m, *spec);
  if (!quant) return quant.error();
  const auto size = resolver.size_of(*spec, *quant);
  if (!size) return bad_input(fmt::format("{} cannot be stored as {}", spec->id, *quant));
  ModelFragment fragment;
  fragment.toml = fmt::format("[model]\nname = \"{}\"\nquant = \"{}\"\n", spec->id, *quant);
  fragment.size = Bytes{size->bytes};
  fragment.spec = std::move(spec);
  return fragment;
}

bool is_paged(const ServingMeasurement& m) { return m.engine != "llama.cpp"; }

// Why the run is not one that can be forecast; empty: it is.
std::string obstacle(const ServingMeasurement& m) {
  if (runtime_of(m.engine).empty()) return fmt::format("the program {} is not forecast", m.engine);
  if (m.speculative) return "speculative decoding is not forecast";
  if (m.pipeline_parallel != 1 || m.data_parallel != 1 || m.gpus != m.tensor_parallel * m.copies ||
      (m.gpus > m.copies && !is_paged(m)))
    return "GPUs that share requests so are not forecast";
  if (m.engine == "llama.cpp" && !m.slots) return "the number of slots is not stated";
  if (m.prompt_tokens < 1 || m.output_tokens < 1) return "lengths are not stated";
  return {};
}

// The spread of lengths of conversations is not stated with their mean. Assumed: that of answers in
// Azure's conversations of 2023, for prompts and answers (loads/chat.toml).
constexpr double kSigma = 0.86;

std::string lengths(double mean, bool varied) {
  const auto tokens = std::max<long long>(1, std::llround(mean));
  if (!varied) return fmt::format("{}", tokens);
  const double median = mean / std::exp(kSigma * kSigma / 2);
  constexpr double kNineTenths = 1.2815515655446004;  // of a normal distribution
  return fmt::format("{{ median = {:.1f}, p90 = {:.1f} }}", std::max(1.0, median),
                     std::max(1.0, median * std::exp(kNineTenths * kSigma)));
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
                                 lengths(m.prompt_tokens, m.varied_lengths),
                                 lengths(m.output_tokens, m.varied_lengths));
  if (m.arrival == "poisson" && m.rate && *m.rate > 0)
    return toml + fmt::format("arrival = \"poisson\"\nrate = {:.6f}\nrequests = {}\n", *m.rate,
                              std::max(kForQuantiles, m.requests.value_or(0)));
  if (m.arrival == "closed" && m.concurrency.value_or(0) > 0)
    return toml + fmt::format("arrival = \"closed\"\nusers = {}\nrequests = {}\n", *m.concurrency,
                              std::max(kForQuantiles, 10 * *m.concurrency));
  if (m.arrival == "all at once" && m.requests.value_or(0) > 0)
    return toml + fmt::format("arrival = \"burst\"\nrequests = {}\n", *m.requests);
  return bad_input(
      fmt::format("a load of the kind \"{}\" is not forecast", freetext::clipped(m.arrival)));
}

// A request has room for its tokens, and the longest of a distribution for many times the mean.
TokenCount context_of(const ServingMeasurement& m) {
  const double longest = (m.prompt_tokens + m.output_tokens) * (m.varied_lengths ? 8 : 1);
  return TokenCount(std::ceil(longest / 256) + 1) * 256;
}

std::string scheduler_of(const ServingMeasurement& m, const std::string& runtime) {
  std::string toml = "[scheduler]\n";
  if (runtime == "llama.cpp") {
    // Prompts of benchmarks differ from one another.
    return toml + fmt::format("slots = {}\nprefix_cache = false\n", *m.slots);
  }
  if (m.max_sequences) toml += fmt::format("max_sequences = {}\n", *m.max_sequences);
  if (m.memory_share) toml += fmt::format("memory_share = {}\n", *m.memory_share);
  if (m.max_step_tokens) toml += fmt::format("token_budget = {}\n", *m.max_step_tokens);
  if (m.chunked) toml += "chunked = true\n";
  return toml;
}

}  // namespace

Result<ResolvedServing> resolve_serving(const ServingMeasurement& all, NameResolver& resolver) {
  if (const std::string reason = obstacle(all); !reason.empty()) return bad_input(reason);
  if (all.copies > 1 && all.concurrency.value_or(all.copies) % all.copies != 0)
    return bad_input("servers with unequal shares of the users are not forecast");
  const ServingMeasurement m = of_one_server(all);
  const std::string runtime = runtime_of(m.engine);
  Measurement named;
  named.id = m.id;
  named.gpu = m.gpu;
  named.gpu_count = m.gpus;
  named.pcie = m.link;
  named.model = m.model;
  named.quant = gguf_quant(m.quant);
  const ParsedNotes no_notes{};
  const auto model =
      is_paged(m) ? served_fragment(m, resolver) : model_fragment(named, no_notes, resolver);
  if (!model) return model.error();
  const auto rig = rig_fragment(named, model->size, resolver);
  if (!rig) return rig.error();
  const auto load = load_of(m);
  if (!load) return load.error();
  const std::string toml = fmt::format(
      "[rig]\n{}{}{}[runtime]\nname = \"{}\"\n[workload]\ncontext = {}\n"
      "prompt_tokens = 1\noutput_tokens = 1\nstart = \"resident\"\n{}{}",  // the load states them
      rig->toml.starts_with("[rig]\n") ? rig->toml.substr(6) : rig->toml, rig_settings(m),
      model->toml, runtime, context_of(m), *load, scheduler_of(m, runtime));
  const auto document = TomlDocument::parse(toml, m.id);
  if (!document) return document.error();
  auto scenario = make_scenario(*document, resolver.catalogue());
  if (!scenario) return scenario.error();
  ResolvedServing out{m, std::make_shared<const Scenario>(*std::move(scenario)), {}};
  out.chip = chip_of(out.scenario->rig);
  return out;
}

}  // namespace rigcast
