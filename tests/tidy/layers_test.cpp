// Checks includes against layers.txt, and that neither files nor folders include each other in a
// circle.

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/tidy/include.hpp"
#include "tests/tidy/source_tree.hpp"

using rigcast::tidy::files;
using rigcast::tidy::Include;
using rigcast::tidy::include_of;
using rigcast::tidy::SourceFile;

namespace {

struct Layers {
  std::map<std::string, std::set<std::string>> folders;       // folder -> folders it may include
  std::map<std::string, std::vector<std::string>> libraries;  // folder -> beginnings of paths
  std::map<std::string, std::string> only;                    // beginning -> the one file
};

Layers read_layers() {
  Layers layers;
  std::istringstream in(
      rigcast::tidy::read(std::string(rigcast::test::source_dir()) + "/tests/tidy/layers.txt"));
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string first, second, arrow;
    if (!(words >> first)) continue;
    if (first == "only") {
      words >> first >> arrow >> second;
      layers.only[second] = first;
      continue;
    }
    words >> arrow;
    if (arrow == "->") layers.folders[first];
    if (arrow == "::") layers.libraries[first];
    for (std::string word; words >> word;) {
      if (arrow == "->") layers.folders[first].insert(word);
      if (arrow == "::") layers.libraries[first].push_back(word);
    }
  }
  return layers;
}

bool begins(const std::string& text, const std::string& beginning) {
  return text.rfind(beginning, 0) == 0;
}

// C and C++ headers, and those of POSIX.
bool is_standard(const std::string& path) {
  return path.find('/') == std::string::npos
             ? path.find('.') == std::string::npos || begins(path, "unistd") || path == "poll.h" ||
                   begins(path, "spawn") || begins(path, "sched") || begins(path, "fcntl") ||
                   begins(path, "immintrin") || begins(path, "x86intrin")
             : begins(path, "sys/");
}

bool is_in(const std::string& path, const std::string& folder) {
  return begins(path, folder + "/");
}

// The longest name of layers.txt that the path begins with; nullptr: none.
template <class Map>
const typename Map::value_type* entry_of(const Map& map, const std::string& path) {
  const typename Map::value_type* longest = nullptr;
  for (const auto& entry : map)
    if (is_in(path, entry.first) && (!longest || entry.first.size() > longest->first.size()))
      longest = &entry;
  return longest;
}

std::string refusal(const Layers& layers, const SourceFile& file, const Include& include) {
  if (const auto* target = entry_of(layers.folders, include.path); target || include.quoted) {
    if (!target) return "is in no folder of ours";
    const auto* from = entry_of(layers.folders, file.path);
    const bool allowed =
        target == from || std::ranges::any_of(from->second, [&](const std::string& folder) {
          return is_in(include.path, folder);
        });
    return allowed ? "" : "breaks an arrow";
  }
  for (const auto& [beginning, one] : layers.only)
    if (begins(include.path, beginning) && file.path != one) return "is for " + one + " alone";
  if (is_standard(include.path)) return "";
  if (const auto* known = entry_of(layers.libraries, file.path))
    for (const std::string& beginning : known->second)
      if (begins(include.path, beginning)) return "";
  return "is a library that this folder does not use";
}

// A header and the file that implements it are one.
std::string unit_of(const std::string& path) { return path.substr(0, path.rfind('.')); }

using Graph = std::map<std::string, std::set<std::string>>;

Graph include_graph() {
  Graph graph;
  for (const SourceFile& file : files()) {
    if (!file.is_source()) continue;
    std::set<std::string>& included = graph[unit_of(file.path)];
    for (const std::string& line : file.lines)
      if (const auto include = include_of(line); include && include->quoted)
        included.insert(unit_of(include->path));
    included.erase(unit_of(file.path));
  }
  return graph;
}

std::string folder_of(const std::string& path) { return path.substr(0, path.rfind('/')); }

Graph folder_graph(const Graph& units) {
  Graph graph;
  for (const auto& [unit, included] : units)
    for (const std::string& other : included)
      if (folder_of(other) != folder_of(unit)) graph[folder_of(unit)].insert(folder_of(other));
  return graph;
}

// The first circle that is found, as "a -> b -> a"; empty: there is none.
std::string circle_in(const Graph& graph) {
  std::map<std::string, bool> finished;  // false: on the current path
  std::vector<std::string> way;
  std::string circle;
  const auto walk = [&](const auto& self, const std::string& unit) -> void {
    const auto [seen, is_new] = finished.try_emplace(unit, false);
    if (!is_new && !seen->second) {
      for (auto at = std::ranges::find(way, unit); at != way.end(); ++at) circle += *at + " -> ";
      circle += unit;
    }
    if (!is_new || !circle.empty()) return;
    way.push_back(unit);
    if (const auto included = graph.find(unit); included != graph.end())
      for (const std::string& next : included->second)
        if (circle.empty()) self(self, next);
    way.pop_back();
    finished[unit] = true;
  };
  for (const auto& [unit, included] : graph) walk(walk, unit);
  return circle;
}

}  // namespace

