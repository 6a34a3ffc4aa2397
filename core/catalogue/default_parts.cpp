#include "core/catalogue/default_parts.hpp"

#include <filesystem>

#include "core/catalogue/file_cache.hpp"

namespace rigcast {
namespace {

Result<DefaultParts> read_default_parts(const std::filesystem::path& file) {
  const auto document = TomlDocument::read(file);
  if (!document) return document.error();
  const TomlTable t = document->root();
  t.text("source");
  DefaultParts defaults{t.text("cpu"),
                        t.text("ssd"),
                        t.text("ram"),
                        t.texts("cpus_with_ddr4"),
                        t.texts("cpus_with_ddr5"),
                        t.text("model")};
  for (const auto& [key, ids] : {std::pair{"cpus_with_ddr4", &defaults.cpus_with_ddr4},
                                 {"cpus_with_ddr5", &defaults.cpus_with_ddr5}})
    if (ids->empty()) t.refuse(key, "names no CPU");
  t.finish();
  if (auto error = document->error()) return *error;
  return defaults;
}

}  // namespace

Result<DefaultParts> default_parts(const Catalogue& catalogue) {
  static FileCache<DefaultParts> kept;
  return kept.get(catalogue.root() / "hwprofiles/defaults.toml", read_default_parts);
}

}  // namespace rigcast
