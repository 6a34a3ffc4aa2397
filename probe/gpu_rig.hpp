#pragma once
// What a rig file says of GPUs that were measured.

#include <string>
#include <vector>

#include "probe/gpu.hpp"
#include "probe/rig_file.hpp"

namespace rigcast::probe {

/// The keys of the whole rig. `ids` are the parts of the catalogue, one for each GPU; an empty one
/// stands for a GPU that the catalogue lacks, which is then said and not listed.
void write_gpus(RigFile& file, const std::vector<Gpu>& gpus, const std::vector<std::string>& ids);

/// A table [[gpu_measured]] for each GPU (core/catalogue/gpu_measured.hpp). Tables come last in the
/// file.
void write_gpu_tables(RigFile& file, const std::vector<Gpu>& gpus,
                      const std::vector<std::string>& ids);

/// Spreads too wide to plan with, narrow links and what was left out, each with what to do.
std::vector<std::string> gpu_doubts(const Gpu& gpu);

}  // namespace rigcast::probe
