#include "engine/kernels/cuda/attention/decode_attention.cuh"

#include "engine/kernels/cpu/quantized_activations.hpp"
#include "engine/kernels/cuda/attention/merge_partials.cuh"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"
#include "tests/catch.hpp"
#include "tests/cuda/kernels/cache_data.cuh"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

struct Decode {
  CacheShape cache;
  int group = 4;
  int splits = 3;
  int window = 0;
  bool inputs_ready = false;
  float spread = 1;  // of the queries: larger ones make few tokens count
  float cap = 0;     // of scores
  float score_scale = 0;
  cuda::QueryTemperature temperature{};
  bool sinks = false;
  bool stored = false;  // the new token's keys and values, by another layer
  bool apart = false;   // partial results are merged by another kernel
  int max_tokens = 0;

  int newest() const { return cache.tokens - 1; }
};

// The new token's projected [queries | keys | values]. RoPE is not applied here; it has tests of
// its own.
struct Projected {
  std::vector<float> rows;
  int q_width, kv_width;

  explicit Projected(const Decode& d)
      : q_width(d.cache.kv_heads * d.group * d.cache.dim),
        kv_width(d.cache.kv_heads * d.cache.dim) {
    rows = normal_values(std::size_t(q_width), 7, d.spread);
    const std::vector<float> kv = normal_values(std::size_t(2 * kv_width), 8);
    rows.insert(rows.end(), kv.begin(), kv.end());
  }

  cuda::NewTokenInputs placement(const Decode& d, const float* on_device) const {
    cuda::NewTokenInputs p;
    p.q.rows = on_device;
    p.k.rows = on_device + q_width;
    p.v.rows = on_device + q_width + kv_width;
    p.heads = d.cache.kv_heads * d.group;
    p.score_scale = d.score_scale;
    p.temperature = d.temperature;
    p.stores = !d.stored;
    return p;
  }

  // As they are multiplied with keys.
  std::vector<float> queries(const Decode& d) const {
    std::vector<float> scaled(rows.begin(), rows.begin() + q_width);
    const double growth = double(d.temperature.growth), length = double(d.temperature.length);
    const auto factor = float(1 + growth * std::log1p(std::floor(d.newest() / length)));
    const float scale = cuda::query_scale(placement(d, nullptr), d.cache.dim);
    for (float& x : scaled) x *= scale * factor;
    return halves_to_floats(floats_to_halves(scaled));
  }
};

struct Answer {
  std::vector<float> out, scale, sum16;
  std::vector<std::int8_t> q;
};

// All memory that is written begins as NaNs.
Answer run(const Decode& d, CacheData& data) {
  const Stream stream;
  const int heads = d.cache.kv_heads * d.group;
  const std::size_t width = std::size_t(heads * d.cache.dim), splits = std::size_t(d.splits);
  const Projected projected(d);
  const OnDevice<float> rows(projected.rows);
  const OnDevice<int> position(std::vector<int>{d.cache.tokens - 1});
  const OnDevice<float> m(splits * std::size_t(heads)), l(splits * std::size_t(heads)),
      o(splits * width), out(width), scale(width / 32), sum16(width / 16);
  const OnDevice<std::int8_t> q(width);
  const OnDevice<float> sinks(sinks_of(heads));
  const cuda::Partials partials{m.get(), l.get(), o.get()};
  const OnDevice<unsigned> arrivals(std::vector<unsigned>(std::size_t(heads), 0));
  cuda::DecodeAttention attention{projected.placement(d, rows.get()), d.window, d.inputs_ready};
  attention.cap = cuda::SoftCap::of(d.cap);
  attention.max_tokens = d.max_tokens;
  const cuda::MergedHeads to{{{q.get(), scale.get(), sum16.get()}, out.get()},
                             d.sinks ? sinks.get() : nullptr,
                             arrivals.get()};
  const cuda::Cache cache = data.on_device();
  if (d.apart) {
    cuda::attend_partially(stream, attention, cache, CacheData::kLayer, d.splits, position.get(),
                           partials);
    cuda::merge_partials(stream, partials, d.splits, heads, d.cache.dim, to.out, to.sinks);
  } else {
    for (int time = 0; time < 2; ++time)  // counters are ready for another launch
      cuda::attend_and_merge(stream, attention, cache, CacheData::kLayer, d.splits, position.get(),
                             partials, to);
  }
  stream.wait();
  for (const unsigned count : arrivals.read()) CHECK(count == 0);
  data.take_newest();
  return {out.read(), scale.read(), sum16.read(), q.read()};
}

CacheData data_of(const Decode& d) {
  CacheShape shape = d.cache;
  shape.newest = d.stored;
  return CacheData(shape);
}

