#pragma once
// The memory nodes of a machine with several sockets, and the rate at which its cores read weights
// that lie in them.

#include <string>

#include "core/scenario/numa_policy.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Equal nodes, each with as many of the cores.
struct MemoryNodes {
  int count = 1;          // at least 1
  BytesPerSecond local;   // of a node's memory, to all of its readers together
  BytesPerSecond remote;  // of that, to the cores of the other nodes together: the link's direction
};

/// The nodes of the rig. `reached`: what a program reads of the memory of all nodes together if
/// every core reads its own.
MemoryNodes memory_nodes(const StepContext& context, BytesPerSecond reached);

/// The scenario's policy, but for threads that the operating system keeps in one node: Windows puts
/// those of a process into one group of at most 64 processors, within a socket. Source: Microsoft,
/// "Processor Groups", on releases before Windows 11 and Server 2022.
NumaPolicy policy_in_effect(const StepContext& context);

/// The nodes whose cores the threads may run on, of all.
int nodes_in_use(const StepContext& context);

/// A warning where what lies in RAM is more than the one node that the policy puts it in: pages
/// beyond it lie in others, which the forecast does not have. Empty: it fits, or is spread.
std::string note_on_full_node(const StepContext& context, Bytes in_ram);

/// Bytes per second of weights that all cores read once, by the busiest memory or link. With N
/// nodes of B_l and links of B_r, W bytes take
///   none:        max(W/B_l, (W (N - 1)/N)/B_r)
///   distribute:  max(W/(N B_l), (W (N - 1)/(N N))/B_r)
///   isolate:     W/B_l
///   mirror:      W/(N B_l)
BytesPerSecond read_rate(const MemoryNodes& nodes, NumaPolicy policy);

}  // namespace rigcast
