#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/catalogue/entries.hpp"
#include "cli/shared/output.hpp"
#include "cli/terminal/terminal_width.hpp"
#include "cli/verbs.hpp"
#include "core/catalogue/compose_rig.hpp"
#include "core/catalogue/find_model.hpp"
#include "core/runtime/load_profile.hpp"
#include "core/text/nearest_name.hpp"
#include "core/text/toml_facts.hpp"
#include "report/terminal/text_style.hpp"
#include "report/terminal/wrap_lines.hpp"

namespace rigcast::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

struct Options {
  std::string name;
  OutputOptions output;
};

// An entry with every value of its file.
struct Shown {
  std::string_view what;
  CatalogueEntry entry;
  fs::path file;  // empty: a quant mix
  std::string source;
  std::string kind;  // of figures that state none; empty: the file's values are no figures
  std::vector<TomlFact> facts;
};

// What the header of an entry says, and no figure.
bool is_label(const std::string& key) {
  constexpr std::string_view kLabels[] = {"name",    "vendor",   "source",
                                          "aliases", "released", "architecture"};
  return std::ranges::find(kLabels, key) != std::end(kLabels);
}

std::string default_kind(std::string_view what) {
  if (what == "models") return "";
  const bool is_assumed = what == "rigs" || what == "runtimes" || what == "loads";
  return is_assumed ? "assumed" : "spec";
}

Result<Shown> shown(std::string_view what, const fs::path& file, const Catalogue& catalogue) {
  const auto document = what == "runtimes"
                            ? read_runtime_layers(file, catalogue.root() / "runtimes")
                            : TomlDocument::read(file);
  if (!document) return document.error();
  auto entry = catalogue_entry(what, file.stem().string(), catalogue);
  if (!entry) return entry.error();
  // A load and its limits state the kind of their figures once.
  const bool states_kind = what == "loads" || what == "slos";
  const std::string kind =
      states_kind ? document->root().text_or("kind", default_kind(what)) : default_kind(what);
  Shown out{what, *std::move(entry), file, document->root().text_or("source", ""), kind, {}};
  for (TomlFact& fact : facts_of(*document))
    if (!is_label(fact.key) && !(states_kind && fact.key == "kind"))
      out.facts.push_back(std::move(fact));
  return out;
}

// The machine on which the program runs, which has no file.
Result<Shown> shown_machine(const Catalogue& catalogue) {
  const auto text = catalogue.this_machine();
  if (!text) return text.error();
  const auto document = TomlDocument::parse(*text, "this machine");
  if (!document) return document.error();
  Shown out{.what = "rigs",
            .entry = {.id = kThisMachine, .cells = {}, .facts = {}, .names = {}, .aliases = {}},
            .file = {},
            .source = document->root().text_or("source", ""),
            .kind = "spec",
            .facts = {}};
  out.entry.facts = {{"id", kThisMachine}};
  for (TomlFact& fact : facts_of(*document))
    if (!is_label(fact.key)) out.facts.push_back(std::move(fact));
  return out;
}

struct Place {
  std::string_view what;
  const char* folder;
};
constexpr Place kPlaces[] = {
    {"gpus", "hwprofiles/gpus"}, {"cpus", "hwprofiles/cpus"}, {"ssds", "hwprofiles/ssds"},
    {"ram", "hwprofiles/ram"},   {"rigs", "hwprofiles/rigs"}, {"models", "models"},
    {"runtimes", "runtimes"},    {"loads", "loads"},          {"slos", "loads/slo"}};

using Files = std::vector<std::pair<std::string_view, fs::path>>;

Files files_of_id(const std::string& name, const Catalogue& c) {
  Files found;
  std::error_code ignored;
  for (const Place& place : kPlaces)
    if (const auto file = c.file_of(place.folder, as_id(name)); fs::is_regular_file(file, ignored))
      found.emplace_back(place.what, file);
  return found;
}