Compared compare(const Decode& d, const CacheData& data, const std::vector<float>& out) {
  const std::vector<float> queries = Projected(d).queries(d);
  Compared c;
  const int to = d.cache.tokens, from = first_attended(to - 1, d.window);
  const int heads = d.cache.kv_heads * d.group;
  const std::vector<float> sinks = sinks_of(heads);
  for (int head = 0; head < heads; ++head) {
    const std::size_t at = std::size_t(head * d.cache.dim);
    const double sink = d.sinks ? double(sinks[std::size_t(head)]) : -INFINITY;
    const Expected e = attention_in_double(queries.data() + at, data, head / d.group, d.cache.dim,
                                           from, to, double(d.cap), sink);
    for (std::size_t i = 0; i < e.out.size(); ++i) c.add(double(out[at + i]), e.out[i], e.bound[i]);
  }
  return c;
}

void check(const Decode& d) {
  INFO("tokens " << d.cache.tokens << " group " << d.group << " dim " << d.cache.dim << " splits "
                 << d.splits << " window " << d.window << " types " << int(d.cache.k) << " "
                 << int(d.cache.v));
  for (const bool apart : {false, true}) {
    Decode by = d;
    by.apart = apart;
    CacheData data = data_of(d);
    const std::vector<float> out = run(by, data).out;
    const Compared c = compare(d, data, out);
    CHECK(c.worst <= 1);
    CHECK(c.nmse() <= 1e-6);
  }
}

// What sums of so many terms may differ in by their order: each is a weight times a value of a
// normal distribution, below 6, and weights add up to 1. Four roundings more are of the division;
// both sums have an error.
double bound_of_order(int terms) { return 2 * (terms + 4) * 6 * 0x1p-24; }

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(double(a[i]) - double(b[i])));
  return largest;
}

Decode of_tokens(int tokens) {
  Decode d;
  d.cache.tokens = tokens;
  return d;
}

}  // namespace

TEST_CASE("Decode attention is that of double precision at any length, with splits that are empty",
          "[cuda][gpu]") {
  for (const int tokens : {1, 31, 33, 127, 128, 129, 1000, 4097})
    for (const int splits : {1, 7, 32}) {
      Decode d = of_tokens(tokens);
      d.splits = splits;
      check(d);
    }
}

TEST_CASE("Decode attention serves groups of any size and odd numbers of heads", "[cuda][gpu]") {
  for (const int group : {1, 2, 3, 4, 7, 8, 12, 16, 20, 33})
    for (const int kv_heads : {1, 3}) {
      Decode d = of_tokens(300);
      d.group = group;
      d.cache.kv_heads = kv_heads;
      check(d);
    }
}

TEST_CASE("Decode attention takes heads of any width", "[cuda][gpu]") {
  for (const int dim : {8, 32, 64, 72, 80, 96, 112, 128, 192, 256, 264, 320, 512}) {
    Decode d = of_tokens(200);
    d.cache.dim = dim;
    check(d);
  }
}

TEST_CASE("Decode attention sees no further than its window, and reads nothing before it",
          "[cuda][gpu]") {
  for (const int tokens : {1, 100, 1000})
    for (const int window : {1, 16, 100, 129, 1024}) {
      Decode d = of_tokens(tokens);
      d.window = window;
      d.cache.from = std::max(0, tokens - window);  // NaNs before
      check(d);
    }
}

TEST_CASE("Decode attention sees the piece of the context in which it is", "[cuda][gpu][traits]") {
  for (const int tokens : {1, 48, 49, 100, 1000})
    for (const int piece : {1, 16, 48, 100, 8192})
      for (const QuantFormat type : {QuantFormat::kF16, QuantFormat::kQ8_0}) {
        Decode d = of_tokens(tokens);
        d.cache.k = d.cache.v = type;
        d.window = -piece;
        d.cache.from = (tokens - 1) / piece * piece;  // NaNs before
        check(d);
      }
}

TEST_CASE("Decode attention reads what another layer has stored", "[cuda][gpu][traits]") {
  for (const int tokens : {1, 16, 17, 300})
    for (const int dim : {128, 512})
      for (const QuantFormat type : {QuantFormat::kF16, QuantFormat::kQ8_0})
        for (const int window : {0, 100}) {
          Decode d = of_tokens(tokens);
          d.cache.k = d.cache.v = type;
          d.cache.dim = dim;
          d.window = window;
          d.stored = true;
          const CacheData before = data_of(d);
          CacheData data = data_of(d);
          const std::vector<float> out = run(d, data).out;
          CHECK(compare(d, data, out).worst <= 1);
          CHECK(data.read() == before.read());
        }
}

TEST_CASE("Decode attention reads every pair of cache types", "[cuda][gpu]") {
  const QuantFormat types[] = {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0};
  for (const QuantFormat k : types)
    for (const QuantFormat v : types)
      for (const int dim : {64, 96, 128, 256, 512}) {
        Decode d = of_tokens(333);
        d.cache.k = k;
        d.cache.v = v;
        d.cache.dim = dim;
        d.window = dim == 96 ? 150 : 0;
        d.cache.from = dim == 96 ? 183 : 0;
        check(d);
      }
}

