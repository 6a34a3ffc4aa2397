#include "cli/sweep/shard.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace rigcast::cli {
namespace {

constexpr std::int64_t kMaxShards = 1'000'000;

// The variables in which an engine tells a task of an array what it is; nullptr: it has none.
struct Engine {
  const char* name;
  const char* task;
  const char *first, *last, *step;  // of the array's numbers
  const char* count;                // of its tasks
};
constexpr Engine kEngines[] = {
    {"Slurm", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_MAX",
     "SLURM_ARRAY_TASK_STEP", "SLURM_ARRAY_TASK_COUNT"},
    {"Grid Engine", "SGE_TASK_ID", "SGE_TASK_FIRST", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE", nullptr},
    // Its arrays start at 1 unless they say otherwise, which no variable does.
    {"LSF", "LSB_JOBINDEX", nullptr, "LSB_JOBINDEX_END", "LSB_JOBINDEX_STEP", nullptr},
    {"PBS", "PBS_ARRAY_INDEX", nullptr, nullptr, nullptr, nullptr},
    {"Torque", "PBS_ARRAYID", nullptr, nullptr, nullptr, nullptr},
    {"GNU parallel", "PARALLEL_SEQ", nullptr, nullptr, nullptr, nullptr},
};

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<std::int64_t> number_in(const char* variable, const Environment& environment) {
  const char* text = variable ? environment(variable) : nullptr;
  return text ? number(text) : std::nullopt;
}

// Grid Engine says "undefined" and LSF 0 to jobs that are no task of an array.
bool runs_in(const Engine& engine, const Environment& environment) {
  const auto task = number_in(engine.task, environment);
  return task && *task >= 0 && !(std::string_view(engine.name) == "LSF" && *task == 0);
}

Result<const Engine*> find_engine(const Environment& environment) {
  std::vector<const Engine*> found;
  for (const Engine& engine : kEngines)
    if (runs_in(engine, environment)) found.push_back(&engine);
  if (found.empty())
    return bad_input("--shard auto: no task of a job array runs this",
                     "it reads the variables of Slurm, Grid Engine, LSF, PBS and GNU parallel; "
                     "elsewhere --shard I/N");
  if (found.size() > 1)
    return bad_input(fmt::format("--shard auto: both {} ({}) and {} ({}) run this", found[0]->name,
                                 found[0]->task, found[1]->name, found[1]->task),
                     fmt::format("name the one that is meant: --shard ${}/N", found[0]->task));
  return found.front();
}

// Of an array whose numbers are evenly spaced: {first, first + step, ..., last}.
Result<Shard> shard_of_array(const Engine& engine, std::int64_t task,
                             const Environment& environment) {
  const auto last = number_in(engine.last, environment);
  if (!last)
    return bad_input(
        fmt::format("--shard auto: {} does not say how many tasks the array has", engine.name),
        "say it: --shard auto/8 for an array from 1 to 8");
  const std::int64_t first = number_in(engine.first, environment).value_or(1);
  const std::int64_t step = number_in(engine.step, environment).value_or(1);
  const bool is_even = step > 0 && task >= first && task <= *last && (task - first) % step == 0;
  const std::int64_t count = is_even ? (*last - first) / step + 1 : 0;
  const auto stated = number_in(engine.count, environment);
  if (!is_even || count > kMaxShards || (stated && *stated != count))
    return bad_input(
        fmt::format("--shard auto: task {} of {} is in an array with gaps from {} to {}", task,
                    engine.name, first, *last),
        fmt::format("--shard auto/8 where tasks 1 to 8 make the sweep, and some run again"));
  return Shard{int((task - first) / step + 1), int(count)};
}

Result<Shard> shard_of_task(std::optional<std::int64_t> count, const Environment& environment) {
  const auto engine = find_engine(environment);
  if (!engine) return engine.error();
  const std::int64_t task = *number_in((*engine)->task, environment);
  if (!count) return shard_of_array(**engine, task, environment);
  if (task < 1 || task > *count)
    return bad_input(fmt::format("--shard auto/{}: {} is {}", *count, (*engine)->task, task),
                     fmt::format("number the array's tasks from 1 to {}", *count));
  return Shard{int(task), int(*count)};
}

}  // namespace

Result<Shard> parse_shard(const std::string& text, const Environment& environment) {
  if (text == "auto") return shard_of_task(std::nullopt, environment);
  const std::size_t slash = text.find('/');
  const std::string_view whole = text;
  const bool is_auto = whole.substr(0, slash) == "auto";
  const auto index = slash == std::string::npos ? std::nullopt : number(whole.substr(0, slash));
  const auto count = slash == std::string::npos ? std::nullopt : number(whole.substr(slash + 1));
  const bool counts = count && *count >= 1 && *count <= kMaxShards;
  if (is_auto && counts) return shard_of_task(count, environment);
  if (!counts || !index || *index < 1 || *index > *count)
    return bad_input(
        fmt::format("--shard {}: expected I/N with I from 1 to N, auto or auto/N", text),
        "for example --shard 2/8");
  return Shard{int(*index), int(*count)};
}

}  // namespace rigcast::cli
