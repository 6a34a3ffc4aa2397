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
  if (rig.all_reduce_latency && rig.all_reduce_rate) {
    GpuExchange stated;
    if (const auto known =
            gpu_exchange(catalogue, rig.interconnect, gpus, rig.links.front().h2d.value);
        !rig.interconnect.empty() && known)
      stated.over_pcie = known->over_pcie;
    stated.latency = *rig.all_reduce_latency;
    stated.bus = *rig.all_reduce_rate;
    return stated;
  }
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

bool are_alike(const std::vector<GpuPart>& gpus) {
  return std::ranges::all_of(gpus, [&](const GpuPart& g) { return g.id == gpus.front().id; });
}

// Why so many of the GPUs cannot share every layer; nullopt: they can.
std::optional<Error> obstacle_to_sharing(const std::vector<GpuPart>& gpus, int sharing,
                                         const ModelSpec& model, const std::string& instead) {
  if (!are_alike(gpus))
    return bad_input("GPUs that share every layer are forecast of one kind alone",
                     fmt::format("a rig with such GPUs, or {}", instead));
  const std::int64_t n = sharing;
  const auto refused = [&](std::int64_t heads, std::string_view what) {
    return bad_input(fmt::format("{} {} cannot be divided among {} GPUs", heads, what, n),
                     fmt::format("a number of GPUs that divides them, or {}", instead));
  };
  if (model.heads % n != 0) return refused(model.heads, "attention heads");
  // More GPUs than heads of KV have copies of them. Latent attention's KV is that of all heads.
  const std::int64_t kv = std::max<std::int64_t>(1, model.kv_heads);
  if (!model.mla && kv % n != 0 && n % kv != 0) return refused(kv, "heads of KV");
  return std::nullopt;
}

void take_rules(const SplitMode& mode, const SharedModel& what, const Rig& rig,
                SharedLayers& shared) {
  const auto is_before = [&](double year) {
    return what.build_year.value_or(year) < year || year >= kNoBuild;
  };
  shared.element = mode.element.value;
  shared.batch_element = mode.batch_element.value;
  shared.launches = mode.launches.value;
  shared.graphs = !is_before(mode.graphs_since.value);
  if (mode.one_thread) shared.launchers = shared.gpus;
  if (mode.host_latency && shared.exchange.through_host && !rig.all_reduce_latency &&
      is_before(mode.host_latency_until.value))
    shared.exchange.latency = *mode.host_latency;
}

// One scenario's rig and placement, of which all GPUs become one.
class Sharing {
 public:
  Sharing(const TomlTable& placement, const SharedModel& what, const Catalogue& catalogue, Rig& rig,
          std::vector<std::string>& warnings)
      : t_(placement), what_(what), catalogue_(catalogue), rig_(rig), warnings_(warnings) {}

  GpuGroups as_server();
  std::string by_mode();

 private:
  // So many of them each. By a mode's rules of exchange; nullptr: those of a paged server. Errors
  // are of `key`.
  void merge(int gpus, const char* key, const SplitMode* mode);
  std::optional<Error> obstacle_to_groups(const GpuGroups& groups) const;
  std::optional<Error> obstacle_to_engines() const;
  std::optional<Error> obstacle_to_whole_experts(const GpuGroups& groups) const;
  void join_stages(const char* key);
  void tell_if_assumed(const GpuExchange& exchange);

  const TomlTable& t_;
  const SharedModel& what_;
  const Catalogue& catalogue_;
  Rig& rig_;
  std::vector<std::string>& warnings_;
};

void Sharing::tell_if_assumed(const GpuExchange& exchange) {
  if (exchange.bus.kind != SourceKind::kAssumed || rig_.all_reduce_rate) return;
  warnings_.push_back(
      fmt::format("the GPUs exchange at {:.3g} GB/s, which is assumed: rig.interconnect, or "
                  "rig.all_reduce_latency and rig.all_reduce_rate, state what yours have",
                  exchange.bus.value.value / 1e9));
}

