#include "validation/runs/llama_cpp/joined_commands.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast::validation {
namespace {

using planner::Words;
using Values = std::vector<std::string>;  // of each command

// llama-bench's values where a flag is left out.
const std::map<std::string, std::string>& defaults() {
  static const std::map<std::string, std::string> kDefaults{
      {"-d", "0"},    {"-b", "2048"},  {"-ub", "512"},       {"-ctk", "f16"}, {"-ctv", "f16"},
      {"-nkvo", "0"}, {"-ncmoe", "0"}, {"--n-cpu-moe", "0"}, {"-r", "5"}};
  return kDefaults;
}

// The values of every flag; nullopt: one has no value in a command, and no default.
std::optional<std::map<std::string, Values>> values_of(std::span<const Words> commands) {
  std::map<std::string, Values> out;
  for (std::size_t c = 0; c < commands.size(); ++c)
    for (std::size_t i = 1; i + 1 < commands[c].size(); i += 2) {
      Values& values = out[commands[c][i]];
      values.resize(commands.size());
      values[c] = commands[c][i + 1];
    }
  for (auto& [flag, values] : out)
    for (std::string& value : values) {
      if (!value.empty()) continue;
      const auto found = defaults().find(flag);
      if (found == defaults().end()) return std::nullopt;
      value = found->second;
    }
  return out;
}

// Takes out the repetitions, of which commands have more where a test is quick.
std::string fewest_repetitions(std::map<std::string, Values>& values) {
  const auto found = values.find("-r");
  if (found == values.end()) return {};
  const Values all = std::move(found->second);
  values.erase(found);
  return *std::ranges::min_element(all, {},
                                   [](const std::string& text) { return std::stoi(text); });
}

}  // namespace

std::optional<Words> joined(std::span<const Words> commands) {
  RIGCAST_ASSERT(!commands.empty());
  if (commands.size() == 1) return commands.front();
  auto values = values_of(commands);
  if (!values) return std::nullopt;
  const std::string repetitions = fewest_repetitions(*values);
  const auto differs = [](const auto& flag) {
    return std::ranges::adjacent_find(flag.second, std::not_equal_to()) != flag.second.end();
  };
  const auto differing = std::ranges::count_if(*values, differs);
  if (differing > 1) return std::nullopt;
  Words out{commands.front().front()};
  for (const auto& [flag, all] : *values) {
    // Of equal commands, a test each.
    const bool is_length = (flag == "-p" || flag == "-n") && all.front() != "0";
    const bool lists = differing == 0 ? is_length : differs(std::pair(flag, all));
    out.insert(out.end(), {flag, lists ? fmt::format("{}", fmt::join(all, ",")) : all.front()});
  }
  if (!repetitions.empty()) out.insert(out.end(), {"-r", repetitions});
  return out;
}

}  // namespace rigcast::validation
