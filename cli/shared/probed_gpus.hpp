#pragma once
// The GPUs' part of a probe's table.

#include <string>

#include "probe/gpu.hpp"

namespace rigcast::cli {

/// "  VRAM, read                         3,010 GB/s   n  7, spread 1 %"
std::string probe_row(const std::string& what, const probe::Samples& takes,
                      const std::string& figure);
std::string probe_rate_row(const std::string& what, const probe::Samples& bytes_per_s);

/// Rows for every GPU, or one line that says why there is none.
std::string gpu_rows(const probe::Gpus& gpus);

}  // namespace rigcast::cli
