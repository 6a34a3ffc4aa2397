#pragma once
// A kernel that ran on a GPU.

#include <cstdint>

#include "bench/kernel_table/kernel_name.hpp"

namespace rigcast::bench {

struct KernelRun {
  KernelName name;
  std::uint64_t start = 0, end = 0;  // ns
  std::int64_t blocks = 0;
  int at_once = 0;  // blocks that the GPU runs at once; 0: unknown
};

}  // namespace rigcast::bench
