#pragma once
// The weights that the host keeps where a GPU has the others: in memory of their own, layer by
// layer, as they lie in a file.

#include <functional>

#include "engine/gguf/file.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/model/model.hpp"
#include "engine/placement/host_parts.hpp"

namespace rigcast::engine {

struct HostWeightsHow {
  MakeMemory make = make_large_pages;
  int readers = 0;                // threads; 0: as many as wait for a disk together
  std::function<bool()> go_on{};  // asked for every piece; absent: yes
};

/// The model with all matrices for which parts.has() holds in memory of how.make, a layer's one
/// after the other. They are read from `file`, which they were bound from, by several threads and
/// past the page cache where it does not hold them, or copied (nullptr) from where they lie. Throws
/// what how.make does, and MachineError when reading fails or `go_on` ends it.
Model with_host_weights(const Model& model, const HostParts& parts, const GgufFile* file,
                        const HostWeightsHow& how);

}  // namespace rigcast::engine
