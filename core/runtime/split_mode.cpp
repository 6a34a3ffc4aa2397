#include "core/runtime/split_mode.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace rigcast {
namespace {

constexpr double kNoBuild = 2100;

bool contains(const std::vector<std::string>& all, std::string_view one) {
  return std::ranges::find(all, one) != all.end();
}

std::vector<Backend> read_backends(const TomlTable& t) {
  constexpr std::array kKnown = {Backend::kCuda, Backend::kRocm, Backend::kVulkan, Backend::kMetal,
                                 Backend::kSycl};
  std::vector<Backend> backends;
  for (const std::string& text : t.texts("backends")) {
    const auto known =
        std::ranges::find_if(kKnown, [&](Backend backend) { return name(backend) == text; });
    if (known == kKnown.end())
      t.refuse("backends", fmt::format("no backend named \"{}\"", text));
    else
      backends.push_back(*known);
  }
  return backends;
}

SplitMode read_mode(const TomlTable& t, std::string name) {
  SplitMode m;
  m.name = std::move(name);
  if (m.name == kSplitByLayer) t.refuse("since", "every runtime has this one");
  m.since = t.number_figure("since", 2020, kNoBuild);
  m.source = t.text_or("source", "");
  m.refused = t.text_or("refused", "");
  m.backends = read_backends(t);
  m.architectures = t.texts("architectures");
  m.except = t.texts("except");
  if (!m.architectures.empty() && !m.except.empty())
    t.refuse("except", "architectures are named already", "keep one of the two");
  m.needs_flash = t.flag("needs_flash", false);
  m.quantized_cache = t.flag("quantized_cache", true);
  m.fits = t.flag("fits", true);
  m.graphs_since = t.find_number_figure("graphs_since", 2020, kNoBuild).value_or(m.since);
  const auto sixteen_bits = Sourced<double>{2, SourceKind::kAssumed, "16 bits"};
  m.element = t.find_number_figure("element", 1, 8).value_or(sixteen_bits);
  m.batch_element = t.find_number_figure("batch_element", 1, 8).value_or(m.element);
  m.launches = t.find_number_figure("launches", 0, 100)
                   .value_or(Sourced<double>{0, SourceKind::kAssumed, "all in a graph"});
  m.one_thread = t.flag("one_thread", false);
  m.host_latency = t.find_figure<Seconds>("host_latency", Seconds{0}, Seconds{1});
  m.host_latency_until =
      t.find_number_figure("host_latency_until", 2020, kNoBuild)
          .value_or(Sourced<double>{kNoBuild, SourceKind::kAssumed, "all builds"});
  t.finish();
  return m;
}

}  // namespace

bool SplitMode::has_architecture(std::string_view architecture) const {
  if (!architectures.empty()) return contains(architectures, architecture);
  return !contains(except, architecture);
}

std::vector<SplitMode> read_split_modes(const TomlTable& table) {
  std::vector<SplitMode> modes;
  for (const std::string& name : table.keys()) {
    SplitMode mode = read_mode(table.table(name), name);
    if (mode.since.value < kNoBuild) modes.push_back(std::move(mode));
  }
  table.finish();
  return modes;
}

const SplitMode* find_split_mode(const std::vector<SplitMode>& modes, std::string_view name) {
  const auto found = std::ranges::find(modes, name, &SplitMode::name);
  return found == modes.end() ? nullptr : &*found;
}

}  // namespace rigcast
