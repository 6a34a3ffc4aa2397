#pragma once
// Bytes of host memory that steps of many sequences take.

#include "core/model/kv_bytes.hpp"
#include "engine/model/model.hpp"
#include "engine/run/batch_executor.hpp"

namespace rigcast::engine {

/// Bytes of a block of keys and values: of layers that see all tokens, and of those that have a
/// window.
struct CpuBlockBytes {
  double all = 0, window = 0;

  double sum() const { return all + window; }
};
CpuBlockBytes cpu_block_bytes(const Model& model, KvTypes types, TokenCount block_tokens);
/// Bytes of an executor's buffers, for steps within `limits`.
double cpu_batch_buffer_bytes(const Model& model, const BatchLimits& limits);

/// Parts of a model whose buffers grow with the sequences of a step, and not with its tokens alone.
struct CpuBatchParts {
  bool head = true;     // the logits of every sequence
  bool experts = true;  // gaps between the groups of experts' tokens
};
/// Of these bytes, those beyond what CpuLayers charge for a step's tokens.
double further_buffer_bytes(const Model& model, const BatchLimits& limits,
                            const CpuBatchParts& parts = {});

}  // namespace rigcast::engine
