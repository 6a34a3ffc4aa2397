#include "engine/load/host_weights.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "engine/backends/cpu/load_for_cpu.hpp"
#include "engine/gguf/model/read_model.hpp"
#include "engine/memory/process_memory.hpp"
#include "engine/placement/prefill_offload.hpp"
#include "engine/synth/synthetic_file.hpp"
#include "engine/synth/synthetic_model.hpp"
#include "tests/catch.hpp"
#include "tests/engine/tiny_model.hpp"
#include "tests/folder.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

// The first layer is the host's, the second is streamed; of the third the experts are the host's.
HostPlacement parts_of(const ModelSpec& spec) {
  Placement p;
  p.layers.assign(std::size_t(spec.layers), {0, 0, 0, 0, 0, 0, 0});
  p.layers[0] = {};
  p.layers[1].weights = p.layers[1].experts = kHost;
  p.layers[2].experts = p.layers[2].decode_experts_on = kHost;
  p.head = p.head_on = 0;
  return HostPlacement(spec, p);
}

struct Memory {
  std::shared_ptr<std::byte> bytes;
  std::size_t size = 0;

  Allocator make() {
    return [this](std::size_t wanted) {
      size = wanted;
      return bytes = make_large_pages(wanted);
    };
  }
  bool holds(const Matrix& m) const {
    return m.data >= bytes.get() && m.data + m.bytes() <= bytes.get() + size;
  }
};

bool same_bytes(const Matrix& a, const Matrix& b, int count = 1) {
  return a.bytes() == b.bytes() && std::memcmp(a.data, b.data, std::size_t(a.bytes() * count)) == 0;
}

// All that the host keeps of `model` is in `memory`, nothing else is, and `want` has the same.
void check_kept(const Model& model, const Memory& memory, const Model& want) {
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const Layer &a = model.layers[i], &b = want.layers[i];
    INFO("layer " << i);
    const std::pair<const Matrix*, const Matrix*> dense[] = {
        {&a.q, &b.q}, {&a.k, &b.k}, {&a.v, &b.v}, {&a.output, &b.output}};
    for (const auto& [mine, its] : dense) {
      CHECK(memory.holds(*mine) == (i < 2));
      if (i < 2) CHECK(same_bytes(*mine, *its));
    }
    for_each_stack(
        [&](LayerWeight, const MatrixStack& mine, const MatrixStack& its) {
          CHECK(memory.holds(mine.at(mine.count - 1)) == (i < 3));
          if (i < 3) CHECK(same_bytes(mine.first, its.first, mine.count));
        },
        a, b);
    CHECK(memory.holds(a.router) == (i < 3));  // the host routes what its experts compute
  }
  CHECK(memory.holds(model.embedding));  // the first layer is the host's
  CHECK(same_bytes(model.embedding, want.embedding));
  CHECK_FALSE(memory.holds(model.head));
}

const TinyTraits kTraits{.mix = "Q4_K_M", .layers = 4, .experts = 8};

}  // namespace

TEST_CASE("The host keeps an embedding that it takes rows from or multiplies with",
          "[engine][host]") {
  for (const bool tied : {false, true})
    for (const bool first_layer : {false, true}) {
      TinyTraits traits = kTraits;
      traits.tied = tied;
      const TinyModel tiny = make_tiny_model(traits);
      Placement p;
      p.layers.assign(std::size_t(traits.layers), {0, 0, 0, 0, 0, 0, 0});
      if (first_layer) p.layers[0] = {};  // and the head is the host's
      const HostPlacement parts(tiny.model.spec, p);
      Memory memory;
      const Model model = with_host_weights(tiny.model, parts, nullptr, {memory.make(), 1});
      INFO("tied " << tied << ", first layer " << first_layer);
      CHECK(memory.holds(model.embedding) == (tied || first_layer));
      CHECK(memory.holds(model.head));
    }
}

TEST_CASE("What the host keeps of a model in memory is copied, a layer's matrices in a row",
          "[engine][host]") {
  const TinyModel tiny = make_tiny_model(kTraits);
  const HostPlacement parts = parts_of(tiny.model.spec);
  Memory memory;
  const Model model = with_host_weights(tiny.model, parts, nullptr, {memory.make(), 3});
  check_kept(model, memory, tiny.model);
  const Layer& l = model.layers[1];
  const Matrix* const in_order[] = {&l.q, &l.k, &l.v, &l.output, &l.router, &l.expert_gate.first};
  for (std::size_t i = 0; i + 1 < std::size(in_order); ++i) {
    const auto gap = in_order[i + 1]->data - (in_order[i]->data + in_order[i]->bytes());
    CHECK(gap >= 0);
    CHECK(gap < 256);
  }
}

