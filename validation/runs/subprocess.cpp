#include "validation/runs/subprocess.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/files/interrupt.hpp"
#include "report/report_json.hpp"
#include "validation/report_comparison.hpp"
#include "validation/runs/local_machine.hpp"
#include "validation/runs/measure.hpp"
#include "validation/runs/run_archive.hpp"
#include "validation/validation_json.hpp"

namespace rigcast::validation {
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
    for (char buffer[65536];;) {
      if (interrupted()) pass_on_interrupt();
      pollfd end{out_, POLLIN, 0};
      if (::poll(&end, 1, kLookMs) <= 0) continue;
      const ssize_t n = ::read(out_, buffer, sizeof buffer);
      if (n > 0) text.append(buffer, std::size_t(n));
      if (n == 0 || (n < 0 && errno != EINTR)) return text;
    }
  }

  // A text on how the process ended; "" after exit code 0.
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
  // The first asks for an end in good order, the second for one without temporary files, the last
  // does not ask: whoever interrupts the program waits for 2 s at most.
  void pass_on_interrupt() {
    constexpr std::pair<int, std::chrono::milliseconds> kSignals[] = {
        {SIGINT, std::chrono::milliseconds(0)},
        {SIGINT, std::chrono::milliseconds(1000)},
        {SIGKILL, std::chrono::milliseconds(1400)}};
    const auto now = std::chrono::steady_clock::now();
    if (sent_ == 0) interrupted_at_ = now;
    if (sent_ == std::size(kSignals)) return;
    const auto& [signal, after] = kSignals[sent_];
    if (now - interrupted_at_ < after) return;
    ::kill(process_, signal);
    ++sent_;
  }

  pid_t process_ = -1;
  std::size_t sent_ = 0;  // signals, since an interrupt
  std::chrono::steady_clock::time_point interrupted_at_;
  int out_ = -1;
  int failed_ = 0;
};

// The error with its position in its text, because the parent has no other use for it.
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

Result<WorkerAnswer> run_of(const std::string& text, const std::string& ended) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return machine_error(ended.empty() ? "the run told nothing" : ended);
  if (json.contains("error")) return error_of(json.at("error"));
  WorkerAnswer run;
  run.measured = json.at("measured");
  run.activities = activities_from_json(json.at("activities").get<std::string>());
  if (const Json& busy = json.at("busy"); !busy.is_null()) run.busy = busy.get<std::string>();
  run.traced_slowdown = json.at("traced_slowdown");
  run.ceiling = BytesPerSecond{json.at("ceiling").get<double>()};
  return run;
}

Json json_of(const WorkerRequest& request) {
  return {{"folder", request.folder},
          {"index", request.index},
          {"device", request.how.backend->name},
          {"repeat", request.how.repeat},
          {"vram_ceiling", request.how.vram_ceiling.value},
          {"weights", request.weights},
          {"gpu_layers", request.gpu_layers ? Json(*request.gpu_layers) : Json()},
          {"requests", request.requests ? Json(*request.requests) : Json()},
          {"time_limit", request.time_limit}};
}

Result<WorkerRequest> request_of(const std::string& text) try {
  const Json json = Json::parse(text);
  WorkerRequest request;
  request.folder = json.at("folder");
  request.index = json.at("index");
  const auto backend = engine::built_in_backends().find(json.at("device").get<std::string>());
  if (!backend) return backend.error();
  request.how.backend = *backend;
  request.how.repeat = json.at("repeat");
  request.how.vram_ceiling = BytesPerSecond{json.at("vram_ceiling").get<double>()};
  request.weights = json.at("weights");
  if (const Json& layers = json.at("gpu_layers"); !layers.is_null()) request.gpu_layers = layers;
  if (const Json& all = json.at("requests"); !all.is_null()) request.requests = all;
  request.time_limit = json.at("time_limit");
  return request;
} catch (const Json::exception&) {
  return bad_input("not a request as `rigcast validate` makes it");
}

// The scenario's load, if it has one; else its workload.
Result<Executed> execute_any(std::shared_ptr<Scenario> scenario, const ExecuteOptions& how) {
  if (!scenario->load) return execute(std::move(scenario), how);
  auto served = execute_load(std::move(scenario), how);
  if (!served) return served.error();
  Executed out;
  out.report = std::move(served->report);
  return out;
}

Result<Executed> execute_archived(const WorkerRequest& request, const Catalogue& catalogue) {
  const OnInterrupt on_interrupt;
  const TimeLimit limit(request.time_limit);
  const RunArchive kept(request.folder);
  const auto suite = read_suite(kept.suite_file());
  if (!suite) return suite.error();
  if (request.index >= suite->runs.size())
    return bad_input(fmt::format("{} holds {} runs", request.folder, suite->runs.size()));
  const SuiteRun& run = suite->runs[request.index];
  auto scenario =
      scenario_on(run.scenario, kept.text(request.index, "rig.toml").value_or(""), catalogue);
  if (!scenario) return scenario.error();
  if (!request.weights.empty()) scenario->model_file = request.weights;
  if (request.gpu_layers) scenario->placement.gpu_layers = request.gpu_layers;
  if (request.requests && scenario->load) scenario->load->requests = *request.requests;
  const ExecuteOptions how = execution(run, *scenario, request.how);
  if (auto error = check_runnable(*scenario, how)) return *error;
  auto executed = execute_any(std::make_shared<Scenario>(*std::move(scenario)), how);
  if (limit.is_over())
    return machine_error(fmt::format("stopped after {} s: --time-limit", request.time_limit));
  if (executed && interrupted()) return machine_error("interrupted");
  return executed;
}

Result<Executed> caught(const WorkerRequest& request, const Catalogue& catalogue) try {
  return execute_archived(request, catalogue);
} catch (const ShortOfMemory& e) {
  return Error{ErrorKind::kDoesNotFit, e.what()};
} catch (const std::bad_alloc&) {
  return machine_error("out of memory");
} catch (const std::exception& e) {
  return machine_error(e.what());
}

}  // namespace

Result<WorkerAnswer> run_in_subprocess(const WorkerRequest& request) {
  if (interrupted()) return machine_error("interrupted");
  if (const auto& gpu = request.how.backend->gpu) gpu->release();
  OtherProcess process({"rigcast", kWorkerVerb, json_of(request).dump()});
  if (process.failed() != 0)
    return machine_error(
        fmt::format("no process for the run: {}", std::strerror(process.failed())));
  const std::string text = process.all_output();
  const std::string ended = process.ended();
  if (interrupted()) return machine_error("interrupted");  // which is why it ended
  return run_of(text, ended);
}

Result<std::string> answer_request(const std::string& text, const Catalogue& catalogue) {
  const auto request = request_of(text);
  if (!request) return request.error();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would read what it tells
  std::signal(SIGTTOU, SIG_IGN);       // progress may be written from the background
  const auto executed = caught(*request, catalogue);
  const Json told = executed ? json_of(*executed) : Json{{"error", json_of(executed.error())}};
  return told.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace rigcast::validation
