#pragma once
// Pinning of threads: two threads on one core would measure that core.

#include <sched.h>

#include <cstddef>

#include "engine/threads/thread_team.hpp"

namespace rigcast::bench {

/// Pins every member to a CPU of its own, as far as there are enough among those that the process
/// may use.
inline void pin(engine::ThreadTeam& team) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  team.run([&](engine::Worker& worker) {
    int left = worker.index() % CPU_COUNT(&allowed);
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &allowed) || left-- > 0) continue;
      cpu_set_t own;
      CPU_ZERO(&own);
      CPU_SET(cpu, &own);
      // Only this thread; without permission it stays unpinned.
      sched_setaffinity(0, sizeof own, &own);
      return;
    }
  });
}

}  // namespace rigcast::bench
