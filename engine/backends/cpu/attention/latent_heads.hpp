#pragma once
// What latent attention computes around its cache: queries that are brought to the cache's rows,
// and values that are made of what attention gives, head by head.

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backends/cpu/step/cpu_step.hpp"

namespace rigcast::engine {

class LatentHeads {
 public:
  explicit LatentHeads(CpuStep& step) : step_(step) {}

  // Every member of the team calls these.
  /// q [token][heads][row] = the plain part of queries, brought to the cache's rows; and rows
  /// [token][row] = what the cache gets, before its norm and its rotation. Ends without a barrier.
  void project(Worker& worker, const Layer& layer, float* q, float* rows);
  /// Of a token, once project() has ended with a barrier: the part of its query that turns, which
  /// place(head, values) puts behind the plain one.
  template <class Place>
  void each_tail(const Layer& layer, std::int64_t token, const Place& place) const {
    const LatentShape& latent = layer.latent;
    const float* const from = raw_.data() + token * layer.attention.heads * latent.query();
    for (int head = 0; head < layer.attention.heads; ++head)
      place(head,
            std::span(from + head * latent.query() + latent.plain, std::size_t(latent.turned)));
  }
  /// values() [token][heads][value] = what attention gave, [token][heads][row], times each head's
  /// matrix. Ends without a barrier.
  void expand(Worker& worker, const Layer& layer, const float* attended);
  const cpu::AlignedVector<float>& values() const { return values_; }

 private:
  struct HeadProducts {
    const Matrix& all;  // rows of head 0, of head 1, ...
    std::int64_t rows;  // of a head
    const float* from;  // [token][heads][from_width]
    std::int64_t from_width;
    float* to;  // [token][heads][to_width]
    std::int64_t to_width;
  };
  void multiply_heads(Worker& worker, int heads, const HeadProducts& products);

  CpuStep& step_;
  Input latent_, by_head_;
  cpu::AlignedVector<float> compressed_, raw_, values_;
};

}  // namespace rigcast::engine