TEST_CASE("Every include follows the arrows", "[tidy]") {
  const Layers layers = read_layers();
  REQUIRE(layers.folders.size() >= 7);
  std::string out;
  std::size_t checked = 0;
  for (const SourceFile& file : files()) {
    if (!file.is_source()) continue;
    if (!entry_of(layers.folders, file.path)) {
      out += file.path + ": its folder is not in layers.txt\n";
      continue;
    }
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const auto include = include_of(file.lines[i]);
      if (!include) continue;
      ++checked;
      const std::string why = refusal(layers, file, *include);
      if (!why.empty())
        out += file.path + ":" + std::to_string(i + 1) + ": " + include->path + " " + why + "\n";
    }
  }
  CHECK(checked > 200);
  INFO(out);
  CHECK(out.empty());
}

TEST_CASE("What uses backends knows their registry, and no backend", "[tidy]") {
  std::string out;
  for (const SourceFile& file : files()) {
    if (!file.is_in("cli") && !file.is_in("validation") && !file.is_in("calibration")) continue;
    for (const std::string& line : file.lines)
      if (const auto include = include_of(line); include &&
                                                 begins(include->path, "engine/backends/") &&
                                                 include->path != "engine/backends/backend.hpp")
        out += file.path + ": " + include->path + "\n";
  }
  INFO(out);
  CHECK(out.empty());
}

TEST_CASE("Neither files nor folders include each other in a circle", "[tidy]") {
  const Graph graph = include_graph();
  CHECK(graph.size() > 300);
  CHECK(circle_in(graph) == "");
  CHECK(circle_in(folder_graph(graph)) == "");
  CHECK(folder_graph({{"a/x", {"a/y", "b/x"}}, {"b/y", {"a/z"}}}) ==
        Graph{{"a", {"b"}}, {"b", {"a"}}});
  CHECK(circle_in({{"a", {"b", "c"}}, {"b", {"c"}}, {"c", {}}}) == "");
  CHECK(circle_in({{"a", {"b"}}, {"b", {"c"}}, {"c", {"b"}}}) == "b -> c -> b");
}

TEST_CASE("No folder holds more than 25 sources", "[tidy]") {
  constexpr int kMaxSources = 25;
  std::map<std::string, int> sources;
  for (const SourceFile& file : files())
    if (file.is_source()) ++sources[folder_of(file.path)];
  std::string out;
  for (const auto& [folder, n] : sources)
    if (n > kMaxSources) out += folder + ": " + std::to_string(n) + "\n";
  INFO(out);
  CHECK(out.empty());
}

TEST_CASE("The rules refuse what they are there to refuse", "[tidy]") {
  const Layers layers = read_layers();
  const auto refused = [&](const char* file, const std::string& line) {
    const auto include = include_of(line);
    REQUIRE(include);
    return !refusal(layers, SourceFile{file, {}}, *include).empty();
  };
  CHECK(refused("core/hardware/rig.cpp", "#include \"sim/machine/graph.hpp\""));
  CHECK(refused("core/hardware/rig.cpp", "#include <simgrid/s4u.hpp>"));
  CHECK(refused("core/hardware/rig.cpp", "#include <toml++/toml.h>"));
  CHECK(refused("core/hardware/rig.cpp", "#include <CLI/App.hpp>"));
  CHECK(refused("core/hardware/rig.cpp", "#include <boost/graph/adjacency_list.hpp>"));
  CHECK(refused("core/hardware/rig.cpp", "#include <cuda_runtime.h>"));
  CHECK(refused("sim/machine/graph.cpp", "#include \"engine/run.hpp\""));
  CHECK(refused("sim/machine/graph.cpp", "#include \"planner/plan.hpp\""));
  CHECK(refused("engine/run.cpp", "#include \"sim/machine/graph.hpp\""));
  CHECK(refused("planner/plan.cpp", "#include \"sim/machine/graph.hpp\""));
  CHECK(refused("planner/plan.cpp", "  #  include <simgrid/s4u.hpp>"));
  CHECK(refused("cli/main.cpp", "#include <simgrid/s4u.hpp>"));
  CHECK(refused("sim/simulate.cpp", "#include <simgrid/s4u.hpp>"));
  CHECK(refused("core/hardware/rig.cpp", "#include \"rig.hpp\""));
  CHECK(refused("core/base/units.hpp", "#include \"core/text/unit_text.hpp\""));
  CHECK(refused("core/hardware/rig.cpp", "#include \"core/scenario/scenario.hpp\""));
  CHECK(refused("engine/run/executor.hpp", "#include \"perfmodel/memory.hpp\""));
  CHECK(refused("engine/run/executor.hpp", "#include \"validation/validation.hpp\""));
  CHECK(refused("perfmodel/cost/gpu_cost.cpp", "#include \"engine/kv/kv_cache.hpp\""));
  CHECK(refused("perfmodel/cost/gpu_cost.cpp", "#include \"perfmodel/runtimes/rigcast.hpp\""));
  CHECK(refused("perfmodel/runtimes/rigcast.cpp", "#include \"perfmodel/step.hpp\""));
  CHECK_FALSE(refused("core/text/toml_parser.hpp", "#include <toml++/toml.h>"));
  CHECK_FALSE(refused("sim/machine/graph.cpp", "#include <simgrid/s4u.hpp>"));
  CHECK_FALSE(refused("sim/machine/graph.cpp", "#include \"core/hardware/rig.hpp\""));
  CHECK_FALSE(refused("cli/main.cpp", "#include \"planner/plan.hpp\""));
  CHECK_FALSE(refused("core/hardware/rig.cpp", "#include <vector>"));
}
