#include "core/catalogue/compose_rig.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "core/catalogue/default_parts.hpp"
#include "core/catalogue/gpu_measured.hpp"
#include "core/catalogue/power_curve.hpp"
#include "core/hardware/rig_correction.hpp"
#include "core/hardware/rig_text.hpp"
#include "core/text/nearest_name.hpp"

namespace rigcast {
namespace {

constexpr Hertz kDefaultClock{3e9};
constexpr std::size_t kMaxGpus = 16;

// "2xrtx-3090" is two cards.
std::pair<int, std::string> counted(const std::string& text) {
  int count = 0;
  const char* end = text.data() + text.size();
  const auto [after, code] = std::from_chars(text.data(), end, count);
  if (code != std::errc{} || after == end || *after != 'x') return {1, text};
  return {count, std::string(after + 1, end)};
}

// A name without a size may be an alias of one card and fit others.
void warn_of_others(const std::string& name, const GpuPart& part, const Catalogue& catalogue,
                    std::vector<std::string>& warnings) {
  if (as_id(name) == part.id || name.ends_with(".toml")) return;
  std::vector<std::string> others = catalogue.gpus_called(name);
  std::erase(others, part.id);
  if (!others.empty())
    warnings.push_back(fmt::format("\"{}\" may be {}: assumed {} (--gpu)", name,
                                   fmt::join(others, ", "), part.id));
}

std::vector<GpuPart> find_gpus(const TomlTable& t, const Catalogue& catalogue,
                               std::vector<std::string>& warnings) {
  std::vector<GpuPart> gpus;
  for (const std::string& text : t.texts("gpu")) {
    const auto [count, name] = counted(text);
    const auto part = catalogue.gpu(name);
    if (!part) {
      t.refuse("gpu", part.error());
      return {};
    }
    if (count < 1)
      t.refuse("gpu", fmt::format("\"{}\" is no GPU at all", text), "gpu = [] is none");
    if (count < 1 || gpus.size() + std::size_t(count) > kMaxGpus) {
      t.refuse("gpu", fmt::format("a rig has at most {} GPUs", kMaxGpus));
      return {};
    }
    gpus.insert(gpus.end(), std::size_t(count), *part);
    warn_of_others(name, *part, catalogue, warnings);
  }
  const auto is_unified = [](const GpuPart& g) { return g.unified; };
  if (gpus.size() > 1 && std::ranges::any_of(gpus, is_unified))
    t.refuse("gpu", "a GPU with unified memory is the only one of its rig");
  return gpus;
}

template <class T>
void assume(Sourced<T>& figure, std::string_view why) {
  figure.kind = SourceKind::kAssumed;
  figure.source = why;
}

// The name of the part that was given, or of the one that stands in for it.
std::string named_or_default(const TomlTable& t, std::string_view key, const Catalogue& catalogue,
                             std::string DefaultParts::*part) {
  if (const auto given = t.find_text(key)) return *given;
  const auto defaults = default_parts(catalogue);
  if (!defaults) t.refuse(key, defaults.error());
  return defaults ? (*defaults).*part : std::string();
}

// A CPU that the catalogue lacks: what the rig says of it is all that is known.
CpuPart described_cpu(const TomlTable& t) {
  for (const char* key : {"cpu_cores", "cpu_simd"}) t.require(key);
  CpuPart cpu;
  const std::string name = t.text_or("cpu_name", "");
  cpu.id = cpu.name = name.empty() ? "CPU" : name;
  for (const auto& [word, vendor] :
       {std::pair{"Intel", "intel"}, {"INTEL", "intel"}, {"AMD", "amd"}, {"Apple", "apple"}})
    if (cpu.name.find(word) != std::string::npos) cpu.vendor = vendor;
  cpu.cores = 1;
  cpu.clock = {kDefaultClock, SourceKind::kAssumed, "a CPU that the catalogue lacks"};
  return cpu;
}

CpuPart find_cpu(const TomlTable& t, const Catalogue& catalogue, const std::vector<GpuPart>& gpus,
                 std::vector<std::string>& warnings) {
  const bool unified = !gpus.empty() && gpus.front().unified;
  const bool given = t.has("cpu");
  if (!given && !unified && t.has("cpu_name")) {
    CpuPart cpu = described_cpu(t);
    if (!t.has("cpu_clock"))
      warnings.push_back(fmt::format("the catalogue has no {}: its clock is assumed", cpu.name));
    return cpu;
  }
  auto part =
      catalogue.cpu(!given && unified ? gpus.front().unified_cpu
                                      : named_or_default(t, "cpu", catalogue, &DefaultParts::cpu));
  if (!part) {
    t.refuse("cpu", part.error());
    return {};
  }
  if (!given && !unified) {
    warnings.push_back(fmt::format("no CPU given: assumed {} (--cpu)", part->name));
    if (part->clock) assume(*part->clock, "no CPU given");
  }
  return *std::move(part);
}

// The pool of a unified chip is its RAM: only its size can be chosen.
RamKit unified_pool(const TomlTable& t, const GpuPart& gpu) {
  RamKit kit;
  kit.id = kit.name = "unified memory";
  kit.capacity = gpu.memory;
  kit.bandwidth = gpu.bandwidth;
  if (const auto size = t.find_text("ram")) {
    const auto bytes = parse_bytes(*size);
    if (!bytes) {
      t.refuse("ram", bytes.error().message,
               "a unified chip brings its memory: give its size alone, for example \"64 GiB\"");
    } else if (*bytes < 256_MiB || *bytes > Bytes{1e14}) {
      t.refuse("ram", fmt::format("\"{}\" is not a plausible size", *size));
    } else {
      kit.capacity = {*bytes, SourceKind::kSpec, "size of the configuration"};
    }
  }
  return kit;
}

// A size alone: the memory that the CPU officially supports, of that size.
Result<RamKit> soldered(const CpuPart& cpu, Bytes capacity) {
  if (!cpu.memory_bandwidth)
    return bad_input("the RAM's speed is not known for this CPU",
                     "write channels, speed and size, for example \"2xddr5-6000:64GiB\"");
  RamKit kit;
  kit.id = kit.name = cpu.memory_type.empty() ? "memory" : cpu.memory_type;
  kit.bandwidth = *cpu.memory_bandwidth;
  kit.capacity = {capacity, SourceKind::kSpec, "size of the configuration"};
  return kit;
}

RamKit find_ram(const TomlTable& t, const Catalogue& catalogue, const CpuPart& cpu,
                std::vector<std::string>& warnings) {
  const auto given = t.find_text("ram");
  auto kit = catalogue.ram(given ? *given
                           : cpu.memory_channels > 0
                               ? fmt::format("{}x{}", cpu.memory_channels, cpu.memory_type)
                               : named_or_default(t, "ram", catalogue, &DefaultParts::ram));
  if (!kit && given && parse_bytes(*given)) kit = soldered(cpu, *parse_bytes(*given));
  if (!kit && !given)
    kit = catalogue.ram(named_or_default(t, "ram", catalogue, &DefaultParts::ram));
  if (!kit) {
    t.refuse("ram", kit.error());
    return {};
  }
  // A machine that was measured says what its memory gives, and need not know what it is made of.
  if (!given && t.has("ram_bandwidth") && t.has("ram_capacity")) {
    kit->id = kit->name = "memory";
  } else if (!given) {
    warnings.push_back(fmt::format("no RAM given: assumed {}, {} (--ram)", kit->id,
                                   text_gib(kit->capacity.value)));
    assume(kit->capacity, "no RAM given");
    assume(kit->bandwidth, "no RAM given");
  }
  return *std::move(kit);
}

SsdPart find_ssd(const TomlTable& t, const Catalogue& catalogue,
                 std::vector<std::string>& warnings) {
  const bool given = t.has("ssd");
  auto part = catalogue.ssd(named_or_default(t, "ssd", catalogue, &DefaultParts::ssd));
  if (!part) {
    t.refuse("ssd", part.error());
    return {};
  }
  if (!given && t.has("ssd_read")) {
    part->id = part->name = "disk";
  } else if (!given) {
    warnings.push_back(fmt::format("no SSD given: assumed {} (--ssd)", part->name));
    assume(part->sequential_read, "no SSD given");
  }
  return *std::move(part);
}

// The slot and the card agree on the lower generation and the fewer lanes.
PcieLink negotiated(PcieLink slot, PcieLink card) {
  if (card.generation == 0) return slot;
  return {std::min(slot.generation, card.generation), std::min(slot.lanes, card.lanes)};
}

std::vector<HostLink> find_links(const TomlTable& t, const Catalogue& catalogue,
                                 const std::vector<GpuPart>& gpus) {
  const auto texts = t.texts("pcie");
  if (texts.size() > 1 && texts.size() != gpus.size())
    t.refuse("pcie", fmt::format("{} links for {} GPUs", texts.size(), gpus.size()),
             "give one for all GPUs, or one for each");
  std::vector<HostLink> links;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    PcieLink slot = gpus[i].pcie;
    if (!texts.empty()) {
      const auto parsed = parse_pcie(texts[std::min(i, texts.size() - 1)]);
      if (!parsed) {
        t.refuse("pcie", parsed.error());
        return links;
      }
      slot = negotiated(*parsed, gpus[i].pcie);
    }
    if (slot.generation == 0) slot = {4, 16};
    const auto link = catalogue.host_link(slot);
    if (!link) {
      t.refuse("pcie", link.error());
      return links;
    }
    links.push_back(*link);
    if (texts.empty() && gpus[i].pcie.generation == 0)
      for (auto* rate : {&links.back().h2d, &links.back().d2h, &links.back().pageable})
        assume(*rate, "no PCI-E link given");
  }
  return links;
}

// NVLink of the generation that modules have on their boards; empty where that of a module is not
// known. Cards have PCI-E, through the host where the driver lets no GPU read another's memory.
std::string usual_interconnect(const std::vector<GpuPart>& gpus) {
  if (gpus.empty()) return "";
  const GpuPart& gpu = gpus.front();
  if (gpu.form != FormFactor::kModule) return gpu.p2p ? "pcie-p2p" : "pcie-host";
  for (const auto& [architecture, nvlink] : {std::pair{"volta", "nvlink-2"},
                                             std::pair{"ampere-dc", "nvlink-3"},
                                             {"hopper", "nvlink-4"},
                                             {"blackwell-dc", "nvlink-5"}})
    if (gpu.architecture == architecture) return nvlink;
  return "";
}

// Memory nodes as a probe measured them, or as somebody states them.
void override_nodes(const TomlTable& t, CpuPart& cpu) {
  const auto rate = [&](std::string_view key) {
    return t.find_figure<BytesPerSecond>(key, 10_MBps, BytesPerSecond{1e14});
  };
  if (const auto found = rate("node_read")) cpu.node_read = *found;
  if (const auto found = rate("remote_read")) cpu.remote_read = *found;
  cpu.numa_nodes = int(t.integer_or("numa_nodes", cpu.numa_nodes, 1, 1024));
  if (t.has("numa_nodes") && cpu.numa_nodes > 1 && !cpu.remote_read)
    t.refuse("numa_nodes", "how fast the nodes read each other's memory is not known",
             "add remote_read = \"34 GB/s\", as rigcast probe measures it, or leave this out");
}

// A GPU in a slot of another memory node than the one that its program's memory is in: copies cross
// the link of the nodes.
void limit_far_links(const TomlTable& t, Rig& rig) {
  if (!t.flag("gpu_on_far_node", false)) return;
  if (!rig.cpu.remote_read) {
    t.refuse("gpu_on_far_node", "how fast the nodes read each other's memory is not known",
             "add remote_read = \"34 GB/s\", as rigcast probe measures it");
    return;
  }
  for (HostLink& link : rig.links)
    for (auto* rate : {&link.h2d, &link.d2h, &link.pageable})
      rate->value = std::min(rate->value, rig.cpu.remote_read->value);
}

// Overrides figures of the CPU with those of the rig file; a part of the catalogue supplies the
// rest.
void override_cpu(const TomlTable& t, CpuPart& cpu) {
  cpu.cores = int(t.integer_or("cpu_cores", cpu.cores, 1, 100'000));
  if (const auto name = t.find_text("cpu_name")) cpu.name = *name;
  if (const auto simd = t.find_text("cpu_simd")) cpu.simd = *simd;
  cpu.amx = t.flag("cpu_amx", cpu.simd == kAmx);
  const auto flops = [&](std::string_view key) {
    return t.find_figure<FlopsPerSecond>(key, FlopsPerSecond{1e6}, FlopsPerSecond{1e17});
  };
  if (const auto found = flops("cpu_int8")) cpu.int8_rate = *found;
  if (const auto found = flops("core_int8")) cpu.core_int8 = *found;
  if (const auto found = flops("cpu_fp32")) cpu.fp32_rate = *found;
  if (const auto found = t.find_figure<Hertz>("cpu_clock", Hertz{1e7}, Hertz{2e10})) {
    cpu.clock = *found;
    cpu.base_clock = cpu.boost_clock = std::nullopt;  // those of the part that stands for it
  }
  if (const auto found = t.find_figure<BytesPerSecond>("core_read", 10_MBps, BytesPerSecond{1e13}))
    cpu.core_read = *found;
  if (const auto found = t.find_figure<Bytes>("cpu_cache", 1_KiB, 64_GiB)) cpu.last_level = *found;
  override_nodes(t, cpu);
}

// Figures stated by the rig itself replace those of its parts.
void override_figures(const TomlTable& t, Rig& rig) {
  const auto rate = [&](std::string_view key) {
    return t.find_figure<BytesPerSecond>(key, BytesPerSecond{1e5}, BytesPerSecond{1e15});
  };
  const auto size = [&](std::string_view key, Bytes least) {
    return t.find_figure<Bytes>(key, least, Bytes{1e15});
  };
  const auto vram_capacity = size("vram_capacity", 16_MiB);
  if (vram_capacity && rig.gpus.empty())
    t.refuse("vram_capacity", "there is no GPU whose memory this would be",
             "name a GPU, or leave it out; rigcast run uses one with --device cuda");
  const auto vram_bandwidth = rate("vram_bandwidth");
  const auto fp16 =
      t.find_figure<FlopsPerSecond>("gpu_fp16", FlopsPerSecond{1e6}, FlopsPerSecond{1e17});
  const auto share = t.find_number_figure("gpu_share", 0.01, 1.0);
  for (GpuPart& gpu : rig.gpus) {
    if (vram_capacity) gpu.memory = *vram_capacity;
    if (vram_bandwidth) gpu.bandwidth = *vram_bandwidth;
    if (fp16) gpu.fp16_tensor = *fp16;
    if (share) gpu.gpu_share = *share;
  }
  const auto h2d = rate("pcie_h2d");
  const auto d2h = rate("pcie_d2h");
  const auto pageable = rate("pcie_pageable");
  const auto latency = t.find_figure<Seconds>("pcie_latency", Seconds{0}, Seconds{1});
  for (HostLink& link : rig.links) {
    if (h2d) link.h2d = link.d2h = *h2d;
    if (d2h) link.d2h = *d2h;
    if (pageable) link.pageable = *pageable;
    if (latency) link.latency = *latency;
    link.pageable.value = std::min(link.pageable.value, link.h2d.value);
  }
  if (const auto found = size("ram_capacity", 16_MiB)) rig.ram.capacity = *found;
  if (const auto found = rate("ram_bandwidth")) rig.ram.bandwidth = *found;
  if (const auto found = rate("ssd_read")) rig.ssd.sequential_read = *found;
  if (rig.unified() && vram_bandwidth) rig.ram.bandwidth = *vram_bandwidth;
  if (const auto found = rate("ssd_mapped_read")) rig.ssd.mapped_read = *found;
  if (const auto found = rate("ssd_cached_read")) rig.ssd.cached_read = *found;
  if (const auto found = rate("ssd_cached_map")) rig.ssd.cached_map = *found;
  if (const auto found = size("ssd_readahead", Bytes{0})) rig.ssd.readahead = *found;
  if (const auto found = t.find_figure<Seconds>("ssd_page_read", Seconds{1e-7}, Seconds{1}))
    rig.ssd.page_read = *found;
  override_cpu(t, rig.cpu);
  limit_far_links(t, rig);
}

// GPUs whose owner limits their power, as `nvidia-smi -pl` does.
void limit_power(const TomlTable& t, const Catalogue& catalogue, Rig& rig) {
  const auto limit = t.find_figure<Watts>("power_limit", Watts{1}, Watts{1e5});
  if (!limit) return;
  for (GpuPart& gpu : rig.gpus) {
    if (!gpu.board_power)
      return t.refuse("power_limit",
                      fmt::format("what {} draws without a limit is not known", gpu.name));
    const double share = limit->value.value / gpu.board_power->value.value;
    if (share >= 1) continue;
    const auto speed = speed_at_power(catalogue, gpu.architecture, share);
    if (!speed) return t.refuse("power_limit", speed.error());
    gpu.speed_share = *speed;
    gpu.name += fmt::format(" at {:g} W", limit->value.value);
  }
  if (rig.gpus.empty()) t.refuse("power_limit", "there is no GPU whose power this would be");
}

void reserve_memory(const TomlTable& t, Rig& rig) {
  const bool windows = rig.os == OperatingSystem::kWindows || rig.os == OperatingSystem::kWsl2;
  const Sourced<Bytes> desktop{windows ? 600_MiB : 300_MiB, SourceKind::kAssumed, "a desktop"};
  const Sourced<Bytes> context{400_MiB, SourceKind::kAssumed, "300 to 700 MiB until measured"};
  const Sourced<Bytes> none{0_B, SourceKind::kAssumed, "inside the GPU's share of the pool"};
  const Sourced<Bytes> system{windows || rig.os == OperatingSystem::kMacos ? 4_GiB : 2_GiB,
                              SourceKind::kAssumed, "operating system and other programs"};
  const auto size = [&](std::string_view key) {
    return t.find_figure<Bytes>(key, 0_B, Bytes{1e15});
  };
  rig.vram_reserved = size("vram_reserved").value_or(rig.unified() ? none : desktop);
  rig.gpu_context = size("gpu_context").value_or(rig.unified() ? none : context);
  rig.gpu_start = t.find_figure<Seconds>("gpu_start", Seconds{0}, Seconds{60});
  const Bytes most = rig.ram.capacity.value / 4;
  rig.ram_reserved =
      size("ram_reserved")
          .value_or(Sourced<Bytes>{std::min(system.value, most), system.kind, system.source});
}

// Figures in the file of measurements beside the rig override those of the rig itself.
std::optional<Error> merge_measured(TomlDocument& document, const std::filesystem::path& rig) {
  const std::filesystem::path file = measured_file(rig);
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  auto measured = TomlDocument::read(file);
  if (!measured) return measured.error();
  const TomlTable root = measured->root();
  root.find_text("source");
  root.table("correction");
  root.finish();
  document.merge_table_defaults("rig", *measured);
  return measured->error();
}

}  // namespace

void drop_foreign_corrections(const TomlDocument& given, Rig& rig,
                              std::vector<std::string>& warnings) {
  constexpr std::string_view kParts[] = {
      "gpu", "cpu", "ram", "gpu_fp16", "vram_bandwidth", "ram_bandwidth", "cpu_cores"};
  const bool named = given.has("rig.name") && !given.has("rig.correction");
  const bool replaced = std::ranges::any_of(
      kParts, [&](std::string_view part) { return given.has(fmt::format("rig.{}", part)); });
  if (!named || !replaced || rig.corrections.empty()) return;
  rig.corrections.clear();
  warnings.push_back("the rig's speed was measured with its own parts: not corrected here");
}

namespace {

// The rig of that name among people's own files, or else the machine on which the program runs.
std::optional<Error> merge_this_machine(TomlDocument& document, const Catalogue& catalogue) {
  const auto text = catalogue.this_machine();
  if (!text) return text.error();
  const auto here = TomlDocument::parse(*text, "this machine");
  if (!here) return here.error();
  document.merge_table_defaults("rig", *here);
  return document.error();
}

}  // namespace

std::optional<Error> merge_named_rig(TomlDocument& document, const Catalogue& catalogue) {
  const TomlTable rig = document.root().table("rig");
  const auto name = rig.find_text("name");
  if (!name) return document.error();
  const auto file = catalogue.rig_file(*name);
  if (!file && *name == kThisMachine) return merge_this_machine(document, catalogue);
  if (!file) {
    rig.refuse("name", file.error());
    return document.error();
  }
  if (auto error = merge_measured(document, *file)) return error;
  auto named = TomlDocument::read(*file);
  if (!named) return named.error();
  if (named->root().keys().empty())
    return bad_input(fmt::format("{} says nothing of a machine", file->string()),
                     "for example gpu = \"rtx-3090\"; hwprofiles/README.md lists the keys");
  document.merge_table_defaults("rig", *named);
  return document.error();
}

Rig compose_rig(const TomlTable& t, const Catalogue& catalogue,
                std::vector<std::string>& warnings) {
  Rig rig;
  t.set_figure_defaults({SourceKind::kAssumed, "stated by the rig or scenario"});
  rig.gpus = find_gpus(t, catalogue, warnings);
  rig.cpu = find_cpu(t, catalogue, rig.gpus, warnings);
  rig.ram =
      rig.unified() ? unified_pool(t, rig.gpus.front()) : find_ram(t, catalogue, rig.cpu, warnings);
  rig.ssd = find_ssd(t, catalogue, warnings);
  rig.links = find_links(t, catalogue, rig.gpus);
  rig.interconnect = t.text_or("interconnect", usual_interconnect(rig.gpus));
  rig.all_reduce_latency = t.find_figure<Seconds>("all_reduce_latency", Seconds{0}, Seconds{1});
  rig.all_reduce_rate =
      t.find_figure<BytesPerSecond>("all_reduce_rate", 1_MBps, BytesPerSecond{1e13});
  rig.os = t.choice("os", OperatingSystem::kLinux,
                    {{"linux", OperatingSystem::kLinux},
                     {"windows", OperatingSystem::kWindows},
                     {"wsl2", OperatingSystem::kWsl2},
                     {"macos", OperatingSystem::kMacos}});
  apply_gpu_measured(t, catalogue, rig, warnings);
  override_figures(t, rig);
  limit_power(t, catalogue, rig);
  reserve_memory(t, rig);
  rig.corrections = read_corrections(t.table("correction"));
  rig.name = rig.gpus.empty() ? rig.cpu.name
                              : fmt::format("{}", fmt::join(counted_names(rig.gpus), " + "));
  t.text_or("name", "");
  t.find_text("source");
  t.texts("aliases");
  t.find_text("vendor");
  rig.notes = t.texts("notes");
  warnings.insert(warnings.end(), rig.notes.begin(), rig.notes.end());
  t.finish();
  return rig;
}

}  // namespace rigcast
