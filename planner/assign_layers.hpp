#pragma once
// Assigns layers to devices, as a resource-constrained shortest path through a graph with a stage
// for every layer and a vertex for every place.

#include <limits>
#include <optional>
#include <vector>

namespace rigcast::planner {

/// The cost of a change, or of a place, that is forbidden.
inline constexpr double kForbidden = std::numeric_limits<double>::infinity();

/// A place for a layer: a device, or a device with a part of the layer elsewhere.
struct Location {
  int device = 0;               // stations of one device are adjacent and share own_bytes
  std::vector<double> seconds;  // [layer]: seconds that the layer adds to the request
  std::vector<std::vector<double>> bytes;  // [memory][layer]
  std::vector<double> own_bytes;           // [memory], once its device has a layer
  double end_seconds = 0;                  // time after the last layer, if that is here
  std::vector<double> end_bytes;           // [memory]
};

struct AssignmentProblem {
  int layers = 0;
  std::vector<Location> locations;
  std::vector<double> capacity;  // [memory], bytes; at most kMaxMemories
  /// Seconds that a change from `from` to `to` adds, kForbidden where it is forbidden. [1 +
  /// from][to]; from -1: the start. No path returns to a station that it has left.
  std::vector<std::vector<double>> change;
  /// Seconds of a known solution; slower ones are not searched.
  double at_most = kForbidden;
};
inline constexpr int kMaxMemories = 9;  // eight GPUs and the host

struct Assignment {
  std::vector<int> location;  // [layer]
  double seconds = 0;
};

/// The fastest assignment that fits; nullopt if none fits within at_most. Memory use is compared in
/// steps of 1/256 of what is left of each memory, and checked by the byte: of two paths that differ
/// by less than a step, the faster one is continued. Where very many paths are nearly as fast,
/// steps of 1/8 are used.
std::optional<Assignment> assign_layers(const AssignmentProblem& problem);

}  // namespace rigcast::planner
