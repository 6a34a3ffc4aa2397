#include "engine/model/model_bytes.hpp"

#include "tests/catch.hpp"

using namespace rigcast::engine;
using rigcast::QuantFormat;

namespace {

// 8 columns and so many rows of F32: 32 bytes a row. It need not lie anywhere.
Matrix rows_of(std::int64_t rows, const std::byte* data = nullptr) {
  return {data, QuantFormat::kF32, 8, rows};
}

// Weights of a layer but for its FFN or experts; those of attention differ in size from all others.
Layer attention_part(const std::byte* data) {
  Layer w;
  w.attention_norm.resize(8);
  w.q_bias.resize(1);
  w.k_norm.resize(2);
  w.ffn_norm.resize(8);
  w.q = rows_of(8, data);
  w.k = w.v = rows_of(4, data);
  w.output = rows_of(16, data);
  return w;
}

}  // namespace

TEST_CASE("What operations read adds up to a layer", "[engine][model]") {
  const std::byte here{};
  const std::int64_t attention = 32 * (8 + 4 + 4 + 16) + 4 * (8 + 1 + 2);

  Layer dense = attention_part(&here);
  dense.gate = dense.up = dense.down = rows_of(64, &here);
  CHECK(attention_weight_bytes(dense) == attention);
  CHECK(ffn_weight_bytes(dense) == 3 * 64 * 32 + 8 * 4);
  CHECK(one_expert_bytes(dense) == 0);
  CHECK(attention_weight_bytes(dense) + ffn_weight_bytes(dense) == layer_bytes(dense));

  Layer mixture = attention_part(&here);
  mixture.router = rows_of(4, &here);
  mixture.expert_gate = mixture.expert_up = mixture.expert_down = {rows_of(32, &here), 4};
  CHECK(attention_weight_bytes(mixture) == attention);
  CHECK(ffn_weight_bytes(mixture) == 4 * 32 + 8 * 4);
  CHECK(one_expert_bytes(mixture) == 3 * 32 * 32);
  CHECK(attention_weight_bytes(mixture) + ffn_weight_bytes(mixture) +
            4 * one_expert_bytes(mixture) ==
        layer_bytes(mixture));
}

TEST_CASE("What operations read does not ask where it lies", "[engine][model]") {
  Layer elsewhere = attention_part(nullptr);
  elsewhere.expert_gate = {rows_of(32), 4};
  CHECK(attention_weight_bytes(elsewhere) == 32 * (8 + 4 + 4 + 16) + 4 * (8 + 1 + 2));
  CHECK(one_expert_bytes(elsewhere) == 32 * 32);

  Model model;
  model.head = rows_of(100);
  model.final_norm.resize(8);
  model.rope_factors.resize(3);
  CHECK(head_weight_bytes(model) == 100 * 32 + 4 * (8 + 3));
}
