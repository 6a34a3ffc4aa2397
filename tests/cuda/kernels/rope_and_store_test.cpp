#include "engine/kernels/cuda/kv/rope_and_store.cuh"

#include "engine/kernels/cuda/attention/decode_attention.cuh"
#include "engine/kernels/ref/ops.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/kernels/cache_data.cuh"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

struct Case {
  int heads = 6, kv_heads = 2, dim = 128, tokens = 1, position = 0;
  int rope_dims = 128;
  RopePairs pairs = RopePairs::kInterleaved;
  bool biases = false, norms = false;
  bool layer_norms = false;  // those subtract the mean, with weights of all heads
  bool norms_rotated = false, plain_norms = false, value_norms = false, stores = true;
  QuantFormat k = QuantFormat::kF16, v = QuantFormat::kF16;
  float magnitude = 1;  // of rotated pairs
  float score_scale = 0;
  cuda::QueryTemperature temperature{};
};

constexpr float kEps = 1e-5f;

// The model's F32 values before further rounding, for one of q, k and v.
struct Rows {
  std::vector<float> rows, bias, norm;
  int heads = 0, stride = 0;

  Rows(const Case& c, int heads_, unsigned seed) : heads(heads_), stride(heads_ * c.dim + 8) {
    rows = normal_values(std::size_t(c.tokens * stride), seed);
    if (c.biases) bias = normal_values(std::size_t(heads * c.dim), seed + 1);
    if (c.norms) norm = normal_values(std::size_t((c.layer_norms ? heads : 1) * c.dim), seed + 2);
  }

  std::vector<float> head(const Case& c, int token, int index, bool turned) const {
    const std::size_t dim = std::size_t(c.dim);
    const auto* from = rows.data() + token * stride + index * c.dim;
    std::vector<float> x(from, from + dim);
    for (std::size_t i = 0; i < dim && !bias.empty(); ++i)
      x[i] += bias[std::size_t(index) * dim + i];
    if (!turned) return x;
    if (c.layer_norms)
      ref::layer_norm(x, std::span(norm).subspan(std::size_t(index) * dim, dim), {}, kEps, x);
    else if (!norm.empty() && !c.norms_rotated)
      ref::rms_norm(x, norm, kEps, x);
    ref::rope(x, c.position + token, {c.pairs, c.rope_dims, 500000.0f});
    for (int i = 0; i < c.rope_dims; ++i) x[std::size_t(i)] *= c.magnitude;
    if (!norm.empty() && c.norms_rotated) ref::rms_norm(x, norm, kEps, x);
    if (c.plain_norms) ref::rms_norm(x, std::vector<float>(dim, 1.0f), kEps, x);
    return x;
  }
};

std::vector<double> frequencies_of(const Case& c) {
  std::vector<double> f;
  for (int i = 0; i < c.rope_dims / 2; ++i) f.push_back(std::pow(500000.0, -2.0 * i / c.rope_dims));
  return f;
}

struct Sent {
  OnDevice<float> rows, bias, norm;
  cuda::ProjectedRows view;

  explicit Sent(const Rows& from) : rows(from.rows), bias(from.bias), norm(from.norm) {
    view = {rows.get(), from.stride, from.bias.empty() ? nullptr : bias.get()};
  }
};

// What kernels read, with the angles computed.
struct Prepared {
  Sent q, k, v;
  OnDevice<double> frequencies;
  OnDevice<int> position;
  OnDevice<cuda::RopeAngle> rope_cos_sin;
  cuda::NewTokenInputs inputs;

  Prepared(const Case& c, const Rows& q_, const Rows& k_, const Rows& v_)
      : q(q_),
        k(k_),
        v(v_),
        frequencies(frequencies_of(c)),
        position(std::vector<int>{c.position}),
        rope_cos_sin(std::size_t(c.tokens * c.rope_dims / 2)) {
    inputs.q = q.view, inputs.k = k.view, inputs.v = v.view;
    inputs.heads = c.heads;
    if (c.norms) inputs.q_norm = q.norm.get(), inputs.k_norm = k.norm.get();
    inputs.norm_eps = kEps;
    inputs.layer_norms = c.layer_norms;
    inputs.norms_rotated = c.norms_rotated || c.plain_norms;
    inputs.plain_norms = c.plain_norms;
    inputs.plain_value_norms = c.value_norms;
    inputs.stores = c.stores;
    inputs.pairs = c.pairs;
    inputs.rope_dims = c.rope_dims;
    inputs.score_scale = c.score_scale;
    inputs.temperature = c.temperature;
    const Stream stream;
    cuda::compute_rope_angles(stream, frequencies.get(), c.rope_dims / 2, c.tokens,
                              {position.get()}, rope_cos_sin.get(), c.magnitude);
    stream.wait();
    inputs.rope_cos_sin = rope_cos_sin.get();
  }
};

struct Placed {
  std::vector<float> queries;
  std::vector<std::byte> memory;
};

