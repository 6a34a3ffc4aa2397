#include "engine/model/layer_weights.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/catalogue/catalogue.hpp"
#include "core/model/tensor_table.hpp"
#include "engine/architectures/architecture.hpp"
#include "engine/model/file_tensors.hpp"
#include "engine/model/model.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace rigcast;
using namespace rigcast::engine;

TEST_CASE("The list of a layer's weights names what tables of tensors have", "[engine][model]") {
  const Catalogue catalogue(test::source_dir());
  const Layer any;
  std::set<std::string> unseen;
  for_each_weight([&](LayerWeight weight, const auto&) { unseen.emplace(name_of(weight)); }, any);
  for (const char* id :
       {"llama-3.1-8b", "qwen2.5-7b", "qwen3-0.6b", "qwen3-30b-a3b", "gemma-2-2b", "gpt-oss-20b",
        "gemma-4-e2b", "phi-2", "qwen2-57b-a14b", "minimax-m2", "qwen3.5-0.8b",
        "granite-4.0-h-micro", "deepseek-v3", "gemma-4-26b-a4b", "phi-3.5-moe"}) {
    const auto spec = catalogue.model(id);
    REQUIRE(spec);
    const auto table = make_tensor_table(*spec, *QuantMix::from_name("Q4_K_M"));
    REQUIRE(table);
    Layer layer;
    std::set<std::pair<std::string, TensorRole>> rows;
    const Architecture& architecture = *find_architecture(spec->architecture);
    for_each_weight(
        [&](LayerWeight weight, const auto&) {
          rows.emplace(weight_name(architecture, weight), role_of(weight));
        },
        layer);
    for (const Tensor& t : file_tensors(*spec, *table).tensors) {
      if (!t.name.starts_with("blk.0.")) continue;
      const std::string name = t.name.substr(6);
      if (name.starts_with("attn_qkv.") || name.starts_with("ffn_gate_up_exps.")) continue;
      INFO(id << ": " << name);  // those left out are bound as their parts
      CHECK(rows.contains({name, t.role}));
      unseen.erase(name);
    }
  }
  CHECK(unseen.empty());
}

TEST_CASE("The longest windows are counted as kernels count tokens", "[engine][model]") {
  ModelSpec spec;
  spec.layers = 2;
  spec.window = SlidingWindow{};
  spec.window->full_every = 2;
  for (const std::int64_t tokens : {4'294'967'286l, 4'294'967'296l, 4096l}) {
    spec.window->tokens = tokens;
    CHECK(attention_shape(spec, 0).window == std::min<std::int64_t>(tokens, 1 << 30));
    CHECK(attention_shape(spec, 1).window == 0);
  }
}

TEST_CASE("Matrices, stacks and vectors make up a layer's weights", "[engine][model]") {
  Layer layer;
  int matrices = 0, stacks = 0, vectors = 0, all = 0;
  for_each_matrix([&](LayerWeight, const Matrix&) { ++matrices; }, layer);
  for_each_stack([&](LayerWeight, const MatrixStack&) { ++stacks; }, layer);
  for_each_vector([&](LayerWeight, const std::vector<float>&) { ++vectors; }, layer);
  for_each_weight([&](LayerWeight, const auto&) { ++all; }, layer);
  CHECK(matrices == 23);
  CHECK(stacks == 3);
  CHECK(matrices + stacks + vectors == all);
}
