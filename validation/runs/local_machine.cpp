#include "validation/runs/local_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "core/hardware/hardware_names.hpp"
#include "core/text/unit_text.hpp"
#include "engine/architectures/bind_model.hpp"
#include "perfmodel/memory.hpp"
#include "probe/gpu_part.hpp"
#include "probe/host.hpp"

namespace rigcast::validation {
namespace {

constexpr const char* kRigKeys[] = {"rig.name", "rig.gpu", "rig.cpu", "rig.cpu_name"};
// And all that says of which parts a machine is. Limits of its memory are not among them.
constexpr const char* kPartKeys[] = {"rig.name", "rig.gpu", "rig.cpu", "rig.cpu_name",
                                     "rig.ram",  "rig.ssd", "rig.pcie"};

std::string machine_name(const probe::Host& host) {
  const std::string cpu = host.cpu.empty() ? "" : host.cpu + ", ";
  return fmt::format("this machine ({}{} {})", cpu, host.cores, host.cores == 1 ? "core" : "cores");
}

// The id of the part that a GPU is; empty: the catalogue has none.
std::string gpu_of_catalogue(const engine::GpuDevice& device, const Catalogue& catalogue) {
  probe::Gpu gpu;
  gpu.name = device.name;
  gpu.memory = device.memory;
  return probe::gpu_of_catalogue(gpu, catalogue);
}

// The GPU as the part of the catalogue that it is.
std::optional<Error> set_gpu(TomlDocument& document, const Catalogue& catalogue,
                             const engine::GpuAccess& access) {
  const auto device = access.device();
  if (!device) return device.error();
  const std::string part = gpu_of_catalogue(*device, catalogue);
  if (part.empty())
    return bad_input(
        fmt::format("the catalogue has no {} of {}", device->name, text_gib(device->memory)),
        "--gpu with the nearest of rigcast list gpus");
  if (auto error = document.set("rig.gpu", toml_text(part), "this machine")) return error;
  if (document.has("rig.vram_capacity")) return std::nullopt;
  return document.set("rig.vram_capacity",
                      fmt::format("\"{:.0f} MiB\"", device->memory.value / 0x1p20), "this machine");
}

}  // namespace

bool names_a_rig(const TomlDocument& document) {
  return std::ranges::any_of(kRigKeys, [&](const char* key) { return document.has(key); });
}

std::optional<Error> state_local(bool from_flags, TomlDocument& scenario) {
  const auto text = [&](const char* table, const char* key) {
    return scenario.root().table(table).text_or(key, "");
  };
  if (text("rig", "name") == "this") scenario.erase("rig.name");
  const std::string file = text("model", "file");
  std::error_code none;
  if (file.empty() || !from_flags || !std::filesystem::exists(file, none)) return std::nullopt;
  return scenario.set("model.file", toml_text(std::filesystem::absolute(file).string()), "--model");
}

std::string cpu_of_catalogue(const probe::Host& host, const Catalogue& catalogue) {
  for (const std::string& name : simpler_cpu_names(host.cpu))
    if (const auto known = catalogue.cpu(name)) return known->id;
  return "";
}

namespace {

// The CPU as a part of the catalogue, or as what the operating system tells of it.
std::optional<Error> set_cpu(TomlDocument& document, const Catalogue& catalogue,
                             const probe::Host& host) {
  const std::string part = cpu_of_catalogue(host, catalogue);
  if (!part.empty()) return document.set("rig.cpu", toml_text(part), "this machine");
  for (const auto& [key, value] :
       {std::pair{"rig.cpu_name", &host.cpu}, {"rig.cpu_simd", &host.simd}})
    if (!document.has(key))
      if (auto error = document.set(key, toml_text(*value), "this machine")) return error;
  return std::nullopt;
}

std::optional<Error> set_default(TomlDocument& document, const char* key,
                                 const std::string& value) {
  return document.has(key) ? std::nullopt : document.set(key, value, "this machine");
}

// The scenario with this machine for what the document leaves open of a rig.
Result<Scenario> with_this_machine(TomlDocument& document, const Catalogue& catalogue,
                                   const engine::EngineBackend& backend) {
  const auto set = [&](const char* key, const std::string& value) {
    return set_default(document, key, value);
  };
  std::optional<Error> no_gpu;
  if (backend.is_gpu() && !document.has("rig.gpu"))
    no_gpu = set_gpu(document, catalogue, *backend.gpu);
  // What the user can mend is told first: any GPU stands in while the rest is checked.
  if (no_gpu)
    if (auto error = set("rig.gpu", toml_text(catalogue.ids("hwprofiles/gpus").at(0))))
      return *error;
  const probe::Host host = probe::read_host();
  if (auto error = set_cpu(document, catalogue, host)) return *error;
  if (auto error = set("rig.cpu_cores", fmt::format("{}", host.cores))) return *error;
  if (auto error =
          set("rig.ram_capacity", fmt::format("\"{:.0f} MiB\"", host.memory.value / 0x1p20)))
    return *error;
  auto scenario = make_scenario(document, catalogue);
  if (!scenario) return scenario;
  if (no_gpu) return *no_gpu;
  scenario->rig.cpu.name = machine_name(host);
  scenario->warnings.clear();  // of parts that were assumed: none of them enters what is measured
  return scenario;
}

// Erases the parts that the document names, but a GPU that stays; gives their keys, "rig.gpu,
// rig.cpu".
std::string erase_parts(TomlDocument& document, bool gpu_stays) {
  std::string erased;
  for (const std::string_view key : kPartKeys) {
    if (!document.has(key) || (gpu_stays && key == "rig.gpu")) continue;
    document.erase(key);
    erased += fmt::format("{}{}", erased.empty() ? "" : ", ", key);
  }
  return erased;
}

// The GPU that computes, where the catalogue has no part of its name; empty: it has, or none does.
std::string unknown_gpu(const Catalogue& catalogue, const engine::EngineBackend& backend) {
  if (!backend.is_gpu()) return "";
  const auto device = backend.gpu->device();
  return device && gpu_of_catalogue(*device, catalogue).empty() ? device->name : "";
}

}  // namespace

Result<Scenario> make_scenario_here(TomlDocument& document, const Catalogue& catalogue,
                                    const engine::EngineBackend& backend) {
  if (auto error = set_default(document, "runtime.name", "\"rigcast\"")) return *error;
  if (names_a_rig(document)) return make_scenario(document, catalogue);
  return with_this_machine(document, catalogue, backend);
}

Result<Scenario> make_scenario_of_this_machine(TomlDocument& document, const Catalogue& catalogue,
                                               const engine::EngineBackend& backend) {
  if (auto error = set_default(document, "runtime.name", "\"rigcast\"")) return *error;
  // What is not used is checked nevertheless: a name with a slip may be meant for this machine.
  if (std::ranges::any_of(kPartKeys, [&](const char* key) { return document.has(key); }))
    if (auto stated = make_scenario(document.clone(), catalogue); !stated) return stated;
  const std::string gpu = document.has("rig.gpu") ? unknown_gpu(catalogue, backend) : "";
  const std::string erased = erase_parts(document, !gpu.empty());
  auto scenario = with_this_machine(document, catalogue, backend);
  if (!scenario) return scenario;
  if (!gpu.empty() && !scenario->rig.gpus.empty()) {  // with the figures of the part that is named
    scenario->rig.gpus.resize(1);
    scenario->rig.links.resize(1);
    scenario->rig.gpus.front().name = gpu;
  }
  if (!erased.empty())
    scenario->warnings.push_back(
        fmt::format("{} of the scenario took no part: a run is of this machine, here of its {}",
                    erased, backend.is_gpu() ? "GPU" : "CPU"));
  return scenario;
}

namespace {

// " (weights 4.30 GiB, KV cache 1.00 GiB, buffers 104 MiB)".
std::string parts_text(const DeviceMemory& d) {
  std::string text;
  const auto add = [&](const char* what, Bytes bytes) {
    if (bytes.value > 0) text += fmt::format(", {} {}", what, text_gib(bytes));
  };
  add("weights", d.weights);
  add("KV cache", d.kv);
  add("buffers", d.activations + d.staging);
  return text.empty() ? text : " (" + text.substr(2) + ")";
}

struct AvailableMemory {
  Bytes free;
  const char* where;
  const char* by = "";  // what bounds it
};

constexpr const char* kSmaller = "a smaller --quant, --context or --kv-type";

Error insufficient_memory(const DeviceMemory& d, Bytes needed, const AvailableMemory& budget,
                          const std::string& hint = kSmaller) {
  return {ErrorKind::kDoesNotFit,
          fmt::format("{} of {} are needed{} and {} are free{}", text_gib(needed), budget.where,
                      parts_text(d), text_gib(budget.free), budget.by),
          hint,
          {}};
}

// Memory that the scenario takes with `gpu_layers` layers on the GPU, without what others hold.
DeviceMemory needed_with(const Scenario& s, int gpu_layers, std::size_t device) {
  return plan_memory(s, place(s, gpu_layers), s.workload.last_position()).devices[device];
}

// Available host memory; a limit applies to the engine's memory, which is not all of the process.
AvailableMemory available_host_memory(const ExecuteOptions& options) {
  const Bytes free = probe::read_host().available;
  if (!options.ram_limit || *options.ram_limit > free) return {free, "memory"};
  return {*options.ram_limit, "memory", " by --ram-limit"};
}

std::optional<Error> check_host(const Scenario& s, const DeviceMemory& host,
                                const ExecuteOptions& options) {
  DeviceMemory own = host;
  if (options.ram_limit) own.staging -= s.runtime.memory.process;
  const Bytes needed = own.needed() - s.rig.ram_reserved.value;
  const AvailableMemory budget = available_host_memory(options);
  if (needed <= budget.free) return std::nullopt;
  return insufficient_memory(own, needed, budget);
}

std::optional<Error> check_cpu_run(const Scenario& s, const ExecuteOptions& options) {
  if (s.kv.policy != KvPolicy::kVram && s.kv.policy != KvPolicy::kRam)
    return bad_input(fmt::format("the KV policy {} is not executed on the CPU", name(s.kv.policy)),
                     "--kv ram");
  if (!s.rig.gpus.empty())
    return bad_input(
        fmt::format("the rig has a {}, and the run is on the CPU", s.rig.gpus.front().name),
        "--set rig.gpu=[] for the rig without it, or --device with its backend");
  Scenario here = s;
  here.rig.gpus.clear();
  here.rig.links.clear();
  return check_host(s, needed_with(here, 0, 0), options);
}

struct GpuAvailableMemory {
  Bytes free;
  bool limited = false;  // by --vram-limit
  bool of_host = false;  // the GPU's memory is the host's
};

Result<GpuAvailableMemory> available_gpu_memory(const ExecuteOptions& options) {
  const auto device = options.backend->gpu->device();
  if (!device) return device.error();
  const bool limited = options.vram_limit && *options.vram_limit < device->free;
  return GpuAvailableMemory{limited ? *options.vram_limit : device->free, limited,
                            device->integrated};
}

// GPU memory of the engine itself: memory of others and the context are not free in the first
// place.
Bytes needed_of_gpu(const Scenario& s, int gpu_layers) {
  const DeviceMemory gpu = needed_with(s, gpu_layers, 0);
  return gpu.needed() - gpu.overhead;
}

int layers_that_fit(const Scenario& s, Bytes free) {
  int layers = s.model.layers + 1;
  while (layers > 0 && needed_of_gpu(s, layers) > free) --layers;
  return layers;
}

// The requested number of GPU layers, or as many as fit.
int gpu_layers_here(const Scenario& s, Bytes free) {
  if (s.placement.gpu_layers) return std::min(*s.placement.gpu_layers, s.model.layers + 1);
  return layers_that_fit(s, free);
}

// A hint for `layers` layers that do not fit.
std::string fewer_layers_text(const Scenario& s, int layers, Bytes free) {
  const int fit = layers_that_fit(s, free);
  return fit < layers ? fmt::format("--gpu-layers {}, or {}", fit, kSmaller) : kSmaller;
}

std::optional<Error> check_placement(const Scenario& s, const ExecuteOptions& options) {
  if (s.rig.gpus.empty())
    return bad_input(fmt::format("--device {}: the rig has no GPU", options.backend->name),
                     "leave the rig out: this machine's");
  if (s.kv.policy == KvPolicy::kSpill)
    return bad_input(
        "the KV policy spill is what a driver does by itself: it is forecast, not executed",
        "--kv paged");
  return std::nullopt;
}

// GPU and host each find room, in the same bytes.
std::optional<Error> check_unified_memory(const DeviceMemory& gpu, const DeviceMemory& host,
                                          Bytes free) {
  DeviceMemory both = gpu;
  both.weights += host.weights;
  both.kv += host.kv;
  both.activations += host.activations;
  both.staging += host.staging;
  const Bytes needed = both.needed() - both.overhead;
  if (needed <= free) return std::nullopt;
  return insufficient_memory(both, needed, {free, "the memory that GPU and host share"});
}

std::optional<Error> check_gpu_run(const Scenario& s, const ExecuteOptions& options) {
  if (auto error = check_placement(s, options)) return error;
  if (auto error = options.backend->gpu->check(s.model, s.tensors)) return error;
  const auto budget = available_gpu_memory(options);
  if (!budget) return budget.error();
  const int layers = gpu_layers_here(s, budget->free);
  const DeviceMemory gpu = needed_with(s, layers, 0), host = needed_with(s, layers, 1);
  const Bytes needed = needed_of_gpu(s, layers);
  if (needed > budget->free)
    return insufficient_memory(
        gpu, needed, {budget->free, "GPU memory", budget->limited ? " by --vram-limit" : ""},
        fewer_layers_text(s, layers, budget->free));
  if (budget->of_host)
    if (auto error = check_unified_memory(gpu, host, probe::read_host().available)) return error;
  return check_host(s, host, options);
}

}  // namespace

std::optional<Error> check_runnable(const Scenario& s, const ExecuteOptions& options) {
  if (auto error = engine::check_executable(s.model)) return error;
  if (auto error = engine::check_formats(s.tensors)) return error;
  if (!options.synthetic && !s.model_file)
    return bad_input(fmt::format("there are no weights of {} to run", s.model.name),
                     "--weights model.gguf, or --synthetic for random ones of the same shape");
  if (options.synthetic && s.model_file)
    return bad_input("--synthetic and a model file exclude each other",
                     "name a model of the catalogue with --model");
  return options.backend->is_gpu() ? check_gpu_run(s, options) : check_cpu_run(s, options);
}

Result<Placement> placement_here(const Scenario& s, const ExecuteOptions& options) {
  if (!options.backend->is_gpu()) return place(s, 0);
  const auto budget = available_gpu_memory(options);
  if (!budget) return budget.error();
  return place(s, gpu_layers_here(s, budget->free));
}

}  // namespace rigcast::validation
