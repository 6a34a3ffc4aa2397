#include "cli/terminal/help.hpp"

#include <algorithm>
#include <sstream>
#include <string>

#include "report/terminal/text_style.hpp"

namespace rigcast::cli {
namespace {

constexpr std::size_t kNames = 34;           // columns of names
constexpr std::size_t kMinDescription = 24;  // of descriptions

class Help : public CLI::Formatter {
 public:
  explicit Help(int width) : width_(std::size_t(width)) { column_width(kNames); }
  std::string make_option(const CLI::Option* option, bool is_positional) const override {
    return line("  " + make_option_name(option, is_positional) + make_option_opts(option),
                make_option_desc(option));
  }
  std::string make_description(const CLI::App* app) const override {
    return wrapped(app->get_description());
  }
  // Text, and after the line "Examples" commands, which are left as they may be typed.
  std::string make_footer(const CLI::App* app) const override {
    const std::string footer = app->get_footer();
    return footer.empty() ? "" : wrapped(footer);
  }
  std::string make_subcommand(const CLI::App* verb) const override {
    return line("  " + verb->get_name(), verb->get_description());
  }

 private:
  // Line by line: what is indented is a command.
  std::string wrapped(const std::string& text) const {
    std::string out;
    std::istringstream in(text);
    for (std::string one; std::getline(in, one);) {
      if (one.empty() || one[0] == ' ') {
        out += one + "\n";
        continue;
      }
      for (const std::string& part : wrap_words(one, width_)) out += part + "\n";
    }
    return out;
  }
  std::string line(std::string name, const std::string& description) const {
    if (name.size() + 1 > kNames && !description.empty()) name += "\n" + std::string(kNames, ' ');
    if (name.size() < kNames) name.resize(kNames, ' ');
    std::string out, before = name;
    const std::size_t width = std::max(kMinDescription, width_ - kNames);
    for (const std::string& part : wrap_words(description, width)) {
      out += before + part + "\n";
      before.assign(kNames, ' ');
    }
    return out.empty() ? name.substr(0, name.find_last_not_of(' ') + 1) + "\n" : out;
  }

  std::size_t width_;
};

}  // namespace

std::shared_ptr<CLI::Formatter> help_of_width(int width) { return std::make_shared<Help>(width); }

}  // namespace rigcast::cli