TEST_CASE("Decode attention is right where few tokens count", "[cuda][gpu]") {
  for (const float spread : {0.0f, 4.0f, 16.0f}) {
    Decode d = of_tokens(1500);
    d.spread = spread;
    check(d);
  }
}

TEST_CASE("Decode attention bounds its scores softly", "[cuda][gpu][traits]") {
  for (const QuantFormat type : {QuantFormat::kF16, QuantFormat::kQ8_0})
    for (const int dim : {64, 256})
      for (const float cap : {2.0f, 50.0f})
        for (const float spread : {1.0f, 20.0f}) {
          Decode d = of_tokens(700);
          d.cache.k = d.cache.v = type;
          d.cache.dim = dim;
          d.window = dim == 64 ? 150 : 0;
          d.cap = cap;
          d.spread = spread;
          check(d);
        }
}

TEST_CASE("Decode attention counts each head's sink once", "[cuda][gpu][traits]") {
  for (const QuantFormat type : {QuantFormat::kF16, QuantFormat::kQ8_0})
    for (const int tokens : {1, 130, 1000})
      for (const int splits : {1, 7})
        for (const int window : {0, 128}) {
          Decode d = of_tokens(tokens);
          d.cache.k = d.cache.v = type;
          d.cache.dim = 64;
          d.group = 8;
          d.splits = splits;
          d.window = window;
          d.sinks = true;
          check(d);
        }
}

TEST_CASE("Decode attention has the model's own scale of scores, and one that grows",
          "[cuda][gpu][traits]") {
  for (const int tokens : {1, 90, 1000}) {
    Decode d = of_tokens(tokens);
    d.score_scale = 0.05f;
    check(d);
    d.temperature = {0.1f, 64};
    check(d);
  }
}

// Probabilities are bit-identical for any split of tokens; sums differ only in their order.
TEST_CASE("Any number of splits gives the same attention output within a millionth",
          "[cuda][gpu]") {
  Decode d = of_tokens(4097);
  CacheData data = data_of(d);
  d.splits = 1;
  const std::vector<float> one = run(d, data).out;
  for (const int splits : {2, 7, 32, 66}) {
    d.splits = splits;
    const std::vector<float> some = run(d, data).out;
    CHECK(largest_difference(one, some) <= 1e-6);
    d.inputs_ready = true;
    CHECK(run(d, data).out == some);
    d.inputs_ready = false;
  }
}

TEST_CASE("Decode attention gives the same bits wherever blocks lie and however long they are",
          "[cuda][gpu]") {
  Decode d = of_tokens(1000);
  CacheData data = data_of(d);
  const std::vector<float> straight = run(d, data).out;
  for (const int block_tokens : {16, 48, 128, 1024}) {
    d.cache.block_tokens = block_tokens;
    d.cache.order = 5;
    CacheData other = data_of(d);
    CHECK(run(d, other).out == straight);
  }
}

TEST_CASE("A merge rounds to integers as the CPU does", "[cuda][gpu]") {
  for (const int dim : {32, 80, 96, 128, 512})
    for (const int group : {1, 3, 12, 20})
      for (const int splits : {1, 8, 20, 64})
        for (const bool apart : {false, true}) {
          Decode d = of_tokens(77);
          d.group = group;
          d.splits = splits;
          d.cache.dim = dim;
          d.apart = apart;
          CacheData data = data_of(d);
          const Answer answer = run(d, data);
          cpu::QuantizedRow row;
          row.resize(std::int64_t(answer.out.size()));
          cpu::quantize_row(answer.out, row);
          CHECK(std::equal(answer.q.begin(), answer.q.end(), row.q.begin()));
          CHECK(std::equal(answer.scale.begin(), answer.scale.end(), row.scale.begin()));
          CHECK(std::equal(answer.sum16.begin(), answer.sum16.end(), row.sum16.begin()));
        }
}

TEST_CASE("Splits are merged by the last thread block or by another kernel, to the same values",
          "[cuda][gpu]") {
  for (const int tokens : {5, 300, 2000})
    for (const int splits : {1, 7, 8, 9, 16, 17, 33, 63, 64, 65})
      for (const int group : {1, 4, 8, 24}) {
        Decode d = of_tokens(tokens);
        d.group = group;
        d.splits = splits;
        d.cache.dim = 64;
        d.sinks = group == 8;
        CacheData data = data_of(d);
        const std::vector<float> together = run(d, data).out;
        d.apart = true;
        const std::vector<float> apart = run(d, data).out;
        CHECK(largest_difference(together, apart) <= bound_of_order(splits));
      }
}

