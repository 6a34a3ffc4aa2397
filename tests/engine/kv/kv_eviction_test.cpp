#include "engine/kv/kv_eviction.hpp"

#include <initializer_list>

#include "core/scenario/engine_sizes.hpp"
#include "tests/catch.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

// Blocks of 64 KiB in each of 32 layers: 2 MiB for 16 tokens.
constexpr KvBlockBytes kBytes{
    .block_tokens = 16, .layers = 32, .hot_layer_bytes = 64 << 10, .cold_layer_bytes = 64 << 10};
constexpr double kBlock = 2 << 20;

// Token by token up to 100 blocks.
KvEviction up_to_100_blocks() {
  KvEviction e;
  e.context = 1600;
  return e;
}

// Bytes that 100 blocks take of the GPU if `hot` of them stay: these, the `written` blocks of a
// step while as many are on their way out, the slots of the ring, and a pointer for each slot and
// for each block of a layer.
double taken(TokenCount hot, TokenCount written = 1) {
  const KvRing ring = kv_ring(100 - hot, kBytes.layers, kBytes.cold_layer_bytes);
  const double slots = double(ring.layers() * ring.blocks);
  return double(std::min<TokenCount>(100, std::max(hot, written) + written)) * kBlock +
         slots * 0x1p16 + (slots + double(ring.blocks)) * 8;
}

}  // namespace

TEST_CASE("A cache that fits stays whole", "[engine][kv]") {
  CHECK(hot_blocks(up_to_100_blocks(), kBytes, 100 * kBlock) == 100);
}

TEST_CASE("As many blocks stay as fit beside the ring of cold ones", "[engine][kv]") {
  for (const double blocks : {2.5, 20.0, 51.0, 77.7, 98.0}) {
    const TokenCount hot = hot_blocks(up_to_100_blocks(), kBytes, blocks * kBlock);
    CAPTURE(blocks, hot);
    CHECK((hot == 0 || taken(hot) <= blocks * kBlock));
    for (TokenCount more = hot + 1; more <= 100; ++more) CHECK(taken(more) > blocks * kBlock);
  }
}

TEST_CASE("Batches need room for what they write while older blocks leave", "[engine][kv]") {
  KvEviction e = up_to_100_blocks();
  e.prompt_end = 1600, e.max_batch_tokens = 160, e.two_step_blocks = 20;  // 10 blocks
  const TokenCount hot = hot_blocks(e, kBytes, 60 * kBlock);
  CHECK(hot < hot_blocks(up_to_100_blocks(), kBytes, 60 * kBlock));
  CHECK(taken(hot, 10) <= 60 * kBlock);
  for (TokenCount more = hot + 1; more <= 100; ++more) CHECK(taken(more, 10) > 60 * kBlock);
}

TEST_CASE("The newest tokens stay even where they do not fit", "[engine][kv]") {
  KvEviction e = up_to_100_blocks();
  e.min_hot_tokens = 100;
  CHECK(hot_blocks(e, kBytes, 0) == 7);
  e.min_hot_tokens = 1'000'000;
  CHECK(hot_blocks(e, kBytes, 0) == 100);
}

TEST_CASE("A given number of tokens is kept, whatever memory there is", "[engine][kv]") {
  KvEviction e = up_to_100_blocks();
  e.hot_tokens = 33;
  CHECK(hot_blocks(e, kBytes, 0) == 3);
  e.hot_tokens = 0;
  CHECK(hot_blocks(e, kBytes, 1e12) == 0);
}
