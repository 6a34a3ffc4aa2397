#include "cli/terminal/complete.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <regex>
#include <sstream>
#include <string_view>
#include <utility>

namespace rigcast::cli {
namespace {

using Words = std::vector<std::string>;

// Which ids an option takes: by its name, or by what stands for its value in the help.
constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kListings{{
    {"--runtime", "runtimes"},
    {"--load", "loads"},
    {"--slo", "slos"},
    {"--rigs", "rigs"},
    {"--base", "rigs"},
    {"--gpus", "gpus"},
    {"--models", "models"},
    {"--model", "models"},
    {"--model-draft", "models"},
    {"name", "all"},
    {"model", "models"},
    {"RIG", "rigs"},
    {"G[,G2]", "gpus"},
    {"CPU", "cpus"},
    {"KIT", "ram"},
    {"SSD", "ssds"},
    {"MODEL", "models"},
    {"MIX", "quants"},
}};

std::string_view listing_of(std::string_view name) {
  const auto at = std::ranges::find(kListings, name, [](const auto& entry) { return entry.first; });
  return at == kListings.end() ? std::string_view() : at->second;
}

std::string long_name(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return "--" + option.get_lnames().front();
  return option.get_snames().empty() ? option.get_name() : "-" + option.get_snames().front();
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

Words split(const std::string& text, char at) {
  Words out;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, at);) out.push_back(item);
  return out;
}

// "text, json or csv" at the beginning of a help text, "on|off" in place of a value.
Words named_values(const CLI::Option& option) {
  static const std::regex kList(R"(^((?:[\w.-]+, )+)([\w.-]+),? or ([\w.-]+)(?:$|[:;,. (]))");
  const std::string type = option.get_type_name(), help = option.get_description();
  Words out;
  if (type.find('|') != std::string::npos)
    for (std::string& item : split(type, '|'))
      if (item.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") != std::string::npos)
        out.push_back(std::move(item));
  std::smatch found;
  if (!std::regex_search(help, found, kList)) return out;
  for (const std::string& item : split(found[1], ' '))
    out.push_back(item.substr(0, item.size() - 1));
  out.insert(out.end(), {found[2], found[3]});
  return out;
}

Words values_of(const CLI::Option& option, const ListedIds& ids) {
  const std::string name = option.get_positional() ? option.get_name() : long_name(option);
  std::string listing(listing_of(name));
  if (listing.empty()) listing = listing_of(option.get_type_name());
  Words out = listing.empty() ? named_values(option) : ids(listing);
  if (listing == "rigs") out.push_back("this");
  return out;
}

// A list's last item is completed, behind those before it.
std::vector<Completion> complete_value(const CLI::Option& option, const std::string& typed,
                                       const std::string& before, const ListedIds& ids) {
  const bool is_list = option.get_type_name().find(',') != std::string::npos;
  const std::size_t begin = is_list ? typed.rfind(',') + 1 : 0;  // npos + 1 is 0
  const std::string item = typed.substr(begin);
  std::vector<Completion> out;
  for (const std::string& value : values_of(option, ids))
    if (value.starts_with(item)) out.push_back({before + typed.substr(0, begin) + value, ""});
  return out;
}

std::vector<Completion> complete_verb(const CLI::App& app, const std::string& typed) {
  std::vector<Completion> out;
  for (const CLI::App* verb : app.get_subcommands({}))
    if (!verb->get_group().empty() && verb->get_name().starts_with(typed))
      out.push_back({verb->get_name(), verb->get_description()});
  return out;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<Completion> complete_option(const CLI::App& app, const std::string& typed) {
  std::vector<Completion> out;
  for (const CLI::Option* option : app.get_options({}))
    if (option->nonpositional() && long_name(*option).starts_with(typed))
      out.push_back({long_name(*option), first_line(option->get_description())});
  return out;
}

const CLI::Option* positional(const CLI::App& verb, std::size_t index) {
  const CLI::Option* last = nullptr;
  for (const CLI::Option* option : verb.get_options({})) {
    if (!option->get_positional()) continue;
    last = option;
    if (index-- == 0) return option;
  }
  return last && last->get_items_expected_max() > 1 ? last : nullptr;  // the last takes all others
}

// The option whose value the last word is, be it "--gpu X", "--gpu = X" (as bash splits words) or
// "--merge A B X"; else the positional that it is.
const CLI::Option* option_of_last(const CLI::App& verb, const Words& words) {
  const CLI::Option* open = nullptr;
  std::size_t values = 0, places = 0;
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    if (words[i] == "=") continue;
    if (words[i].starts_with('-') && words[i].size() > 1) {
      open = verb.get_option_no_throw(words[i]);  // "--gpu=X" is none: its value is there
      values = 0;
    } else if (open && values < std::size_t(open->get_items_expected_max())) {
      ++values;
    } else {
      ++places;
    }
  }
  if (open && values < std::size_t(open->get_items_expected_max())) return open;
  return positional(verb, places);
}

}  // namespace

std::vector<Completion> completions(const CLI::App& app, std::vector<std::string> words,
                                    const ListedIds& ids) {
  if (words.empty()) words.emplace_back();
  if (words.size() == 1 && words[0].starts_with('-')) return complete_option(app, words[0]);
  if (words.size() == 1 || (words.size() == 2 && words[0] == "help"))
    return complete_verb(app, words.back());
  const auto verbs =
      app.get_subcommands([&](const CLI::App* v) { return v->check_name(words[0]); });
  if (verbs.empty()) return {};
  const CLI::App* verb = verbs.front();
  std::string& last = words.back();
  if (last == "=") last.clear();
  if (const auto equals = last.find('='); last.starts_with("--") && equals != std::string::npos) {
    const CLI::Option* option = verb->get_option_no_throw(last.substr(0, equals));
    if (!option) return {};
    return complete_value(*option, last.substr(equals + 1), last.substr(0, equals + 1), ids);
  }
  if (last.starts_with('-')) return complete_option(*verb, last);
  const CLI::Option* option = option_of_last(*verb, words);
  return option && takes_value(*option) ? complete_value(*option, last, "", ids)
                                        : std::vector<Completion>{};
}

std::string completion_script(const std::string& shell) {
  if (shell == "bash")
    return R"sh(# rigcast's completion for bash: source <(rigcast completion bash), or this text in
# ~/.local/share/bash-completion/completions/rigcast
_rigcast() {
  local IFS=$'\n' word typed=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  for word in $(rigcast __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null); do
    COMPREPLY+=("${word%%$'\t'*}")
  done
  case $typed in [/.~]*) COMPREPLY=() ;; esac
}
complete -o bashdefault -o default -F _rigcast rigcast
)sh";
  if (shell == "zsh")
    return R"sh(#compdef rigcast
# rigcast's completion for zsh: source <(rigcast completion zsh) after compinit, or this text as
# _rigcast in a folder of $fpath.
_rigcast() {
  local -a found
  local line word
  for line in ${(f)"$(rigcast __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
    word=${${line%%$'\t'*}//:/\\:}
    [[ $line == *$'\t'* ]] && word+=:${line#*$'\t'}
    found+=("$word")
  done
  if (( $#found )); then _describe rigcast found; else _files; fi
}
if [[ $funcstack[1] == _rigcast ]]; then _rigcast "$@"; else compdef _rigcast rigcast; fi
)sh";
  if (shell == "fish")
    return R"sh(# rigcast's completion for fish: rigcast completion fish | source, or this text in
# ~/.config/fish/completions/rigcast.fish
function __rigcast_complete
    set -l words (commandline -opc) (commandline -ct)
    rigcast __complete $words[2..-1] 2>/dev/null
end
complete -c rigcast -a '(__rigcast_complete)'
)sh";
  return "";
}

}  // namespace rigcast::cli
