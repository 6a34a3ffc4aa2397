#pragma once
// Text of any origin as a part of an HTML file.

#include <string>
#include <string_view>

namespace rigcast {

/// For elements, and for attributes in double quotes.
std::string html_text(std::string_view text);

/// JSON in a script element of a page: without blanks, "<" as \u003c, so that it cannot end the
/// element, and lists of objects with the same keys as {"$table": [keys], "rows": [[values]]}.
/// web/page.js gives back the text as it was, if our own JSON wrote it.
std::string embedded_json(std::string_view json);

}  // namespace rigcast
