#pragma once
// The weights that the host keeps beside a GPU: in memory of their own, layer by layer, in the
// file's format.

#include <functional>

#include "engine/gguf/file.hpp"
#include "engine/kv/kv_cache.hpp"
#include "engine/model/model.hpp"
#include "engine/placement/host_placement.hpp"

namespace rigcast::engine {

struct HostWeightsOptions {
  Allocator make = make_large_pages;
  int readers = 0;                     // threads; 0: as many as keep a disk's queue full
  std::function<bool()> keep_going{};  // asked for every piece; absent: yes
};

/// Returns the model with all matrices for which parts.has() holds in memory from how.make, a
/// layer's matrices contiguous. They are read from `file`, to which they were bound, by several
/// threads, bypassing the page cache where it does not hold them; or, if `file` is nullptr, copied
/// from where they are. Throws what how.make throws, and MachineError when reading fails or
/// `keep_going` ends it.
Model with_host_weights(const Model& model, const HostPlacement& parts, const GgufFile* file,
                        const HostWeightsOptions& how);

}  // namespace rigcast::engine
