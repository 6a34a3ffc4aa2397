#include "measurements/serving/resolve_serving.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

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

// "gguf-q4_k_m" and "BF16 (as released)" as labels of a mix.
std::string quant_of(const std::string& stated) {
  std::string label = freetext::lower(stated);
  if (label.starts_with("gguf-")) return label.substr(5);
  if (label.starts_with("bf16") || label == "bfloat16") return "BF16";
  return label;
}

// Why the run is not one that can be forecast; empty: it is.
std::string obstacle(const ServingMeasurement& m) {
  if (runtime_of(m.engine).empty()) return fmt::format("the program {} is not forecast", m.engine);
  if (m.speculative) return "speculative decoding is not forecast";
  if (m.gpus != 1 || m.tensor_parallel != 1 || m.pipeline_parallel != 1 || m.data_parallel != 1)
    return "several GPUs that share requests are not forecast";
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

Result<ResolvedServing> resolve_serving(const ServingMeasurement& m, NameResolver& resolver) {
  if (const std::string reason = obstacle(m); !reason.empty()) return bad_input(reason);
  const std::string runtime = runtime_of(m.engine);
  Measurement named;
  named.id = m.id;
  named.gpu = m.gpu;
  named.gpu_count = 1;
  named.model = m.model;
  named.quant = quant_of(m.quant);
  const ParsedNotes no_notes{};
  const auto model = model_fragment(named, no_notes, resolver);
  if (!model) return model.error();
  const auto rig = rig_fragment(named, model->size, resolver);
  if (!rig) return rig.error();
  const auto load = load_of(m);
  if (!load) return load.error();
  const std::string toml = fmt::format(
      "[rig]\n{}{}[runtime]\nname = \"{}\"\n[workload]\ncontext = {}\n"
      "prompt_tokens = 1\noutput_tokens = 1\nstart = \"resident\"\n{}{}",  // the load states them
      rig->toml.starts_with("[rig]\n") ? rig->toml.substr(6) : rig->toml, model->toml, runtime,
      context_of(m), *load, scheduler_of(m, runtime));
  const auto document = TomlDocument::parse(toml, m.id);
  if (!document) return document.error();
  auto scenario = make_scenario(*document, resolver.catalogue());
  if (!scenario) return scenario.error();
  ResolvedServing out{m, std::make_shared<const Scenario>(*std::move(scenario)), {}};
  out.chip = chip_of(out.scenario->rig);
  return out;
}

}  // namespace rigcast
