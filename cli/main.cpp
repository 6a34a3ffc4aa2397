#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/html/page_output.hpp"
#include "cli/shared/empty_value.hpp"
#include "cli/shared/lost_file.hpp"
#include "cli/shared/output.hpp"
#include "cli/terminal/help.hpp"
#include "cli/terminal/terminal_verbs.hpp"
#include "cli/verbs.hpp"
#include "core/text/nearest_name.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "probe/detect/detected_rig.hpp"

namespace {

std::filesystem::path program_path() {
  std::error_code ignored;
  return std::filesystem::read_symlink("/proc/self/exe", ignored);
}

std::optional<rigcast::Error> unknown_verb(const CLI::App& app, const std::string& word) {
  std::vector<std::string> verbs;
  for (const CLI::App* verb : app.get_subcommands({}))
    if (!verb->get_group().empty() || verb->get_name() == word) verbs.push_back(verb->get_name());
  if (word.starts_with('-') || std::ranges::find(verbs, word) != verbs.end()) return std::nullopt;
  std::string hint = rigcast::did_you_mean(word, verbs);
  if (hint.empty()) hint = "rigcast --help lists the verbs";
  return rigcast::bad_input("no verb named \"" + word + "\"", hint);
}

// What comes first may be wrong already, so the format is looked for before the flags are read.
bool wants_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--format=json") return true;
    if (word == "--format" && i + 1 < argc && argv[i + 1] == std::string_view("json")) return true;
  }
  return false;
}

// The arguments; "help VERB" is "VERB --help".
std::vector<std::string> arguments(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "help") {
    words.erase(words.begin());
    words.emplace_back("--help");
  }
  return words;
}

int parse_and_run(int argc, char** argv) {
  using namespace rigcast;
  if (wants_json(argc, argv)) cli::errors_in_json();
  CLI::App app{
      "Will it run, how fast, and where does it fall off the cliff?\n"
      "Forecasts how a large language model runs on a machine, and runs it."};
  app.name("rigcast");
  app.set_version_flag("--version", "rigcast " RIGCAST_VERSION);
  app.require_subcommand(1);
  app.formatter(cli::help_of_width(cli::screen_width()));
  app.footer(
      "Start here: rigcast recommend, what this machine can run (--rig: another one); then plan\n"
      "and simulate for one model. --rig this is this machine, rigcast list rigs has others.\n"
      "Parts, models and runtimes of your own: hwprofiles/, models/ and runtimes/ in\n"
      "$XDG_DATA_HOME/rigcast (~/.local/share/rigcast). RIGCAST_DATA replaces those that ship.");

  cli::Run run;
  const cli::OpenCatalogue open = [] {
    auto catalogue = Catalogue::open(program_path());
    if (!catalogue) return catalogue;
    catalogue->read_model_files_with(engine::read_model_file);
    catalogue->read_projector_files_with(engine::read_projector_file);
    // Asked once: a sweep makes many scenarios, and the driver's tool takes half a second.
    const auto found = std::make_shared<std::optional<Result<std::string>>>();
    catalogue->read_this_machine_with([found](const Catalogue& parts) {
      if (!*found) *found = probe::detected_rig(parts);
      return **found;
    });
    return catalogue;
  };
  cli::add_recommend(app, open, run);
  cli::add_simulate(app, open, run);
  cli::add_explain(app, open, run);
  cli::add_capacity(app, open, run);
  cli::add_plan(app, open, run);
  cli::add_compare(app, open, run);
  cli::add_sweep(app, open, run);
  cli::add_run(app, open, run);
  cli::add_serve(app, open, run);
  cli::add_ui(app, open, run);
  cli::add_validate(app, open, run);
  cli::add_inspect(app, open, run);
  cli::add_calibrate(app, open, run);
  cli::add_probe(app, open, run);
  cli::add_synth(app, open, run);
  cli::add_tokenize(app, open, run);
  cli::add_list(app, open, run);
  cli::add_show(app, open, run);
  cli::add_completion(app, run);
  cli::add_man(app, run);
  cli::add_run_worker(app, open, run);
  if (argc == 1) {
    std::fputs(app.help().c_str(), stdout);
    return cli::kBadInput;
  }
  std::vector<std::string> words = arguments(argc, argv);
  if (words.front() == cli::kCompleteVerb)
    return cli::print_completions(app, {words.begin() + 1, words.end()}, open);
  if (const auto error = unknown_verb(app, words.front())) return cli::fail(*error);
  std::vector<std::string> typed = words;
  typed.insert(typed.begin(), "rigcast");
  cli::set_command(typed);
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    app.parse(std::move(words));
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return cli::fail(bad_input(e.what(),
                               "rigcast --help lists the verbs, rigcast VERB --help "
                               "its flags"));
  }
  for (const CLI::App* verb : app.get_subcommands())
    if (const auto error = cli::find_empty_value(*verb)) return cli::fail(*error);
  return run();
}

// Help and tables are printed as they come: what did not arrive is an error nevertheless.
int after_output(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  if (code == rigcast::cli::kMachineFailed) return code;  // which has said so
  return rigcast::cli::fail(
      {rigcast::ErrorKind::kMachine, "cannot write to standard output", "", {}});
}

}  // namespace

int main(int argc, char** argv) {
  rigcast::cli::tell_of_lost_files();
  std::signal(SIGXFSZ, SIG_IGN);  // a file past its limit is an error like a full disk
  try {
    return after_output(parse_and_run(argc, argv));
  } catch (const rigcast::ShortOfMemory& e) {
    return rigcast::cli::fail({rigcast::ErrorKind::kDoesNotFit,
                               e.what(),
                               "a smaller --quant, --context or --kv-type",
                               {}});
  } catch (const std::bad_alloc&) {
    std::fputs(
        "rigcast: out of memory\n  a smaller --context or --quant, or fewer programs beside it\n",
        stderr);
    return rigcast::cli::kMachineFailed;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rigcast: %s\n", e.what());
    return rigcast::cli::kMachineFailed;
  }
}
