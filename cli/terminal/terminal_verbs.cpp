#include "cli/terminal/terminal_verbs.hpp"

#include <fmt/format.h>

#include <memory>

#include "cli/catalogue/entries.hpp"
#include "cli/shared/output.hpp"
#include "cli/terminal/complete.hpp"
#include "cli/terminal/man_page.hpp"

namespace rigcast::cli {
namespace {

int print(const std::string& text) {
  if (auto error = emit(OutputOptions{}, text)) return fail(*error);
  return kDone;
}

const CLI::App* find_verb(const CLI::App& app, const std::string& name) {
  for (const CLI::App* verb : app.get_subcommands({}))
    if (!verb->get_group().empty() && verb->get_name() == name) return verb;
  return nullptr;
}

int print_man(const CLI::App& app, const std::string& name) {
  if (name.empty()) return print(man_page(app, nullptr));
  const CLI::App* verb = find_verb(app, name);
  if (!verb)
    return fail(bad_input(fmt::format("no verb named \"{}\"", name), "rigcast --help lists them"));
  return print(man_page(app, verb));
}

}  // namespace

void add_completion(CLI::App& app, std::function<int()>& run) {
  CLI::App* verb = app.add_subcommand("completion", "Print a shell's script for completion");
  auto shell = std::make_shared<std::string>();
  verb->add_option("shell", *shell, "bash, zsh or fish")->required()->type_name("SHELL");
  verb->footer(
      "Verbs, flags, their words, and the ids of the catalogue, your own files among them.\n"
      "Examples\n"
      "  source <(rigcast completion bash)     in ~/.bashrc; zsh: the same after compinit\n"
      "  rigcast completion fish > ~/.config/fish/completions/rigcast.fish");
  verb->callback([shell, &run] {
    run = [shell] {
      const std::string script = completion_script(*shell);
      if (script.empty())
        return fail(
            bad_input(fmt::format("no completion for \"{}\"", *shell), "bash, zsh or fish"));
      return print(script);
    };
  });
}

void add_man(CLI::App& app, std::function<int()>& run) {
  CLI::App* verb = app.add_subcommand("man", "Print the manual page of a verb, or of the program");
  auto name = std::make_shared<std::string>();
  verb->add_option("verb", *name, "a verb; without one, the program")->type_name("VERB");
  verb->footer(
      "In mdoc, which man and mandoc show.\n"
      "Examples\n"
      "  rigcast man sweep | man -l -");
  verb->callback([&app, name, &run] { run = [&app, name] { return print_man(app, *name); }; });
}

int print_completions(const CLI::App& app, const std::vector<std::string>& words,
                      const std::function<Result<Catalogue>()>& open) {
  const auto ids = [&](const std::string& listing) {
    const auto catalogue = open();
    return catalogue ? listed_ids(listing, *catalogue) : std::vector<std::string>{};
  };
  std::string out;
  for (const Completion& c : completions(app, words, ids))
    out += c.help.empty() ? c.word + "\n" : fmt::format("{}\t{}\n", c.word, c.help);
  return print(out);
}

}  // namespace rigcast::cli
