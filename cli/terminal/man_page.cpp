#include "cli/terminal/man_page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <sstream>
#include <vector>

namespace rigcast::cli {
namespace {

// Text that begins no request and has no escape; a macro's argument has no quote either.
std::string escaped(const std::string& text) {
  std::string out;
  if (!text.empty() && (text[0] == '.' || text[0] == '\'')) out = "\\&";
  for (const char c : text) {
    if (c == '\\')
      out += "\\e";
    else if (c == '"')
      out += "\\(dq";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

// Words after a macro: in quotes, so that none is a macro of its own.
std::string argument(const std::string& text) { return "\"" + escaped(text) + "\""; }

std::string capitals(std::string text) {
  for (char& c : text) c = (c >= 'a' && c <= 'z') ? char(c - 'a' + 'A') : c;
  return text;
}

// A sentence begins a line, and a paragraph has a macro, as mdoc wants it.
std::string prose(const std::string& text) {
  static const std::regex kEnd(R"(([.!?]\)?) +([A-Z]))");
  std::string out;
  std::istringstream in(std::regex_replace(text, kEnd, "$1\n$2"));
  bool begins_paragraph = false;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) out += (begins_paragraph ? ".Pp\n" : "") + escaped(line) + "\n";
    begins_paragraph = line.empty() && !out.empty();
  }
  return out;
}

std::string names_of(const CLI::Option& option) {
  std::string out;
  for (const std::string& name : option.get_snames()) out += " Fl " + argument(name);
  for (const std::string& name : option.get_lnames())
    out += (out.empty() ? " Fl " : " , Fl ") + argument("-" + name);
  if (option.get_items_expected_max() > 0 && !option.get_type_name().empty())
    out += " Ar " + argument(option.get_type_name());
  return out;
}

std::string described(const CLI::Option& option) {
  const std::string text = option.get_description();
  const std::string name =
      option.get_positional()
          ? " Ar " + argument(option.get_type_name().empty() ? option.get_name()
                                                             : option.get_type_name())
          : names_of(option);
  return ".It" + name + "\n" + prose(text);
}

// The options of one group, in their order; those of no group are not for people.
std::string options_of(const CLI::App& app, const std::string& group) {
  std::string out;
  for (const CLI::Option* option : app.get_options({}))
    if (option->get_group() == group && !group.empty()) out += described(*option);
  return out.empty() ? out : ".Bl -tag -width indent\n" + out + ".El\n";
}

std::string all_options(const CLI::App& app) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : app.get_options({}))
    if (std::ranges::find(groups, option->get_group()) == groups.end())
      groups.push_back(option->get_group());
  std::string out;
  for (const std::string& group : groups)
    if (const std::string options = options_of(app, group); !options.empty())
      out += ".Ss " + argument(group) + "\n" + options;
  return out;
}

std::string synopsis_of(const CLI::App& verb) {
  std::string out = ".Nm rigcast " + argument(verb.get_name()) + "\n.Op Ar flags\n";
  for (const CLI::Option* option : verb.get_options({})) {
    if (!option->get_positional()) continue;
    const std::string type =
        option->get_type_name().empty() ? option->get_name() : option->get_type_name();
    out += (option->get_required() ? ".Ar " : ".Op Ar ") + argument(type) + "\n";
  }
  return out;
}

constexpr const char* kExitStatus =
    ".Sh EXIT STATUS\n0: done; 1: the answer is no; 2: bad input; 3: the machine failed.\n";

// A footer is text, and after the line "Examples" what may be typed.
std::string footer_of(const CLI::App& app, const char* heading) {
  std::istringstream in(app.get_footer());
  std::string text, examples;
  for (std::string line; std::getline(in, line);) {
    if (line == "Examples") continue;
    (line.starts_with("  ") ? examples : text) += line + "\n";
  }
  std::string out = text.empty() ? "" : fmt::format(".Ss {}\n{}", argument(heading), prose(text));
  out += kExitStatus;
  if (examples.empty()) return out;
  out += ".Sh EXAMPLES\n.Bd -literal\n";
  std::istringstream typed(examples);
  for (std::string line; std::getline(typed, line);) out += escaped(line) + "\n";
  return out + ".Ed\n";
}

std::string page_of_program(const CLI::App& app) {
  std::string verbs, see;
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands({})) {
    if (verb->get_group().empty()) continue;
    verbs += ".It Ic " + argument(verb->get_name()) + "\n" + prose(verb->get_description());
    names.push_back(verb->get_name());
  }
  std::ranges::sort(names);
  for (const std::string& name : names)
    see += (see.empty() ? "" : " ,\n") + fmt::format(".Xr rigcast-{} 1", name);
  return fmt::format(
      ".Sh NAME\n.Nm rigcast\n.Nd forecast and run of large language models on a machine\n"
      ".Sh SYNOPSIS\n.Nm\n.Ar verb\n.Op Ar flags\n.Sh DESCRIPTION\n{}"
      ".Bl -tag -width recommend\n{}.El\n{}{}.Sh SEE ALSO\n{}\n",
      prose(app.get_description()), verbs, all_options(app), footer_of(app, "First steps"), see);
}

std::string page_of_verb(const CLI::App& verb) {
  return fmt::format(".Sh NAME\n.Nm {}\n.Nd {}\n.Sh SYNOPSIS\n{}.Sh DESCRIPTION\n{}{}",
                     argument("rigcast-" + verb.get_name()), escaped(verb.get_description()),
                     synopsis_of(verb), all_options(verb), footer_of(verb, "Notes"));
}

}  // namespace

std::string man_page(const CLI::App& app, const CLI::App* verb) {
  const std::string name = verb ? "rigcast-" + verb->get_name() : "rigcast";
  return fmt::format(".Dd $Mdocdate$\n.Dt {} 1\n.Os\n{}", escaped(capitals(name)),
                     verb ? page_of_verb(*verb) : page_of_program(app));
}

}  // namespace rigcast::cli
