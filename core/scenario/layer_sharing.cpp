#include "core/scenario/layer_sharing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "core/catalogue/interconnect.hpp"
#include "core/hardware/merge_gpus.hpp"
#include "core/model/quant_format.hpp"

namespace rigcast {
namespace {

constexpr double kNoBuild = 2100;  // as a year: no build yet

// How the rig's GPUs exchange: as the rig states it, else as its interconnect has it.
Result<GpuExchange> exchange_of(const Rig& rig, int gpus, const Catalogue& catalogue) {
  if (rig.all_reduce_latency && rig.all_reduce_rate)
    return GpuExchange{*rig.all_reduce_latency, *rig.all_reduce_rate, false};
  if (rig.interconnect.empty())
    return bad_input(
        fmt::format("how fast several {} exchange is not known", rig.gpus.front().name),
        "state all_reduce_latency and all_reduce_rate of [rig], or an interconnect of "
        "hwprofiles/interconnects");
  auto exchange = gpu_exchange(catalogue, rig.interconnect, gpus, rig.links.front().h2d.value);
  if (!exchange) return exchange;
  if (rig.all_reduce_latency) exchange->latency = *rig.all_reduce_latency;
  if (rig.all_reduce_rate) exchange->bus = *rig.all_reduce_rate;
  return exchange;
}

// Why the GPUs cannot share every layer; nullopt: they can.
std::optional<Error> obstacle_to_sharing(const std::vector<GpuPart>& gpus, const ModelSpec& model,
                                         const std::string& instead) {
  for (const GpuPart& gpu : gpus)
    if (gpu.id != gpus.front().id)
      return bad_input("GPUs that share every layer are forecast of one kind alone",
                       fmt::format("a rig with such GPUs, or {}", instead));
  const int n = int(gpus.size());
  if (model.heads % n == 0) return std::nullopt;
  return bad_input(
      fmt::format("{} attention heads cannot be divided among {} GPUs", model.heads, n),
      fmt::format("a number of GPUs that divides them, or {}", instead));
}

void take_rules(const SplitMode& mode, const Scenario& s, SharedLayers& shared) {
  const auto is_before = [&](double year) {
    return s.settings.build_year.value_or(year) < year || year >= kNoBuild;
  };
  shared.element = mode.element.value;
  shared.batch_element = mode.batch_element.value;
  shared.launches = mode.launches.value;
  shared.graphs = !is_before(mode.graphs_since.value);
  if (mode.one_thread) shared.launchers = shared.gpus;
  if (mode.host_latency && shared.exchange.through_host && !s.rig.all_reduce_latency &&
      is_before(mode.host_latency_until.value))
    shared.exchange.latency = *mode.host_latency;
}

// The GPUs of a rig as one, by a mode's rules of exchange; nullptr: those of a paged server. Errors
// are of `key`.
void merge_all(const TomlTable& t, const char* key, const SplitMode* mode,
               const Catalogue& catalogue, Scenario& s) {
  const int gpus = int(s.rig.gpus.size());
  const std::string instead = mode ? "--split-mode layer" : "--runtime llama.cpp";
  if (auto error = obstacle_to_sharing(s.rig.gpus, s.model, instead)) return t.refuse(key, *error);
  const auto exchange = exchange_of(s.rig, gpus, catalogue);
  if (!exchange) return t.refuse(key, exchange.error());
  if (exchange->bus.kind == SourceKind::kAssumed && !s.rig.all_reduce_rate)
    s.warnings.push_back(
        fmt::format("the GPUs exchange at {:.3g} GB/s, which is assumed: rig.interconnect, or "
                    "rig.all_reduce_latency and rig.all_reduce_rate, state what yours have",
                    exchange->bus.value.value / 1e9));
  SharedLayers shared;
  shared.gpus = gpus;
  // The compressed KV of latent attention is that of all heads.
  shared.kv_copies = s.model.mla ? gpus : std::max(1, gpus / std::max(1, int(s.model.kv_heads)));
  shared.exchange = *exchange;
  if (mode) take_rules(*mode, s, shared);
  merge_gpus(s.rig, shared);
}

void share_as_server(const TomlTable& t, const Catalogue& catalogue, Scenario& s) {
  const int all = int(s.rig.gpus.size());
  const int gpus = int(t.integer_or("tensor_parallel", all, 1, 1024));
  if (gpus > all)
    return t.refuse("tensor_parallel", fmt::format("{} GPUs, the rig has {}", gpus, all),
                    "a rig with as many GPUs");
  if (gpus != all)
    return t.refuse("tensor_parallel",
                    fmt::format("{} of the rig's {} GPUs: the others would idle", gpus, all),
                    "a rig with as many GPUs; several servers are forecast one by one");
  if (gpus > 1) merge_all(t, "tensor_parallel", nullptr, catalogue, s);
}

// The runtime's modes, by layers first.
std::string known_modes(const RuntimeProfile& runtime) {
  std::vector<std::string_view> names{kSplitByLayer};
  for (const SplitMode& mode : runtime.split_modes)
    if (mode.refused.empty()) names.push_back(mode.name);
  return fmt::format("{} has {}", runtime.name, fmt::join(names, ", "));
}

// Why the model cannot be divided so by the build; nullopt: it can.
std::optional<Error> obstacle_to_mode(const SplitMode& mode, const Scenario& s) {
  const std::string by_layer = "--split-mode layer, the default";
  if (!mode.refused.empty())
    return bad_input(fmt::format("split mode {} is not forecast: {}", mode.name, mode.refused),
                     known_modes(s.runtime));
  if (s.settings.build_year && *s.settings.build_year < mode.since.value)
    return bad_input(fmt::format("builds of {} before {:.0f} have no split mode {}", s.runtime.name,
                                 mode.since.value, mode.name),
                     fmt::format("{}; {}", by_layer, mode.since.source));
  if (!mode.has_architecture(s.model.architecture))
    return bad_input(fmt::format("{} has no split mode {} for models of the architecture {}",
                                 s.runtime.name, mode.name, s.model.architecture),
                     by_layer);
  return std::nullopt;
}

// A share of every layer for each GPU: only even ones are forecast.
bool has_uneven_shares(const TomlTable& t) {
  const auto shares = t.numbers("tensor_split", 0, 1e6);
  return std::ranges::any_of(shares, [&](double share) { return share != shares.front(); });
}

void share_by_mode(const TomlTable& t, const Catalogue& catalogue, Scenario& s) {
  const std::string name = t.text_or("split_mode", std::string(kSplitByLayer));
  if (name == kSplitByLayer) return;
  const SplitMode* mode = find_split_mode(s.runtime.split_modes, name);
  if (!mode)
    return t.refuse("split_mode", fmt::format("{} has no split mode \"{}\"", s.runtime.name, name),
                    known_modes(s.runtime));
  if (auto error = obstacle_to_mode(*mode, s)) return t.refuse("split_mode", *error);
  if (s.rig.gpus.size() <= 1) return;
  if (has_uneven_shares(t))
    return t.refuse("tensor_split",
                    fmt::format("split mode {} is forecast with even shares alone", name),
                    "leave it out, or --split-mode layer");
  merge_all(t, "split_mode", mode, catalogue, s);
  s.placement.split_mode = name;
  // As docs/accuracy.md tells it of the pairs of runtimes/measurements.
  s.warnings.push_back(fmt::format(
      "split mode {} was measured on few machines{}", name,
      s.model.moe ? ": with experts, answers are up to a quarter off, and prompts were up to five "
                    "times slower than forecast"
                  : ""));
}

}  // namespace

void share_layers(const TomlTable& t, const Catalogue& catalogue, Scenario& s) {
  const bool is_paged = s.runtime.rules == RuntimeRules::kPagedServer;
  if (!is_paged && t.has("tensor_parallel")) {
    const auto mode = std::ranges::find_if(s.runtime.split_modes,
                                           [](const SplitMode& m) { return m.refused.empty(); });
    const bool has_one = mode != s.runtime.split_modes.end();
    t.refuse("tensor_parallel", fmt::format("{} has no tensor parallelism", s.runtime.name),
             has_one ? fmt::format("--split-mode {} shares every layer", mode->name)
                     : "choose --runtime vllm, or leave it out");
  }
  if (is_paged && !s.rig.gpus.empty()) share_as_server(t, catalogue, s);
  share_by_mode(t, catalogue, s);
}

void check_split_mode(const TomlTable& root, const Scenario& s) {
  const SplitMode* mode = find_split_mode(s.runtime.split_modes, s.placement.split_mode);
  if (!mode) return;
  const TomlTable placement = root.table("placement"), kv = root.table("kv");
  const TomlTable runtime = root.table("runtime");
  const std::string with = fmt::format("split mode {}", mode->name);
  if (std::ranges::find(mode->backends, s.settings.backend) == mode->backends.end())
    placement.refuse("split_mode",
                     fmt::format("{} is not forecast with {}", with, name(s.settings.backend)),
                     "--split-mode layer");
  if (s.placement.gpu_layers.value_or(0) <= s.model.layers)
    placement.refuse("gpu_layers", fmt::format("{} is forecast with all layers on GPUs", with),
                     "leave it out, or --split-mode layer");
  for (const char* key : {"cpu_moe_layers", "cpu_ffn_layers"})
    if (s.placement.cpu_moe_layers + s.placement.cpu_ffn_layers > 0 && placement.has(key))
      placement.refuse(key, fmt::format("{} is forecast with all layers on GPUs", with),
                       "leave it out, or --split-mode layer");
  if (s.kv.policy != KvPolicy::kVram)
    kv.refuse("policy", fmt::format("{} is forecast with the cache on GPUs", with),
              "--kv vram, or --split-mode layer");
  const bool quantized =
      info(s.kv.types.k).block_elements > 1 || info(s.kv.types.v).block_elements > 1;
  if (quantized && !mode->quantized_cache)
    kv.refuse(kv.has("type_k") ? "type_k" : "type_v",
              fmt::format("{} of {} takes no quantized cache", with, s.runtime.name),
              "--kv-type f16, or --split-mode layer");
  if (mode->needs_flash && !s.settings.flash_attention)
    runtime.refuse("flash_attention",
                   fmt::format("{} of {} needs flash attention", with, s.runtime.name),
                   "--flash-attn on, or --split-mode layer");
}

}  // namespace rigcast
