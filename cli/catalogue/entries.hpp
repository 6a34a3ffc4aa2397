#pragma once
// What the catalogue holds, entry by entry: a line for people, and facts in plain units for
// programs.

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/catalogue/catalogue.hpp"

namespace rigcast::cli {

struct CatalogueEntry {
  std::string id;
  std::vector<std::string> cells;  // under the listing's columns, of which the id is the first
  nlohmann::ordered_json facts;    // keys end in their unit; docs/catalogue.md lists them
  std::vector<std::string> names;  // id, name, aliases, vendor, architecture: what a search finds
  std::vector<std::string> aliases;
};

struct Listing {
  std::vector<std::string> columns;
  std::vector<CatalogueEntry> entries;
};

/// "rigs", "gpus", "cpus", "ram", "ssds", "models", "quants", "runtimes",
/// "loads", "slos".
std::span<const std::string_view> listings();

/// All entries, sorted by id; an unknown `what` is an Error.
Result<Listing> list_catalogue(std::string_view what, const Catalogue& catalogue);

/// Ids alone, sorted, without reading what they name; of "all" listings, "all". None of another.
std::vector<std::string> listed_ids(std::string_view what, const Catalogue& catalogue);

/// The entry that has that id.
Result<CatalogueEntry> catalogue_entry(std::string_view what, const std::string& id,
                                       const Catalogue& catalogue);

/// Every word is part of one of the entry's names, ignoring case and punctuation.
bool matches(const CatalogueEntry& entry, std::span<const std::string> words);

}  // namespace rigcast::cli
