#pragma once
// Writes measured GPUs to a rig file.

#include <string>
#include <vector>

#include "probe/gpu.hpp"
#include "probe/rig_file.hpp"

namespace rigcast::probe {

/// Writes the keys of the whole rig. `ids`: for each GPU its part in the catalogue; a GPU with an
/// empty id is not in the catalogue, and a comment says so.
void write_gpus(RigFile& file, const std::vector<Gpu>& gpus, const std::vector<std::string>& ids);

/// Writes a table [[gpu_measured]] for each GPU (core/catalogue/gpu_measured.hpp). Tables come last
/// in the file.
void write_gpu_tables(RigFile& file, const std::vector<Gpu>& gpus,
                      const std::vector<std::string>& ids);

/// Warnings on the quality of the measurement: wide spreads, narrow links and missing figures, each
/// with what to do.
std::vector<std::string> gpu_quality_warnings(const Gpu& gpu);

}  // namespace rigcast::probe
