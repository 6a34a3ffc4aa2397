#pragma once
// What the operating system tells of this machine.

#include <string>

#include "core/base/units.hpp"

namespace rigcast::probe {

struct Host {
  std::string cpu;   // "AMD EPYC 9354 32-Core Processor"
  std::string simd;  // as in hwprofiles/cpus: "avx512-vnni"
  std::string os;    // as in a scenario: "linux" or "wsl2"
  int cores = 1;     // that this process may run on, two threads of one core counted once
  int numa_nodes = 1;
  Bytes l2, l3;            // of one core, and of the cores that share one; 0: not told
  Bytes memory;            // that may be taken: the machine's, or a container's limit
  bool contained = false;  // that limit is less than what the machine has
  Bytes available;         // of it, now
};

Host read_host();

}  // namespace rigcast::probe
