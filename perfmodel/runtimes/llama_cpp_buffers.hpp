#pragma once
// The compute and output buffers of llama.cpp, as ggml's scheduler allocates them for the largest
// batch: one of each device for the operations there, and for copies of what they read from others.
// Sources: ggml-org/llama.cpp b7347 (2025-12), ggml/src/ggml-backend.cpp and src/llama-graph.cpp.

#include <functional>

#include "core/scenario/placement.hpp"
#include "perfmodel/context/step_context.hpp"

namespace rigcast {

/// Cells of the cache that a layer has for one sequence.
using CellsOfLayer = std::function<TokenCount(int layer)>;

/// True where a batch of host weights is multiplied on a GPU, to which one matrix after the other
/// is copied into the compute buffer: the scheduler begins a new split of the graph at every
/// operation on weights of another device, so that the next copy may take the place of the last.
bool copies_in_compute_buffer(const MemoryContext& context);

/// The compute buffer of `gpu`. `works`: it has a part of the placement.
Bytes llama_cpp_gpu_buffer(const MemoryContext& context, const Placement& placement,
                           DeviceIndex gpu, bool works, const CellsOfLayer& cells);

/// The host's compute buffer, and the output buffer, which has the logits of one token.
/// Beside a GPU they are pinned memory ("CUDA_Host").
Bytes llama_cpp_host_buffers(const MemoryContext& context, const Placement& placement, bool works,
                             const CellsOfLayer& cells);

/// What a batch of `rows` tokens is given from the host: its embeddings and indices, and the masks
/// of attention, F32, a row for each token. Without flash attention values are stored transposed,
/// each at an index of its own.
Bytes llama_cpp_inputs(const MemoryContext& context, TokenCount rows, const CellsOfLayer& cells);

}  // namespace rigcast
