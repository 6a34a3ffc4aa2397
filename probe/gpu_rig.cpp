#include "probe/gpu_rig.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/unit_text.hpp"

namespace rigcast::probe {
namespace {

constexpr double kTooWide = 0.15;
constexpr double kMuchUsed = 0.1;  // share of the memory that others use

const std::string& id_of(const std::vector<std::string>& ids, std::size_t gpu) {
  static const std::string unknown;
  return gpu < ids.size() ? ids[gpu] : unknown;
}

// The largest value of all GPUs: a rig file has one figure for all.
template <class Of>
Takes largest(const std::vector<Gpu>& gpus, Of of) {
  Takes most;
  for (const Gpu& gpu : gpus)
    if (const Takes takes = of(gpu); takes.n > 0 && (most.n == 0 || takes.median > most.median))
      most = takes;
  return most;
}

void write_curve(RigFile& file, const char* direction, const char* memory, const CopyCurve& curve) {
  if (curve.points.empty()) return;
  std::vector<double> kib, us;
  for (const CopyCurve::Point& point : curve.points) {
    kib.push_back(point.bytes / 0x1p10);
    us.push_back(point.seconds.median * 1e6);
  }
  file.line("[[gpu_measured.copies]]");
  file.text("direction", direction);
  file.text("memory", memory);
  file.numbers("kib", kib);
  file.numbers("us", us);
}

void write_products(RigFile& file, const ProductCurve& curve) {
  std::vector<double> tokens, giga;
  for (const ProductCurve::Point& point : curve.points) {
    tokens.push_back(point.tokens);
    giga.push_back(point.flops_per_s.median / 1e9);
  }
  file.line("[[gpu_measured.products]]");
  file.text("type", curve.type);
  file.number("rows", curve.rows);
  file.number("columns", curve.columns);
  file.numbers("tokens", tokens);
  file.numbers("gflop_per_s", giga);
}

void write_table(RigFile& file, const Gpu& gpu, const std::string& id) {
  const CopyRates& copies = gpu.copies;
  const LaunchTimes& launches = gpu.launches;
  file.line("\n[[gpu_measured]]");
  file.text("gpu", id.empty() ? gpu.name : id);
  file.text("name", gpu.name);
  if (gpu.memory > Bytes{}) file.size("vram_capacity", gpu.memory, "as the driver tells");
  file.rate("vram_bandwidth", gpu.vram.read, "a kernel reads a buffer that no cache holds");
  file.rate("vram_copy", gpu.vram.copy, "a kernel copies half of it, bytes read and written");
  file.rate("pcie_h2d", copies.h2d_pinned.bytes_per_s, "line through copies from pinned memory");
  file.rate("pcie_d2h", copies.d2h_pinned.bytes_per_s, "line through copies to pinned memory");
  file.rate("pcie_pageable", copies.h2d_pageable.bytes_per_s,
            "line through copies from pageable memory");
  file.rate("pcie_both", copies.both_ways, "both directions at once, together");
  file.time("pcie_latency", copies.h2d_pinned.latency_s, "the same line, a copy without bytes");
  file.time("launch", launches.eager, "kernels in a row, launched one by one");
  file.time("launch_in_graph", launches.in_graph, "kernels in a row, one graph");
  file.time("launch_dependent", launches.dependent, "kernels in a row, one graph, set up early");
  file.time("launch_waited", launches.waited, "one kernel, launched and waited for");
  file.time("handoff", gpu.handoff, "GPU to host and back through pinned memory");
  write_curve(file, "h2d", "pinned", copies.h2d_pinned);
  write_curve(file, "d2h", "pinned", copies.d2h_pinned);
  write_curve(file, "h2d", "pageable", copies.h2d_pageable);
  write_curve(file, "d2h", "pageable", copies.d2h_pageable);
  for (const ProductCurve& curve : gpu.products) write_products(file, curve);
}

}  // namespace

void write_gpus(RigFile& file, const std::vector<Gpu>& gpus, const std::vector<std::string>& ids) {
  std::vector<std::string> known, links;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (const std::string& id = id_of(ids, i); !id.empty()) {
      known.push_back(id);
      if (gpus[i].link.is_told()) links.push_back(rigcast::text(gpus[i].link.now));
      continue;
    }
    file.line(
        "# The catalogue has no GPU of the name and size of one that is here: write the id of");
    file.line("# the nearest (rigcast list gpus) in this list, and as `gpu` of its table below.");
  }
  file.texts("gpu", known);
  if (!links.empty() && links.size() == known.size()) file.texts("pcie", links);
  const bool told = std::ranges::all_of(
      gpus, [](const Gpu& g) { return g.context.n == 0 || g.used_by_others.has_value(); });
  const Takes context = largest(gpus, [](const Gpu& g) { return g.context; });
  if (context.n == 0) return;
  file.size("gpu_context", context,
            told ? "memory in use, before and after" : "memory in use with one, by anything");
  const Takes others = largest(gpus, [](const Gpu& g) {
    return g.used_by_others ? Takes{g.used_by_others->value, 0, 1} : Takes{};
  });
  file.size("vram_reserved", told ? others : Takes{0, 0, 1},
            told ? "in use when probed" : "what others use is counted in gpu_context");
}

void write_gpu_tables(RigFile& file, const std::vector<Gpu>& gpus,
                      const std::vector<std::string>& ids) {
  for (std::size_t i = 0; i < gpus.size(); ++i) write_table(file, gpus[i], id_of(ids, i));
}

std::vector<std::string> gpu_doubts(const Gpu& gpu) {
  std::vector<std::string> out = gpu.notes;
  if (std::string narrow = narrow_link(gpu.link); !narrow.empty()) out.push_back(std::move(narrow));
  if (gpu.used_by_others && *gpu.used_by_others > kMuchUsed * gpu.memory)
    out.push_back(
        fmt::format("others use {} of its memory, which forecasts leave to them: end them "
                    "and probe again, or lower vram_reserved",
                    text_gib(*gpu.used_by_others)));
  const auto look = [&](std::string_view what, const Takes& takes) {
    if (takes.spread > kTooWide)
      out.push_back(fmt::format("{} varied by {:.0f} %: end other programs and probe again", what,
                                100 * takes.spread));
  };
  look("VRAM reads", gpu.vram.read);
  look("copies to the GPU", gpu.copies.h2d_pinned.bytes_per_s);
  look("copies from the GPU", gpu.copies.d2h_pinned.bytes_per_s);
  look("copies from pageable memory", gpu.copies.h2d_pageable.bytes_per_s);
  return out;
}

}  // namespace rigcast::probe
