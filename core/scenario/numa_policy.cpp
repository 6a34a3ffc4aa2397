#include "core/scenario/numa_policy.hpp"

#include <fmt/format.h>

#include <array>

namespace rigcast {
namespace {

constexpr std::array kPolicies{NumaPolicy::kNone, NumaPolicy::kDistribute, NumaPolicy::kIsolate,
                               NumaPolicy::kMirror};

}  // namespace

std::string_view name(NumaPolicy policy) {
  switch (policy) {
    case NumaPolicy::kNone: return "none";
    case NumaPolicy::kDistribute: return "distribute";
    case NumaPolicy::kIsolate: return "isolate";
    case NumaPolicy::kMirror: return "mirror";
  }
  return "";
}

NumaPolicy read_numa(const TomlTable& t) {
  const std::string numa = t.text_or("numa", std::string(name(NumaPolicy::kNone)));
  for (const NumaPolicy policy : kPolicies)
    if (name(policy) == numa) return policy;
  // What numactl does with memory and threads is what counts, not that it does it.
  t.refuse("numa", fmt::format("no NUMA placement named \"{}\"", numa),
           numa == "numactl" ? "distribute is numactl --interleave=all, isolate is numactl "
                               "--cpunodebind=0 --membind=0"
                             : "none, distribute, isolate or mirror");
  return NumaPolicy::kNone;
}

}  // namespace rigcast
