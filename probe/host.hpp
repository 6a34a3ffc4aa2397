#pragma once
// Facts on this machine, from the operating system.

#include <filesystem>
#include <string>
#include <vector>

#include "core/base/units.hpp"

namespace rigcast::probe {

/// Memory of its own, and the processors that read it faster than the other nodes do.
struct MemoryNode {
  std::vector<int> ids;   // the kernel's: one, or several whose pages are taken in turn
  std::vector<int> cpus;  // processors that this process may use
  int cores = 0;          // of these, hardware threads of one core count once
  int socket = 0;
};

struct Host {
  std::string cpu;   // "AMD EPYC 9354 32-Core Processor"
  std::string simd;  // as in hwprofiles/cpus: "avx512-vnni"
  bool amx = false;  // tiles of bytes, beside it
  std::string os;    // as in a scenario: "linux" or "wsl2"
  int cores = 1;     // cores that this process may use; hardware threads of one core count once
  int sockets = 1;
  std::vector<MemoryNode> nodes;  // those with both memory and processors
  Bytes l2, l3;                   // of one core, and of the cores that share it; 0: unknown
  Bytes memory;                   // the machine's memory, or a container's limit
  bool contained = false;         // the container's limit is below the machine's memory
  Bytes available;                // the part of `memory` that is available now
};

/// The numbers of a kernel's list: "0-2,8" is 0, 1, 2 and 8. Empty where the text is none.
std::vector<int> numbers_in_list(const std::string& text);

/// Of the files below `root`: this machine's, or captured ones.
Host read_host(const std::filesystem::path& root = "/");

}  // namespace rigcast::probe
