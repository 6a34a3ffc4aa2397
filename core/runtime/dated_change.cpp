#include "core/runtime/dated_change.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/hardware/gpu_architecture.hpp"

namespace rigcast {
namespace {

ChangedFigure read_figure(const TomlTable& t) {
  using enum ChangedFigure;
  t.require("figure");
  return t.choice("figure", kLaunch,
                  {{name(kLaunch), kLaunch},
                   {name(kMoeKernels), kMoeKernels},
                   {name(kNormKernels), kNormKernels},
                   {name(kTiles), kTiles},
                   {name(kExperts), kExperts},
                   {name(kAttention), kAttention},
                   {name(kKvCycles), kKvCycles},
                   {name(kCpuAttention), kCpuAttention}});
}

std::vector<QuantFormat> read_formats(const TomlTable& t) {
  std::vector<QuantFormat> formats;
  for (const std::string& format : t.texts("formats")) {
    const auto known = std::ranges::find(kQuantFormats, format, &QuantFormatInfo::name);
    if (known == kQuantFormats.end())
      t.refuse("formats", fmt::format("no block format named \"{}\"", format),
               "for example \"MXFP4\"");
    else
      formats.push_back(QuantFormat(known - kQuantFormats.begin()));
  }
  return formats;
}

std::optional<Backend> read_backend(const TomlTable& t) {
  using enum Backend;
  if (!t.has("backend")) return std::nullopt;
  return t.choice("backend", kCuda,
                  {{name(kCuda), kCuda},
                   {name(kRocm), kRocm},
                   {name(kVulkan), kVulkan},
                   {name(kMetal), kMetal},
                   {name(kSycl), kSycl}});
}

}  // namespace

std::string_view name(ChangedFigure figure) {
  switch (figure) {
    case ChangedFigure::kLaunch: return "launch";
    case ChangedFigure::kMoeKernels: return "moe_kernels";
    case ChangedFigure::kNormKernels: return "norm_kernels";
    case ChangedFigure::kTiles: return "tiles";
    case ChangedFigure::kExperts: return "experts";
    case ChangedFigure::kAttention: return "attention";
    case ChangedFigure::kKvCycles: return "kv_cycles";
    case ChangedFigure::kCpuAttention: return "cpu_attention";
  }
  return "";
}

std::vector<DatedChange> read_changes(const TomlTable& table) {
  std::vector<DatedChange> changes;
  for (const std::string& id : table.keys()) {
    const TomlTable own = table.table(id);
    DatedChange c;
    c.id = id;
    c.figure = read_figure(own);
    c.backend = read_backend(own);
    c.architectures = own.texts("architectures");
    for (const std::string& architecture : c.architectures)
      if (!gpu_architecture(architecture))
        own.refuse("architectures", fmt::format("no architecture named \"{}\"", architecture));
    c.formats = read_formats(own);
    if (!c.formats.empty() && c.figure != ChangedFigure::kTiles)
      own.refuse("formats", "only tiles change by format");
    c.since = own.number_figure("since", 2020, 2100);
    c.before = own.number_figure("before", 1e-3, 100);
    own.finish();
    changes.push_back(std::move(c));
  }
  table.finish();
  return changes;
}

double factor_before(const std::vector<DatedChange>& changes, ChangedFigure figure,
                     const KernelOwner& of, std::optional<double> year) {
  double factor = 1.0;
  if (!year) return factor;
  for (const DatedChange& c : changes) {
    if (c.figure != figure || *year >= c.since.value) continue;
    if (c.backend && c.backend != of.backend) continue;
    if (of.format ? std::ranges::find(c.formats, *of.format) == c.formats.end()
                  : !c.formats.empty())
      continue;
    const auto& only = c.architectures;
    if (!only.empty() && std::ranges::find(only, of.architecture) == only.end()) continue;
    factor *= c.before.value;
  }
  return factor;
}

}  // namespace rigcast