// Thread blocks may have more warps then: sums are in another order.
TEST_CASE("Attention to a context of known length has less shared memory, and the same values",
          "[cuda][gpu]") {
  const QuantFormat types[] = {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0};
  for (const QuantFormat type : types)
    for (const int dim : {32, 64, 96, 128, 256, 512})
      for (const int tokens : {1, 16, 17, 129, 500, 512, 1100})
        for (const int splits : {1, 2, 8, 16}) {
          Decode d = of_tokens(tokens);
          d.cache.k = d.cache.v = type;
          d.cache.dim = dim;
          d.splits = splits;
          d.max_tokens = tokens;
          CacheData data = data_of(d);
          const std::vector<float> known = run(d, data).out;
          CHECK(compare(d, data, known).worst <= 1);
          d.max_tokens = 0;
          const std::vector<float> any = run(d, data).out;
          CHECK(largest_difference(known, any) <= bound_of_order(6 * splits));
        }
}

TEST_CASE("Groups of many heads are divided among blocks of a short context", "[cuda][gpu]") {
  for (const QuantFormat type : {QuantFormat::kF16, QuantFormat::kQ8_0})
    for (const int group : {1, 5, 8, 16, 17})
      for (const int splits : {1, 8}) {
        Decode d = of_tokens(300);
        d.cache.k = d.cache.v = type;
        d.group = group;
        d.splits = splits;
        d.sinks = group == 8;
        d.max_tokens = 300;
        CacheData data = data_of(d);
        CHECK(compare(d, data, run(d, data).out).worst <= 1);
      }
}

TEST_CASE("A merge leaves out partials of nothing, whatever they hold", "[cuda][gpu]") {
  const float kNan = NAN;
  const std::size_t width = 32;
  std::vector<float> o(3 * width, kNan);
  for (std::size_t i = 0; i < width; ++i) o[i] = 3, o[2 * width + i] = 8;
  const OnDevice<float> m(std::vector<float>{1, -INFINITY, 3}), l(std::vector<float>{1, 0, 2}),
      mixes(o), out(width);
  const Stream stream;
  cuda::merge_partials(stream, {m.get(), l.get(), mixes.get()}, 3, 1, 32, {{}, out.get()});
  stream.wait();
  // (3 / 4 + 8) / (1 / 4 + 2)
  for (const float x : out.read()) CHECK(double(x) == Approx(8.75 / 2.25).epsilon(1e-6));
}

TEST_CASE("A merge counts a sink once, and nothing else where all partials are empty",
          "[cuda][gpu][traits]") {
  const std::size_t width = 64;
  std::vector<float> o(2 * width, 3);
  for (std::size_t i = 0; i < width; ++i) o[width + i] = 8;
  // Of the second head both are empty.
  const OnDevice<float> m(std::vector<float>{1, -INFINITY, 3, -INFINITY}),
      l(std::vector<float>{1, 0, 2, 0}), mixes(o), out(width),
      sinks(std::vector<float>{float(std::log(2.0) * 4), 1});
  const Stream stream;
  cuda::merge_partials(stream, {m.get(), l.get(), mixes.get()}, 2, 2, 32, {{}, out.get()},
                       sinks.get());
  stream.wait();
  const std::vector<float> got = out.read();
  // (3 / 4 + 8) / (1 / 4 + 2 + 2)
  for (std::size_t i = 0; i < 32; ++i) CHECK(double(got[i]) == Approx(8.75 / 4.25).epsilon(1e-6));
  for (std::size_t i = 32; i < width; ++i) CHECK(got[i] == 0);
}

TEST_CASE("Splits fill the GPU and none is without work", "[cuda]") {
  CHECK(cuda::attention_splits(1, 8, 128, 132) == 1);
  CHECK(cuda::attention_splits(512, 8, 128, 132) == 8);
  CHECK(cuda::attention_splits(32768, 8, 128, 132) == 33);
  CHECK(cuda::attention_splits(32768, 8, 256, 132) == 16);
  CHECK(cuda::attention_splits(32768, 4, 512, 132) == 16);
  CHECK(cuda::attention_splits(32768, 8, 128, 132, false) == 49);
  CHECK(cuda::attention_splits(32768, 300, 128, 132) == 1);
  CHECK(cuda::max_tokens_of_splits(8, 8, 128, 132) == 512);
  CHECK(cuda::max_tokens_of_splits(33, 8, 128, 132) == 0);
  for (const int dim : {64, 128, 256, 512})
    for (const bool fp16 : {false, true})
      for (int tokens = 1; tokens < 5000; tokens += 37) {
        const int splits = cuda::attention_splits(tokens, 8, dim, 132, fp16);
        const int most = cuda::max_tokens_of_splits(splits, 8, dim, 132, fp16);
        CHECK((most == 0 || most >= tokens));
      }
}
