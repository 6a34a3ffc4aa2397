#include "http/json_body.hpp"

#include <fmt/format.h>

namespace rigcast {

Result<nlohmann::json> parse_json_body(std::string_view text, int max_depth) {
  using nlohmann::json;
  bool too_deep = false;
  const auto watch = [&](int depth, json::parse_event_t, const json&) {
    too_deep = too_deep || depth > max_depth;
    return !too_deep;
  };
  json parsed = json::parse(text, watch, false);
  if (too_deep)
    return bad_input(fmt::format("values of the body are nested more than {} deep", max_depth));
  if (parsed.is_discarded()) return bad_input("the body is not JSON");
  if (!parsed.is_object()) return bad_input("the body is not a JSON object");
  return parsed;
}

}  // namespace rigcast
