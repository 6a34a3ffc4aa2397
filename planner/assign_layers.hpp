#pragma once
// Which layer goes where, as a shortest path with limited resources through a graph that has a
// stage for every layer and a vertex for every place.

#include <limits>
#include <optional>
#include <vector>

namespace rigcast::planner {

/// Never: such a change, or such a place.
inline constexpr double kNever = std::numeric_limits<double>::infinity();

/// Where a layer may be: a device, or a device that has a part of the layer elsewhere.
struct Station {
  int device = 0;               // stations of one device follow each other and share own_bytes
  std::vector<double> seconds;  // [layer]: what it adds to the request
  std::vector<std::vector<double>> bytes;  // [memory][layer]
  std::vector<double> own_bytes;           // [memory], as soon as its device has a layer
  double end_seconds = 0;                  // what follows the last layer, if that is here
  std::vector<double> end_bytes;           // [memory]
};

struct AssignmentProblem {
  int layers = 0;
  std::vector<Station> stations;
  std::vector<double> capacity;  // [memory], bytes; at most kMostMemories
  /// Seconds that a layer at `to` adds after one at `from`, kNever if it must not follow it.
  /// [1 + from][to]; from -1: nothing is before. No station is left and come back to.
  std::vector<std::vector<double>> change;
  /// Seconds of a solution that is known: no worse one is looked for.
  double at_most = kNever;
};
inline constexpr int kMostMemories = 9;  // eight GPUs and the host

struct Assignment {
  std::vector<int> station;  // [layer]
  double seconds = 0;
};

/// The fastest assignment that fits; nullopt if none does, or none within at_most. What is in use
/// is compared in steps of 1/256 of each memory that is still taken of, whether it fits by the
/// byte: where two ways differ by less than a step, the faster one goes on. Where very many ways
/// are about as fast, steps of 1/8 have to do.
std::optional<Assignment> assign_layers(const AssignmentProblem& problem);

}  // namespace rigcast::planner
