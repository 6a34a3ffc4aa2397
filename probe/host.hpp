#pragma once
// What the operating system tells of this machine.

#include <string>

#include "core/units.hpp"

namespace rigcast::probe {

struct Host {
  std::string cpu;  // "AMD EPYC 9354 32-Core Processor"
  int cores = 1;    // that this process may run on, two threads of one core counted once
  Bytes memory;     // that it may take: the machine's, or the container's limit if that is less
  Bytes available;  // of it, now
};

Host read_host();

}  // namespace rigcast::probe
