#pragma once
// A rig whose GPUs compute every layer together, as one with a single larger GPU, or one for each
// stage of a pipeline.

#include "core/hardware/rig.hpp"

namespace rigcast {

/// Makes one GPU of each `shared.gpus` of the rig's, which are all the same part: with the memory
/// and the rates of them together, and what is reserved on each of them. Each of them has its own
/// link to the host. Their number is a multiple of it.
void merge_gpus(Rig& rig, const SharedLayers& shared);

}  // namespace rigcast
