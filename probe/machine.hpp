#pragma once
// The measurements of a machine, and the rig file made of them.

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/stop_flag.hpp"
#include "probe/cpu_rates.hpp"
#include "probe/disk.hpp"
#include "probe/dram_read.hpp"
#include "probe/gpu.hpp"
#include "probe/host.hpp"
#include "probe/progress.hpp"

namespace rigcast::probe {

struct Machine {
  Host host;
  std::vector<Samples> dram;  // bytes/s by number of threads, from one
  NodeRates nodes;            // where there are several
  CpuRates cpu;
  DiskRates disk;
  Gpus gpus;         // result of measure_gpus(), where that was called
  std::string date;  // "2026-11-21"
};

// All of these check `stop`, and throw Interrupted.
/// Measures everything except the GPUs. Takes 20 to 40 seconds. Errors: those of measure_disk().
Result<Machine> measure_machine(const std::filesystem::path& scratch, const Progress& progress,
                                const StopFlag& stop = {});

/// Measures the disk's sequential reads again, in `machine`. Errors: those of measure_disk().
std::optional<Error> measure_disk_again(Machine& machine, const std::filesystem::path& scratch,
                                        const Progress& progress, const StopFlag& stop = {});

/// Measures memory and multiplications again, in `machine`: they change from minute to minute where
/// others share the host. Takes some seconds.
void measure_cores(Machine& machine, const Progress& progress, const StopFlag& stop = {});

/// As measure_cores(), only with all cores at once. Takes a second or two.
void measure_all_cores(Machine& machine, const Progress& progress, const StopFlag& stop = {});

/// The relative change of the cores' rates since `machine` was measured: the larger of the changes
/// of memory reads and multiplications.
double change_of_cores(const Machine& machine, const StopFlag& stop = {});

/// The text of a rig file: every figure with its number of samples and their spread. `cpu` (empty:
/// the catalogue has none of its name) and `gpus`: the parts of the catalogue that supply figures
/// which were not measured, the latter as in write_gpus().
std::string rig_toml(const Machine& machine, const std::string& cpu,
                     const std::vector<std::string>& gpus = {});

/// Warnings on spreads that are too wide to plan with, each with what to do.
std::vector<std::string> quality_warnings(const Machine& machine);

}  // namespace rigcast::probe