void Sharing::merge(int gpus, const char* key, const SplitMode* mode) {
  const bool may_pipeline =
      what_.runtime.id == "vllm" && !rig_.between_stages && are_alike(rig_.gpus);
  const std::string instead = mode           ? "--split-mode layer"
                              : may_pipeline ? fmt::format("--pipeline-parallel {}", gpus)
                                             : "--runtime llama.cpp";
  if (auto error = obstacle_to_sharing(rig_.gpus, gpus, what_.model, instead))
    return t_.refuse(key, *error);
  const auto exchange = exchange_of(rig_, gpus, catalogue_);
  if (!exchange) return t_.refuse(key, exchange.error());
  tell_if_assumed(*exchange);
  SharedLayers shared;
  shared.gpus = gpus;
  // The compressed KV of latent attention is that of all heads.
  const int heads = std::max(1, int(what_.model.kv_heads));
  shared.kv_copies = what_.model.mla ? gpus : std::max(1, gpus / heads);
  shared.exchange = *exchange;
  if (mode) take_rules(*mode, what_, rig_, shared);
  merge_gpus(rig_, shared);
}

// Why the GPUs cannot be grouped so; nullopt: they can.
std::optional<Error> Sharing::obstacle_to_groups(const GpuGroups& groups) const {
  const int all = int(rig_.gpus.size());
  if (groups.all() > all)
    return bad_input(fmt::format("{} GPUs, the rig has {}", groups.all(), all),
                     "a rig with as many GPUs");
  if (groups.all() < all)
    return bad_input(
        fmt::format("{} of the rig's {} GPUs: the others would idle", groups.all(), all),
        "a rig with as many GPUs; several servers are forecast one by one");
  if (groups.tensor < all && !are_alike(rig_.gpus))
    return bad_input("groups of GPUs are forecast of one kind alone",
                     "a rig with such GPUs, or --runtime llama.cpp");
  if (groups.whole_experts)
    if (auto error = obstacle_to_whole_experts(groups)) return error;
  if (groups.data > 1)
    if (auto error = obstacle_to_engines()) return error;
  if (groups.pipeline == 1) return std::nullopt;
  if (what_.runtime.id != "vllm")
    return bad_input(fmt::format("what {} lets pass through a pipeline at once is not forecast",
                                 what_.runtime.name),
                     "--runtime vllm, or --tensor-parallel");
  if (groups.pipeline > what_.model.layers)
    return bad_input(fmt::format("{} stages, {} has {} layers", groups.pipeline, what_.model.name,
                                 what_.model.layers),
                     "fewer stages");
  return std::nullopt;
}

// Why no several engines are forecast behind one front; nullopt: they are.
std::optional<Error> Sharing::obstacle_to_engines() const {
  const std::string one = "one engine with its GPUs and its share of the load";
  if (what_.runtime.id != "vllm" && what_.runtime.id != "sglang")
    return bad_input(
        fmt::format("{} has no engines that share requests behind one front", what_.runtime.name),
        one);
  // vllm/config/parallel.py: steps of all engines are in lockstep, and the experts of each layer
  // are divided among the GPUs of all.
  if (what_.runtime.id == "vllm" && what_.model.moe)
    return bad_input(
        "engines of a model with experts compute them together in vLLM, which is not "
        "forecast",
        "--tensor-parallel, or " + one);
  return std::nullopt;
}

// A stage sends to the next one as two GPUs exchange.
void Sharing::join_stages(const char* key) {
  const auto exchange = exchange_of(rig_, 2, catalogue_);
  if (!exchange) return t_.refuse(key, exchange.error());
  rig_.between_stages = *exchange;
}

// Why the GPUs cannot have whole experts; nullopt: they can.
std::optional<Error> Sharing::obstacle_to_whole_experts(const GpuGroups& groups) const {
  const auto& moe = what_.model.moe;
  if (!moe) return bad_input(fmt::format("{} has no experts", what_.model.name), "leave it out");
  if (what_.runtime.id != "vllm")
    return bad_input(fmt::format("how {} divides experts is not forecast", what_.runtime.name),
                     "--runtime vllm, or leave it out");
  if (groups.tensor == 1) return bad_input("one GPU has all experts of its layers", "leave it out");
  if (moe->experts % groups.tensor != 0)
    return bad_input(
        fmt::format("{} experts cannot be divided among {} GPUs", moe->experts, groups.tensor),
        "a number of GPUs that divides them");
  return std::nullopt;
}

