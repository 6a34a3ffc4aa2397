#pragma once
// The table at the end: what was to be reached, and what was.

#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "engine/threads/team.hpp"

namespace rigcast::bench {

struct Bar {
  std::string name;
  std::string figure;  // with its unit
  double ratio = 0;
  double least = 0;  // what the ratio must be; 0: it is there to be read
  std::string of;    // what it is a ratio to
};

/// Decode of one token: weights as fast as memory, or as the same kernels on weights in the cache.
std::vector<Bar> decode_bars(engine::Team& team, const ModelSpec& model);
/// 512 tokens at once: against decoding every matrix to F32 and sgemm, where there is a BLAS.
std::vector<Bar> prefill_bars(engine::Team& team, const ModelSpec& model);
/// Attention of one token over a long context: keys and values as fast as memory.
std::vector<Bar> attention_bars(engine::Team& team, const std::vector<ModelSpec>& models);

}  // namespace rigcast::bench
