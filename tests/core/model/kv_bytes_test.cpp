#include "core/model/kv_bytes.hpp"

#include "tests/catch.hpp"
#include "tests/core/model_fixtures.hpp"

namespace rigcast {
namespace {

constexpr KvTypes kF16Both{};
constexpr KvTypes kQ8Both{QuantFormat::kQ8_0, QuantFormat::kQ8_0};
constexpr KvTypes kQ4Both{QuantFormat::kQ4_0, QuantFormat::kQ4_0};

}  // namespace

TEST_CASE("Names of KV types are those of llama.cpp; another one is an error with a hint", "[kv]") {
  for (const auto* name : {"f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "iq4_nl"})
    CHECK(kv_type_from(name).ok());
  REQUIRE(kv_type_from("Q8_0").ok());
  CHECK(*kv_type_from("Q8_0") == QuantFormat::kQ8_0);
  CHECK_FALSE(kv_type_from("q4_k").ok());
  const auto wrong = kv_type_from("q8");
  REQUIRE_FALSE(wrong.ok());
  CHECK(wrong.error().hint.find("q8_0") != std::string::npos);
  CHECK_FALSE(kv_type_from("").error().hint.empty());
}

TEST_CASE("A token's KV is two rows of all KV heads in every layer", "[kv]") {
  const ModelSpec llama = fixtures::llama_3_1_8b();  // 2 * 32 layers * 8 * 128 values
  CHECK(kv_bytes_per_token(llama, kF16Both) == 131072);
  CHECK(kv_bytes_per_token(llama, kQ8Both) == 69632);
  CHECK(kv_bytes_per_token(llama, kQ4Both) == 36864);
  CHECK(kv_bytes_per_token(llama, {QuantFormat::kF16, QuantFormat::kQ8_0}) == (131072 + 69632) / 2);
  CHECK(kv_bytes_per_token(fixtures::qwen2_5_7b(), kF16Both) == 57344);
  CHECK(kv_bytes_per_token(fixtures::qwen3_8b(), kF16Both) == 147456);
  CHECK(kv_bytes_per_token(fixtures::llama_3_1_70b(), kF16Both) == 327680);
  CHECK(kv_bytes_per_token(fixtures::llama_2_7b(), kF16Both) == 524288);
  CHECK(kv_bytes_per_token(fixtures::qwen3_30b_a3b(), kF16Both) == 98304);
}

TEST_CASE("One layer's block of 128 tokens is 512, 272 or 144 KiB in Llama 3.1 8B", "[kv]") {
  const ModelSpec llama = fixtures::llama_3_1_8b();
  CHECK(kv_bytes(llama, 0, 128, kF16Both) == (512_KiB).value);
  CHECK(kv_bytes(llama, 0, 128, kQ8Both) == (272_KiB).value);
  CHECK(kv_bytes(llama, 0, 128, kQ4Both) == (144_KiB).value);
  CHECK(kv_bytes(llama, 8192, kF16Both) == (1_GiB).value);
  CHECK(kv_bytes(llama, 0, kF16Both) == 0);
}

TEST_CASE("Multi-query attention keeps one head", "[kv]") {
  CHECK(kv_bytes_per_token(fixtures::falcon_7b(), 0, kF16Both) == 2 * 64 * 2);
}

TEST_CASE("Latent attention keeps one compressed row, in the type of the keys", "[kv]") {
  const ModelSpec deepseek = fixtures::deepseek_v2_lite();  // 512 + 64 values
  CHECK(kv_bytes_per_token(deepseek, 0, kF16Both) == 1152);
  CHECK(kv_bytes_per_token(deepseek, kF16Both) == 27 * 1152);
  CHECK(kv_bytes_per_token(deepseek, 0, {QuantFormat::kQ8_0, QuantFormat::kF32}) == 612);
}

TEST_CASE("Builds that cache latent values keep a second row, in the type of the values", "[kv]") {
  ModelSpec m = fixtures::deepseek_v2_lite();
  const KvTypes types{QuantFormat::kF16, QuantFormat::kQ8_0};
  CHECK(kv_bytes_per_token(m, 0, types) == 2 * 576);
  m.mla->caches_values = true;
  CHECK(kv_bytes_per_token(m, 0, types) == 2 * 576 + 512 / 32 * 34);
  CHECK(kv_read_bytes_per_token(m, 0, types) == 2 * 576);  // values lie in the keys, too
  // 1836 MiB for 32,768 tokens: what llama.cpp b7347 allocates.
  const KvTypes halves{QuantFormat::kF16, QuantFormat::kF16};
  CHECK(kv_bytes(m, 32768, halves) == 1836.0 * 1024 * 1024);
}

TEST_CASE("An indexer of sparse attention keeps a key more, in the type of the keys", "[kv]") {
  ModelSpec deepseek = fixtures::deepseek_v2_lite();
  deepseek.indexer = SparseIndexer{};
  deepseek.indexer->key_dim = 128;
  CHECK(kv_bytes_per_token(deepseek, 0, kF16Both) == 1152 + 256);
  CHECK(kv_bytes_per_token(deepseek, 0, {QuantFormat::kQ8_0, QuantFormat::kF32}) == 612 + 136);
  deepseek.indexer->first_layer = 3;
  CHECK(kv_bytes_per_token(deepseek, kF16Both) == 27 * 1152 + 24 * 256);
  deepseek.indexer->layers = {0, 5};
  CHECK(kv_bytes_per_token(deepseek, kF16Both) == 27 * 1152 + 2 * 256);
  deepseek.indexer->key_dim = 100;
  CHECK_FALSE(check_kv_types(deepseek, kQ8Both).ok());
  CHECK(check_kv_types(deepseek, kF16Both).ok());
}

TEST_CASE("A window's cache stops growing at its width", "[kv]") {
  const ModelSpec gpt_oss = fixtures::gpt_oss_20b();  // layers 1, 3, ... see all tokens
  const double row = 2 * 8 * 64 * 2;
  CHECK(kv_bytes(gpt_oss, 0, 127, kF16Both) == 127 * row);
  CHECK(kv_bytes(gpt_oss, 0, 128, kF16Both) == 128 * row);
  CHECK(kv_bytes(gpt_oss, 0, 129, kF16Both) == 128 * row);
  CHECK(kv_bytes(gpt_oss, 1, 129, kF16Both) == 129 * row);
  CHECK(kv_bytes(gpt_oss, 4096, kF16Both) == 12 * (128 + 4096) * row);
}

TEST_CASE("Layers that see all tokens may have heads of their own", "[kv]") {
  ModelSpec model = fixtures::gemma_2_2b();
  model.window = SlidingWindow{.tokens = 512,
                               .full_every = 2,
                               .full_head_dim = 512,
                               .full_kv_heads = 1,
                               .full_key_is_value = true};
  CHECK(kv_bytes_per_token(model, 0, kF16Both) == 2 * 4 * 256 * 2);
  CHECK(kv_bytes_per_token(model, 1, kF16Both) == 2 * 1 * 512 * 2);
}

TEST_CASE("A recurrent layer keeps a fixed state and no growing cache", "[kv]") {
  ModelSpec hybrid = fixtures::qwen3_8b();
  hybrid.recurrent.emplace();
  hybrid.recurrent->full_attention_every = 4;
  hybrid.recurrent->state_bytes = 1000;
  CHECK(kv_bytes_per_token(hybrid, 0, kF16Both) == 0);
  CHECK(kv_bytes(hybrid, 0, 4096, kF16Both) == 1000);
  CHECK(kv_bytes_per_token(hybrid, 3, kF16Both) == 4096);
  CHECK(kv_bytes_per_token(hybrid, kF16Both) == 9 * 4096);
  CHECK(kv_bytes(hybrid, 10, kF16Both) == 27 * 1000 + 9 * 4096 * 10);
  hybrid.recurrent->parallel = true;
  CHECK(kv_bytes(hybrid, 0, 10, kF16Both) == 1000 + 4096 * 10);
}

TEST_CASE("Layers that share an earlier cache keep none", "[kv]") {
  ModelSpec model = fixtures::llama_3_8b();
  model.shared_kv_layers = 10;
  CHECK(kv_bytes_per_token(model, 21, kF16Both) == 4096);
  CHECK(kv_bytes_per_token(model, 22, kF16Both) == 0);
  CHECK(kv_bytes_per_token(model, kF16Both) == 22 * 4096);
}

TEST_CASE("A type whose block a head does not fill is refused, and counted in whole blocks",
          "[kv]") {
  ModelSpec model = fixtures::llama_2_7b();
  CHECK(check_kv_types(model, kQ8Both).ok());
  model.head_dim = 80;
  CHECK(check_kv_types(model, kF16Both).ok());
  const auto refused = check_kv_types(model, {QuantFormat::kF16, QuantFormat::kQ8_0});
  REQUIRE_FALSE(refused.ok());
  CHECK(refused.error().text().find("80") != std::string::npos);
  model.kv_heads = 1;
  CHECK(kv_bytes_per_token(model, 0, kQ8Both) == 2 * 3 * 34);  // 80 values end in the third block
  CHECK(check_kv_types(fixtures::deepseek_v2_lite(), kQ8Both).ok());
}

}  // namespace rigcast