GpuGroups Sharing::as_server() {
  const int all = int(rig_.gpus.size());
  GpuGroups groups;
  groups.pipeline = int(t_.integer_or("pipeline_parallel", 1, 1, kMaxStages));
  groups.data = int(t_.integer_or("data_parallel", 1, 1, 1024));
  const int left = std::max(1, all / (groups.pipeline * groups.data));
  groups.tensor = int(t_.integer_or("tensor_parallel", left, 1, 1024));
  groups.whole_experts = t_.flag("expert_parallel", false);
  const char* key = groups.whole_experts  ? "expert_parallel"
                    : groups.pipeline > 1 ? "pipeline_parallel"
                    : groups.data > 1     ? "data_parallel"
                                          : "tensor_parallel";
  if (auto error = obstacle_to_groups(groups)) {
    t_.refuse(key, *error);
    return {};
  }
  if (groups.data > 1) {
    rig_.gpus.resize(std::size_t(all / groups.data));
    rig_.links.resize(rig_.gpus.size());
    rig_.engines = groups.data;
    warnings_.push_back(
        fmt::format("{} engines: memory and single requests are those of one, loads those of all",
                    groups.data));
  }
  const auto is_slowed = [](const GpuPart& gpu) { return gpu.speed_share.value < 1; };
  if (groups.pipeline > 1 && std::ranges::any_of(rig_.gpus, is_slowed))
    warnings_.push_back(
        "a power limit slows stages as if none waited for another: with few requests they do, and "
        "are faster");
  if (groups.pipeline > 1) join_stages(key);
  if (groups.tensor > 1) merge(groups.tensor, "tensor_parallel", nullptr);
  for (GpuPart& gpu : rig_.gpus)
    if (gpu.shared) gpu.shared->whole_experts = groups.whole_experts;
  if (groups.tensor == 1 && rig_.between_stages) tell_if_assumed(*rig_.between_stages);
  return groups;
}

// The runtime's modes, by layers first.
std::string known_modes(const RuntimeProfile& runtime) {
  std::vector<std::string_view> names{kSplitByLayer};
  for (const SplitMode& mode : runtime.split_modes)
    if (mode.refused.empty()) names.push_back(mode.name);
  return fmt::format("{} has {}", runtime.name, fmt::join(names, ", "));
}

