#include "probe/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "core/text/unit_text.hpp"
#include "probe/gpu_rig.hpp"
#include "probe/rig_file.hpp"

namespace rigcast::probe {
namespace {

constexpr double kTooWide = 0.15;
constexpr Bytes kScratch = 1_GiB;

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

// Thread counts that show how bandwidth scales: 1, 2, 4, ... and all.
std::vector<int> thread_counts(int cores) {
  std::vector<int> counts;
  for (int n = 1; n < cores; n *= 2) counts.push_back(n);
  counts.push_back(cores);
  return counts;
}

}  // namespace

Result<Machine> measure_machine(const std::filesystem::path& scratch, const Progress& progress,
                                const StopFlag& stop) {
  Machine m;
  m.date = today();
  m.host = read_host();
  progress("disk ...");
  auto disk = measure_disk(scratch, kScratch, stop);
  if (!disk) return disk.error();
  m.disk = *std::move(disk);
  measure_cores(m, progress, stop);
  if (m.host.nodes.size() > 1) {
    progress(fmt::format("memory of {} nodes ...", m.host.nodes.size()));
    m.nodes = measure_nodes(m.host.nodes, stop);
    progress("");
  }
  return m;
}

std::optional<Error> measure_disk_again(Machine& m, const std::filesystem::path& scratch,
                                        const Progress& progress, const StopFlag& stop) {
  progress("disk ...");
  return measure_disk_in_order(scratch, kScratch, m.disk, stop);
}

void measure_cores(Machine& m, const Progress& progress, const StopFlag& stop) {
  m.dram.clear();
  for (const int threads : thread_counts(m.host.cores)) {
    progress(fmt::format("memory, {} of {} threads ...", threads, m.host.cores));
    engine::ThreadTeam team(threads, engine::ThreadTeam::kSpinTime, stop);
    m.dram.push_back(dram_read(team));
  }
  progress("multiplications ...");
  engine::ThreadTeam team(m.host.cores, engine::ThreadTeam::kSpinTime, stop);
  m.cpu = cpu_rates(team);
  progress("");
}

void measure_all_cores(Machine& m, const Progress& progress, const StopFlag& stop) {
  progress("memory and multiplications ...");
  engine::ThreadTeam team(m.host.cores, engine::ThreadTeam::kSpinTime, stop);
  m.dram.back() = dram_read(team);
  m.cpu = cpu_rates(team);
  progress("");
}

double change_of_cores(const Machine& m, const StopFlag& stop) {
  engine::ThreadTeam team(m.host.cores, engine::ThreadTeam::kSpinTime, stop);
  const auto change = [](const Samples& now, const Samples& then) {
    return then.median > 0 ? std::fabs(now.median / then.median - 1) : 0.0;
  };
  return std::max(change(dram_read(team), m.dram.back()), change(cpu_rates(team).int8, m.cpu.int8));
}

std::string rig_toml(const Machine& m, const std::string& cpu,
                     const std::vector<std::string>& gpus) {
  RigFile file(m.date);
  file.text("name", "this machine");
  file.text("source", "rigcast probe, " + m.date);
  write_gpus(file, m.gpus.found, gpus);
  if (!cpu.empty()) file.text("cpu", cpu);
  file.text("cpu_name", m.host.cpu);
  file.number("cpu_cores", m.host.cores);
  file.text("cpu_simd", m.host.simd);
  if (m.host.amx) file.flag("cpu_amx", true);
  file.text("os", m.host.os);
  if (m.host.l3.value > 0) file.size("cpu_cache", m.host.l3, "last level, as the kernel tells");
  file.size("ram_capacity", m.host.memory,
            m.host.contained ? "limit of the container" : "MemTotal of the kernel");
  file.size("ram_reserved", m.host.memory - m.host.available, "not available when probed");
  file.rate("ram_bandwidth", m.dram.back(), fmt::format("{} threads read 1 GiB", m.host.cores));
  file.rate("core_read", m.dram.front(), "one thread reads 1 GiB");
  if (m.nodes.remote.n > 0) {
    file.number("numa_nodes", int(m.nodes.nodes.size()));
    file.rate("node_read", m.nodes.local, "cores of a node read 1 GiB of its memory");
    file.rate("remote_read", m.nodes.remote, "cores of a node read 1 GiB of another's memory");
  }
  file.flops("cpu_int8", m.cpu.int8, "8-bit dot products from registers, all cores");
  file.flops("core_int8", m.cpu.core_int8,
             "8-bit dot products, one thread, best of several processors, at the clock of all");
  file.flops("cpu_fp32", m.cpu.fp32, "F32 multiply-adds from registers, all cores");
  file.frequency("cpu_clock", m.cpu.clock, "multiplications in a row, all threads");
  file.rate("ssd_read", m.disk.sequential, "O_DIRECT, requests of 1 to 4 MiB, 1 to 16 at once");
  file.rate("ssd_mapped_read", m.disk.mapped, "pages of a mapping, 4 MiB at once, 8 threads");
  file.rate("ssd_cached_read", m.disk.page_cache, "read() of cached pages, one thread");
  for (const RandomReads& r : m.disk.random)
    if (r.depth == 1 && r.per_s.median > 0)
      file.time("ssd_page_read", inverse(r.per_s), "O_DIRECT, 4 KiB, one after the other");
  if (m.disk.readahead.value > 0)
    file.small_size("ssd_readahead", m.disk.readahead, "read_ahead_kb of the kernel");
  if (m.disk.cached_map.median > 0)
    file.rate("ssd_cached_map", m.disk.cached_map, "cached pages into a mapping, MAP_POPULATE");
  write_gpu_tables(file, m.gpus.found, gpus);
  return file.take();
}

std::vector<std::string> quality_warnings(const Machine& m) {
  std::vector<std::string> out;
  const auto look = [&](std::string_view what, const Samples& samples) {
    if (samples.spread <= kTooWide) return;
    out.push_back(fmt::format("{} varied by {:.0f} %: end other programs and probe again", what,
                              100 * samples.spread));
  };
  look("memory reads", m.dram.back());
  look("8-bit multiplications", m.cpu.int8);
  look("F32 multiplications", m.cpu.fp32);
  look("disk reads", m.disk.sequential);
  look("disk reads by pages", m.disk.mapped);
  look("reads of a node's own memory", m.nodes.local);
  look("reads of another node's memory", m.nodes.remote);
  if (m.host.nodes.size() > 1 && m.nodes.nodes.empty())
    out.push_back(
        fmt::format("memory lies on {} nodes, whose rates could not be measured: a process "
                    "that is bound to one sees less; run rigcast probe outside of a "
                    "container",
                    m.host.nodes.size()));
  for (std::size_t i = 0; i < m.gpus.found.size(); ++i)
    for (const std::string& warning : gpu_quality_warnings(m.gpus.found[i]))
      out.push_back(fmt::format("GPU {}: {}", i, warning));
  return out;
}

}  // namespace rigcast::probe
