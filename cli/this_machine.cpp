// What a run takes from the machine it runs on.
#include <fmt/format.h>

#include <algorithm>

#include "cli/executed.hpp"
#include "cli/this_machine.hpp"
#include "core/memory.hpp"
#include "core/unit_text.hpp"
#include "engine/model/model.hpp"
#include "probe/host.hpp"

namespace rigcast::cli {
namespace {

constexpr const char* kRigKeys[] = {"rig.name", "rig.gpu", "rig.cpu"};

std::string machine_name(const probe::Host& host) {
  const std::string cpu = host.cpu.empty() ? "" : host.cpu + ", ";
  return fmt::format("this machine ({}{} {})", cpu, host.cores, host.cores == 1 ? "core" : "cores");
}

}  // namespace

bool names_a_rig(const TomlDocument& document) {
  return std::ranges::any_of(kRigKeys, [&](const char* key) { return document.has(key); });
}

std::string cpu_of_catalogue(const probe::Host& host, const Catalogue& catalogue) {
  if (const auto known = catalogue.cpu(host.cpu)) return known->id;
  const bool intel = host.cpu.find("Intel") != std::string::npos;
  if (host.simd == "avx512-vnni") return intel ? "core-i9-11900k" : "ryzen-9-7950x";
  return intel ? "core-i7-8700" : "ryzen-7-5800x";
}

Result<Scenario> make_scenario_here(TomlDocument& document, const Catalogue& catalogue) {
  const auto set = [&](const char* key, const std::string& value) {
    return document.has(key) ? std::nullopt : document.set(key, value, "this machine");
  };
  if (auto error = set("runtime.name", "\"rigcast\"")) return *error;
  if (names_a_rig(document)) return make_scenario(document, catalogue);
  const probe::Host host = probe::read_host();
  if (auto error = set("rig.cpu", toml_text(cpu_of_catalogue(host, catalogue)))) return *error;
  if (auto error = set("rig.cpu_cores", fmt::format("{}", host.cores))) return *error;
  if (auto error =
          set("rig.ram_capacity", fmt::format("\"{:.0f} MiB\"", host.memory.value / 0x1p20)))
    return *error;
  auto scenario = make_scenario(document, catalogue);
  if (!scenario) return scenario;
  scenario->rig.cpu.name = machine_name(host);
  scenario->warnings.clear();  // of parts that were assumed: none of them enters what is measured
  return scenario;
}

std::optional<Error> refuse_to_run(const Scenario& s, const ExecuteOptions& options) {
  if (auto error = engine::refuse_to_execute(s.model)) return error;
  if (s.kv.policy != KvPolicy::kVram && s.kv.policy != KvPolicy::kRam)
    return bad_input(fmt::format("the KV policy {} is not executed on the CPU", name(s.kv.policy)),
                     "--kv ram");
  if (s.workload.users > 1) return bad_input("one user at a time is executed");
  if (!options.synthetic && !s.model_file)
    return bad_input(fmt::format("there are no weights of {} to run", s.model.name),
                     "--weights model.gguf, or --synthetic for random ones of the same shape");
  if (options.synthetic && s.model_file)
    return bad_input("--synthetic and a model file exclude each other",
                     "name a model of the catalogue with --model");
  Scenario here = s;
  here.rig.gpus.clear();
  here.rig.links.clear();
  here.placement.gpu_layers = 0;
  const Placement placement = place(here, 0);
  const Bytes needed =
      plan_memory(here, placement, s.workload.last_position()).devices.back().needed() -
      s.rig.ram_reserved.value;
  const Bytes free = probe::read_host().available;
  if (needed > free)
    return Error{
        ErrorKind::kDoesNotFit,
        fmt::format("{} of memory are needed and {} are free", text_gib(needed), text_gib(free)),
        "a smaller --quant, --context or --kv-type"};
  return std::nullopt;
}

}  // namespace rigcast::cli
