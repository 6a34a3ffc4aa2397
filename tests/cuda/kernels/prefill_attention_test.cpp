#include "engine/kernels/cuda/attention/prefill_attention.cuh"

#include "engine/kernels/cuda/activations/tile_order.hpp"
#include "engine/kernels/cuda/kv/rope_and_store.cuh"
#include "tests/catch.hpp"
#include "tests/cuda/kernels/cache_data.cuh"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

struct Prefill {
  CacheShape cache;
  int tokens = 0;  // the last of the cache's
  int group = 4;
  int window = 0;
  int checked_every = 1;  // tokens
  float spread = 1;
  int shared_bytes = 0;
  float cap = 0;
  bool sinks = false;
  int context = 0;               // 0: contexts are not cut into splits
  int partial_rows = 512;        // the memory for partial results
  int first_row = 0, tiled = 0;  // of the output
};

std::vector<float> queries_of(const Prefill& p) {
  const int width = p.cache.kv_heads * p.group * p.cache.dim;
  const float scale = p.spread * cuda::query_scale(p.cache.dim);
  return halves_to_floats(floats_to_halves(normal_values(std::size_t(p.tokens * width), 9, scale)));
}

std::vector<std::uint16_t> run(const Prefill& p, const CacheData& data) {
  const Stream stream;
  const OnDevice<std::uint16_t> queries(floats_to_halves(queries_of(p)));
  const OnDevice<int> position(std::vector<int>{p.cache.tokens - p.tokens});
  const int rows = p.tiled > 0 ? cuda::padded_tokens(p.first_row + p.tokens) : p.tokens;
  const OnDevice<std::uint16_t> out(std::size_t(rows) * queries.size() / std::size_t(p.tokens));
  const int heads = p.cache.kv_heads * p.group;
  const OnDevice<float> sinks(sinks_of(heads));
  const OnDevice<float> partials(
      std::vector<float>(std::size_t(p.partial_rows * heads * (p.cache.dim + 2)), NAN));
  cuda::attend_causally(
      stream,
      {reinterpret_cast<const __half*>(queries.get()), p.tokens, heads, p.window, p.shared_bytes,
       cuda::SoftCap::of(p.cap), p.sinks ? sinks.get() : nullptr, partials.get(),
       p.context > 0 ? std::int64_t(partials.size()) : 0, p.context},
      data.on_device(), CacheData::kLayer, position.get(),
      {reinterpret_cast<__half*>(out.get()), p.first_row, p.tiled});
  stream.wait();
  return out.read();
}

void check(const Prefill& p) {
  INFO("tokens " << p.tokens << " of " << p.cache.tokens << " group " << p.group << " dim "
                 << p.cache.dim << " window " << p.window << " types " << int(p.cache.k) << " "
                 << int(p.cache.v));
  const CacheData data(p.cache);
  const std::vector<float> queries = queries_of(p);
  const std::vector<float> out = halves_to_floats(run(p, data));
  Compared c;
  const int heads = p.cache.kv_heads * p.group;
  const std::vector<float> sinks = sinks_of(heads);
  for (int t = p.tokens - 1; t >= 0; t -= p.checked_every) {
    const int to = p.cache.tokens - p.tokens + t + 1;
    const int from = first_attended(to - 1, p.window);
    for (int head = 0; head < heads; ++head) {
      const std::size_t at = std::size_t(t * heads + head) * std::size_t(p.cache.dim);
      const Expected e = attention_in_double(
          queries.data() + at, data, head / p.group, p.cache.dim, from, to, double(p.cap),
          p.sinks ? double(sinks[std::size_t(head)]) : -INFINITY);
      // The output itself is rounded to FP16.
      for (std::size_t i = 0; i < e.out.size(); ++i)
        c.add(double(out[at + i]), e.out[i],
              e.bound[i] * (1 + 0x1p-11) + std::abs(e.out[i]) * 0x1p-11 + 0x1p-25);
    }
  }
  CHECK(c.worst <= 1);
  CHECK(c.nmse() <= 1e-6);
}

Prefill of_tokens(int tokens, int before = 0) {
  Prefill p;
  p.tokens = tokens;
  p.cache.tokens = before + tokens;
  return p;
}

}  // namespace

TEST_CASE("Prefill attention is that of double precision at any length", "[cuda][gpu]") {
  for (const int tokens : {1, 31, 33, 127, 128, 129, 1000, 4097}) {
    Prefill p = of_tokens(tokens);
    p.checked_every = tokens > 200 ? 37 : 1;
    check(p);
  }
}

