#pragma once
// The pool of layers with a window, where the project's own engine keeps it apart from that of the
// others.

#include "core/scenario/placement.hpp"
#include "core/scenario/scenario.hpp"

namespace rigcast {

/// What decides on it of a server.
struct WindowPoolAsked {
  const ModelSpec& model;
  const SchedulerPolicy& policy;
  const Placement& placement;
  KvPolicy kv{};
  bool has_gpus = false;
};

/// Its blocks, of all sequences and checkpoints, where the others' pool has more; 0: layers with a
/// window have each block of that. They do where blocks go to RAM or to a disk, and where a GPU and
/// its host share the model.
TokenCount window_pool_blocks(const WindowPoolAsked& asked);

}  // namespace rigcast
