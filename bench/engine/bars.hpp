#pragma once
// The final table: required and measured figures.

#include <string>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "engine/threads/thread_team.hpp"

namespace rigcast::bench {

struct Bar {
  std::string name;
  std::string figure;  // value with its unit
  double ratio = 0;
  double least = 0;  // required ratio; 0: for information only
  std::string of;    // the reference of the ratio
};

/// Decode of one token: the rate of reading weights, relative to memory, or to the same kernels
/// with weights in the cache.
std::vector<Bar> decode_bars(engine::ThreadTeam& team, const ModelSpec& model);
/// A batch of 512 tokens: relative to dequantizing every matrix to F32 and sgemm, if there is a
/// BLAS.
std::vector<Bar> prefill_bars(engine::ThreadTeam& team, const ModelSpec& model);
/// Attention of one token over a long context: the rate of reading keys and values, relative to
/// memory.
std::vector<Bar> attention_bars(engine::ThreadTeam& team, const std::vector<ModelSpec>& models);

}  // namespace rigcast::bench
