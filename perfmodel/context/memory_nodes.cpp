#include "perfmodel/context/memory_nodes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text/unit_text.hpp"

namespace rigcast {
namespace {

// A rate that a test program reached, nearly all of which a runtime can reach.
constexpr double kOfMeasured = 0.95;
// What reaches the other socket, as a share of a socket's own rate, where nobody tells: the median
// of ten two-socket machines whose matrices of Intel's Memory Latency Checker are public, of Xeon
// E5 v3 to Xeon 6, 0.30 to 0.52.
constexpr double kRemoteShare = 0.415;

}  // namespace

MemoryNodes memory_nodes(const StepContext& s, BytesPerSecond reached) {
  const CpuPart& cpu = s.rig.cpu;
  MemoryNodes nodes;
  nodes.count = cpu.nodes();
  nodes.local = reached / double(nodes.count);
  if (nodes.count > 1 && cpu.node_read)
    nodes.local = std::min(nodes.local, cpu.node_read->value * kOfMeasured);
  nodes.remote =
      cpu.remote_read ? cpu.remote_read->value * kOfMeasured : nodes.local * kRemoteShare;
  return nodes;
}

NumaPolicy policy_in_effect(const StepContext& s) {
  constexpr int kGroup = 64;
  const CpuPart& cpu = s.rig.cpu;
  const bool has_groups = s.rig.os == OperatingSystem::kWindows && cpu.threads > kGroup;
  const bool in_one = has_groups && s.settings.threads <= cpu.threads / cpu.nodes();
  return in_one && s.settings.numa == NumaPolicy::kNone ? NumaPolicy::kIsolate : s.settings.numa;
}

int nodes_in_use(const StepContext& s) {
  return policy_in_effect(s) == NumaPolicy::kIsolate ? 1 : s.rig.cpu.nodes();
}

std::string note_on_full_node(const StepContext& s, Bytes in_ram) {
  const int nodes = s.rig.cpu.nodes();
  const NumaPolicy policy = policy_in_effect(s);
  const Bytes node = s.rig.ram.capacity.value / double(nodes);
  const bool in_one = policy == NumaPolicy::kNone || policy == NumaPolicy::kIsolate;
  if (nodes <= 1 || !in_one || in_ram <= node) return {};
  return fmt::format(
      "{} in RAM are more than the {} of one memory node: the rest lies in others, "
      "and the forecast is as if it did not (--numa distribute)",
      text_gib(in_ram), text_gib(node));
}

BytesPerSecond read_rate(const MemoryNodes& nodes, NumaPolicy policy) {
  const double n = nodes.count;
  const BytesPerSecond all = nodes.local * n;
  if (nodes.count <= 1) return all;
  const double others = (n - 1.0) / n;  // of what a node's cores read, or its memory gives
  switch (policy) {
    case NumaPolicy::kNone: return std::min(nodes.local, nodes.remote / others);
    case NumaPolicy::kDistribute: return std::min(all, nodes.remote * n / others);
    case NumaPolicy::kIsolate: return nodes.local;
    case NumaPolicy::kMirror: return all;
  }
  return all;
}

}  // namespace rigcast
