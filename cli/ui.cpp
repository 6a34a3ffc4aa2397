#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <spawn.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cli/shared/flag_checks.hpp"
#include "cli/shared/output.hpp"
#include "cli/ui/page_address.hpp"
#include "cli/ui/ui_service.hpp"
#include "cli/verbs.hpp"
#include "core/files/file_io.hpp"
#include "core/files/interrupt.hpp"
#include "core/scenario/scenario.hpp"
#include "http/listener.hpp"
#include "report/terminal/progress_line.hpp"
#include "sim/prepare.hpp"

extern char** environ;

namespace rigcast::cli {
namespace {

constexpr const char* kHost = "127.0.0.1";  // others are reached by ssh -L: there is no flag

struct Options {
  std::uint16_t port = 8765;
  int jobs = 0;  // 0: as many as there are cores
  bool open = false;
  Asked asked{};
};

// The first question; the page has more.
struct AskedFlag {
  const char* flag;
  const char* key;
  const char* type;
  const char* help;
};
constexpr AskedFlag kAskedFlags[] = {
    {"--model", "model.name", "MODEL", "a model of the catalogue"},
    {"--quant", "model.quant", "MIX", "quant mix"},
    {"-c,--context", "workload.context", "N", "tokens that memory is planned for"},
    {"--kv-type", "kv.type", "TYPE", "f16, q8_0 or q4_0"},
    {"--rig", "rig.name", "RIG", "a rig of the catalogue; this: the machine on which it runs"},
    {"--gpu", "rig.gpu", "G[,G2]", "GPUs of the catalogue"},
    {"--cpu", "rig.cpu", "CPU", "a CPU of the catalogue"},
    {"--ram", "rig.ram", "KIT", "channels x speed : size, 2xddr5-6000:64GiB"},
    {"--ssd", "rig.ssd", "SSD", "an SSD of the catalogue"},
    {"--runtime", "runtime.name", "NAME", "the runtime that is forecast"},
};

HttpLimits limits_of_page() {
  HttpLimits limits;
  limits.max_header_bytes = 8 << 10;
  limits.max_body_bytes = 16 << 10;
  limits.max_connections = 64;
  limits.request_time = std::chrono::seconds(5);
  return limits;
}

// A line for the server that reads standard output, before the answer.
void tell_progress(const Progress& progress) {
  const nlohmann::ordered_json json = {
      {"schema", "rigcast.progress/1"},
      {"text", std::string(progress.text)},
      {"share", progress.share ? nlohmann::ordered_json(*progress.share) : nullptr}};
  const auto how = nlohmann::ordered_json::error_handler_t::replace;
  const std::string line = kProgressMark + json.dump(-1, ' ', false, how) + "\n";
  write_all(STDOUT_FILENO, std::as_bytes(std::span(line)));
}

// Questions are commands: each is parsed and run as if it had been typed.
int answer_question(const OpenCatalogue& open, const Words& question) {
  errors_in_json();
  watch_progress(tell_progress);
  CLI::App app;
  app.require_subcommand(1);
  Run run;
  const std::string& verb = question.front();
  if (verb == "simulate") add_simulate(app, open, run);
  if (verb == "plan") add_plan(app, open, run);
  if (verb == "compare") add_compare(app, open, run);
  if (verb == "capacity") add_capacity(app, open, run);
  if (verb == "list") add_list(app, open, run);
  if (verb == "show") add_show(app, open, run);
  try {
    app.parse(Words(question.rbegin(), question.rend()));  // as CLI11 takes them
  } catch (const CLI::ParseError& e) {
    return fail(bad_input(e.what()));
  }
  return run();
}

// What every question needs is read once. Nothing is simulated: the simulator's clock goes on from
// one run to the next, and the last digits of times with it.
void warm_up(const Catalogue& catalogue) {
  const auto each = [&](const char* folder, auto read) {
    for (const std::string& id : catalogue.ids(folder)) static_cast<void>(read(id));
  };
  each("hwprofiles/gpus", [&](const std::string& id) { return catalogue.gpu(id); });
  each("hwprofiles/cpus", [&](const std::string& id) { return catalogue.cpu(id); });
  each("hwprofiles/ssds", [&](const std::string& id) { return catalogue.ssd(id); });
  each("hwprofiles/ram", [&](const std::string& id) { return catalogue.ram(id); });
  each("models", [&](const std::string& id) { return catalogue.model(id); });
  each("runtimes",
       [&](const std::string& id) { return catalogue.runtime(catalogue.file_of("runtimes", id)); });
  // Names that are no ids are looked up among all names and aliases.
  static_cast<void>(catalogue.gpu("-"));
  static_cast<void>(catalogue.cpu("-"));
  static_cast<void>(catalogue.model("-"));
  TomlDocument usual("a usual question");
  usual.set("rig.gpu", toml_text("rtx-3060-12gb"), "ui");
  usual.set("model.name", toml_text("llama-3.1-8b"), "ui");
  static_cast<void>(make_scenario(usual, catalogue));
  sim::prepare();
}

Result<Workers> start_workers(const Catalogue& catalogue) {
  // Shared by all that are forked. Requests name entries of the catalogue, never files.
  const auto parts = std::make_shared<Catalogue>(catalogue);
  parts->refuse_files();
  const OpenCatalogue open = [parts] { return Result<Catalogue>(*parts); };
  return Workers::start(
      {[parts] { warm_up(*parts); },
       [open](const Words& question) { return answer_question(open, question); }});
}

// Answers come and go in pieces of all sizes, which would leave holes in the heap of each thread:
// what is large goes back to the system at once, and what is small has one heap.
void keep_memory_flat() {
#ifdef __GLIBC__
  ::mallopt(M_MMAP_THRESHOLD, 16 << 10);
  ::mallopt(M_ARENA_MAX, 1);
#endif
}

void open_browser(const std::string& url) {
  std::string program = "xdg-open", address = url;
  char* words[] = {program.data(), address.data(), nullptr};
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  for (const int file : {0, 1, 2})
    ::posix_spawn_file_actions_addopen(&files, file, "/dev/null", O_RDWR, 0);
  pid_t process = 0;
  if (::posix_spawnp(&process, program.c_str(), &files, nullptr, words, environ) != 0)
    fmt::print(stderr, "rigcast: xdg-open is not there: open {} yourself\n", url);
  ::posix_spawn_file_actions_destroy(&files);
}

int ui_verb(const Options& options, const Catalogue& catalogue) {
  const OnInterrupt on_interrupt;
  const int cores = int(std::max(2u, std::thread::hardware_concurrency()));
  auto workers = start_workers(catalogue);  // before there are threads
  if (!workers) return fail(workers.error());
  keep_memory_flat();  // of the server alone: workers have been forked
  UiService service(*std::move(workers), options.jobs > 0 ? options.jobs : std::min(cores, 8));
  auto listener = HttpListener::start(kHost, options.port, limits_of_page(), service);
  if (!listener) return fail(listener.error());
  service.set_port((*listener)->port());
  const std::string url =
      fmt::format("http://{}:{}/{}", kHost, (*listener)->port(), fragment_of(options.asked));
  fmt::print("{}\n", url);
  std::fflush(stdout);
  if (options.open) open_browser(url);
  while (!interrupted()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  (*listener)->stop();
  return kDone;
}

}  // namespace

void add_ui(CLI::App& app, const OpenCatalogue& open, Run& run) {
  CLI::App* verb = app.add_subcommand("ui", "Ask in a browser: a page that this program serves");
  auto options = std::make_shared<Options>();
  for (const AskedFlag& asked : kAskedFlags)
    verb->add_option_function<std::string>(
            asked.flag,
            [options, key = asked.key](const std::string& value) {
              options->asked.emplace_back(key, value);
            },
            asked.help)
        ->check(not_empty())
        ->type_name(asked.type)
        ->group("The first question");
  verb->add_option("--port", options->port, "0: any that is free")
      ->check(integer_within(0, 65535))
      ->type_name("N")
      ->capture_default_str();
  verb->add_option("--jobs", options->jobs,
                   "questions that are answered at once; default: the cores, 8 at most")
      ->check(integer_within(2, 64))
      ->type_name("N");
  verb->add_flag("--open", options->open, "open the page in the browser");
  verb->footer(
      "The page is served to this machine alone, at 127.0.0.1; control-C ends it. It asks what\n"
      "simulate, plan, compare and capacity answer, and loads nothing from anywhere else.\n"
      "Examples\n"
      "  rigcast ui --open\n"
      "  rigcast ui --open --rig this --model qwen3-8b --context 16384\n"
      "From another machine: ssh -L 8765:127.0.0.1:8765 THIS-MACHINE, and open the same address "
      "there.");
  run_with_catalogue(*verb, open, run, [options](const Catalogue& catalogue) {
    return ui_verb(*options, catalogue);
  });
}

}  // namespace rigcast::cli
