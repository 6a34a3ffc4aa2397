#pragma once
// How much memory a test's process has.

#include <unistd.h>

#include <fstream>

#include "core/base/units.hpp"

namespace rigcast::test {

/// Resident memory of this process, now.
inline Bytes resident_memory() {
  std::ifstream statm("/proc/self/statm");
  double all = 0, resident = 0;
  statm >> all >> resident;
  return Bytes{resident * double(::sysconf(_SC_PAGESIZE))};
}

}  // namespace rigcast::test
