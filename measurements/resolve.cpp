#include "measurements/resolve.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "core/catalogue/compose_rig.hpp"
#include "core/hardware/hardware_names.hpp"
#include "core/scenario/chip_family.hpp"
#include "core/text/freetext.hpp"
#include "measurements/model_fragment.hpp"
#include "measurements/rig_fragment.hpp"
#include "measurements/settings_fragment.hpp"
#include "perfmodel/memory.hpp"
#include "perfmodel/resolve_placement.hpp"

namespace rigcast {
namespace {

// A run that went well fits: by more than this it did not, by less our account of it is off.
constexpr double kMemoryDoubt = 0.05;

// False if a device of its own memory lacks more than that. What a GPU lacks less, it is given.
bool make_fit(Scenario& s, const Placement& placement) {
  const MemoryPlan plan = plan_memory(s, placement, s.workload.last_position());
  const auto within = [](const DeviceMemory& d) {
    return d.needed() <= d.capacity * (1.0 + kMemoryDoubt);
  };
  if (!std::ranges::all_of(plan.devices, within)) return s.rig.unified();
  for (std::size_t g = 0; g < s.rig.gpus.size(); ++g) {
    const DeviceMemory& d = plan.devices[g];
    if (d.needed() <= d.capacity) continue;
    const Bytes lacking = d.needed() - d.capacity + 1_MiB;
    GpuPart& gpu = s.rig.gpus[g];
    if (gpu.unified)
      gpu.gpu_share.value = std::min(1.0, gpu.gpu_share.value * (1 + lacking / d.capacity));
    else
      gpu.memory.value = gpu.memory.value + lacking;
  }
  return true;
}

}  // namespace

bool ResolvedRun::shares_layers() const {
  return std::ranges::any_of(scenario->rig.gpus,
                             [](const GpuPart& gpu) { return gpu.shared.has_value(); });
}

std::string chip_of(const Rig& rig) {
  std::set<std::string> ids;
  for (const GpuPart& gpu : rig.gpus) ids.insert(gpu.id);
  return ids.empty() ? rig.cpu.id : fmt::format("{}", fmt::join(ids, "+"));
}

Result<Resolver> Resolver::on_rig(const Catalogue& catalogue, const std::string& rig) {
  const auto file = catalogue.rig_file(rig);
  if (!file) return file.error();
  TomlDocument document(file->string());
  const std::string name = toml_text(file->string());
  if (auto error = document.set("rig.name", name, "--rig")) return *error;
  if (auto error = merge_named_rig(document, catalogue)) return *error;
  std::vector<std::string> warnings;
  const Rig composed = compose_rig(document.root().table("rig"), catalogue, warnings);
  if (auto error = document.error()) return *error;
  RigFragment fragment;
  fragment.toml = fmt::format("[rig]\nname = {}\n", name);
  fragment.gpus = composed.gpus;
  fragment.text = composed.name;
  fragment.cpu_stated = fragment.ram_known = fragment.host_stated = true;
  Resolver resolver(catalogue);
  resolver.own_rig_ = std::make_shared<const RigFragment>(std::move(fragment));
  return resolver;
}

// Names are compared no closer than by architecture: programs and catalogue write them differently.
Result<RigFragment> Resolver::own_rig(const Measurement& m) {
  const std::vector<GpuPart>& own = own_rig_->gpus;
  const std::vector<std::string> names = gpu_names(m.gpu);
  if (names.empty() && !own.empty())
    return bad_input(fmt::format("ran on the CPU alone, the rig has {}", own_rig_->text));
  const std::size_t count = std::max(names.size(), std::size_t(std::max(0, m.gpu_count)));
  if (!names.empty() && count != own.size())
    return bad_input(fmt::format("ran on {} GPUs, the rig has {}", count, own.size()));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto part = resolver_.gpu(names[i]);
    const std::size_t at = names.size() == own.size() ? i : 0;
    if (part && part->architecture != own[at].architecture)
      return bad_input(fmt::format("ran on {}, the rig has {}", part->name, own[at].name));
  }
  return *own_rig_;
}

