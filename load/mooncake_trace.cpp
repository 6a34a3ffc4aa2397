#include "load/mooncake_trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace rigcast {
namespace {

using Json = nlohmann::json;

constexpr TokenCount kBlockTokens = 512;
constexpr std::string_view kKeys[] = {"timestamp", "input_length", "output_length", "hash_ids"};

// Beginnings of prompts as paths of block ids from a common root.
class Prefixes {
 public:
  struct Match {
    std::size_t request = 0, blocks = 0;  // the first request that begins so; none: 0 blocks
  };

  // The longest beginning that an earlier prompt has, too. This one's is noted.
  Match add(const std::vector<std::int64_t>& ids, std::size_t request) {
    Match match;
    std::size_t node = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const auto [it, is_new] =
          nodes_.try_emplace({node, ids[i]}, Node{nodes_.size() + 1, request});
      if (!is_new) match = {it->second.request, i + 1};
      node = it->second.id;
    }
    return match;
  }

 private:
  struct Node {
    std::size_t id, request;
  };
  std::map<std::pair<std::size_t, std::int64_t>, Node> nodes_;  // by the node before and its id
};

struct Line {
  double timestamp = 0;  // ms
  std::int64_t input = 0, output = 0;
  std::vector<std::int64_t> ids;
};

// What is wrong with a value; empty: nothing.
std::string read_value(const std::string& key, const Json& value, Line& line) {
  const auto is_id = [](const Json& id) { return id.is_number_integer(); };
  if (key == "timestamp" && value.is_number()) {
    line.timestamp = value.get<double>();
  } else if (key == "input_length" && value.is_number_integer()) {
    line.input = value.get<std::int64_t>();
  } else if (key == "output_length" && value.is_number_integer()) {
    line.output = value.get<std::int64_t>();
  } else if (key == "hash_ids" && value.is_array() && std::ranges::all_of(value, is_id)) {
    line.ids = value.get<std::vector<std::int64_t>>();
  } else {
    const std::string quoted = Json(key).dump(-1, ' ', true, Json::error_handler_t::replace);
    const bool known = std::ranges::find(kKeys, key) != std::end(kKeys);
    return known ? quoted + " is not what it should be" : "unknown key " + quoted;
  }
  return {};
}

Result<Line> read_line(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return bad_input("no JSON object");
  Line line;
  for (const auto& [key, value] : json.items())
    if (std::string fault = read_value(key, value, line); !fault.empty()) return bad_input(fault);
  for (const std::string_view key : kKeys)
    if (key != "hash_ids" && !json.contains(std::string(key)))
      return bad_input(fmt::format("{} is missing", key));
  return line;
}

}  // namespace

Result<Trace> parse_mooncake_trace(std::string_view text, const std::string& file) {
  TraceBuilder builder;
  Prefixes prefixes;
  int number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view one = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (one.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto refuse = [&](const std::string& fault) {
      return bad_input(fault,
                       "a line is for example {\"timestamp\": 3052, \"input_length\": 2287, "
                       "\"output_length\": 316, \"hash_ids\": [0, 42]}",
                       SourceRef{file, number, 1});
    };
    const auto line = read_line(one);
    if (!line) return refuse(line.error().message);
    if (const auto fault = builder.add(line->timestamp / 1000, line->input, line->output))
      return refuse(*fault);
    const auto match = prefixes.add(line->ids, builder.requests().size() - 1);
    if (match.blocks > 0) builder.share(match.request, TokenCount(match.blocks) * kBlockTokens);
  }
  return std::move(builder).finish(true);
}

}  // namespace rigcast
