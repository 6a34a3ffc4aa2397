#include "calibration/runs/own_kept_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "calibration/runs/kept_rows.hpp"
#include "core/text/freetext.hpp"
#include "core/text/unit_text.hpp"
#include "perfmodel/resolve_placement.hpp"
#include "validation/runs/packed_runs.hpp"
#include "validation/runs/replay.hpp"

namespace rigcast::calibration {
namespace {

namespace fs = std::filesystem;
using validation::ArchivedRun;
using validation::MeasuredRun;

bool is_same_part(const PartInfo& a, const PartInfo& b) {
  return a.id == b.id || freetext::lower(a.name) == freetext::lower(b.name);
}

std::string count_text(std::size_t gpus) {
  return gpus == 0 ? "none" : fmt::format("{} GPU{}", gpus, gpus == 1 ? "" : "s");
}

// Why a run of one rig is none of another; nullopt: their chips are the same.
std::optional<std::string> other_machine(const Rig& ran, const Rig& rig) {
  const auto differ = [](const std::string& a, const std::string& b) {
    return fmt::format("ran on {}, the rig has {}", a, b);
  };
  if (ran.gpus.empty() && !rig.gpus.empty())
    return fmt::format("ran on the CPU alone, the rig has {}", rig.name);
  if (ran.gpus.size() != rig.gpus.size())
    return differ(count_text(ran.gpus.size()), count_text(rig.gpus.size()));
  for (std::size_t i = 0; i < rig.gpus.size(); ++i)
    if (!is_same_part(ran.gpus[i], rig.gpus[i])) return differ(ran.gpus[i].name, rig.gpus[i].name);
  if (!is_same_part(ran.cpu, rig.cpu)) return differ(ran.cpu.name, rig.cpu.name);
  return std::nullopt;
}

// The run on the rig of that file, of which it keeps limits of memory alone, with the threads and
// the placement that it had.
Result<ArchivedRun> on_rig(const ArchivedRun& kept, const MeasuredRun& ran, const fs::path& rig) {
  constexpr std::string_view kLimits[] = {"vram_capacity", "vram_reserved", "gpu_context",
                                          "ram_capacity", "ram_reserved"};
  ArchivedRun out = kept;
  TomlDocument& document = out.run.scenario;
  document = kept.run.scenario.clone();
  for (const std::string& key : document.root().table("rig").keys())
    if (std::ranges::find(kLimits, key) == std::end(kLimits)) document.erase("rig." + key);
  const Scenario& s = ran.scenario;
  std::vector<std::pair<const char*, std::string>> values{
      {"rig.name", toml_text(rig.string())},
      {"runtime.threads", std::to_string(s.settings.threads)}};
  if (!s.rig.gpus.empty() && !s.placement.gpu_layers) {
    values.emplace_back("placement.gpu_layers", std::to_string(ran.measured.placement.gpu_layers));
    if (s.placement.fits_experts)
      values.emplace_back("placement.cpu_moe_layers",
                          std::to_string(ran.measured.placement.cpu_moe_layers));
  }
  for (const auto& [key, value] : values)
    if (auto error = document.set(key, value, "--rig")) return *error;
  return out;
}

// The speed of one metric, with half the range of its repetitions for their standard deviation: of
// 3 to 5 samples of a normal distribution the range is 1.7 to 2.3 of these on average.
Measurement speed(const std::string& id, Metric metric, double value,
                  const std::optional<Interval>& range) {
  Measurement m;
  m.id = id;
  m.metric = metric;
  m.value = value;
  if (range) m.stdev = (range->hi - range->lo) / 2;
  return m;
}

class KeptRuns {
 public:
  KeptRuns(const fs::path& rig, const Catalogue& catalogue, RunsOfRig& out)
      : rig_(rig), catalogue_(catalogue), out_(out) {}

  void add(const std::string& path, const ArchivedRun& kept) {
    const std::string id = fmt::format("{} \"{}\"", path, kept.run.name);
    out_.kept.insert(id);
    const std::string reason = reason_against(id, kept);
    if (!reason.empty()) out_.skipped.push_back({id, reason});
  }

 private:
  // Adds the run's speeds, or says why it does not.
  std::string reason_against(const std::string& id, const ArchivedRun& kept) {
    if (auto why = useless(kept); !why.empty()) return why;
    if (kept.times && !seen_.insert(kept.run.name + "\n" + kept.times->run_started).second)
      return "is the same run as one before it";
    const auto ran = validation::measured_run(kept, catalogue_);
    if (!ran) return ran.error().message;
    const auto moved = on_rig(kept, *ran, rig_);
    if (!moved) return moved.error().message;
    const auto here = validation::measured_run(*moved, catalogue_);
    if (!here) return here.error().message;
    if (const auto other = other_machine(ran->scenario.rig, here->scenario.rig)) return *other;
    const Report& r = here->measured;
    const std::size_t before = out_.runs.size();
    const auto scenario = std::make_shared<const Scenario>(here->scenario);
    if (r.decode_tokens_per_s > 0)
      add_speed(speed(id, Metric::kTg, r.decode_tokens_per_s, r.tokens_per_s_interval), scenario);
    if (r.prefill_tokens_per_s > 0)
      add_speed(speed(id, Metric::kPp, r.prefill_tokens_per_s, r.prefill_interval), scenario);
    return out_.runs.size() > before ? "" : "has no speeds";
  }

  void add_speed(const Measurement& m, const std::shared_ptr<const Scenario>& scenario) {
    ResolvedRun run{m, scenario, scenario->rig.name, {}};
    run.regime = regime_of(*scenario, resolve_placement(*scenario));
    out_.runs.push_back(std::move(run));
  }

  const fs::path& rig_;
  const Catalogue& catalogue_;
  RunsOfRig& out_;
  std::set<std::string> seen_;  // name and time
};

std::string name_of(const fs::path& path) {
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

void append(RunsOfRig& to, RunsOfRig from) {
  std::ranges::move(from.runs, std::back_inserter(to.runs));
  std::ranges::move(from.skipped, std::back_inserter(to.skipped));
}

}  // namespace

std::string useless(const ArchivedRun& kept) {
  if (!kept.skipped.empty()) return kept.skipped;
  if (kept.times && !(kept.times->machine_changed < kCalm))
    return fmt::format("the machine changed by {:.0f} % while it ran",
                       100 * kept.times->machine_changed);
  return {};
}

Result<RunsOfRig> own_runs_of(std::span<const std::string> paths, const fs::path& rig,
                              const Catalogue& catalogue) {
  RunsOfRig out;
  KeptRuns kept(rig, catalogue, out);
  std::set<fs::path> named;
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!named.insert(fs::weakly_canonical(path, ignored)).second)
      return bad_input(fmt::format("--own: {} is named twice", path));
    if (!validation::is_archive(path)) {
      auto runs = read_own_runs(path, rig, catalogue);
      if (!runs) return runs.error();
      append(out, *std::move(runs));
    } else {
      const auto suite = validation::read_archive(path);
      if (!suite) {
        Error error = suite.error();
        if (fs::is_directory(path, ignored))
          error.hint = "a folder of --own is one that `rigcast validate --keep` left";
        return error;
      }
      for (const ArchivedRun& run : suite->runs) kept.add(path, run);
    }
    out.files.push_back(name_of(path));
  }
  return out;
}

}  // namespace rigcast::calibration
