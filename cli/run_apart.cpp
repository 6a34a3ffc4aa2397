#include "cli/run_apart.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/interrupt.hpp"
#include "cli/kept_runs.hpp"
#include "cli/output.hpp"
#include "engine/runtime/cuda_executor.hpp"
#include "validation/report_comparison.hpp"

namespace rigcast::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kProgram = "/proc/self/exe";
constexpr int kLookMs = 200;  // for an interrupt, while there is nothing to read

Error machine_error(const std::string& message) { return {ErrorKind::kMachine, message}; }

// Another process of this program, and what it writes to its standard output.
class OtherProcess {
 public:
  explicit OtherProcess(const std::vector<std::string>& words) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      failed_ = errno;
      return;
    }
    out_ = ends[0];
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    ::posix_spawnattr_init(&how);
    // An interrupt from the terminal comes from this process alone, once.
    ::posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);
    failed_ = ::posix_spawn(&process_, kProgram, &files, &how, argv.data(), environ);
    ::posix_spawnattr_destroy(&how);
    ::posix_spawn_file_actions_destroy(&files);
    ::close(ends[1]);
  }
  ~OtherProcess() {
    if (out_ >= 0) ::close(out_);
  }
  OtherProcess(const OtherProcess&) = delete;
  OtherProcess& operator=(const OtherProcess&) = delete;

  int failed() const { return failed_; }  // an errno; 0: it is there

  std::string all_output() {
    std::string text;
    bool told = false;
    for (char buffer[65536];;) {
      if (!told && interrupted()) told = ::kill(process_, SIGINT) == 0;
      pollfd end{out_, POLLIN, 0};
      if (::poll(&end, 1, kLookMs) <= 0) continue;
      const ssize_t n = ::read(out_, buffer, sizeof buffer);
      if (n > 0) text.append(buffer, std::size_t(n));
      if (n == 0 || (n < 0 && errno != EINTR)) return text;
    }
  }

  // How it ended, in words; "" after exit code 0.
  std::string ended() const {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status))
      return fmt::format("the process of the run was ended by signal {} ({}){}", WTERMSIG(status),
                         ::strsignal(WTERMSIG(status)),
                         WTERMSIG(status) == SIGKILL ? ": is there too little memory?" : "");
    const int code = WEXITSTATUS(status);
    return code == 0 ? "" : fmt::format("the process of the run ended with exit code {}", code);
  }

 private:
  pid_t process_ = -1;
  int out_ = -1;
  int failed_ = 0;
};

// With its place, which is of no other use to who started this.
Json json_of(const Error& error) {
  const std::string place = error.where ? error.where->text() + ": " : "";
  return {{"kind", int(error.kind)}, {"message", place + error.message}, {"hint", error.hint}};
}

Error error_of(const Json& json) {
  return {ErrorKind(json.at("kind").get<int>()), json.at("message"), json.at("hint")};
}

Json json_of(const Executed& executed) {
  return {{"measured", to_json(executed.report)},
          {"activities", to_json(activities_of(executed.events))},
          {"busy", executed.busy ? Json(*executed.busy) : Json()},
          {"traced_slowdown", executed.traced_slowdown.value_or(0)},
          {"ceiling", executed.report.measured->ceiling.value}};
}

Result<ApartRun> run_of(const std::string& text, const std::string& ended) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return machine_error(ended.empty() ? "the run told nothing" : ended);
  if (json.contains("error")) return error_of(json.at("error"));
  ApartRun run;
  run.measured = json.at("measured");
  run.activities = activities_from_json(json.at("activities").get<std::string>());
  if (const Json& busy = json.at("busy"); !busy.is_null()) run.busy = busy.get<std::string>();
  run.traced_slowdown = json.at("traced_slowdown");
  run.ceiling = BytesPerSecond{json.at("ceiling").get<double>()};
  return run;
}

Result<Executed> execute_kept(const ApartOptions& options, const Catalogue& catalogue) {
  const OnInterrupt on_interrupt;
  const TimeLimit limit(options.time_limit);
  const KeptRuns kept(options.folder);
  const auto suite = read_suite(kept.suite_file());
  if (!suite) return suite.error();
  if (options.index >= suite->runs.size())
    return bad_input(fmt::format("{} holds {} runs", options.folder, suite->runs.size()));
  const SuiteRun& run = suite->runs[options.index];
  auto scenario = scenario_on(run.scenario, kept.part(options.index, "rig.toml"), catalogue);
  if (!scenario) return scenario.error();
  if (!options.weights.empty()) scenario->model_file = options.weights;
  if (options.gpu_layers) scenario->placement.gpu_layers = options.gpu_layers;
  const ExecuteOptions how = execution(run, *scenario, options.how);
  if (auto error = refuse_to_run(*scenario, how)) return *error;
  auto executed = execute(std::make_shared<Scenario>(*std::move(scenario)), how);
  if (limit.is_over())
    return machine_error(fmt::format("stopped after {} s: --time-limit", options.time_limit));
  if (executed && interrupted()) return machine_error("interrupted");
  return executed;
}

Result<Executed> caught(const ApartOptions& options, const Catalogue& catalogue) try {
  return execute_kept(options, catalogue);
} catch (const ShortOfMemory& e) {
  return Error{ErrorKind::kDoesNotFit, e.what()};
} catch (const std::bad_alloc&) {
  return machine_error("out of memory");
} catch (const std::exception& e) {
  return machine_error(e.what());
}

}  // namespace

void ApartOptions::add_to(CLI::App& verb) {
  verb.add_option("folder", folder, "of a validation")->required();
  verb.add_option("index", index, "of the run in it, from 0")->required();
  verb.add_flag_callback("--cuda", [this] { how.device = Device::kCuda; });
  verb.add_option("--repeat", how.repeat)->check(CLI::Range(1, 1000));
  verb.add_option("--vram-ceiling", how.vram_ceiling.value, "bytes/s");
  verb.add_option("--weights", weights);
  verb.add_option("--gpu-layers", gpu_layers);
  verb.add_option("--time-limit", time_limit)->check(CLI::Range(1, 86400));
}

std::vector<std::string> ApartOptions::words() const {
  std::vector<std::string> out = {"rigcast", kApartVerb, folder, std::to_string(index)};
  const auto add = [&](const char* flag, const std::string& value) {
    out.insert(out.end(), {flag, value});
  };
  if (how.device == Device::kCuda) out.push_back("--cuda");
  add("--repeat", std::to_string(how.repeat));
  if (how.vram_ceiling.value > 0) add("--vram-ceiling", fmt::format("{}", how.vram_ceiling.value));
  if (!weights.empty()) add("--weights", weights);
  if (gpu_layers) add("--gpu-layers", std::to_string(*gpu_layers));
  add("--time-limit", std::to_string(time_limit));
  return out;
}

Result<ApartRun> run_apart(const ApartOptions& options) {
  if (options.how.device == Device::kCuda) engine::leave_cuda();
  OtherProcess process(options.words());
  if (process.failed() != 0)
    return machine_error(
        fmt::format("no process for the run: {}", std::strerror(process.failed())));
  const std::string text = process.all_output();
  return run_of(text, process.ended());
}

int executed_for_another(const ApartOptions& options, const Catalogue& catalogue) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would read what it tells
  std::signal(SIGTTOU, SIG_IGN);       // progress may be written from the background
  const auto executed = caught(options, catalogue);
  const Json told = executed ? json_of(*executed) : Json{{"error", json_of(executed.error())}};
  if (auto error = emit({}, told.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"))
    return fail(*error);
  return kDone;
}

}  // namespace rigcast::cli
