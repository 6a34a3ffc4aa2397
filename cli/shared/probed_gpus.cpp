#include "cli/shared/probed_gpus.hpp"

#include <fmt/format.h>

#include "core/text/unit_text.hpp"
#include "report/terminal/text_style.hpp"

namespace rigcast::cli {
namespace {

std::string time_row(const std::string& what, const probe::Samples& takes) {
  return probe_row(what, takes, three_digits(takes.median * 1e6) + " us");
}

std::string link_text(const probe::GpuLink& link) {
  if (!link.is_known()) return "PCI-E not told";
  const std::string card = link.card.generation > 0 ? text(link.card) : "not told";
  return fmt::format("PCI-E {} (the card: {})", text(link.now), card);
}

std::string rows_of(const probe::Gpu& gpu) {
  const probe::CopyRates& c = gpu.copies;
  const std::string out = probe_rate_row("VRAM, read", gpu.vram_read) +
                          probe_rate_row("to the GPU, pinned", c.h2d_pinned.bytes_per_s) +
                          probe_rate_row("to the GPU, pageable", c.h2d_pageable.bytes_per_s) +
                          probe_rate_row("from the GPU, pinned", c.d2h_pinned.bytes_per_s) +
                          time_row("latency of a copy", c.h2d_pinned.latency_s);
  const Bytes context{gpu.context.median};
  return out + probe_row(gpu.used_by_others ? "context" : "context and all others' memory",
                         gpu.context, text_gib(context));
}

}  // namespace

std::string probe_row(const std::string& what, const probe::Samples& takes,
                      const std::string& figure) {
  if (takes.n == 0) return fmt::format("  {:<34}not measured\n", what);
  return fmt::format("  {:<34}{:>12}   n {:>2}, spread {:.0f} %\n", what, figure, takes.n,
                     100 * takes.spread);
}

std::string probe_rate_row(const std::string& what, const probe::Samples& bytes_per_s) {
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
