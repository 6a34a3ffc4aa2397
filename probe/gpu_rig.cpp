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
Samples largest(const std::vector<Gpu>& gpus, Of of) {
  Samples most;
  for (const Gpu& gpu : gpus)
    if (const Samples samples = of(gpu);
        samples.n > 0 && (most.n == 0 || samples.median > most.median))
      most = samples;
  return most;
}

void write_table(RigFile& file, const Gpu& gpu, const std::string& id) {
  const CopyRates& copies = gpu.copies;
  file.line("\n[[gpu_measured]]");
  file.text("gpu", id.empty() ? gpu.name : id);
  file.text("name", gpu.name);
  if (gpu.memory > Bytes{}) file.size("vram_capacity", gpu.memory, "as the driver tells");
  file.rate("vram_bandwidth", gpu.vram_read, "a kernel reads a buffer that no cache holds");
  file.rate("pcie_h2d", copies.h2d_pinned.bytes_per_s, "line through copies from pinned memory");
  file.rate("pcie_d2h", copies.d2h_pinned.bytes_per_s, "line through copies to pinned memory");
  file.rate("pcie_pageable", copies.h2d_pageable.bytes_per_s,
            "line through copies from pageable memory");
  file.time("pcie_latency", copies.h2d_pinned.latency_s, "the same line, a copy without bytes");
}

}  // namespace

void write_gpus(RigFile& file, const std::vector<Gpu>& gpus, const std::vector<std::string>& ids) {
  std::vector<std::string> known, links;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (const std::string& id = id_of(ids, i); !id.empty()) {
      known.push_back(id);
      if (gpus[i].link.is_known()) links.push_back(rigcast::text(gpus[i].link.now));
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
  const Samples context = largest(gpus, [](const Gpu& g) { return g.context; });
  if (context.n == 0) return;
  file.size("gpu_context", context,
            told ? "memory in use, before and after" : "memory in use with one, by anything");
  if (gpus.front().start.n > 0)
    file.time("gpu_start", gpus.front().start, "until a context is made, GPU 0");
  const Samples others = largest(gpus, [](const Gpu& g) {
    return g.used_by_others ? Samples{g.used_by_others->value, 0, 1} : Samples{};
  });
  file.size("vram_reserved", told ? others : Samples{0, 0, 1},
            told ? "in use when probed" : "what others use is counted in gpu_context");
}

void write_gpu_tables(RigFile& file, const std::vector<Gpu>& gpus,
                      const std::vector<std::string>& ids) {
  for (std::size_t i = 0; i < gpus.size(); ++i) write_table(file, gpus[i], id_of(ids, i));
}

std::vector<std::string> gpu_quality_warnings(const Gpu& gpu) {
  std::vector<std::string> out = gpu.notes;
  if (std::string narrow = narrow_link(gpu.link); !narrow.empty()) out.push_back(std::move(narrow));
  if (gpu.used_by_others && *gpu.used_by_others > kMuchUsed * gpu.memory)
    out.push_back(
        fmt::format("others use {} of its memory, which forecasts leave to them: end them "
                    "and probe again, or lower vram_reserved",
                    text_gib(*gpu.used_by_others)));
  const auto look = [&](std::string_view what, const Samples& samples) {
    if (samples.spread > kTooWide)
      out.push_back(fmt::format("{} varied by {:.0f} %: end other programs and probe again", what,
                                100 * samples.spread));
  };
  look("VRAM reads", gpu.vram_read);
  look("copies to the GPU", gpu.copies.h2d_pinned.bytes_per_s);
  look("copies from the GPU", gpu.copies.d2h_pinned.bytes_per_s);
  look("copies from pageable memory", gpu.copies.h2d_pageable.bytes_per_s);
  return out;
}

}  // namespace rigcast::probe
