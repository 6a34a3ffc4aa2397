// Any text as a file that names others: the first letter says whether a scenario on the catalogue,
// a suite of runs, or figures of quality.

#include <unistd.h>

#include "core/catalogue/catalogue.hpp"
#include "core/scenario/scenario.hpp"
#include "planner/quality.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "validation/runs/suite.hpp"

namespace {

using namespace rigcast;

void scenario(std::string_view text) {
  static const Catalogue catalogue(RIGCAST_SOURCE_DIR);
  const auto document = TomlDocument::parse(text, "fuzz.toml");
  if (!fuzz::check(document)) return;
  const auto made = make_scenario(*document, catalogue);
  if (fuzz::check(made)) RIGCAST_ASSERT(made->model.layers > 0 && made->workload.context > 0);
}

void suite(const std::filesystem::path& file) {
  const auto read = validation::read_suite(file);
  if (fuzz::check(read)) RIGCAST_ASSERT(!read->runs.empty());
}

// A folder whose two tables are links to one file.
void quality(const std::filesystem::path& file) {
  static const std::filesystem::path folder = [&] {
    auto made = std::filesystem::temp_directory_path() / ("rigcast-" + std::to_string(::getpid()));
    std::filesystem::create_directory(made);
    for (const char* name : {"mixes.toml", "kv_types.toml"})
      std::filesystem::create_symlink(file, made / name);
    return made;
  }();
  const auto table = planner::QualityTable::read(folder);
  if (fuzz::check(table)) table->of_mix("Q4_K_M", {}, 8e9);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::MemoryFile file;
  fuzz::Input in(data, size);
  switch (in.byte()) {
    case 'u': suite(file.holding(in.rest())); break;
    case 'q': quality(file.holding(in.rest())); break;
    default: scenario(in.rest()); break;
  }
  return 0;
}