// Why the model cannot be divided so by the build; nullopt: it can.
std::optional<Error> obstacle_to_mode(const SplitMode& mode, const SharedModel& s) {
  const std::string by_layer = "--split-mode layer, the default";
  if (!mode.refused.empty())
    return bad_input(fmt::format("split mode {} is not forecast: {}", mode.name, mode.refused),
                     known_modes(s.runtime));
  if (s.build_year && *s.build_year < mode.since.value)
    return bad_input(
        fmt::format("builds of {} that old have no split mode {}", s.runtime.name, mode.name),
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

std::string Sharing::by_mode() {
  const std::string by_layer(kSplitByLayer), name = t_.text_or("split_mode", by_layer);
  if (name == by_layer) return by_layer;
  const auto refused = [&](std::string_view key, const Error& error) {
    t_.refuse(key, error);
    return by_layer;
  };
  const RuntimeProfile& runtime = what_.runtime;
  const SplitMode* mode = find_split_mode(runtime.split_modes, name);
  if (!mode)
    return refused("split_mode", bad_input(fmt::format("no split mode \"{}\" of {} is forecast",
                                                       name, runtime.name),
                                           known_modes(runtime)));
  if (auto error = obstacle_to_mode(*mode, what_)) return refused("split_mode", *error);
  if (rig_.gpus.size() <= 1) {
    warnings_.push_back(
        fmt::format("one GPU shares no layer: forecast without split mode {}", name));
    return by_layer;
  }
  if (has_uneven_shares(t_))
    return refused("tensor_split",
                   bad_input(fmt::format("split mode {} is forecast with even shares alone", name),
                             "leave it out, or --split-mode layer"));
  merge(int(rig_.gpus.size()), "split_mode", mode);
  // As docs/accuracy.md tells it of the pairs of runtimes/measurements.
  warnings_.push_back(fmt::format(
      "split mode {} was measured on few machines{}", name,
      what_.model.moe ? ": with experts, answers are up to a quarter off, and prompts were up to "
                        "five times slower than forecast"
                      : ""));
  return name;
}

}  // namespace

LayerSharing share_layers(const TomlTable& t, const SharedModel& what, const Catalogue& catalogue,
                          Rig& rig, std::vector<std::string>& warnings) {
  const bool is_paged = what.runtime.rules == RuntimeRules::kPagedServer;
  if (!is_paged && t.has("tensor_parallel")) {
    const auto& modes = what.runtime.split_modes;
    const auto mode =
        std::ranges::find_if(modes, [](const SplitMode& m) { return m.refused.empty(); });
    t.refuse("tensor_parallel", fmt::format("{} has no tensor parallelism", what.runtime.name),
             mode != modes.end() ? fmt::format("--split-mode {} shares every layer", mode->name)
                                 : "choose --runtime vllm, or leave it out");
  }
  if (!is_paged && t.has("pipeline_parallel"))
    t.refuse("pipeline_parallel",
             fmt::format("{} computes one layer after the other, and one step at a time",
                         what.runtime.name),
             "leave it out: its GPUs have whole layers; or --runtime vllm");
  if (!is_paged && t.has("expert_parallel"))
    t.refuse("expert_parallel", fmt::format("{} divides no experts", what.runtime.name),
             "leave it out, or --runtime vllm");
  if (!is_paged && t.has("data_parallel"))
    t.refuse(
        "data_parallel", fmt::format("{} is one engine", what.runtime.name),
        "leave it out: several servers are so many times one, each with its share of the load");
  if (is_paged && t.has("split_mode")) {
    t.refuse("split_mode", fmt::format("GPUs of {} share every layer", what.runtime.name),
             "leave it out; --tensor-parallel N says how many there are");
    return {};
  }
  Sharing sharing(t, what, catalogue, rig, warnings);
  LayerSharing out;
  if (is_paged && !rig.gpus.empty()) out.groups = sharing.as_server();
  out.split_mode = sharing.by_mode();
  return out;
}

std::vector<double> layers_of_stages(int layers, int stages) {
  std::vector<double> out(std::size_t(stages), layers / stages);
  // What is left goes to the stages before the last one, which has the head.
  for (int i = 2; i < 2 + layers % stages; ++i) ++out[std::size_t(stages - i)];
  ++out.back();
  return out;
}

void check_split_mode(const TomlTable& root, const RuntimeProfile& of,
                      const std::string& split_mode, const SplitSettings& settings) {
  const SplitMode* mode = find_split_mode(of.split_modes, split_mode);
  if (!mode) return;
  const TomlTable placement = root.table("placement"), kv = root.table("kv");
  const TomlTable runtime = root.table("runtime");
  const std::string with = fmt::format("split mode {}", mode->name);
  if (std::ranges::find(mode->backends, settings.backend) == mode->backends.end())
    placement.refuse("split_mode",
                     fmt::format("{} is not forecast with {}", with, name(settings.backend)),
                     "--split-mode layer");
  const std::string all_there = fmt::format("{} is forecast with all layers on GPUs", with);
  constexpr const char* kLeaveOut = "leave it out, or --split-mode layer";
  if (!settings.all_layers) placement.refuse("gpu_layers", all_there, kLeaveOut);
  for (const char* key : {"cpu_moe_layers", "cpu_ffn_layers"})
    if (!settings.all_ffns && placement.has(key)) placement.refuse(key, all_there, kLeaveOut);
  if (settings.policy != KvPolicy::kVram)
    kv.refuse("policy", fmt::format("{} is forecast with the cache on GPUs", with),
              "--kv vram, or --split-mode layer");
  const bool quantized =
      info(settings.cache.k).block_elements > 1 || info(settings.cache.v).block_elements > 1;
  if (quantized && !mode->quantized_cache)
    kv.refuse(kv.has("type_k") ? "type_k" : "type_v",
              fmt::format("{} of {} takes no quantized cache", with, of.name),
              "--kv-type f16, or --split-mode layer");
  if (mode->needs_flash && !settings.flash_attention)
    runtime.refuse("flash_attention", fmt::format("{} of {} needs flash attention", with, of.name),
                   "--flash-attn on, or --split-mode layer");
}

}  // namespace rigcast
