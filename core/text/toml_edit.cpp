#include "core/text/toml_edit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/text/toml_parser.hpp"

namespace rigcast {
namespace {

struct Replacement {
  std::size_t begin = 0, end = 0;  // bytes of the text
  std::string value;
};

// Where lines begin in a text; toml++ tells places by line and column, which counts characters.
class Lines {
 public:
  explicit Lines(std::string_view text) : text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') begins_.push_back(i + 1);
  }
  std::size_t byte_at(const toml::source_position& place) const {
    std::size_t at = begins_.at(place.line - 1);
    for (auto column = place.column; column > 1 && at < text_.size(); --column)
      for (++at; at < text_.size() && (text_[at] & 0xC0) == 0x80;) ++at;
    return at;
  }

 private:
  std::string_view text_;
  std::vector<std::size_t> begins_ = {0};
};

}  // namespace

Result<std::string> with_values(std::string_view text, std::span<const TomlEdit> edits) {
  toml::table root;
  try {
    root = toml::parse(text);
  } catch (const toml::parse_error& e) {
    return bad_input(std::string(e.description()));
  }
  const Lines lines(text);
  std::vector<Replacement> replacements;
  for (const TomlEdit& edit : edits) {
    if (const toml::node* node = root.at_path(edit.key).node())
      replacements.push_back(
          {lines.byte_at(node->source().begin), lines.byte_at(node->source().end), edit.value});
    else if (edit.key.find('.') == std::string::npos)
      replacements.push_back({0, 0, fmt::format("{} = {}\n", edit.key, edit.value)});
    else
      return bad_input(fmt::format("{}: there is no such key to give a value to", edit.key));
  }
  std::ranges::stable_sort(replacements, std::greater(), &Replacement::begin);
  std::string out(text);
  for (const Replacement& r : replacements) out.replace(r.begin, r.end - r.begin, r.value);
  return out;
}

}  // namespace rigcast
