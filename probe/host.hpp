#pragma once
// Facts on this machine, from the operating system.

#include <filesystem>
#include <string>

#include "core/base/units.hpp"

namespace rigcast::probe {

struct Host {
  std::string cpu;   // "AMD EPYC 9354 32-Core Processor"
  std::string simd;  // as in hwprofiles/cpus: "avx512-vnni"
  bool amx = false;  // tiles of bytes, beside it
  std::string os;    // as in a scenario: "linux" or "wsl2"
  int cores = 1;     // cores that this process may use; hardware threads of one core count once
  int sockets = 1;
  int numa_nodes = 1;
  Bytes l2, l3;            // of one core, and of the cores that share it; 0: unknown
  Bytes memory;            // the machine's memory, or a container's limit
  bool contained = false;  // the container's limit is below the machine's memory
  Bytes available;         // the part of `memory` that is available now
};

/// Of the files below `root`: this machine's, or captured ones.
Host read_host(const std::filesystem::path& root = "/");

}  // namespace rigcast::probe
