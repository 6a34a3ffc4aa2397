#pragma once
// A KV cache on the GPU with known rows, and attention over it in double.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#include "engine/kernels/cuda/kv/cache.cuh"
#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/half.hpp"
#include "engine/kernels/ref/quantize.hpp"
#include "tests/cuda/device_data.cuh"
#include "tests/engine/random_values.hpp"

namespace rigcast::engine::fixtures {

using rigcast::fixtures::OnDevice;

struct CacheShape {
  int kv_heads = 2, dim = 128;
  int from = 0, tokens = 0;  // rows [from, tokens) are there; all other memory holds NaNs
  QuantFormat k = QuantFormat::kF16, v = QuantFormat::kF16;
  int block_tokens = 128;
  unsigned order = 0;  // of the blocks in memory; 0: as in the context
  int room = 0;        // tokens that blocks are there for, if more
  bool newest = true;  // false: the last row is yet to be written, and holds NaNs
};

inline std::vector<float> halves_to_floats(const std::vector<std::uint16_t>& fp16) {
  std::vector<float> out;
  for (const std::uint16_t h : fp16) out.push_back(ref::half_to_float(h));
  return out;
}
inline std::vector<std::uint16_t> floats_to_halves(const std::vector<float>& values) {
  std::vector<std::uint16_t> out;
  for (const float v : values) out.push_back(ref::float_to_half(v));
  return out;
}

/// A cache of three layers, of which only the middle one has rows.
class CacheData {
 public:
  static constexpr int kLayers = 3, kLayer = 1;

  explicit CacheData(const CacheShape& shape, unsigned seed = 1)
      : shape_(shape), blocks_((std::max(shape.tokens, shape.room) - 1) / shape.block_tokens + 1) {
    const auto dim = std::uint64_t(shape.dim);
    cache_.block_tokens = shape.block_tokens;
    cache_.kv_heads = shape.kv_heads;
    cache_.head_dim = shape.dim;
    cache_.k_type = shape.k;
    cache_.v_type = shape.v;
    cache_.k_row = int(tensor_bytes(shape.k, dim, 1));
    cache_.v_row = int(tensor_bytes(shape.v, dim, 1));
    block_bytes_ = (std::size_t(kLayers * cache_.layer_bytes()) + 255) / 256 * 256;
    place_of_.resize(std::size_t(blocks_));
    std::iota(place_of_.begin(), place_of_.end(), std::size_t(0));
    if (shape.order > 0)
      std::shuffle(place_of_.begin(), place_of_.end(), std::mt19937(shape.order));
    host_.assign(block_bytes_ * std::size_t(blocks_), std::byte(0xFF));
    fill(shape.k, seed, false, keys_);
    fill(shape.v, seed + 1, true, values_);
    send();
  }

  cuda::Cache on_device() const { return cache_; }
  /// Addresses of the blocks on the GPU, in the order of the context.
  const std::vector<std::byte*>& blocks() const { return list_of_blocks_; }
  /// The values that kernels see: FP16 numbers nearest to d * q.
  const float* key(int head, int token) const { return keys_.data() + at(head, token); }
  const float* value(int head, int token) const { return values_.data() + at(head, token); }
  /// A row of the cache's memory, in `memory` as read() gives it.
  const std::byte* row(const std::vector<std::byte>& memory, int head, int token,
                       bool value) const {
    return memory.data() + row_offset(head, token, value);
  }
  std::vector<std::byte> read() const { return memory_->read(); }

  /// Copies the last token's rows from the memory that kernels have written.
  void take_newest() {
    const std::vector<std::byte> memory = read();
    for (int head = 0; head < shape_.kv_heads; ++head) {
      const int token = shape_.tokens - 1;
      see(shape_.k, row(memory, head, token, false), keys_.data() + at(head, token));
      see(shape_.v, row(memory, head, token, true), values_.data() + at(head, token));
    }
  }

 private:
  std::size_t at(int head, int token) const {
    return std::size_t(head * shape_.tokens + token) * std::size_t(shape_.dim);
  }
  std::size_t row_offset(int head, int token, bool value) const {
    const int row = token % shape_.block_tokens;
    const std::int64_t in_block = value ? cache_.values_at(kLayer, head) + row * cache_.v_row
                                        : cache_.keys_at(kLayer, head) + row * cache_.k_row;
    return place_of_[std::size_t(token / shape_.block_tokens)] * block_bytes_ +
           std::size_t(in_block);
  }

  void fill(QuantFormat type, unsigned seed, bool value, std::vector<float>& seen) {
    seen = normal_values(at(shape_.kv_heads, 0), seed);
    for (int head = 0; head < shape_.kv_heads; ++head)
      for (int token = shape_.from; token < shape_.tokens - (shape_.newest ? 0 : 1); ++token) {
        float* row = seen.data() + at(head, token);
        std::byte* to = host_.data() + row_offset(head, token, value);
        ref::quantize(type, std::span<float>(row, std::size_t(shape_.dim)), to);
        see(type, to, row);
      }
  }

