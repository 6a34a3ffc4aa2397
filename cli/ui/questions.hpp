#pragma once
// What the page may ask, as JSON, and the command line that answers it: the page gets the very
// bytes that the command prints.

#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast::cli {

struct Question {
  std::vector<std::string> words;  // of the command, without the program
  bool is_long = false;            // many simulations: others are answered meanwhile
};

/// A path that has questions in the body: /api/forecast, plan, compare, capacity.
bool takes_question(std::string_view path);
/// A path that is a question by itself: /api/machine, /api/catalogue/LIST.
bool is_question(std::string_view path);

/// Errors: no JSON, or not of the shape that docs/ui.md has; the key says where.
Result<Question> read_question(std::string_view path, std::string_view body);

}  // namespace rigcast::cli