TEST_CASE("Experts that share a matrix with others become neighbours in the host's memory",
          "[engine][host]") {
  const TinyModel tiny = make_tiny_model(
      {.architecture = "gemma4", .mix = "Q4_K_M", .layers = 2, .experts = 5, .shared_ffn = 512});
  REQUIRE(tiny.model.layers[0].expert_up.stride > 0);
  Memory memory;
  const Model model =
      with_host_weights(tiny.model, HostPlacement::whole_model(), nullptr, {memory.make(), 2});
  for (std::size_t i = 0; i < model.layers.size(); ++i)
    for_each_stack(
        [&](LayerWeight weight, const MatrixStack& mine, const MatrixStack& its) {
          for (int e = 0; e < its.count; ++e) {
            INFO("layer " << i << ", " << name_of(weight) << ", expert " << e);
            CHECK(memory.holds(mine.at(e)));
            CHECK(same_bytes(mine.at(e), its.at(e)));
          }
          const auto step = mine.at(1).data - mine.at(0).data;
          CHECK(step >= mine.first.bytes());
          CHECK(step < mine.first.bytes() + 256);
        },
        model.layers[i], tiny.model.layers[i]);
}

TEST_CASE("What the host keeps of a file is read from it", "[engine][host]") {
  const TinyModel tiny = make_tiny_model(kTraits);
  const auto table = make_tensor_table(tiny.model.spec, *QuantMix::from_name(kTraits.mix));
  const test::Folder folder;
  REQUIRE_FALSE(write_synthetic_file(tiny.model.spec, *table, kTraits.mix, 7, folder / "x.gguf",
                                     [](std::uint64_t) { return true; }));
  const auto file = GgufFile::open(folder / "x.gguf");
  REQUIRE(file);
  const auto bound = load_model(*file);
  REQUIRE(bound);
  Memory memory;
  const HostPlacement parts = parts_of(bound->spec);
  check_kept(with_host_weights(*bound, parts, &*file, {memory.make(), 3}), memory, *bound);
  int asked = 0;
  CHECK_THROWS_AS(
      with_host_weights(*bound, parts, &*file, {memory.make(), 1, [&] { return ++asked < 1; }}),
      MachineError);
}

TEST_CASE("Weights that the CPU alone has are copied where they are not to be mapped",
          "[engine][host]") {
  const TinyModel tiny = make_tiny_model(kTraits);
  const auto table = make_tensor_table(tiny.model.spec, *QuantMix::from_name(kTraits.mix));
  const test::Folder folder;
  REQUIRE_FALSE(write_synthetic_file(tiny.model.spec, *table, kTraits.mix, 7, folder / "x.gguf",
                                     [](std::uint64_t) { return true; }));
  const auto file = GgufFile::open(folder / "x.gguf");
  REQUIRE(file);
  const auto bound = load_model(*file);
  REQUIRE(bound);
  Memory memory;
  ExecutorOptions options;
  options.weights = WeightPages::kCopied;
  options.weight_memory = memory.make();
  const auto copied = load_for_cpu(*file, options);
  REQUIRE(copied);
  CHECK(memory.holds(copied->embedding));
  CHECK(memory.holds(copied->head));
  for (std::size_t i = 0; i < copied->layers.size(); ++i)
    for_each_matrix(
        [&](LayerWeight, const Matrix& mine, const Matrix& its) {
          CHECK(memory.holds(mine) == bool(its));
          if (its) CHECK(same_bytes(mine, its));
        },
        copied->layers[i], bound->layers[i]);
  options.weights = WeightPages::kLazy;
  const auto mapped = load_for_cpu(*file, options);
  REQUIRE(mapped);
  CHECK(mapped->layers[0].q.data == bound->layers[0].q.data);
}

TEST_CASE("Weights are those of the file that was opened, whatever has its name by then",
          "[engine][host]") {
  const TinyModel tiny = make_tiny_model(kTraits);
  const auto table = make_tensor_table(tiny.model.spec, *QuantMix::from_name(kTraits.mix));
  const test::Folder folder;
  const auto write = [&](std::uint64_t seed) {
    REQUIRE_FALSE(
        write_synthetic_file(tiny.model.spec, *table, kTraits.mix, seed, folder / "x.gguf"));
    return std::filesystem::file_size(folder / "x.gguf");
  };
  const auto bytes = write(7);
  const auto file = GgufFile::open(folder / "x.gguf");
  REQUIRE(file);
  const auto bound = load_model(*file);
  REQUIRE(bound);
  REQUIRE(write(8) == bytes);
  Memory memory;
  check_kept(with_host_weights(*bound, parts_of(bound->spec), &*file, {memory.make(), 3}), memory,
             *bound);
}

