#include "engine/kv/window_ring.hpp"

#include "core/scenario/engine_sizes.hpp"
#include "tests/catch.hpp"
#include "tests/engine/tiny_model.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

ModelSpec with_window(TokenCount tokens) {
  return fixtures::tiny_spec({.layers = 2, .window = tokens, .window_full_every = 2});
}

}  // namespace

TEST_CASE("A ring holds the window before a step and the step, wherever a block begins",
          "[engine][kv]") {
  for (const TokenCount window : {1, 16, 100, 128})
    for (const TokenCount step : {1, 7, 48, 512})
      for (const TokenCount block : {1, 16, 33, 128}) {
        const TokenCount ring = window_ring_blocks(with_window(window), step, block);
        for (TokenCount first = window; first < window + 3 * block; ++first) {
          const TokenCount oldest = (first + 1 - window) / block,
                           newest = (first + step - 1) / block;
          REQUIRE(newest - oldest < ring);
        }
      }
  CHECK(window_ring_blocks(fixtures::tiny_spec({}), 512, 128) == 0);
}

TEST_CASE("A sequence goes on from where its rings have the window's tokens", "[engine][kv]") {
  // Rings of four blocks of 16 for windows of 20.
  WindowRing ring(with_window(20), 4, 16);
  ring.write(60);
  CHECK(ring.truncate(30) == 30);  // nothing has been overwritten
  ring.write(100);                 // blocks 3 to 6 remain: tokens from 48 on
  CHECK(ring.truncate(100) == 100);
  CHECK(ring.truncate(67) == 67);  // the next token attends to 48 and later ones
  CHECK(ring.truncate(90) == 90);
  CHECK(ring.truncate(66) == 0);
  // Empty, it begins anew.
  ring.write(40);
  CHECK(ring.truncate(3) == 3);
}

TEST_CASE("What was overwritten before tokens were forgotten does not come back", "[engine][kv]") {
  WindowRing ring(with_window(20), 4, 16);
  ring.write(160);  // tokens from 96 on remain
  CHECK(ring.truncate(120) == 120);
  ring.write(130);
  CHECK(ring.truncate(115) == 115);
  CHECK(ring.truncate(114) == 0);
}

TEST_CASE("Without rings any number of tokens remains", "[engine][kv]") {
  for (WindowRing ring : {WindowRing(), WindowRing(with_window(20), 0, 16),
                          WindowRing(fixtures::tiny_spec({}), 4, 16)}) {
    ring.write(1000);
    CHECK(ring.truncate(3) == 3);
  }
}
