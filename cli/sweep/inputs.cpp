#include "cli/sweep/inputs.hpp"

#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <set>

#include "core/catalogue/compose_rig.hpp"
#include "engine/gguf/file.hpp"

namespace rigcast::cli {
namespace {

namespace fs = std::filesystem;
using Files = std::set<fs::path>;

template <class Iterator>
void add_toml_files(const fs::path& folder, Files& files) {
  std::error_code ignored;
  for (const auto& entry : Iterator(folder, fs::directory_options::skip_permission_denied, ignored))
    if (entry.path().extension() == ".toml") files.insert(entry.path());
}

// All values that the base or the sweep has for `key` in `table`, such as "name" in "rig".
std::set<std::string> values_of(const char* table, const char* key, const TomlDocument& base,
                                std::span<const SweptKey> keys) {
  std::set<std::string> out;
  const auto take = [&](const TomlDocument& document) {
    const TomlTable read = document.clone().root().table(table);  // an error here is not ours
    for (std::string& text : read.texts(key)) out.insert(std::move(text));
  };
  take(base);
  const std::string dotted = fmt::format("{}.{}", table, key);
  for (const SweptKey& swept : keys)
    for (std::size_t i = 0; swept.key == dotted && i < swept.values.size(); ++i) {
      TomlDocument with("");
      if (!with.set(dotted, swept.values[i], "")) take(with);
    }
  return out;
}

// A part's own file, "card.toml" or "2xcard.toml".
void add_part_file(const std::string& part, Files& files) {
  if (!part.ends_with(".toml")) return;
  const auto digits = part.find_first_not_of("0123456789");
  const bool is_counted = digits > 0 && part[digits] == 'x';
  files.insert({fs::path(part), fs::path(is_counted ? part.substr(digits + 1) : part)});
}

// Empty for a folder or a file that is not there.
std::string content(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored)) return "";
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string size_and_time(const fs::path& file) {
  std::error_code ignored;
  return fmt::format("{} {} {}\n", file.string(), fs::file_size(file, ignored),
                     fs::last_write_time(file, ignored).time_since_epoch().count());
}

std::vector<fs::path> parts_of_model(const std::string& path) {
  const auto file = engine::GgufFile::open(path);
  if (!file) return {path};
  std::vector<fs::path> out;
  for (std::size_t i = 0; i < file->parts().size(); ++i) out.push_back(file->part_path(i));
  return out;
}

// What a scenario reads of a model file is at its beginning.
std::string size_and_begin(const fs::path& file) {
  constexpr std::size_t kBegin = 1 << 16;
  std::error_code ignored;
  std::string begin(kBegin, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(begin.data(), std::streamsize(begin.size()));
  begin.resize(std::size_t(in.gcount()));
  return fmt::format("{} {}\n{}", file.filename().string(), fs::file_size(file, ignored), begin);
}

std::string hash_of(const std::string& text) {
  return fmt::format("{:016x}", std::hash<std::string>{}(text));
}

constexpr const char* kProgram = "/proc/self/exe";

struct Inputs {
  Files files;  // TOML and JSON
  std::vector<fs::path> models;
  std::string machine;  // the one on which this runs, if a sweep is of it
};

void add_catalogue(const Catalogue& catalogue, Files& files) {
  for (const fs::path& root : {catalogue.root(), catalogue.own_root()})
    for (const char* part : {"hwprofiles", "models", "runtimes", "loads"})
      if (!root.empty()) add_toml_files<fs::recursive_directory_iterator>(root / part, files);
}

Inputs inputs_of(const Catalogue& catalogue, const TomlDocument& base,
                 std::span<const SweptKey> keys) {
  Inputs out;
  add_catalogue(catalogue, out.files);
  for (const auto& [table, key] : {std::pair{"rig", "gpu"}, {"rig", "cpu"}, {"rig", "ssd"}})
    for (const std::string& part : values_of(table, key, base, keys))
      add_part_file(part, out.files);
  for (const std::string& model : values_of("model", "name", base, keys)) {
    add_part_file(model, out.files);
    out.files.insert({fs::path(model), fs::path(model) / "config.json"});
  }
  for (const std::string& rig : values_of("rig", "name", base, keys))
    if (const auto file = catalogue.rig_file(rig))
      out.files.insert({*file, measured_file(*file)});
    else if (const auto here = catalogue.this_machine(); here && rig == kThisMachine)
      out.machine = *here;
  for (const std::string& runtime : values_of("runtime", "name", base, keys))
    if (const auto file = catalogue.runtime_file(runtime)) {
      const fs::path folder = fs::absolute(*file).parent_path();  // of those that it builds on too
      add_toml_files<fs::directory_iterator>(folder, out.files);
      add_toml_files<fs::directory_iterator>(folder / "fitted", out.files);
    }
  for (const std::string& model : values_of("model", "file", base, keys))
    for (fs::path& part : parts_of_model(model)) out.models.push_back(std::move(part));
  return out;
}

}  // namespace

std::string inputs_id(const Catalogue& catalogue, const TomlDocument& base,
                      std::span<const SweptKey> keys) {
  const Inputs inputs = inputs_of(catalogue, base, keys);
  std::string all = size_and_time(kProgram) + inputs.machine;
  for (const fs::path& file : inputs.files) all += file.string() + "\n" + content(file);
  for (const fs::path& model : inputs.models) all += size_and_time(model);
  return hash_of(all);
}

SharedInputs shared_inputs(const Catalogue& catalogue, const TomlDocument& base,
                           std::span<const SweptKey> keys) {
  const Inputs inputs = inputs_of(catalogue, base, keys);
  std::set<std::string> files;  // folders differ from machine to machine, and so would the order
  for (const fs::path& file : inputs.files)
    if (std::string text = content(file); !text.empty())
      files.insert(file.filename().string() + "\n" + text);
  std::string all = inputs.machine;
  for (const std::string& file : files) all += file;
  for (const fs::path& model : inputs.models) all += size_and_begin(model);
  return {hash_of(content(kProgram)), hash_of(all)};
}

}  // namespace rigcast::cli