TEST_CASE("What the host keeps of random weights is made in the memory that was given",
          "[engine][host]") {
  const TinyModel tiny = make_tiny_model(kTraits);
  const auto table = make_tensor_table(tiny.model.spec, *QuantMix::from_name(kTraits.mix));
  const HostPlacement parts = parts_of(tiny.model.spec);
  ThreadTeam team(2);
  Memory memory;
  const auto model = make_synthetic_model(
      tiny.model.spec, *table, 7, team, [&](const Tensor& t) { return parts.has(t); },
      memory.make());
  const auto want = make_synthetic_model(tiny.model.spec, *table, 7, team);
  REQUIRE(model);
  REQUIRE(want);
  check_kept(*model, memory, *want);
  CHECK(model->final_norm == want->final_norm);
  // No memory is allocated for unwanted weights.
  std::uint64_t bytes = 0;
  for (const Tensor& t : table->tensors)
    if (t.dimensions > 1 && parts.has(t)) bytes += t.bytes;
  CHECK(memory.size >= bytes);
  CHECK(memory.size < bytes + 64 * table->tensors.size());
}

TEST_CASE("A layer is streamed, lent or neither, as its placement says", "[engine][host]") {
  const ModelSpec spec = make_tiny_model({.layers = 3, .experts = 8}).model.spec;
  Placement p;
  p.layers.assign(3, {0, 0, 0, 0, 0, 0, 0});
  p.head = p.head_on = 0;
  CHECK_FALSE(HostPlacement(spec, p).any());
  p.layers[1].weights = p.layers[1].experts = kHost;
  const HostPlacement streamed(spec, p);
  CHECK(streamed.any());
  CHECK_FALSE(streamed.computes());
  CHECK(streamed.streamed_layers() == std::vector{1});
  CHECK(streamed.layers_cached_on_gpu() == std::vector{0, 1, 2});
  CHECK_FALSE(streamed.computes_experts(1));
  p.layers[0] = {};
  p.layers[2] = {};
  p.layers[2].prefill_on = 0;
  const HostPlacement all(spec, p);
  CHECK(all.offloadable_layers() == std::vector{2});
  CHECK(all.experts_offloadable(2));
  CHECK_FALSE(all.experts_offloadable(0));
  CHECK(all.computes_experts(0));
  CHECK(all.layers_cached_on_gpu() == std::vector{1});
}

TEST_CASE("Layers that keep a state are offloadable as others are", "[engine][host]") {
  const ModelSpec spec = make_tiny_model({.architecture = "qwen35", .layers = 4}).model.spec;
  REQUIRE(spec.has_recurrent_mixer(0));
  REQUIRE(spec.has_kv(3));
  Placement p;
  p.layers.assign(4, {.prefill_on = 0});
  p.head = p.head_on = 0;
  const HostPlacement placement(spec, p);
  CHECK(placement.offloadable_layers() == std::vector{0, 1, 2, 3});
  CHECK(placement.offloadable_states() == std::vector{0, 1, 2});
  CHECK(placement.offloadable_caches() == std::vector{3});
  CHECK(placement.layers_with_state() == std::vector{0, 1, 2});
  CHECK(placement.layers_with_state_on_gpu().empty());  // while decoding
}

TEST_CASE("A batch is copied for where that takes less time than computing it on the host",
          "[engine][host]") {
  const OffloadRates rates{50_GBps, 1_TFLOPs};
  // 2 ms for 100 MB; a token's 0.1 GFLOP takes 0.1 ms.
  const auto needs = [](TokenCount tokens) { return OffloadCost{100_MB, Flops{1e8}, tokens}; };
  CHECK(copy_time(needs(1), rates).value == Approx(2e-3));
  CHECK(host_time(needs(7), rates).value == Approx(7e-4));
  CHECK_FALSE(copies(PrefillOffloadPolicy::kFaster, needs(19), rates));
  CHECK(copies(PrefillOffloadPolicy::kFaster, needs(21), rates));
  CHECK(copies(PrefillOffloadPolicy::kGpu, needs(1), rates));
  CHECK_FALSE(copies(PrefillOffloadPolicy::kHost, needs(4096), rates));
}

TEST_CASE("The system says what memory is left", "[engine][host]") {
  CHECK(available_memory() > 16_MiB);
  CHECK(available_memory() < Bytes{0x1p50});
}
