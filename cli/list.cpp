#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/catalogue/entries.hpp"
#include "cli/shared/output.hpp"
#include "cli/terminal/terminal_width.hpp"
#include "cli/verbs.hpp"
#include "core/text/csv_quote.hpp"
#include "core/text/nearest_name.hpp"

namespace rigcast::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string what;
  std::vector<std::string> words;
  OutputOptions output;
};

// Which of an entry's aliases were meant, where its id is not what was searched for.
std::string matching_aliases(const CatalogueEntry& entry, const std::vector<std::string>& words) {
  CatalogueEntry by_id{.id = {}, .cells = {}, .facts = {}, .names = {entry.id}, .aliases = {}};
  std::vector<std::string> out;
  for (const std::string& alias : entry.aliases) {
    CatalogueEntry by_alias = by_id;
    by_alias.names = {alias};
    if (matches(by_alias, words)) out.push_back(alias);
  }
  return words.empty() || matches(by_id, words) ? "" : fmt::format("{}", fmt::join(out, ", "));
}

// Lines have no more than `width` columns; 0: as many as they need.
std::string as_text(const Listing& listing, const std::vector<std::string>& words,
                    std::size_t width) {
  std::vector<std::vector<std::string>> rows{listing.columns};
  for (const CatalogueEntry& entry : listing.entries) {
    rows.push_back(entry.cells);
    if (const std::string found = matching_aliases(entry, words); !found.empty())
      rows.back().push_back("also " + found);
  }
  std::vector<std::size_t> widths(listing.columns.size() + 1);
  for (const auto& row : rows)
    for (std::size_t i = 0; i < listing.columns.size(); ++i)
      widths[i] = std::max(widths[i], row[i].size());
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) line += fmt::format("{:<{}}  ", row[i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    out += (width > 0 ? clip(line, width) : line) + "\n";
  }
  return out;
}

std::string csv_cell(const Json& value) {
  if (value.is_null()) return "";
  if (value.is_string()) return csv_quote(value.get<std::string>());
  if (!value.is_array()) return value.dump();
  std::string items;
  for (const Json& item : value) items += (items.empty() ? "" : ";") + item.get<std::string>();
  return csv_quote(items);
}

// The keys and values of the JSON; lists are joined by ";".
std::string as_csv(const Listing& listing) {
  std::string out;
  for (const CatalogueEntry& entry : listing.entries) {
    std::string header, line;
    for (const auto& [key, value] : entry.facts.items()) {
      header += (header.empty() ? "" : ",") + key;
      line += (line.empty() ? "" : ",") + csv_cell(value);
    }
    if (out.empty()) out = header + "\n";
    out += line + "\n";
  }
  return out;
}

std::string as_json(const Options& o, const Listing& listing) {
  Json entries = Json::array();
  for (const CatalogueEntry& entry : listing.entries) entries.push_back(entry.facts);
  const Json out = {
      {"schema", "rigcast.catalogue/1"}, {"list", o.what}, {"entries", std::move(entries)}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Error nothing_found(const Options& o, const Listing& all) {
  std::vector<std::string> names;
  for (const CatalogueEntry& entry : all.entries) {
    names.insert(names.end(), entry.names.begin(), entry.names.end());
    std::istringstream parts(entry.id);
    for (std::string part; std::getline(parts, part, '-');) names.push_back(part);
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const std::string words = fmt::format("{}", fmt::join(o.words, " "));
  std::string hint = did_you_mean(words, names);
  if (!hint.empty()) hint += "      ";
  hint += fmt::format("rigcast list {} shows all {}", o.what, all.entries.size());
  return bad_input(
      fmt::format("no {} with \"{}\" in id, name, alias, vendor or architecture", o.what, words),
      std::move(hint));
}

int list_verb(const Options& o, const Catalogue& catalogue) {
  const auto all = list_catalogue(o.what, catalogue);
  if (!all) return fail(all.error());
  Listing listing{all->columns, {}};
  std::ranges::copy_if(all->entries, std::back_inserter(listing.entries),
                       [&](const auto& entry) { return matches(entry, o.words); });
  if (listing.entries.empty() && !o.words.empty()) return fail(nothing_found(o, *all));
  std::string out;
  switch (o.output.format) {
    case Format::kText: out = as_text(listing, o.words, terminal_width(o.output)); break;
    case Format::kJson: out = as_json(o, listing); break;
    case Format::kCsv: out = as_csv(listing); break;
  }
  if (auto error = emit(o.output, out)) return fail(*error);
  return kDone;
}

}  // namespace

void add_list(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("list", "List the catalogue");
  auto options = std::make_shared<Options>();
  verb->add_option("what", options->what,
                   "rigs, gpus, cpus, ram, ssds, models, quants, runtimes, loads or slos")
      ->required()
      ->type_name("WHAT");
  verb->add_option("words", options->words,
                   "only entries with all of these in id, name, alias, vendor or architecture")
      ->type_name("WORD");
  options->output.add_to(*verb);
  verb->footer(
      "Examples\n"
      "  rigcast list gpus blackwell\n"
      "  rigcast list models qwen 30b\n"
      "Files of your own, in hwprofiles/, models/ and runtimes/ of $XDG_DATA_HOME/rigcast\n"
      "(~/.local/share/rigcast), come before those that ship, and are marked. RIGCAST_DATA names\n"
      "another folder for those that ship. rigcast show NAME has every figure and its source.");
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return list_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