// By names and aliases; GPUs and CPUs, which have most spellings, last.
Result<Files> files_of_name(const std::string& name, const Catalogue& c) {
  Files found;
  if (name.ends_with(".toml")) return found;  // a file is no entry
  const auto add = [&](std::string_view what, const char* folder, const std::string& id) {
    found.emplace_back(what, c.file_of(folder, id));
  };
  if (const auto model = c.model(name)) add("models", "models", model->id);
  if (const auto ssd = c.ssd(name)) add("ssds", "hwprofiles/ssds", ssd->id);
  if (const auto rig = c.rig_file(name)) found.emplace_back("rigs", *rig);
  if (const auto runtime = c.runtime_file(name)) found.emplace_back("runtimes", *runtime);
  if (!found.empty()) return found;
  const auto gpu = c.gpu(name);
  if (gpu) add("gpus", "hwprofiles/gpus", gpu->id);
  if (!gpu && c.gpus_called(name).size() > 1) return gpu.error();
  if (gpu) return found;
  if (const auto cpu = c.cpu(name)) add("cpus", "hwprofiles/cpus", cpu->id);
  if (!found.empty()) return found;
  if (const auto model = find_model(c, name)) add("models", "models", model->spec.id);
  return found;
}

// Everything that has the name: "dgx-spark" is a GPU and a rig, "qwq-32b" an alias of a model.
Result<std::vector<Shown>> find_shown(const std::string& name, const Catalogue& c) {
  std::vector<Shown> out;
  if (const auto mix = QuantMix::from_name(name)) {
    auto entry = catalogue_entry("quants", mix->name(), c);
    if (!entry) return entry.error();
    out.push_back({"quants", *std::move(entry), {}, "", "", {}});
    return out;
  }
  Files found = files_of_id(name, c);
  if (found.empty() && name == kThisMachine) {
    auto here = shown_machine(c);
    if (!here) return here.error();
    out.push_back(*std::move(here));
    return out;
  }
  if (found.empty()) {
    auto named = files_of_name(name, c);
    if (!named) return named.error();
    found = *std::move(named);
  }
  std::error_code ignored;
  for (const auto& [what, file] : found) {
    if (!fs::is_regular_file(file, ignored)) continue;  // two sockets of a CPU have no file
    auto one = shown(what, file, c);
    if (!one) return one.error();
    out.push_back(*std::move(one));
  }
  return out;
}

Error nothing_named(const std::string& name, const Catalogue& c) {
  std::vector<std::string> ids;
  for (const Place& place : kPlaces)
    for (std::string& id : c.ids(place.folder)) ids.push_back(std::move(id));
  std::string hint = did_you_mean(name, ids);
  if (!hint.empty()) hint += "      ";
  return bad_input(fmt::format("nothing is named \"{}\"", name),
                   hint +
                       "rigcast list gpus, cpus, ssds, ram, rigs, models, quants, runtimes, "
                       "loads or slos");
}

std::string header_text(const Shown& s) {
  const Json& facts = s.entry.facts;
  const auto text = [&](const char* key) {
    return facts.contains(key) && facts[key].is_string() ? facts[key].get<std::string>() : "";
  };
  if (s.entry.id == kThisMachine && s.file.empty())
    return "this   the machine on which rigcast runs\n\n";
  std::string out = fmt::format("{}   {} of the catalogue\n", s.entry.id, s.what);
  if (s.file.empty()) return out + "\n";
  out += "\n";
  for (const char* key : {"name", "vendor", "architecture", "released"})
    if (!text(key).empty()) out += fmt::format("  {:<16} {}\n", key, text(key));
  std::string aliases;
  for (const std::string& alias : s.entry.aliases) aliases += (aliases.empty() ? "" : ", ") + alias;
  if (!aliases.empty()) out += fmt::format("  {:<16} {}\n", "aliases", aliases);
  out += fmt::format("  {:<16} {}\n", "file", s.file.string());
  return out + "\n";
}

