#include "engine/serve/kv_pool.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <vector>
#include "tests/catch.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

using Tokens = std::vector<std::int32_t>;

constexpr BatchLimits kLimits{.block_tokens = 4, .blocks = 6, .host_blocks = 0};

Tokens tokens_from(std::int32_t first, int count) {
  Tokens tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(first + i);
  return tokens;
}

// A sequence that computes its tokens at once.
SequenceBlocks computed(KvPool& pool, const Tokens& tokens) {
  SequenceBlocks own;
  pool.admit(own, pool.find(tokens));
  REQUIRE(pool.grow(own, TokenCount(tokens.size())));
  pool.hold(own, tokens);
  return own;
}

}  // namespace

TEST_CASE("a prompt finds the full blocks of another one, but for its last token") {
  KvPool pool(kLimits, true);
  SequenceBlocks first = computed(pool, tokens_from(0, 8));
  CHECK(pool.find(tokens_from(0, 8)).tokens() == 4);
  CHECK(pool.find(tokens_from(0, 9)).tokens() == 8);
  Tokens other = tokens_from(0, 9);
  other[5] = 99;
  CHECK(pool.find(other).tokens() == 4);
  other[0] = 99;  // its second block holds the same tokens behind others
  CHECK(pool.find(other).tokens() == 0);

  const SequenceBlocks second = computed(pool, tokens_from(0, 9));
  CHECK(second.blocks[0] == first.blocks[0]);
  CHECK(second.blocks[1] == first.blocks[1]);
  CHECK(pool.free_blocks() == 3);
  pool.release(first);
  CHECK(pool.free_blocks() == 3);
  CHECK(pool.contradiction(std::vector{&second}).empty());
}

TEST_CASE("blocks of ended sequences are found until they are taken, the oldest first") {
  KvPool pool(kLimits, true);
  SequenceBlocks old = computed(pool, tokens_from(0, 8));
  SequenceBlocks recent = computed(pool, tokens_from(100, 8));
  pool.release(old);
  pool.release(recent);
  CHECK(pool.free_blocks() == 6);
  const SequenceBlocks third = computed(pool, tokens_from(200, 12));  // two were never used
  CHECK(pool.find(tokens_from(0, 9)).tokens() == 4);                  // the end goes first
  CHECK(pool.find(tokens_from(100, 9)).tokens() == 8);
  CHECK(pool.contradiction(std::vector{&third}).empty());
  SequenceBlocks fourth;
  pool.admit(fourth, {});
  CHECK_FALSE(pool.grow(fourth, 16));
  CHECK(fourth.blocks.empty());
}

TEST_CASE("room for a sequence does not count the free blocks that it will use itself") {
  KvPool pool(kLimits, true);
  SequenceBlocks first = computed(pool, tokens_from(0, 8));
  pool.release(first);
  const SequenceBlocks second = computed(pool, tokens_from(100, 12));
  const auto found = pool.find(tokens_from(0, 9));
  REQUIRE(found.here == 2);
  CHECK(pool.has_room(found, 12, 0));
  CHECK_FALSE(pool.has_room(found, 13, 0));
  CHECK_FALSE(pool.has_room(found, 12, 1));
  CHECK(pool.contradiction(std::vector{&second}).empty());
}

TEST_CASE("full blocks are copied to the host once, and come back where the pool has lost them") {
  BatchLimits limits = kLimits;
  limits.host_blocks = 3;
  KvPool pool(limits, true);
  SequenceBlocks own;
  const Tokens tokens = tokens_from(0, 9);
  pool.admit(own, {});
  REQUIRE(pool.grow(own, 9));
  CHECK(pool.hold(own, tokens).to_host.size() == 2);
  CHECK(pool.hold(own, tokens).to_host.empty());
  pool.release(own);
  SequenceBlocks all = computed(pool, tokens_from(500, 3 * 4 + 3 * 4 - 1));  // five of them full
  pool.release(all);
  auto found = pool.find(tokens);
  CHECK(found.here == 0);
  CHECK(found.host_tokens == 0);  // three blocks of the host hold later ones

  const Tokens again = tokens_from(500, 24);
  found = pool.find(again);
  CHECK(found.here_tokens == 20);
  SequenceBlocks other = computed(pool, tokens_from(700, 24));
  pool.release(other);
  found = pool.find(tokens_from(700, 24));
  CHECK(found.here_tokens == 20);
  CHECK(pool.contradiction({}).empty());
}