Placed run(const Case& c, const CacheData& data, const Prepared& p) {
  const OnDevice<std::uint16_t> queries(std::size_t(c.tokens * c.heads * c.dim));
  const Stream stream;
  cuda::rope_and_store(stream, p.inputs, data.on_device(), CacheData::kLayer, c.tokens,
                       {p.position.get()}, reinterpret_cast<__half*>(queries.get()));
  stream.wait();
  return {halves_to_floats(queries.read()), data.read()};
}

// F32's own error: magnitudes stay below 16, also of a norm times its weight, and are rounded six
// times, 2^-24 each.
constexpr double kFloat = 16 * 6 * 0x1p-24;

// The factor on queries before they are rounded.
double query_factor(const Case& c, int position) {
  const double scale = c.score_scale == 0 ? 1 / std::sqrt(double(c.dim)) : double(c.score_scale);
  const double steps =
      std::floor((position + double(c.temperature.offset)) / double(c.temperature.length));
  return 1.4426950408889634 * scale * (1 + double(c.temperature.growth) * std::log1p(steps));
}

// Half a step of the type about `x`, in a block whose largest magnitude is `most`.
double half_step(QuantFormat type, double x, double most) {
  if (type == QuantFormat::kF16) return std::abs(x) * 0x1p-11 + 0x1p-25;
  const double d = most / (type == QuantFormat::kQ8_0 ? 127 : 8);
  // The step is rounded to FP16: the largest codes move by 127, or 8, times its error. A Q4_0 block
  // has no code for +8 steps: such a value is off by a whole step.
  return type == QuantFormat::kQ8_0 ? d * (0.5 + 127 * 0x1p-11) : d * (1 + 8 * 0x1p-11);
}

void check_row(const Case& c, QuantFormat type, const std::byte* got, const std::vector<float>& x) {
  std::vector<float> seen(std::size_t(c.dim));
  ref::dequantize(type, got, seen);
  const std::size_t block = info(type).block_elements;
  Compared compared;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t first = i / block * block;
    double most = 0;
    for (std::size_t k = first; k < first + block; ++k)
      most = std::max(most, std::abs(double(x[k])));
    compared.add(double(seen[i]), double(x[i]),
                 half_step(type, double(x[i]), most) + kFloat * double(c.magnitude));
  }
  CHECK(compared.worst <= 1);
}

// The rows of the case's token t in the cache's memory.
void check_stored(const Case& c, const CacheData& data, const std::vector<std::byte>& memory,
                  const Rows& k, const Rows& v, int t) {
  for (int h = 0; h < c.kv_heads; ++h) {
    check_row(c, c.k, data.row(memory, h, c.position + t, false), k.head(c, t, h, true));
    std::vector<float> x = v.head(c, t, h, false);
    if (c.value_norms) {
      ref::rms_norm(x, std::vector<float>(x.size(), 1.0f), kEps, x);
      check_row(c, c.v, data.row(memory, h, c.position + t, true), x);
      continue;
    }
    // Values are rounded as they are: to the same bits.
    std::vector<std::byte> row(std::size_t(data.on_device().v_row));
    ref::quantize(c.v, x, row.data());
    CHECK(std::equal(row.begin(), row.end(), data.row(memory, h, c.position + t, true)));
  }
}

// Decode attention computes a token's heads itself. It sees some tokens with the queries, which
// may be rounded to the neighbours of those that were placed.
void check_decode(const Case& c, const Rows& k, const Rows& v, const Prepared& p,
                  const std::vector<float>& queries) {
  constexpr int kWindow = 40, kSplits = 2;
  CacheShape shape{c.kv_heads,     c.dim, std::max(0, c.position + 1 - kWindow),
                   c.position + 1, c.k,   c.v};
  shape.newest = !c.stores;
  CacheData data(shape);
  const std::vector<std::byte> before = data.read();
  const auto heads = std::size_t(c.heads), width = heads * std::size_t(c.dim);
  const OnDevice<float> m(kSplits * heads), l(kSplits * heads), o(kSplits * width), out(width);
  const OnDevice<unsigned> arrivals(std::vector<unsigned>(heads, 0));
  const Stream stream;
  cuda::attend_and_merge(stream, {p.inputs, kWindow}, data.on_device(), CacheData::kLayer, kSplits,
                         p.position.get(), {m.get(), l.get(), o.get()},
                         {{{}, out.get()}, nullptr, arrivals.get()});
  stream.wait();
  const std::vector<std::byte> memory = data.read();
  if (c.stores)
    check_stored(c, data, memory, k, v, 0);
  else
    CHECK(memory == before);
  data.take_newest();
  const std::vector<float> got = out.read();
  Compared compared;
  for (std::size_t h = 0; h < heads; ++h) {
    const std::size_t at = h * std::size_t(c.dim);
    const Expected e =
        attention_in_double(queries.data() + at, data, int(h) / (c.heads / c.kv_heads), c.dim,
                            shape.from, shape.tokens, 0, -INFINITY, 0x1p-10);
    for (std::size_t i = 0; i < e.out.size(); ++i)
      compared.add(double(got[at + i]), e.out[i], e.bound[i]);
  }
  CHECK(compared.worst <= 1);
}

