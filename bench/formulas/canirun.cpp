#include "bench/formulas/canirun.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/formulas/inputs.hpp"

namespace rigcast::formulas {

namespace {

constexpr double kEfficiency = 0.70, kEfficiencyApple = 0.65;
constexpr double kRamGbps = 50;  // assumed for every discrete GPU's host
constexpr double kOffloadFactor = 0.85;

// Its table has no MXFP4, so that uses the four-bit row.
constexpr std::array<double, kQuantRowCount> kBytes{2.0, 1.0,    0.75,   0.625,
                                                    0.5, 0.4375, 0.3125, 0.5};

double size_gib(double parameters, double bytes) {
  return std::round(std::max(parameters * bytes * kGB / kGiB * 1.1 + 0.5, 0.5) * 10) / 10;
}

// The tool's view of a machine. No VRAM: all memory is unified, or there is no GPU.
struct Machine {
  double bandwidth_gbps = 0;
  std::optional<double> vram_gib;
  double ram_gib = 0;
  bool apple = false;
};

Machine machine_of(const Scenario& s) {
  Machine m;
  m.ram_gib = s.rig.ram.capacity.value.value / kGiB;
  const bool apple = s.rig.unified() && s.rig.gpus.front().vendor == "apple";
  if (decodes_on_cpu(s) && !apple) {  // the tool counts an Apple chip as one device
    m.bandwidth_gbps = std::min(m.ram_gib * 4, 100.0);
    return m;
  }
  m.bandwidth_gbps = primary_gpu(s.rig).bandwidth.value.value / 1e9;
  m.apple = apple;
  if (s.rig.unified())
    m.ram_gib = vram_gib(s.rig);
  else
    m.vram_gib = vram_gib(s.rig);
  return m;
}

bool runs(const Machine& m, double size) {
  if (m.apple) return size <= m.ram_gib * 0.75;
  if (!m.vram_gib) return size <= m.ram_gib * 0.7;
  if (size <= *m.vram_gib * 1.1) return true;
  return m.ram_gib > *m.vram_gib && size <= *m.vram_gib + m.ram_gib * 0.7;
}

}  // namespace

std::optional<double> canirun_decode(const Scenario& s) {
  const auto row = quant_row(s.quant);
  if (!row) return std::nullopt;
  const ParameterCount count = parameter_count(s);
  const double size = size_gib(count.total, kBytes[std::size_t(*row)]);
  const double read =
      count.active < count.total ? std::max(0.5, size * count.active / count.total) : size;
  Machine m = machine_of(s);
  if (const auto share = placed_gpu_share(s)) {
    if (m.vram_gib) m.vram_gib = std::min(*m.vram_gib, size * *share);
  } else if (!runs(m, size)) {
    return std::nullopt;
  }
  const double efficiency = m.apple ? kEfficiencyApple : kEfficiency;
  if (!m.vram_gib || size <= *m.vram_gib) return m.bandwidth_gbps / read * efficiency;
  const double in_vram = *m.vram_gib / size;
  const double effective_gbps = 1 / (in_vram / m.bandwidth_gbps + (1 - in_vram) / kRamGbps);
  return effective_gbps / read * efficiency * kOffloadFactor;
}

}  // namespace rigcast::formulas
