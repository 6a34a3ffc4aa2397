// The number of blocks of a pool, and what no executor is made of.
#include "engine/backends/cpu/batch/make_cpu_batch_executor.hpp"
#include "engine/backends/cpu/batch/batch_bytes.hpp"

#include <memory>
#include <string>

#include "engine/backends/cpu/batch/cpu_batch_executor.hpp"
#include "engine/backends/cpu/make_cpu_executor.hpp"
#include "tests/catch.hpp"
#include "tests/engine/tiny_model.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

std::shared_ptr<const Model> tiny() {
  return std::make_shared<const Model>(make_tiny_model({.mix = "Q8_0", .layers = 2}).model);
}

}  // namespace

TEST_CASE("A pool takes what the limit of RAM leaves", "[engine][batch][memory]") {
  const auto model = tiny();
  ExecutorOptions options;
  options.kv_block = 16;
  BatchOptions batch{.blocks = 10, .host_blocks = 3, .step_tokens = 64, .step_sequences = 4};
  const auto ten = make_cpu_batch_executor(model, options, batch);
  REQUIRE(ten);
  CHECK((*ten)->limits().blocks == 10);
  const Bytes needed = (*ten)->host().needed(),
              block{cpu_block_bytes(*model, options.kv_types, options.kv_block).sum()};
  batch.blocks.reset();
  for (const int more : {0, 1, 7}) {
    options.ram_limit = needed + block * double(more) + Bytes{100};
    const auto made = make_cpu_batch_executor(model, options, batch);
    REQUIRE(made);
    CHECK((*made)->limits().blocks == 10 + more);
    CHECK((*made)->limits().host_blocks == 3);
    CHECK((*made)->host().needed() <= *options.ram_limit);
  }
  options.ram_limit = needed - block * 10;
  const auto none = make_cpu_batch_executor(model, options, batch);
  REQUIRE_FALSE(none);
  CHECK(none.error().kind == ErrorKind::kDoesNotFit);
  CHECK(none.error().message.find("leaves no room") != std::string::npos);
}

TEST_CASE("A pool of a model that keeps no keys and values has no endless number of blocks",
          "[engine][batch]") {
  ExecutorOptions options;
  options.ram_limit = 1_GiB;
  const auto made = make_cpu_batch_executor(
      std::make_shared<const Model>(make_tiny_model({.architecture = "qwen35", .layers = 3}).model),
      options, BatchOptions{.step_tokens = 16, .step_sequences = 2});
  REQUIRE(made);
  CHECK((*made)->limits().blocks == 65536);
}

TEST_CASE("A pool of no stated size needs a limit, and numbers are positive", "[engine][batch]") {
  const auto model = tiny();
  CHECK(make_cpu_batch_executor(model, {}, {}).error().message.find("limit of RAM") !=
        std::string::npos);
  for (const BatchOptions& wrong :
       {BatchOptions{.blocks = 0}, BatchOptions{.blocks = 1, .host_blocks = -1},
        BatchOptions{.blocks = 1, .step_tokens = 0},
        BatchOptions{.blocks = 1, .step_sequences = 0}})
    CHECK(make_cpu_batch_executor(model, {}, wrong).error().kind == ErrorKind::kBadInput);
}

TEST_CASE("A cache of a type that the CPU does not attend to is refused by its name",
          "[engine][batch]") {
  using enum QuantFormat;
  const auto model = tiny();
  const BatchOptions batch{.blocks = 2, .step_tokens = 8, .step_sequences = 1};
  for (const QuantFormat type : {kBF16, kQ5_0, kQ5_1, kQ4_1, kIQ4_NL, kFP8}) {
    ExecutorOptions options;
    for (const KvTypes types : {KvTypes{type, kF16}, KvTypes{kQ8_0, type}}) {
      options.kv_types = types;
      const auto many = make_cpu_batch_executor(model, options, batch);
      REQUIRE_FALSE(many);
      CHECK(many.error().message.find(info(type).name) != std::string::npos);
      const auto one = make_synthetic_cpu_executor(model->spec, {}, 1, options);
      REQUIRE_FALSE(one);
      CHECK(one.error().message == many.error().message);
    }
  }
  for (const QuantFormat type : {kF32, kF16, kQ8_0, kQ4_0})
    CHECK_FALSE(check_cache_on_cpu({type, type}));
}
