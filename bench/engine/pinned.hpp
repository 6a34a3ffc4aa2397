#pragma once
// Threads that stay where they are: two that a scheduler puts on one core measure that core.

#include <sched.h>

#include <cstddef>

#include "engine/threads/team.hpp"

namespace rigcast::bench {

/// Every member on a CPU of its own, as many as there are, of those that the process may use.
inline void pin(engine::Team& team) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  team.run([&](engine::Worker& worker) {
    int left = worker.index() % CPU_COUNT(&allowed);
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
      cpu_set_t own;
      CPU_ZERO(&own);
      CPU_SET(cpu, &own);
      sched_setaffinity(0, sizeof own, &own);  // of this thread alone; refused: it stays free
      return;
    }
  });
}

}  // namespace rigcast::bench
