#include "cli/shared/empty_value.hpp"

#include <algorithm>

namespace rigcast::cli {

Error empty_value(const std::string& option) {
  return bad_input(option + ": an empty value (an unset shell variable?)",
                   "give a value, or leave it out");
}

std::optional<Error> find_empty_value(const CLI::App& verb) {
  for (const CLI::Option* option : verb.get_options()) {
    // Texts to work on may be empty: verbs say which may not.
    if (option->get_name() == "text" || option->get_name() == "--prompt") continue;
    const bool has_empty = std::ranges::any_of(
        option->results(), [](const std::string& value) { return value.empty(); });
    if (option->count() > 0 && has_empty) return empty_value(option->get_name());
  }
  return std::nullopt;
}

}  // namespace rigcast::cli
