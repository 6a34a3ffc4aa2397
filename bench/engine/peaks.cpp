#include "bench/engine/peaks.hpp"

#include "probe/cpu_rates.hpp"

namespace rigcast::bench {

std::vector<Contender> peak_contenders(engine::ThreadTeam& team) {
  std::vector<Contender> out;
  for (const probe::CpuLoop& loop : probe::cpu_loops())
    out.push_back({loop.name, loop.operations * team.size(),
                   [&team, run = loop.run] { team.run([run](engine::Worker&) { run(); }); }});
  return out;
}

}  // namespace rigcast::bench