TEST_CASE("Prefill attention continues after the cached tokens", "[cuda][gpu]") {
  for (const int before : {1, 63, 64, 500, 3000})
    for (const int tokens : {1, 40, 130}) check(of_tokens(tokens, before));
}

TEST_CASE("Prefill attention serves groups of any size and odd numbers of heads", "[cuda][gpu]") {
  for (const int group : {1, 2, 3, 4, 7, 8, 12, 16, 20})
    for (const int kv_heads : {1, 3}) {
      Prefill p = of_tokens(150, 20);
      p.group = group;
      p.cache.kv_heads = kv_heads;
      p.checked_every = 3;
      check(p);
    }
}

TEST_CASE("Prefill attention bounds its scores softly", "[cuda][gpu][traits]") {
  for (const QuantFormat type : {QuantFormat::kF16, QuantFormat::kQ8_0})
    for (const int dim : {64, 128, 256})
      for (const float cap : {2.0f, 50.0f}) {
        Prefill p = of_tokens(300, 33);
        p.cache.k = p.cache.v = type;
        p.cache.dim = dim;
        p.window = dim == 128 ? 100 : 0;
        p.cap = cap;
        p.spread = 8;
        p.checked_every = 7;
        check(p);
      }
}

TEST_CASE("Prefill attention counts each head's sink once", "[cuda][gpu][traits]") {
  for (const QuantFormat type : {QuantFormat::kF16, QuantFormat::kQ8_0})
    for (const int dim : {64, 128, 256})
      for (const int group : {3, 8}) {
        Prefill p = of_tokens(300, 33);
        p.cache.k = p.cache.v = type;
        p.cache.dim = dim;
        p.group = group;
        p.window = dim == 64 ? 128 : 0;
        p.sinks = true;
        p.checked_every = 7;
        check(p);
      }
}

TEST_CASE("Prefill attention takes heads of any width", "[cuda][gpu]") {
  for (const int dim : {8, 32, 64, 72, 80, 96, 112, 128, 192, 256, 264, 320, 512}) {
    Prefill p = of_tokens(140, 33);
    p.cache.dim = dim;
    check(p);
  }
}

TEST_CASE("Prefill attention takes heads of any width and cache within Turing's shared memory",
          "[cuda][gpu]") {
  using enum QuantFormat;
  constexpr int kTuring = 64 << 10;
  for (const int dim : {64, 80, 96, 128, 192, 256, 512})
    for (const QuantFormat type : {kF16, kQ8_0, kQ4_0})
      for (const int tokens : {40, 3000}) {  // few blocks, and as many as there are multiprocessors
        if (type != kF16 && (dim % 32 != 0 || dim > 256)) continue;
        Prefill p = of_tokens(tokens, 33);
        p.shared_bytes = kTuring;
        p.cache.dim = dim;
        p.cache.k = p.cache.v = type;
        p.checked_every = tokens / 10;
        check(p);
      }
}

TEST_CASE("Prefill attention sees no further than its window, and reads nothing before it",
          "[cuda][gpu]") {
  for (const int before : {0, 700})
    for (const int window : {1, 16, 100, 129, 1024}) {
      Prefill p = of_tokens(200, before);
      p.window = window;
      p.cache.from = std::max(0, before + 1 - window);  // NaNs before
      check(p);
    }
}

TEST_CASE("Prefill attention sees the piece of the context in which each token is",
          "[cuda][gpu][traits]") {
  for (const int before : {0, 48, 700})
    for (const int piece : {1, 16, 48, 100, 8192})
      for (const int dim : {64, 128}) {
        Prefill p = of_tokens(200, before);
        p.cache.dim = dim;
        p.window = -piece;
        p.cache.from = before / piece * piece;  // NaNs before
        check(p);
      }
}

TEST_CASE("Prefill attention of few tokens is merged from splits of their contexts",
          "[cuda][gpu]") {
  for (const int before : {0, 63, 1000, 5000})
    for (const int tokens : {1, 17, 64, 130})
      for (const int window : {0, 100, 300, -768}) {
        Prefill p = of_tokens(tokens, before);
        p.window = window;
        p.context = 1 << 20;  // more splits than there are tiles, too
        p.checked_every = 5;
        check(p);
        p.partial_rows = 3 * tokens;
        check(p);
      }
}