void check(const Case& c) {
  INFO("dim " << c.dim << " tokens " << c.tokens << " position " << c.position << " types "
              << int(c.k) << " " << int(c.v) << " rotated " << c.rope_dims);
  CacheShape shape{c.kv_heads, c.dim, 0, 0, c.k, c.v};
  shape.order = 3;
  shape.room = c.position + c.tokens;
  const CacheData data(shape);
  const Rows q(c, c.heads, 11), k(c, c.kv_heads, 21), v(c, c.kv_heads, 31);
  const Prepared prepared(c, q, k, v);
  const std::vector<std::byte> before = data.read();
  const Placed placed = run(c, data, prepared);
  if (!c.stores) CHECK(placed.memory == before);
  Compared queries;
  for (int t = 0; t < c.tokens; ++t) {
    const double scale = query_factor(c, c.position + t);
    for (int h = 0; h < c.heads; ++h) {
      const std::vector<float> x = q.head(c, t, h, true);
      const float* got = placed.queries.data() + std::size_t((t * c.heads + h) * c.dim);
      for (std::size_t i = 0; i < x.size(); ++i)
        queries.add(double(got[i]), double(x[i]) * scale,
                    half_step(QuantFormat::kF16, double(x[i]) * scale, 0) +
                        kFloat * double(c.magnitude) * scale);
    }
    if (c.stores) check_stored(c, data, placed.memory, k, v, t);
  }
  CHECK(queries.worst <= 1);
  if (c.tokens == 1) check_decode(c, k, v, prepared, placed.queries);
}

}  // namespace

TEST_CASE("RoPE rotates queries, and keys and values are stored in the cache's blocks",
          "[cuda][gpu]") {
  for (const RopePairs pairs : {RopePairs::kInterleaved, RopePairs::kNeox})
    for (const int position : {0, 1, 127, 1000, 131071})
      for (const int tokens : {1, 5, 40}) {
        Case c;
        c.pairs = pairs;
        c.position = position;
        c.tokens = tokens;
        if (position > 10000) c.heads = 3, c.kv_heads = 1, c.dim = c.rope_dims = 64;
        check(c);
      }
}

TEST_CASE("Biases and norms of heads come before turning", "[cuda][gpu]") {
  for (const int dim : {64, 80, 128, 256, 512}) {
    Case c;
    c.dim = dim;
    c.rope_dims = dim == 80 ? 32 : dim;
    c.position = 250;
    c.biases = true;
    c.norms = dim != 64;
    c.pairs = RopePairs::kNeox;
    for (const int tokens : {1, 33}) {
      c.tokens = tokens;
      check(c);
    }
  }
}

TEST_CASE("Norms of heads that subtract the mean have weights of all heads",
          "[cuda][gpu][traits]") {
  for (const int tokens : {1, 40}) {
    Case c;
    c.tokens = tokens;
    c.position = 250;
    c.norms = c.layer_norms = true;
    check(c);
  }
}

TEST_CASE("Norms of heads may be behind the rotation, of values, or without weights",
          "[cuda][gpu][traits]") {
  for (const int dim : {128, 512})
    for (const int tokens : {1, 40}) {
      Case c;
      c.dim = c.rope_dims = dim;
      c.tokens = tokens;
      c.position = 250;
      c.norms = c.norms_rotated = true;
      check(c);
      c.norms_rotated = false;
      c.value_norms = true;
      check(c);
      c.norms = c.value_norms = false;
      c.plain_norms = true;
      c.temperature = {0.1f, 64, 1};
      check(c);
      c.stores = false;
      check(c);
    }
}

TEST_CASE("A part of a head turns, or nothing of it, with queries of the model's own scale",
          "[cuda][gpu][traits]") {
  for (const RopePairs pairs : {RopePairs::kInterleaved, RopePairs::kNeox})
    for (const int rope_dims : {0, 4, 10, 32, 96, 128})
      for (const int tokens : {1, 40}) {
        Case c;
        c.pairs = pairs;
        c.rope_dims = rope_dims;
        c.tokens = tokens;
        c.position = 250;
        c.score_scale = 0.03f;
        c.temperature = {0.1f, 64};
        check(c);
        c.magnitude = 1.25f;
        check(c);
      }
}

TEST_CASE("Every pair of cache types is written as the CPU writes it", "[cuda][gpu]") {
  const QuantFormat types[] = {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0};
  for (const QuantFormat k : types)
    for (const QuantFormat v : types)
      for (const int dim : {64, 96, 128}) {
        Case c;
        c.k = k, c.v = v;
        c.dim = c.rope_dims = dim;
        c.position = 100;
        for (const int tokens : {1, 70}) {
          c.tokens = tokens;
          check(c);
        }
      }
}

TEST_CASE("A token's heads are computed in several rounds where there are many", "[cuda][gpu]") {
  for (const int group : {1, 14, 15, 16, 40})
    for (const int dim : {16, 80, 128, 192, 512}) {
      Case c;
      c.heads = group * c.kv_heads;
      c.dim = c.rope_dims = dim;
      c.position = 77;
      c.norms = true;
      c.pairs = RopePairs::kNeox;
      check(c);
    }
}
