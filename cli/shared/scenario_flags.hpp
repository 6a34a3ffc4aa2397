#pragma once
// The flags that every verb shares. Each sets one key of the scenario file, and wins over it.

#include <CLI/App.hpp>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/text/toml_reader.hpp"

namespace rigcast::cli {

class ScenarioFlags {
 public:
  void add_to(CLI::App& verb);
  /// The scenario file, if one was named, with the flags and --set applied.
  Result<TomlDocument> document() const;
  /// The document without --set, and the arguments of --set.
  Result<TomlDocument> document_without_sets() const;
  const std::vector<std::string>& sets() const { return sets_; }
  /// The file and the flags as they were typed, for the command line of another verb.
  std::vector<std::string> words() const;
  /// The scenario file; empty: none was named.
  const std::string& file() const { return file_; }

 private:
  struct Flag {
    std::string name;  // "--gpu"
    std::string key;   // "rig.gpu"
    enum Kind { kValue, kText, kTextList, kNumberList, kOnOff, kModel, kLoad } kind;
    std::string value;
    CLI::Option* option = nullptr;
  };
  static std::optional<Error> set_model(TomlDocument& document, const Flag& flag);
  static std::optional<Error> set_load(TomlDocument& document, const Flag& flag);
  void add(CLI::App& verb, const char* group, const char* name, const char* keys, Flag::Kind kind,
           const char* type, const char* help);

  std::string file_;
  std::deque<Flag> flags_;  // stable addresses: CLI11 writes into them
  std::vector<std::string> sets_;
};

}  // namespace rigcast::cli
