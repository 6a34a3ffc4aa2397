#include "engine/kv/kv_cache.hpp"

#include "tests/catch.hpp"
#include "tests/engine/random_values.hpp"
#include "tests/engine/tiny_model.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

constexpr TokenCount kTokens = 70;

ModelSpec spec_of_layers(int layers) { return make_tiny_model({.layers = layers}).model.spec; }

void fill(KvCache& cache, const ModelSpec& spec) {
  cache.reserve(kTokens);
  const auto width = std::size_t(spec.kv_heads * spec.head_dim);
  for (int layer = 0; layer < spec.layers; ++layer)
    for (TokenCount t = 0; cache.keeps(layer) && t < kTokens; ++t) {
      const unsigned seed = unsigned(layer * 1000 + t);
      cache.store(layer, t, normal_values(width, seed).data(),
                  normal_values(width, seed + 500).data());
    }
}

// All rows of a layer and head, keys after one another, then values.
std::vector<std::byte> rows_of(const KvCache& cache, const ModelSpec& spec, int layer, int head) {
  std::vector<cpu::KvRun> runs;
  cache.runs(layer, head, 3, kTokens, runs);
  const auto row = std::size_t(spec.head_dim) * 2;
  std::vector<std::byte> keys, values;
  for (const cpu::KvRun& run : runs) {
    keys.insert(keys.end(), run.k, run.k + std::size_t(run.tokens) * row);
    values.insert(values.end(), run.v, run.v + std::size_t(run.tokens) * row);
  }
  keys.insert(keys.end(), values.begin(), values.end());
  return keys;
}

}  // namespace

TEST_CASE("A cache holds the same rows whatever its blocks and pieces are", "[engine][kv]") {
  const ModelSpec spec = spec_of_layers(3);
  KvCache plain(spec, {}, 128);
  fill(plain, spec);
  for (const TokenCount block : {1, 16, 33})
    for (const int piece : {1, 3, 16}) {
      KvCache cache(spec, {}, block, {0, 1, 2}, make_large_pages, piece);
      fill(cache, spec);
      for (int layer = 0; layer < 3; ++layer)
        for (int head = 0; head < spec.kv_heads; ++head)
          CHECK(rows_of(cache, spec, layer, head) == rows_of(plain, spec, layer, head));
    }
}

TEST_CASE("A cache of some layers takes memory for those alone", "[engine][kv]") {
  const ModelSpec spec = spec_of_layers(4);
  std::size_t taken = 0;
  const auto count = [&](std::size_t bytes) {
    taken += bytes;
    return make_large_pages(bytes);
  };
  KvCache some(spec, {}, 16, {1, 3}, count, 2), all(spec, {}, 16);
  fill(some, spec);
  fill(all, spec);
  CHECK(!some.keeps(0));
  CHECK(some.keeps(3));
  CHECK(rows_of(some, spec, 3, 1) == rows_of(all, spec, 3, 1));
  // 70 tokens: five blocks of 16, in three pieces of two.
  CHECK(some.bytes() == 6 * 2 * some.layer_bytes());
  CHECK(taken == std::size_t(some.bytes()));
  CHECK(some.block(3, 1) == some.block(3, 0) + some.layer_bytes());
  CHECK(some.blocks_in_a_row(0) == 2);
  CHECK(some.blocks_in_a_row(3) == 1);
  some.truncate(33);
  CHECK(some.bytes() == 4 * 2 * some.layer_bytes());
  some.truncate(0);
  CHECK(some.bytes() == 0);
  KvCache none(spec, {}, 16, {}, count);
  none.reserve(100);
  CHECK(none.bytes() == 0);
}

TEST_CASE("Layers with a window keep the rows of their last blocks", "[engine][kv]") {
  ModelSpec spec = spec_of_layers(4);
  spec.window = SlidingWindow{.tokens = 20, .full_every = 2};
  for (const int piece : {1, 3}) {
    KvCache rings(spec, {}, 16, all_layers(spec), make_large_pages, piece, 3), all(spec, {}, 16);
    fill(rings, spec);
    fill(all, spec);
    // 70 tokens: five blocks, of which a ring has the last three.
    std::vector<cpu::KvRun> own, expected;
    for (int layer = 0; layer < 4; ++layer) {
      const TokenCount first = spec.sees_all_tokens(layer) ? 0 : 32;
      for (int head = 0; head < spec.kv_heads; ++head) {
        rings.runs(layer, head, first, kTokens, own);
        all.runs(layer, head, first, kTokens, expected);
        REQUIRE(own.size() == expected.size());
        const auto row = std::size_t(spec.head_dim) * 2;
        for (std::size_t i = 0; i < own.size(); ++i) {
          const std::size_t bytes = std::size_t(own[i].tokens) * row;
          CHECK(std::equal(own[i].k, own[i].k + bytes, expected[i].k));
          CHECK(std::equal(own[i].v, own[i].v + bytes, expected[i].v));
        }
      }
      CHECK(rings.overwrites(layer, 31, kTokens) == (first > 0));
      CHECK_FALSE(rings.overwrites(layer, 32, kTokens));
    }
    const auto in_pieces = [&](int blocks) { return (blocks + piece - 1) / piece * piece; };
    CHECK(rings.bytes() == (2 * in_pieces(5) + 2 * in_pieces(3)) * rings.layer_bytes());
    rings.truncate(17);
    CHECK(rings.bytes() == 4 * in_pieces(2) * rings.layer_bytes());
    rings.truncate(0);
    CHECK(rings.bytes() == 0);
  }
}
