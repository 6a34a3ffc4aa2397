#pragma once
// Records the kernels that a GPU runs, through CUPTI.

#include <vector>

#include "bench/kernel_table/blocks_at_once.hpp"
#include "bench/kernel_table/kernel_run.hpp"

namespace rigcast::bench {

/// Of the current GPU.
GpuLimits gpu_limits();

/// One at a time. Throws std::runtime_error if CUPTI fails.
class KernelTrace {
 public:
  explicit KernelTrace(const GpuLimits& gpu);

  void begin();
  /// The kernels since begin(), in the order of their ends.
  std::vector<KernelRun> end();

 private:
  GpuLimits gpu_;
};

}  // namespace rigcast::bench