TEST_CASE("of more blocks than the host's pool has, the last ones are copied there, each once") {
  BatchLimits limits = kLimits;
  limits.host_blocks = 3;
  KvPool pool(limits, true);
  SequenceBlocks own;
  pool.admit(own, {});
  REQUIRE(pool.grow(own, 20));
  const auto copies = pool.hold(own, tokens_from(0, 20)).to_host;  // of five full blocks
  std::map<int, int> copied;                                       // where each is, by block
  for (const BlockCopy& copy : copies) copied[copy.to] = copy.from;
  CHECK(copies.size() == 3);
  CHECK(copied.size() == 3);
  for (const auto& [to, from] : copied)
    CHECK(std::ranges::find(own.blocks.begin() + 2, own.blocks.end(), from) != own.blocks.end());
  CHECK(pool.contradiction(std::vector<const SequenceBlocks*>{&own}).empty());
}

TEST_CASE("what was found on the host is copied into blocks of its own") {
  BatchLimits limits = kLimits;
  limits.host_blocks = 12;
  KvPool pool(limits, true);
  SequenceBlocks first = computed(pool, tokens_from(0, 9));
  pool.release(first);
  SequenceBlocks second = computed(pool, tokens_from(100, 24));
  pool.release(second);
  const auto found = pool.find(tokens_from(0, 9));
  CHECK(found.here_tokens == 0);
  CHECK(found.host_tokens == 8);
  auto part = found;
  pool.keep(part, 1);
  CHECK(part.host_tokens == 4);
  CHECK(part.nodes.size() == 1);
  pool.keep(part, 0);
  CHECK(part.tokens() == 0);
  SequenceBlocks own;
  const auto copies = pool.admit(own, found).from_host;
  REQUIRE(copies.size() == 2);
  CHECK(copies[0].to == own.blocks[0]);
  CHECK(pool.find(tokens_from(0, 9)).here_tokens == 0);  // as long as they are not there
  pool.hold(own, tokens_from(0, 8));
  CHECK(pool.find(tokens_from(0, 9)).here_tokens == 8);
  pool.forget_host_copies(std::vector<BlockCopy>{{0, copies[0].from}});
  pool.release(own);
  CHECK(pool.contradiction({}).empty());
}

TEST_CASE("what is on disk is found when it is written, and until something takes its place") {
  KvPool pool(kLimits, true, 3);
  const auto keep = [&](const Tokens& tokens) {
    SequenceBlocks own;
    pool.admit(own, pool.find(tokens));
    REQUIRE(pool.grow(own, TokenCount(tokens.size())));
    auto copies = pool.hold(own, tokens).to_disk;
    pool.release(own);
    return copies;
  };
  const auto writes = keep(tokens_from(0, 8));
  REQUIRE(writes.size() == 2);
  CHECK(keep(tokens_from(0, 8)).empty());         // it is on its way
  CHECK(keep(tokens_from(100, 24)).size() == 1);  // two of the three are being written
  CHECK(pool.find(tokens_from(0, 9)).tokens() == 0);
  pool.written(writes[0].to);
  CHECK(pool.find(tokens_from(0, 9)).disk_tokens == 4);
  pool.written(writes[1].to);
  auto found = pool.find(tokens_from(0, 9));
  CHECK(found.disk_tokens == 8);
  CHECK(found.tiers == std::vector<KvTier>{KvTier::kDisk, KvTier::kDisk});
  SequenceBlocks own;
  const auto back = pool.admit(own, found);
  CHECK(back.from_host.empty());
  REQUIRE(back.from_disk.size() == 2);
  CHECK(back.from_disk[0].from == writes[0].to);
  CHECK(back.from_disk[0].to == own.blocks[0]);
  pool.hold(own, tokens_from(0, 8));
  pool.release(own);
  // The block that was used the longest ago goes first.
  const auto third = keep(tokens_from(300, 4));
  REQUIRE(third.size() == 1);
  CHECK(third[0].to == writes[0].to);
  pool.forget_disk_copies(third);
  CHECK(pool.contradiction({}) == "");
  pool.drop_disk();
  CHECK(keep(tokens_from(400, 24)).empty());
  CHECK(pool.find(tokens_from(0, 9)).tokens() == 0);
  CHECK(pool.contradiction({}) == "");
}

