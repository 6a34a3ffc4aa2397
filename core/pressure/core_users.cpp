#include "core/pressure/core_users.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace rigcast {

std::string check_cores(const TomlTable& runtime, const CpuPart& cpu, const CoreUsers& users) {
  const int cores = std::max(1, cpu.cores), processors = std::max(cores, cpu.threads);
  const int all = users.threads + users.neighbours;
  if (users.isolated && all > processors) {
    runtime.refuse(
        "isolated",
        fmt::format("{} threads and {} of others have no cores of their own on a CPU that runs {}",
                    users.threads, users.neighbours, processors),
        users.neighbours < processors ? fmt::format("--threads {}", processors - users.neighbours)
                                      : "fewer runtime.neighbours, or leave isolated out");
    return "";
  }
  if (users.neighbours > 0 && all > cores)
    return "threads and neighbours share cores: what that costs beside bandwidth is not forecast";
  if (!users.isolated) return "";
  // Bandwidth is shared whoever has which core, and each is on a core of its own anyhow.
  return users.neighbours > 0
             ? "isolated cores change no figure here: neighbours have cores of their own in the "
               "forecast without them, too, and take bandwidth of RAM all the same"
             : "isolated cores change no figure here: there are no neighbours to keep off "
               "(runtime.neighbours)";
}

}  // namespace rigcast