Result<Resolver::ResolvedScenario> Resolver::make(const std::string& toml) {
  if (const auto known = resolved_.find(toml); known != resolved_.end()) return known->second;
  const auto made = [&]() -> Result<ResolvedScenario> {
    const auto document = TomlDocument::parse(toml, "measured run");
    if (!document) return bad_input(document.error().message);
    auto scenario = make_scenario(*document, resolver_.catalogue());
    if (!scenario) return bad_input(scenario.error().message, scenario.error().hint);
    const Placement placement = resolve_placement(*scenario);
    const Regime regime = regime_of(*scenario, placement);
    const bool fits = make_fit(*scenario, placement);
    return ResolvedScenario{std::make_shared<const Scenario>(*std::move(scenario)), regime, fits};
  };
  return resolved_.emplace(toml, made()).first->second;
}

std::optional<Resolver::ResolvedScenario> Resolver::fewest_experts_in_ram(
    const Measurement& m, const ParsedNotes& parsed_notes, const ModelSpec& model,
    const RigFragment& rig, const std::string& head, const std::string& rest) {
  std::optional<ResolvedScenario> best;
  for (int few = 1, many = model.layers; few <= many;) {
    const int layers = (few + many) / 2;
    const auto placement = placement_fragment(m, parsed_notes, model, rig, layers);
    if (!placement) return std::nullopt;
    const auto made = make(head + placement->toml + rest);
    if (!made) return std::nullopt;
    if (made->fits) best = *made;
    (made->fits ? many : few) = layers + (made->fits ? -1 : 1);
  }
  return best;
}

Result<ResolvedRun> Resolver::resolve(const Measurement& m) {
  const ParsedNotes parsed_notes = parse_notes(m);
  if (!parsed_notes.other_engine.empty())
    return bad_input(fmt::format("{} is not modelled", parsed_notes.other_engine));
  if (parsed_notes.cpu_or_gpu)
    return bad_input("whether the GPU or the CPU computed is not stated");
  if (parsed_notes.did_not_fit) return bad_input("its source says that it did not fit into VRAM");
  const auto model = model_fragment(m, parsed_notes, resolver_);
  if (!model) return model.error();
  const auto rig = own_rig_ ? own_rig(m) : rig_fragment(m, model->size, resolver_);
  if (!rig) return rig.error();
  const auto placement = placement_fragment(m, parsed_notes, *model->spec, *rig);
  if (!placement) return placement.error();
  const bool fits_itself = leaves_headroom(m, parsed_notes, *placement);
  const std::string rest = runtime_fragment(m, parsed_notes, placement->quantized_v, fits_itself) +
                           workload_fragment(m, parsed_notes, fits_itself);
  const std::string head = rig->toml + model->toml;
  auto made = make(head + placement->toml + rest);
  if (!made) return made.error();
  // Ollama moves whole layers of a model that is too large; llama.cpp moves experts first.
  const bool moves_experts = placement->automatic && made->regime == Regime::kSplit &&
                             model->spec->moe && !parsed_notes.ollama &&
                             !parsed_notes.automatic_split;
  if (moves_experts) {
    auto fitting = fewest_experts_in_ram(m, parsed_notes, *model->spec, *rig, head, rest);
    if (fitting) made = *std::move(fitting);
  }
  if (!made->fits) return bad_input("does not fit into memory as stated");
  const bool host_works = made->regime == Regime::kSplit || made->regime == Regime::kExpertsInRam ||
                          made->regime == Regime::kKvInRam;
  if (host_works && !rig->host_stated)
    return bad_input("the host computes, and neither its CPU nor its RAM is stated");
  ResolvedRun run{m, made->scenario, rig->text, chip_of(made->scenario->rig)};
  run.ram_known = rig->ram_known;
  run.regime = made->regime;
  run.families = chip_families(made->scenario->rig, made->regime);
  run.slow_host = has_slow_host(made->scenario->rig, made->regime);
  run.deep = m.depth >= kDeep;
  run.quantized_kv = placement->quantized_kv;
  return run;
}

Result<ResolvedRun> resolve(const Measurement& m, const Catalogue& catalogue) {
  return Resolver(catalogue).resolve(m);
}

}  // namespace rigcast
