#pragma once
// Small tools for texts that people typed: never long, never trusted.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace rigcast::freetext {

/// Lower case; only the beginning of a text that is too long to be one that a person typed, since
/// patterns are matched recursively.
std::string lower(std::string_view text);
std::string clipped(std::string_view text);

bool contains(std::string_view text, std::string_view part);

/// The groups of the first match of `pattern` (whole match first); empty if there is none. Ignores
/// case.
std::vector<std::string> match(const std::string& text, const char* pattern);

/// `text` with every match replaced and blanks made single. Ignores case.
std::string replaced(const std::string& text, const char* pattern, const char* with = " ");

/// "24GB", "24 GiB": the first size in the text, in GiB.
std::optional<double> gib(const std::string& text);

}  // namespace rigcast::freetext