TEST_CASE("cold blocks are taken where no other is free, and lost the last") {
  BatchLimits limits = kLimits;
  limits.cold_blocks = 4;
  KvPool pool(limits, true);
  CHECK(pool.blocks() == 6);
  CHECK(pool.free_blocks() == 6);
  SequenceBlocks first = computed(pool, tokens_from(0, 12));
  CHECK(first.blocks == std::vector{0, 1, 2});
  SequenceBlocks second = computed(pool, tokens_from(100, 4));
  CHECK(second.blocks == std::vector{3});
  pool.release(first);
  CHECK(pool.free_blocks() == 5);
  SequenceBlocks third = computed(pool, tokens_from(200, 12));
  // The last blocks of a sequence are given back first.
  CHECK(third.blocks == std::vector{1, 0, 4});
  CHECK(pool.free_blocks() == 2);
  CHECK(pool.contradiction(std::vector<const SequenceBlocks*>{&second, &third}).empty());
}

TEST_CASE("bookkeeping of blocks holds whatever comes") {
  std::mt19937 random(7);
  const BatchLimits limits{.block_tokens = 2, .blocks = 24, .host_blocks = 16, .cold_blocks = 9};
  for (const bool prefixes : {true, false}) {
    KvPool pool(limits, prefixes, 20);
    std::vector<BlockCopy> writes;  // that have not ended
    struct Own {
      SequenceBlocks blocks;
      Tokens tokens;
      TokenCount computed = 0;
    };
    std::map<int, Own> sequences;
    int next = 0;
    for (int i = 0; i < 20'000; ++i) {
      if (const auto dice = random() % 4; dice == 0 || sequences.empty()) {
        Own own;
        const auto count = int(1 + random() % 14);  // few tokens: many begin alike
        for (int t = 0; t < count; ++t) own.tokens.push_back(std::int32_t(random() % 2));
        const auto found = pool.find(own.tokens);
        if (!pool.has_room(found, count, 0)) continue;
        pool.admit(own.blocks, found);
        own.computed = found.tokens();
        pool.grow(own.blocks, count);
        sequences.emplace(next++, std::move(own));
      } else {
        auto at = sequences.begin();
        std::advance(at, random() % sequences.size());
        Own& own = at->second;
        if (dice == 1) {
          pool.release(own.blocks);
          sequences.erase(at);
        } else if (dice == 2) {
          own.computed = TokenCount(own.tokens.size());
          const auto copies = pool.hold(own.blocks, own.tokens);
          if (random() % 8 == 0) pool.forget_host_copies(copies.to_host);
          writes.insert(writes.end(), copies.to_disk.begin(), copies.to_disk.end());
          while (!writes.empty() && random() % 2 == 0) {
            if (random() % 8 == 0)
              pool.forget_disk_copies(std::span(writes).first(1));
            else
              pool.written(writes.front().to);
            writes.erase(writes.begin());
          }
        } else if (pool.grow(own.blocks, TokenCount(own.tokens.size()) + 1)) {
          own.tokens.push_back(std::int32_t(random() % 2));
        }
      }
      std::vector<const SequenceBlocks*> all;
      for (const auto& [number, own] : sequences) all.push_back(&own.blocks);
      REQUIRE(pool.contradiction(all) == "");
    }
    for (auto& [number, own] : sequences) pool.release(own.blocks);
    CHECK(pool.free_blocks() == pool.blocks());
    CHECK(pool.contradiction({}).empty());
  }
}
