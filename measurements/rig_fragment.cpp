#include "measurements/rig_fragment.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/catalogue/default_parts.hpp"
#include "core/hardware/hardware_names.hpp"
#include "core/hardware/rig_text.hpp"
#include "core/text/freetext.hpp"
#include "measurements/parsed_notes.hpp"

namespace rigcast {
namespace {

constexpr double kSameMemory = 0.07;  // check bits take 1/16

std::string gib_text(double gib) { return fmt::format("\"{:.2f} GiB\"", gib); }
double in_gib(Bytes bytes) { return bytes / 1_GiB; }

Result<std::vector<GpuPart>> find_gpus(const Measurement& m, const std::vector<std::string>& names,
                                       NameResolver& resolver) {
  std::vector<GpuPart> gpus;
  if (names.size() > 1 && m.gpu_count > 0 && names.size() != std::size_t(m.gpu_count))
    return bad_input(fmt::format("{} GPUs, of which {} are named", m.gpu_count, names.size()));
  for (const std::string& name : names) {
    if (is_unnamed(name)) return bad_input("the GPU is not named");
    auto part = resolver.gpu(name);
    if (!part) return bad_input(part.error().message);
    gpus.push_back(*std::move(part));
  }
  if (gpus.size() == 1 && m.gpu_count > 1) {
    if (m.gpu_count > 64) return bad_input(fmt::format("{} GPUs", m.gpu_count));
    gpus.resize(std::size_t(m.gpu_count), gpus.front());
  }
  return gpus;
}

// Memory in the name that the part does not have: another size of a unified chip, or a card that
// was changed.
std::string memory_toml(const RigFragment& rig, const std::string& name) {
  const auto gib = freetext::gib(name);
  const GpuPart& part = rig.gpus.front();
  const bool one_kind =
      std::ranges::all_of(rig.gpus, [&](const GpuPart& g) { return g.id == part.id; });
  if (!gib || *gib < 1 || !one_kind) return "";
  if (std::abs(*gib / in_gib(part.memory.value) - 1) <= kSameMemory) return "";
  return fmt::format("{} = {}\n", rig.unified() ? "ram" : "vram_capacity", gib_text(*gib));
}

bool is_soldered(const CpuPart& cpu) {
  return cpu.memory_bandwidth && cpu.memory_type.rfind("lpddr", 0) == 0;
}

int channels(const StatedRam& ram, const std::optional<CpuPart>& cpu) {
  if (ram.channels) return *ram.channels * (ram.per_socket && cpu ? cpu->sockets : 1);
  return cpu && cpu->memory_channels > 0 ? cpu->memory_channels : 2;
}

// Transfers of a RAM generation whose speed is not stated: the most common one.
int default_transfers(const std::string& type) {
  return type == "ddr5" ? 5600 : type == "ddr4" ? 3200 : 1600;
}

// A CPU that nobody names: a desktop's of that RAM's generation, with a core for every thread.
Result<std::string> default_cpu(const Measurement& m, const Catalogue& catalogue) {
  const auto defaults = default_parts(catalogue);
  if (!defaults) return defaults.error();
  const bool ddr5 = stated_ram(m.ram_type).type.rfind("ddr5", 0) == 0;
  const std::vector<std::string>& ids = ddr5 ? defaults->cpus_with_ddr5 : defaults->cpus_with_ddr4;
  for (const std::string& id : ids) {
    const auto cpu = catalogue.cpu(id);
    if (!cpu) return cpu.error();
    if (cpu->cores >= m.threads.value_or(0)) return id;
  }
  return ids.back();
}

// "(VM, 56 threads)": a part of the CPU, two threads of each core.
std::optional<int> virtual_cores(const Measurement& m, const CpuPart& cpu) {
  const auto found = freetext::match(freetext::lower(m.cpu), R"(\bvm\b[, ]*(\d{1,4}) threads)");
  if (found.empty()) return std::nullopt;
  const int cores = std::atoi(found[1].c_str()) / 2;
  return cores > 0 && cores < cpu.cores ? std::optional(cores) : std::nullopt;
}

// Keys of the RAM beside the CPU, and whether its bandwidth follows from what is stated.
void ram_fragment(const Measurement& m, Bytes size, const std::optional<CpuPart>& cpu,
                  RigFragment& rig) {
  const StatedRam ram = stated_ram(m.ram_type);
  const double needed = in_gib(size) * 1.3 + 8;
  const double gib = std::max(needed, ram.capacity ? in_gib(*ram.capacity) : 0.0);
  const bool ddr = ram.type.rfind("ddr", 0) == 0;
  // A CPU brings its usual RAM; without one, what is said of the RAM is all there is.
  const bool kit = ddr && (ram.mega_transfers || !cpu);
  if (kit) {
    const std::string type = ram.type.substr(0, 4);
    const int transfers = ram.mega_transfers.value_or(default_transfers(type));
    rig.toml += fmt::format("ram = \"{}x{}-{}\"\n", std::clamp(channels(ram, cpu), 1, 64), type,
                            std::clamp(transfers, 100, 20'000));
    rig.ram_known = ram.mega_transfers && (ram.channels || cpu);
  } else if (cpu && is_soldered(*cpu)) {
    rig.toml += fmt::format("ram = {}\n", gib_text(gib));  // a size alone: as the CPU has it
    rig.ram_known = true;
  }
  rig.toml += fmt::format("ram_capacity = {}\n", gib_text(std::min(gib, 100'000.0)));
  if (!m.ram_bandwidth) return;
  rig.toml += fmt::format(
      "ram_bandwidth = {{ value = \"{:.3f} GB/s\", kind = \"measured\", source = \"stated\" }}\n",
      m.ram_bandwidth->value / 1e9);
  rig.ram_known = true;
}

void link_fragment(const Measurement& m, RigFragment& rig) {
  const StatedPcie pcie = stated_pcie(m.pcie, rig.gpus.size());
  std::vector<std::string> quoted;
  for (const std::string& slot : pcie.slots) quoted.push_back(fmt::format("\"{}\"", slot));
  if (!quoted.empty()) rig.toml += fmt::format("pcie = [{}]\n", fmt::join(quoted, ", "));
  if (pcie.h2d && pcie.h2d->value >= 1e8)
    rig.toml += fmt::format("pcie_h2d = \"{:.3f} GB/s\"\n", pcie.h2d->value / 1e9);
}

std::string os_of(const Measurement& m, const RigFragment& rig) {
  const std::string os = freetext::lower(m.os);
  if (freetext::contains(os, "wsl")) return "wsl2";
  if (freetext::contains(os, "windows")) return "windows";
  const bool apple = !rig.gpus.empty() && rig.gpus.front().vendor == "apple";
  return apple || freetext::contains(os, "macos") ? "macos" : "linux";
}

// "2 x RTX 3090, Core i9-10900X".
std::string rig_text(const std::vector<GpuPart>& gpus, const std::optional<CpuPart>& cpu) {
  std::vector<std::string> parts = counted_names(gpus);
  if (cpu) parts.push_back(cpu->name);
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace

Result<RigFragment> rig_fragment(const Measurement& m, Bytes size, NameResolver& resolver) {
  RigFragment rig;
  const std::vector<std::string> names = gpu_names(m.gpu);
  auto gpus = find_gpus(m, names, resolver);
  if (!gpus) return gpus.error();
  rig.gpus = *std::move(gpus);
  std::optional<CpuPart> cpu;
  const bool stated = !m.cpu.empty() && !is_unnamed(m.cpu);
  if (stated && !rig.unified()) cpu = resolver.cpu(m.cpu);
  if (rig.gpus.empty() && !cpu)
    return bad_input(stated ? fmt::format("no CPU named \"{}\"", freetext::clipped(m.cpu))
                            : std::string("neither a GPU nor a CPU is named"));
  rig.cpu_stated = cpu || !stated;
  rig.host_stated = cpu || stated_ram(m.ram_type).type.rfind("ddr", 0) == 0 || m.ram_bandwidth;
  std::vector<std::string> ids;
  for (const GpuPart& gpu : rig.gpus) ids.push_back(fmt::format("\"{}\"", gpu.id));
  rig.toml = fmt::format("[rig]\ngpu = [{}]\nos = \"{}\"\n", fmt::join(ids, ", "), os_of(m, rig));
  if (!rig.unified()) {
    const auto id = cpu ? Result<std::string>(cpu->id) : default_cpu(m, resolver.catalogue());
    if (!id) return id.error();
    rig.toml += fmt::format("cpu = \"{}\"\n", *id);
  }
  if (const auto cores = cpu ? virtual_cores(m, *cpu) : std::nullopt)
    rig.toml += fmt::format("cpu_cores = {}\n", *cores);
  if (!rig.gpus.empty()) rig.toml += memory_toml(rig, names.front());
  if (rig.unified()) {
    rig.ram_known = true;
  } else {
    ram_fragment(m, size, cpu, rig);
    link_fragment(m, rig);
    if (rig.gpus.size() > 1 && parse_notes(m).peer_to_peer)
      rig.toml += "interconnect = \"pcie-p2p\"\n";
  }
  rig.text = rig_text(rig.gpus, cpu);
  return rig;
}

}  // namespace rigcast
