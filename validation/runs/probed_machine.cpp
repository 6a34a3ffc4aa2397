#include "validation/runs/probed_machine.hpp"

#include <algorithm>
#include <cmath>

#include "core/files/interrupt.hpp"
#include "probe/gpu/measure_gpus.hpp"
#include "probe/gpu_part.hpp"
#include "report/terminal/progress_line.hpp"
#include "validation/runs/local_machine.hpp"

namespace rigcast::validation {
namespace {

// The relative change of memory bandwidth since the probe with the same number of threads; 0 if
// that was not probed.
double change_of_memory(const probe::Machine& machine, int threads, BytesPerSecond now) {
  const bool one = threads == 1;
  if (!one && threads != machine.host.cores) return 0;
  const double then = (one ? machine.dram.front() : machine.dram.back()).median;
  return then > 0 && now.value > 0 ? std::fabs(now.value / then - 1) : 0;
}

}  // namespace

// Its rates change with what else the host does.
bool ProbedMachine::host_takes_part(const SuiteRun& run) const {
  constexpr const char* kShares[] = {"placement.gpu_layers", "placement.cpu_moe_layers",
                                     "placement.decode_device", "kv.policy"};
  return !backend_.is_gpu() ||
         std::ranges::any_of(kShares, [&](const char* key) { return run.scenario.has(key); });
}

Result<std::string> ProbedMachine::rig_for(const SuiteRun& run, bool with_engine) {
  if (names_a_rig(run.scenario)) return std::string();
  if (!machine_) {
    auto machine = probe::measure_machine(scratch_, show_progress, stop_flag());
    if (!machine) return machine.error();
    machine_ = *std::move(machine);
    if (backend_.is_gpu()) machine_->gpus = probe::measure_gpus(show_progress, stop_flag());
  } else {
    if (with_engine && (run.file || run.scenario.has("model.file")))
      if (auto error = probe::measure_disk_again(*machine_, scratch_, show_progress, stop_flag()))
        return *error;
    if (with_engine && !backend_.is_gpu())
      probe::measure_cores(*machine_, show_progress, stop_flag());
    else if (host_takes_part(run))
      probe::measure_all_cores(*machine_, show_progress, stop_flag());
  }
  std::vector<std::string> gpus;
  for (const probe::Gpu& gpu : machine_->gpus.found)
    gpus.push_back(probe::gpu_of_catalogue(gpu, catalogue_));
  return probe::rig_toml(*machine_, cpu_of_catalogue(machine_->host, catalogue_), gpus);
}

std::optional<double> ProbedMachine::change_since(const SuiteRun& run, int threads,
                                                  BytesPerSecond memory) const {
  if (!machine_ || !host_takes_part(run)) return std::nullopt;
  const double within = backend_.is_gpu() ? 0 : change_of_memory(*machine_, threads, memory);
  return std::max(within, probe::change_of_cores(*machine_, stop_flag()));
}

std::optional<BytesPerSecond> ProbedMachine::vram_ceiling() const {
  if (!machine_ || machine_->gpus.found.empty()) return std::nullopt;
  return BytesPerSecond{machine_->gpus.found.front().vram_read.median};
}

}  // namespace rigcast::validation
