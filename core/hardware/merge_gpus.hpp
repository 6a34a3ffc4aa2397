#pragma once
// A rig whose GPUs compute every layer together, as one with a single larger GPU.

#include "core/hardware/rig.hpp"

namespace rigcast {

/// Makes one GPU of the rig's, which are all the same part: with the memory and the rates of all
/// together, and what is reserved on each of them. Each of them has its own link to the host.
void merge_gpus(Rig& rig, const SharedLayers& shared);

}  // namespace rigcast