  // A row as kernels see it, in FP16.
  void see(QuantFormat type, const std::byte* row, float* out) const {
    const std::span<float> values(out, std::size_t(shape_.dim));
    ref::dequantize(type, row, values);
    for (float& x : values) x = ref::half_to_float(ref::float_to_half(x));
  }

  void send() {
    memory_ = std::make_unique<OnDevice<std::byte>>(host_);
    list_of_blocks_.clear();
    for (const std::size_t place : place_of_)
      list_of_blocks_.push_back(memory_->get() + place * block_bytes_);
    list_ = std::make_unique<OnDevice<std::byte*>>(list_of_blocks_);
    cache_.blocks = list_->get();
  }

  CacheShape shape_;
  int blocks_;
  cuda::Cache cache_;
  std::size_t block_bytes_ = 0;
  std::vector<std::size_t> place_of_;
  std::vector<std::byte> host_;
  std::vector<float> keys_, values_;
  std::unique_ptr<OnDevice<std::byte>> memory_;
  std::vector<std::byte*> list_of_blocks_;
  std::unique_ptr<OnDevice<std::byte*>> list_;
};

/// The first token that the one at `position` sees; negative windows are pieces of the context.
inline int first_attended(int position, int window) {
  if (window < 0) return position / -window * -window;
  return window > 0 ? std::max(0, position + 1 - window) : 0;
}

/// Sinks of heads: less than all scores together, and more.
inline std::vector<float> sinks_of(int heads) {
  std::vector<float> sinks = normal_values(std::size_t(heads), 31, 4);
  sinks[0] = -INFINITY;  // none
  return sinks;
}

/// One query's attention output, and its tolerance.
struct Expected {
  std::vector<double> out, bound;
};

/// Attention over tokens [from, to), with base-2 scores. The bound, with A = attention over
/// |values|: probabilities are rounded to FP16 (2^-11 of each), powers of two are within 2^-21,
/// scores and sums are F32 on tensor cores, which truncate aligned terms: 2^-22 of the magnitudes
/// for every product of 16. An error of scores counts twice, above and below the fraction. `cap`:
/// the soft bound of scores that are exponents of e; its tanh is within 2^-20. `sink`: a score that
/// no value has, likewise an exponent of e. `of_query`: the relative error of the query's elements.
inline Expected attention_in_double(const float* query, const CacheData& cache, int head, int dim,
                                    int from, int to, double cap = 0, double sink = -INFINITY,
                                    double of_query = 0) {
  const double bound = cap * 1.4426950408889634;
  std::vector<double> p;
  double most = -INFINITY, magnitude = 0, sum = 0;
  for (int t = from; t < to; ++t) {
    double score = 0, all = 0;
    for (int i = 0; i < dim; ++i) {
      const double product = double(query[i]) * double(cache.key(head, t)[i]);
      score += product;
      all += std::abs(product);
    }
    p.push_back(cap > 0 ? bound * std::tanh(score / bound) : score);
    most = std::max(most, p.back());
    magnitude = std::max(magnitude, all);
  }
  for (double& x : p) sum += x = std::exp2(x - most);
  sum += std::exp2(sink * 1.4426950408889634 - most);
  const double of_score =
      0.7 * (magnitude * (0x1p-22 * (dim / 16 + 1) + of_query) + std::abs(bound) * 0x1p-20);
  const double relative = 0x1p-11 + 0x1p-21 + 2 * of_score + 0x1p-22 * ((to - from) / 16 + 8);
  Expected e{std::vector<double>(std::size_t(dim)), std::vector<double>(std::size_t(dim))};
  for (int t = from; t < to; ++t)
    for (int i = 0; i < dim; ++i) {
      const double part = p[std::size_t(t - from)] / sum * double(cache.value(head, t)[i]);
      e.out[std::size_t(i)] += part;
      e.bound[std::size_t(i)] += std::abs(part) * relative;
    }
  return e;
}

/// Statistics of many values: the largest error relative to its bound, and the mean square error
/// relative to the expected one.
struct Compared {
  double worst = 0;  // error / bound
  double errors = 0, squares = 0;

  void add(double got, double expected, double bound) {
    const double error = std::abs(got - expected);
    const double share = error == 0 ? 0 : error / bound;  // a value of 0 has a bound of 0
    worst = share <= worst ? worst : std::isnan(share) ? double(INFINITY) : share;
    errors += error * error;
    squares += expected * expected;
  }
  double nmse() const { return errors / squares; }
};

}  // namespace rigcast::engine::fixtures
