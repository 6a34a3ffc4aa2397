#include "core/catalogue/gpu_measured.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rigcast {
namespace {

void apply(const GpuMeasured& m, Rig& rig, std::size_t i) {
  GpuPart& gpu = rig.gpus[i];
  HostLink& link = rig.links[i];
  const auto replace = [](auto& figure, const auto& measured) {
    if (measured) figure = *measured;
  };
  if (!gpu.unified) replace(gpu.memory, m.vram_capacity);  // else the pool's size is the RAM's
  replace(gpu.bandwidth, m.vram_bandwidth);
  if (gpu.unified) replace(rig.ram.bandwidth, m.vram_bandwidth);
  replace(link.h2d, m.h2d);
  replace(link.d2h, m.d2h);
  replace(link.pageable, m.pageable);
  replace(link.latency, m.latency);
}

// The first that is this part and was not taken; the number of GPUs if there is none.
std::size_t gpu_of(const GpuMeasured& m, const Catalogue& catalogue, const Rig& rig,
                   const std::vector<bool>& taken) {
  const auto part = catalogue.gpu(m.gpu);
  std::size_t i = 0;
  while (i < rig.gpus.size() && (!part || taken[i] || rig.gpus[i].id != part->id)) ++i;
  return i;
}

}  // namespace

GpuMeasured read_gpu_measured(const TomlTable& t) {
  const auto rate = [&](std::string_view key) {
    return t.find_figure<BytesPerSecond>(key, BytesPerSecond{1e5}, BytesPerSecond{1e15});
  };
  const auto time = [&](std::string_view key) {
    return t.find_figure<Seconds>(key, Seconds{0}, Seconds{1});
  };
  GpuMeasured m;
  m.gpu = t.text("gpu");
  m.name = t.text_or("name", "");
  m.vram_capacity = t.find_figure<Bytes>("vram_capacity", 16_MiB, Bytes{1e15});
  m.vram_bandwidth = rate("vram_bandwidth");
  m.h2d = rate("pcie_h2d");
  m.d2h = rate("pcie_d2h");
  m.pageable = rate("pcie_pageable");
  m.latency = time("pcie_latency");
  // What earlier probes took besides, and no forecast reads.
  for (const char* key : {"vram_copy", "pcie_both"}) static_cast<void>(rate(key));
  for (const char* key :
       {"launch", "launch_in_graph", "launch_dependent", "launch_waited", "handoff"})
    static_cast<void>(time(key));
  for (const char* key : {"copies", "products"}) static_cast<void>(t.tables(key));
  t.finish();
  return m;
}

void apply_gpu_measured(const TomlTable& rig_table, const Catalogue& catalogue, Rig& rig,
                        std::vector<std::string>& warnings) {
  std::vector<bool> taken(rig.gpus.size(), false);
  for (const TomlTable& table : rig_table.tables("gpu_measured")) {
    const GpuMeasured m = read_gpu_measured(table);
    const std::size_t i = gpu_of(m, catalogue, rig, taken);
    if (i < rig.gpus.size() && i < rig.links.size()) {
      taken[i] = true;
      apply(m, rig, i);
    } else {
      warnings.push_back(
          fmt::format("figures measured on \"{}\" are not used: the rig has no such "
                      "GPU, or too few",
                      m.gpu));
    }
  }
}

}  // namespace rigcast