std::string text_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? fmt::format("{:.4g}", value.get<double>()) : value.dump();
}

// Sources are numbered, since most figures share a few.
std::string as_text(const Shown& s, std::size_t width) {
  std::vector<std::string> sources;
  if (!s.source.empty()) sources.push_back(s.source);
  std::size_t key_width = 0, value_width = 0;
  for (const TomlFact& fact : s.facts) {
    key_width = std::max(key_width, fact.key.size());
    value_width = std::max(value_width, std::min<std::size_t>(fact.value.size(), 24));
  }
  std::string out = header_text(s);
  for (const TomlFact& fact : s.facts) {
    const std::string source = fact.source.value_or(s.source);
    auto at = std::ranges::find(sources, source);
    if (at == sources.end() && !source.empty()) at = sources.insert(sources.end(), source);
    const std::string mark = source.empty() ? "" : fmt::format("[{}]", at - sources.begin() + 1);
    const std::string kind = fact.kind.value_or(s.kind);
    std::string line = fmt::format("  {:<{}}  {:<{}}  {:<9} {}", fact.key, key_width, fact.value,
                                   value_width, kind, mark);
    line.erase(line.find_last_not_of(' ') + 1);
    if (width > 0 && text_width(line) > width)
      line = fmt::format("  {}\n      {}  {} {}", fact.key, fact.value, kind, mark);
    out += line + "\n";
  }
  if (s.facts.empty())
    for (const auto& [key, value] : s.entry.facts.items())
      out += fmt::format("  {:<16} {}\n", key, text_of(value));
  if (!sources.empty()) out += "\n";
  for (std::size_t i = 0; i < sources.size(); ++i)
    out += fmt::format("  [{}] {}\n", i + 1, sources[i]);
  return out;
}

// `width`: of the terminal; 0: there is none.
std::string as_text(const std::vector<Shown>& all, std::size_t width) {
  std::string out;
  for (const Shown& s : all) out += (out.empty() ? "" : "\n") + as_text(s, width);
  return wrap_lines(out, width, 4);
}

Json as_json(const Shown& s) {
  Json figures = Json::array();
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  for (const TomlFact& fact : s.facts)
    figures.push_back(
        {{"key", fact.key},
         {"value", fact.is_number ? Json::parse(fact.value, nullptr, false) : Json(fact.value)},
         {"kind", text_or_null(fact.kind.value_or(s.kind))},
         {"source", text_or_null(fact.source.value_or(s.source))}});
  return {{"list", s.what},
          {"entry", s.entry.facts},
          {"file", text_or_null(s.file.string())},
          {"figures", std::move(figures)}};
}

int show_verb(const Options& o, const Catalogue& catalogue) {
  if (o.output.format == Format::kCsv)
    return fail(bad_input("what is shown has no CSV", "--format json, or rigcast list"));
  const auto found = find_shown(o.name, catalogue);
  if (!found) return fail(found.error());
  if (found->empty()) return fail(nothing_named(o.name, catalogue));
  std::string out;
  if (o.output.format == Format::kText) {
    out = as_text(*found, terminal_width(o.output));
  } else {
    Json entries = Json::array();
    for (const Shown& s : *found) entries.push_back(as_json(s));
    const Json all = {{"schema", "rigcast.show/1"}, {"entries", std::move(entries)}};
    out = all.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
  if (auto error = emit(o.output, out)) return fail(*error);
  return kDone;
}

}  // namespace

void add_show(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand(
      "show",
      "Show every figure of a part, rig, model, runtime, load or quant mix, with its source");
  auto options = std::make_shared<Options>();
  verb->add_option("name", options->name, "an id, name or alias of the catalogue")
      ->required()
      ->type_name("NAME");
  options->output.add_to(*verb);
  verb->footer(
      "Examples\n"
      "  rigcast show rtx-4090\n"
      "  rigcast show qwen3-8b --format json\n"
      "  rigcast show llama.cpp\n"
      "  rigcast show this");
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return show_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
