#include "core/catalogue/find_model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "core/files/input_file.hpp"
#include "core/model/hugging_face_config.hpp"
#include "core/model/model_names.hpp"
#include "core/text/freetext.hpp"
#include "core/text/nearest_name.hpp"

namespace rigcast {
namespace {

namespace fs = std::filesystem;

// The config.json that a path is or holds.
std::optional<fs::path> config_file(const std::string& name) {
  std::error_code ignored;
  const fs::path path(name);
  if (fs::is_directory(path, ignored) && fs::is_regular_file(path / "config.json", ignored))
    return path / "config.json";
  if (path.extension() == ".json" && fs::exists(path, ignored)) return path;
  return std::nullopt;
}

bool is_path(const std::string& name) {
  return name.starts_with('/') || name.starts_with("./") || name.starts_with("../") ||
         name.starts_with('~');
}

// "llama3.1" and "llama-3.1" are the same name.
constexpr const char* kFamily = R"(^([a-z]+)[-_ ]?(\d+(?:\.\d+)?)(?=$|[-_ :]))";

std::optional<ModelSpec> find_simpler(const Catalogue& catalogue,
                                      const std::vector<std::string>& names) {
  for (const std::string& name : names)
    if (auto spec = catalogue.model(name)) return *std::move(spec);
  for (const std::string& name : names)
    for (const char* family : {"$1$2", "$1-$2"})
      if (auto spec = catalogue.model(freetext::replaced(name, kFamily, family)))
        return *std::move(spec);
  return std::nullopt;
}

// "llama-3.1-8b" and its sisters, of "llama3.1": the name of a family, without a size.
std::vector<std::string> sizes_of_family(const std::string& name,
                                         const std::vector<std::string>& known) {
  constexpr std::size_t kMaxShown = 16;
  std::vector<std::string> out;
  for (const char* family : {"$1$2", "$1-$2"}) {
    const std::string head = as_id(freetext::replaced(name, kFamily, family)) + "-";
    for (const std::string& id : known)
      if (id.starts_with(head) && id.size() > head.size() && id[head.size()] >= '0' &&
          id[head.size()] <= '9' && std::ranges::find(out, id) == out.end())
        out.push_back(id);
  }
  out.resize(std::min(out.size(), kMaxShown));
  return out;
}

Error unknown_model(const Catalogue& catalogue, const std::string& name,
                    const StatedModel& stated) {
  const std::string simplest = stated.names.empty() ? name : stated.names.back();
  std::string message = fmt::format("no model named \"{}\"", name);
  if (name.ends_with(".gguf"))
    message = fmt::format("no file {}, and no model of the name it has", name);
  if (simplest != name) {
    message += fmt::format(": it says \"{}\"", simplest);
    if (!stated.quant.empty()) message += fmt::format(" in {}", stated.quant);
  }
  const auto known = catalogue.ids("models");
  const auto sizes = sizes_of_family(simplest, known);
  std::string hint = sizes.empty() ? did_you_mean(simplest, known)
                                   : fmt::format("which size: {}?", fmt::join(sizes, ", "));
  if (!hint.empty()) hint += "      ";
  hint += fmt::format("rigcast list models shows all {}; --model also takes a config.json",
                      known.size());
  return bad_input(std::move(message), std::move(hint));
}

std::optional<Error> read_quant(const StatedModel& stated, const std::string& name,
                                const std::string& given, WeightFormats formats,
                                FoundModel& found) {
  if (stated.quant.empty()) return std::nullopt;
  if (formats == WeightFormats::kServed) {
    if (const auto served = served_mix_of_label(stated.quant)) {
      found.quant = served->name();
      return std::nullopt;
    }
  }
  const auto mix = mix_of_label(stated.quant);
  if (mix) found.quant = mix->name();
  const auto given_mix = given.empty() ? std::nullopt : mix_of_label(given);
  if (mix && given_mix && given_mix->name() != mix->name())
    found.warnings.push_back(fmt::format("the model's name says {}: forecast with {}, as given",
                                         mix->name(), given_mix->name()));
  if (mix || !given.empty()) return std::nullopt;
  if (QuantMix::nearest_to_recipe(stated.quant)) {
    found.quant = stated.quant;
    return std::nullopt;
  }
  const auto like = mix_like_format(stated.quant);
  if (!like) {
    const Error unknown = QuantMix::from_name(stated.quant).error();
    return bad_input(fmt::format("\"{}\": {}", name, unknown.message), unknown.hint);
  }
  found.quant = like->name();
  found.warnings.push_back(
      fmt::format("{} is not modelled: forecast with {}, of about as many bits a weight (--quant)",
                  stated.quant, like->name()));
  return std::nullopt;
}

}  // namespace

bool states_quant(const std::string& name) { return !stated_model(name).quant.empty(); }

Result<FoundModel> find_model(const Catalogue& catalogue, const std::string& name,
                              const std::string& quant, WeightFormats formats) {
  FoundModel found;
  const bool is_plain = name.find('/') == std::string::npos;
  const bool is_file = name.ends_with(".gguf");
  auto as_written = catalogue.model(name);
  if (!as_written && !catalogue.takes_files() && (is_path(name) || is_file))
    return bad_input("files are not read here", "name a model of the catalogue");
  const bool may_be_file = catalogue.takes_files() && !(as_written && is_plain);
  const auto file = may_be_file ? config_file(name) : std::nullopt;
  if (file) as_written = read_hugging_face_config(*file);
  if (as_written) {
    found.spec = *std::move(as_written);
    return found;
  }
  if (file) return as_written.error();
  if (as_written.error().where) return as_written.error();  // a spec with a mistake
  std::error_code ignored;
  if (catalogue.takes_files() && fs::exists(name, ignored) && !fs::is_directory(name, ignored))
    if (auto error = check_regular_file(name)) return *error;
  if (is_path(name) && !is_file)
    return bad_input(fmt::format("no model at {}", name),
                     "expected a .gguf file, a spec (.toml), a config.json or its folder");
  const StatedModel stated = stated_model(name);
  auto spec = find_simpler(catalogue, stated.names);
  if (!spec) return unknown_model(catalogue, name, stated);
  found.spec = *std::move(spec);
  if (auto error = read_quant(stated, name, quant, formats, found)) return *error;
  if (is_file)
    found.warnings.push_back(
        fmt::format("no file {}: forecast from what its name says, {} of the catalogue", name,
                    found.spec.name));
  return found;
}

}  // namespace rigcast
