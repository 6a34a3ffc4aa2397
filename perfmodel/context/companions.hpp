#pragma once
// What llama.cpp loads beside a model: a vision projector, and a draft model for speculative
// decoding.

#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// The first GPU, or the host if there is none or the scenario says so. Source: llama.cpp
/// tools/mtmd/clip.cpp, which opens one backend, the first GPU's by default.
DeviceIndex projector_device(const StepContext& context);

/// All layers and the head of the draft model on the GPUs, split as the model's are, and its cache
/// beside them unless that is in RAM. Source: llama.cpp tools/server/server-context.cpp, where the
/// draft's parameters are the model's except for the file, layers and types of the cache.
Placement placement_of_draft(const StepContext& context);

/// Bytes of the tensors of model, draft model and projector.
Bytes file_bytes(const StepContext& context);

}  // namespace rigcast
