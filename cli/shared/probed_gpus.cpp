#include "cli/shared/probed_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "core/text/unit_text.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::cli {
namespace {

constexpr int kShownTokens[] = {1, 32, 512, 4096};

std::string time_row(const std::string& what, const probe::Takes& takes) {
  return probe_row(what, takes, three_digits(takes.median * 1e6) + " us");
}

std::string link_text(const probe::GpuLink& link) {
  if (!link.is_told()) return "PCI-E not told";
  const std::string card = link.card.generation > 0 ? text(link.card) : "not told";
  return fmt::format("PCI-E {} (the card: {})", text(link.now), card);
}

// Rows for the matrix with the most rows: the widest part of a layer.
std::string product_rows(const probe::Gpu& gpu) {
  std::string out;
  for (const probe::ProductCurve& curve : gpu.products) {
    if (curve.rows <= curve.columns) continue;
    const char* unit = curve.type == "int8" ? "TOP/s" : "TFLOP/s";
    for (const probe::ProductCurve::Point& point : curve.points) {
      if (std::ranges::find(kShownTokens, point.tokens) == std::end(kShownTokens)) continue;
      out += probe_row(fmt::format("{} products, {} {}", curve.type, point.tokens,
                                   point.tokens == 1 ? "token" : "tokens"),
                       point.flops_per_s,
                       fmt::format("{} {}", three_digits(point.flops_per_s.median / 1e12), unit));
    }
  }
  return out;
}

std::string rows_of(const probe::Gpu& gpu) {
  const probe::CopyRates& c = gpu.copies;
  const probe::LaunchTimes& l = gpu.launches;
  std::string out = probe_rate_row("VRAM, read", gpu.vram.read) +
                    probe_rate_row("VRAM, read and written", gpu.vram.copy) +
                    probe_rate_row("to the GPU, pinned", c.h2d_pinned.bytes_per_s) +
                    probe_rate_row("to the GPU, pageable", c.h2d_pageable.bytes_per_s) +
                    probe_rate_row("from the GPU, pinned", c.d2h_pinned.bytes_per_s) +
                    probe_rate_row("from the GPU, pageable", c.d2h_pageable.bytes_per_s) +
                    probe_rate_row("both ways at once, pinned", c.both_ways) +
                    time_row("latency of a copy", c.h2d_pinned.latency_s) + product_rows(gpu) +
                    time_row("kernel after kernel", l.eager) +
                    time_row("the same in a graph", l.in_graph);
  if (l.dependent.n > 0) out += time_row("in a graph, set up early", l.dependent);
  out += time_row("kernel, waited for by the host", l.waited) +
         time_row("to the host and back, no kernel", gpu.handoff);
  const Bytes context{gpu.context.median};
  return out + probe_row(gpu.used_by_others ? "context" : "context and all others' memory",
                         gpu.context, text_gib(context));
}

}  // namespace

std::string probe_row(const std::string& what, const probe::Takes& takes,
                      const std::string& figure) {
  if (takes.n == 0) return fmt::format("  {:<34}not measured\n", what);
  return fmt::format("  {:<34}{:>12}   n {:>2}, spread {:.0f} %\n", what, figure, takes.n,
                     100 * takes.spread);
}

std::string probe_rate_row(const std::string& what, const probe::Takes& bytes_per_s) {
  return probe_row(what, bytes_per_s, three_digits(bytes_per_s.median / 1e9) + " GB/s");
}

std::string gpu_rows(const probe::Gpus& gpus) {
  if (gpus.found.empty()) return "\nno GPU: " + gpus.none + "\n";
  std::string out;
  for (std::size_t i = 0; i < gpus.found.size(); ++i) {
    const probe::Gpu& gpu = gpus.found[i];
    out += fmt::format("\nGPU {}: {}, {}, {}\n", i, printable(gpu.name), text_gib(gpu.memory),
                       link_text(gpu.link));
    out += rows_of(gpu);
  }
  return out;
}

}  // namespace rigcast::cli
