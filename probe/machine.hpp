#pragma once
// All that is measured of a machine, and the rig file that says it.

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/stop_flag.hpp"
#include "probe/cpu_rates.hpp"
#include "probe/disk.hpp"
#include "probe/gpu.hpp"
#include "probe/host.hpp"
#include "probe/say.hpp"

namespace rigcast::probe {

struct Machine {
  Host host;
  std::vector<Takes> dram;  // bytes/s by threads: the first by one
  CpuRates cpu;
  DiskRates disk;
  Gpus gpus;         // of measure_gpus, where that was called
  std::string date;  // "2026-11-21"
};

// All of these look at `stop`, and throw Interrupted.
/// All but the GPUs. Takes 20 to 40 seconds. Errors: those of measure_disk.
Result<Machine> measure_machine(const std::filesystem::path& scratch, const Say& say,
                                const StopFlag& stop = {});

/// Reads of the disk in order, in `machine`. Errors: those of measure_disk.
std::optional<Error> measure_disk_again(Machine& machine, const std::filesystem::path& scratch,
                                        const Say& say, const StopFlag& stop = {});

/// The same of memory and multiplications alone, in `machine`: they change from minute to minute
/// where others share the host. Takes some seconds.
void measure_cores(Machine& machine, const Say& say, const StopFlag& stop = {});

/// The same with all cores at once alone. Takes a second or two.
void measure_all_cores(Machine& machine, const Say& say, const StopFlag& stop = {});

/// How far the cores together are from what `machine` says of them, now: the larger change of what
/// they read and of what they multiply, as a share.
double change_of_cores(const Machine& machine, const StopFlag& stop = {});

/// A rig file: every figure measured, with how often and how far apart. `cpu` (empty: the catalogue
/// has none of its name) and `gpus`, as in write_gpus, are the parts of the catalogue that say what
/// was not measured.
std::string rig_toml(const Machine& machine, const std::string& cpu,
                     const std::vector<std::string>& gpus = {});

/// Spreads that are too wide to plan with, each with what to do.
std::vector<std::string> doubts(const Machine& machine);

}  // namespace rigcast::probe
