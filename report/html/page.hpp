#pragma once
// An answer as one HTML file: its JSON, the terminal's text, and all that shows them. It asks for
// nothing else, from nowhere, and its policy lets nothing else run.

#include <string>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast {

struct PageContents {
  std::string title;                     // "Llama 3.1 8B Q6_K on RTX 3060 12GB"
  std::string command;                   // what to type for the same answer
  std::string version;                   // of the program
  std::string json;                      // with "schema", indented or not
  std::string text;                      // as in a terminal, without colours
  std::vector<std::string> timelines{};  // timeline_json() of each
};

/// The whole file. The same contents give the same bytes. Errors: a schema that no page shows.
Result<std::string> html_page(const PageContents& contents);

}  // namespace rigcast