TEST_CASE("Splits of prefill attention take heads, caches and sinks of any kind",
          "[cuda][gpu][traits]") {
  using enum QuantFormat;
  for (const int dim : {64, 72, 80, 128, 256, 512})
    for (const QuantFormat type : {kF16, kQ8_0})
      for (const int group : {1, 3, 8}) {
        if (type != kF16 && dim % 32 != 0) continue;
        Prefill p = of_tokens(40, 900);
        p.cache.k = p.cache.v = type;
        p.cache.dim = dim;
        p.group = group;
        p.sinks = group == 8;
        p.cap = group == 3 ? 20.0f : 0.0f;
        p.context = 940;
        p.checked_every = 7;
        check(p);
      }
}

TEST_CASE("Prefill attention writes tiled rows that are the same bits", "[cuda][gpu]") {
  for (const int dim : {64, 80, 128, 256, 512})
    for (const int tokens : {40, 300})
      for (const int context : {0, 1000}) {
        Prefill p = of_tokens(tokens, 700);
        p.cache.dim = dim;
        if (dim == 256) p.cache.k = p.cache.v = QuantFormat::kQ8_0;
        p.group = 8;  // rows have whole tiles of columns
        p.context = context;
        const CacheData data(p.cache);
        const std::vector<std::uint16_t> rows = run(p, data);
        p.first_row = 5;
        p.tiled = cuda::tiled_tokens(p.first_row + tokens);
        const std::vector<std::uint16_t> tiled = run(p, data);
        const int width = p.cache.kv_heads * p.group * dim;
        std::size_t differ = 0;
        for (int t = 0; t < tokens; ++t)
          for (int i = 0; i < width; ++i)
            differ += rows[std::size_t(t * width + i)] !=
                      tiled[std::size_t(cuda::tiled_index(width, i, t + p.first_row, p.tiled))];
        INFO(dim << " wide, " << tokens << " tokens, context " << context);
        CHECK(differ == 0);
      }
}

TEST_CASE("Prefill attention reads every pair of cache types", "[cuda][gpu]") {
  const QuantFormat types[] = {QuantFormat::kF16, QuantFormat::kQ8_0, QuantFormat::kQ4_0};
  for (const QuantFormat k : types)
    for (const QuantFormat v : types)
      for (const int dim : {64, 96, 128, 256, 512}) {
        Prefill p = of_tokens(100, 150);
        p.cache.k = k;
        p.cache.v = v;
        p.cache.dim = dim;
        p.window = dim == 96 ? 90 : 0;
        p.cache.from = dim == 96 ? 61 : 0;
        check(p);
      }
}

// On Hopper other warps bring rows of such caches to shared memory, in parts of tiles.
TEST_CASE("Prefill attention sees windows, pieces and splits of quantized caches",
          "[cuda][gpu][traits]") {
  using enum QuantFormat;
  for (const QuantFormat type : {kQ8_0, kQ4_0})
    for (const int dim : {64, 128, 192, 256})
      for (const int window : {0, 129, 300, -768})
        for (const int context : {0, 1 << 20}) {  // more splits than there are tiles, too
          Prefill p = of_tokens(120, 903);
          p.cache.k = p.cache.v = type;
          p.cache.dim = dim;
          p.cache.from = std::max(0, window > 0 ? 904 - window : 903 / 768 * 768 * (window < 0));
          p.window = window;
          p.context = context;
          p.checked_every = 17;
          check(p);
        }
}

TEST_CASE("Prefill attention is right where few tokens count", "[cuda][gpu]") {
  for (const float spread : {0.0f, 4.0f, 16.0f}) {
    Prefill p = of_tokens(300, 100);
    p.spread = spread;
    p.checked_every = 7;
    check(p);
  }
}

TEST_CASE("Prefill attention gives the same bits wherever blocks lie and however long they are",
          "[cuda][gpu]") {
  using enum QuantFormat;
  using Types = std::pair<QuantFormat, QuantFormat>;
  for (const auto& [k, v] : {Types{kF16, kF16}, {kQ8_0, kQ8_0}, {kQ4_0, kQ4_0}, {kQ8_0, kQ4_0}}) {
    Prefill p = of_tokens(500, 300);
    p.cache.k = k;
    p.cache.v = v;
    const std::vector<std::uint16_t> straight = run(p, CacheData(p.cache));
    for (const int block_tokens : {16, 48, 128, 1024}) {
      p.cache.block_tokens = block_tokens;
      p.cache.order = 5;
      CHECK(run(p, CacheData(p.cache)) == straight);
    }
  }
}
