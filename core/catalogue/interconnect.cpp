#include "core/catalogue/interconnect.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <optional>

#include "core/text/nearest_name.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast {
namespace {

constexpr const char* kFolder = "hwprofiles/interconnects";

GpuExchange read_exchange(const TomlTable& t, BytesPerSecond link) {
  GpuExchange exchange;
  exchange.latency = t.figure<Seconds>("latency", Seconds{0}, Seconds{1});
  const auto share = t.find_number_figure("bus_share", 1e-3, 2.0);
  exchange.over_pcie = share.has_value();
  if (share)
    exchange.bus = {link * share->value, share->kind, share->source};
  else
    exchange.bus = t.figure<BytesPerSecond>("bus", 1_MBps, BytesPerSecond{1e13});
  t.finish();
  return exchange;
}

}  // namespace

Result<GpuExchange> gpu_exchange(const Catalogue& catalogue, const std::string& id, int gpus,
                                 BytesPerSecond link) {
  const auto file = catalogue.file_of(kFolder, as_id(id));
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored))
    return bad_input(fmt::format("no interconnect named \"{}\"", id),
                     fmt::format("known: {}", fmt::join(catalogue.ids(kFolder), ", ")));
  auto document = TomlDocument::read(file);
  if (!document) return document.error();
  const TomlTable root = document->root();
  const std::string source = root.text("source"), name = root.text("name");
  root.text_or("vendor", "");
  const bool through_host = root.flag("through_host", false);
  root.set_figure_defaults({SourceKind::kPublished, source});
  std::optional<GpuExchange> found;
  for (const int n : {2, 4, 8}) {
    const std::string key = fmt::format("{}", n);
    if (!root.has(key)) continue;
    GpuExchange exchange = read_exchange(root.table(key), link);
    exchange.through_host = through_host;
    if (n >= gpus && !found) found = exchange;
  }
  root.finish();
  if (auto error = document->error()) return *error;
  if (!found)
    return bad_input(fmt::format("{} joins no {} GPUs", name, gpus),
                     "name another with interconnect = \"pcie-p2p\", or state all_reduce_latency "
                     "and all_reduce_rate of [rig]");
  return *found;
}

}  // namespace rigcast
