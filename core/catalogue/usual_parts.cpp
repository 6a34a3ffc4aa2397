#include "core/catalogue/usual_parts.hpp"

#include <filesystem>

#include "core/catalogue/file_cache.hpp"

namespace rigcast {
namespace {

Result<UsualParts> read_usual_parts(const std::filesystem::path& file) {
  const auto document = TomlDocument::read(file);
  if (!document) return document.error();
  const TomlTable t = document->root();
  t.text("source");
  UsualParts usual{t.text("cpu"),
                   t.text("ssd"),
                   t.text("ram"),
                   t.texts("cpus_with_ddr4"),
                   t.texts("cpus_with_ddr5"),
                   t.text("model")};
  for (const auto& [key, ids] : {std::pair{"cpus_with_ddr4", &usual.cpus_with_ddr4},
                                 {"cpus_with_ddr5", &usual.cpus_with_ddr5}})
    if (ids->empty()) t.refuse(key, "names no CPU");
  t.finish();
  if (auto error = document->error()) return *error;
  return usual;
}

}  // namespace

Result<UsualParts> usual_parts(const Catalogue& catalogue) {
  static FileCache<UsualParts> kept;
  return kept.get(catalogue.root() / "hwprofiles/usual.toml", read_usual_parts);
}

}  // namespace rigcast
