#include "core/model/model_spec.hpp"

#include <string>

#include "tests/catch.hpp"
#include "tests/core/model_fixtures.hpp"

namespace rigcast {
namespace {

constexpr const char* kLlama = R"(
name = "Llama 3.1 8B"
architecture = "llama"
source = "config.json"
aliases = ["llama3.1:8b"]
layers = 32
hidden = 4096
heads = 32
kv_heads = 8
head_dim = 128
ffn = 14336
vocabulary = 128256
context = 131072
rope_freqs = true
)";

Result<ModelSpec> parse(const std::string& toml) {
  auto document = TomlDocument::parse(toml, "test.toml");
  if (!document) return document.error();
  ModelSpec spec = read_model_spec(document->root(), "test");
  if (auto error = document->error()) return *error;
  return spec;
}

std::string without(std::string text, const std::string& line) {
  const auto at = text.find(line);
  REQUIRE(at != std::string::npos);
  return text.erase(at, line.size());
}

void check_refused(const std::string& toml, const std::string& said) {
  const auto spec = parse(toml);
  INFO(toml);
  REQUIRE_FALSE(spec.ok());
  INFO(spec.error().text());
  CHECK(spec.error().kind == ErrorKind::kBadInput);
  CHECK(spec.error().text().find(said) != std::string::npos);
}

}  // namespace

TEST_CASE("A spec has what its file says, and defaults elsewhere", "[model]") {
  const auto spec = parse(kLlama);
  REQUIRE(spec.ok());
  CHECK(spec->id == "test");
  CHECK(spec->aliases == std::vector<std::string>{"llama3.1:8b"});
  CHECK(spec->ffn == 14336);
  CHECK(spec->rope_freqs);
  CHECK(spec->gated_ffn);
  CHECK_FALSE(spec->tied_embeddings);
  CHECK(spec->norms_per_layer == 2);
  CHECK_FALSE(spec->moe.has_value());
  CHECK(spec->has_attention(0));
  CHECK(spec->has_kv(31));
  CHECK(spec->has_ffn(31));
  CHECK_FALSE(spec->has_recurrent_mixer(0));
  CHECK_FALSE(spec->is_moe_layer(0));
}

TEST_CASE("A key that is missing, unknown or implausible is named", "[model]") {
  check_refused(without(kLlama, "hidden = 4096\n"), "hidden");
  check_refused(without(kLlama, "ffn = 14336\n"), "ffn");
  check_refused(std::string(kLlama) + "hiden = 4096\n", "hiden");
  check_refused(without(kLlama, "kv_heads = 8\n") + "kv_heads = 7\n", "kv_heads");
  check_refused(without(kLlama, "layers = 32\n") + "layers = 0\n", "layers");
  check_refused(std::string(kLlama) + "[moe]\nexperts = 8\nexperts_used = 9\nexpert_ffn = 1\n",
                "experts_used");
}

TEST_CASE("Dense layers lead a mixture, or alternate with it", "[model]") {
  ModelSpec m = fixtures::with_experts(fixtures::llama_3_8b(), 8, 2, 1024);
  CHECK(m.is_moe_layer(0));
  m.moe->dense_layers = 3;
  CHECK_FALSE(m.is_moe_layer(2));
  CHECK(m.is_moe_layer(3));
  m.moe->dense_layers = 0;
  m.moe->every = 2;
  CHECK_FALSE(m.is_moe_layer(0));
  CHECK(m.is_moe_layer(1));
}

TEST_CASE("Every n-th layer of a windowed model sees all tokens", "[model]") {
  ModelSpec m = fixtures::llama_3_8b();
  m.window = SlidingWindow{.tokens = 512, .full_every = 6};
  CHECK(m.attended_tokens(0, 511) == 511);
  CHECK(m.attended_tokens(0, 513) == 512);
  CHECK(m.attended_tokens(5, 513) == 513);
  CHECK(m.attended_tokens(11, 9999) == 9999);
  m.window->full_every = 0;
  CHECK(m.attended_tokens(5, 513) == 512);
  m.window =
      SlidingWindow{.tokens = 512, .full_every = 6, .full_head_dim = 512, .full_kv_heads = 2};
  CHECK(m.head_dim_of(0) == 128);
  CHECK(m.head_dim_of(5) == 512);
  CHECK(m.kv_heads_of(0) == 8);
  CHECK(m.kv_heads_of(5) == 2);
}

TEST_CASE("Attention of a hybrid sits in every n-th layer, in listed ones, or beside the mixer",
          "[model]") {
  ModelSpec m = fixtures::llama_3_8b();
  m.recurrent.emplace();
  m.recurrent->full_attention_every = 4;
  CHECK_FALSE(m.has_attention(2));
  CHECK(m.has_recurrent_mixer(2));
  CHECK(m.attended_tokens(2, 100) == 0);
  CHECK(m.has_kv(3));
  CHECK_FALSE(m.has_recurrent_mixer(3));
  m.recurrent->full_attention_every = 0;
  m.recurrent->attention_layers = {2, 5};
  CHECK(m.has_attention(5));
  CHECK_FALSE(m.has_attention(3));
  m.recurrent->parallel = true;
  CHECK(m.has_attention(3));
  CHECK(m.has_recurrent_mixer(3));
}

TEST_CASE("A pattern gives every layer one block", "[model]") {
  const std::string base =
      without(without(kLlama, "layers = 32\n"), "ffn = 14336\n") + "layers = 3\npattern = ";
  const std::string tables =
      "[moe]\nexperts = 8\nexperts_used = 2\nexpert_ffn = 512\n"
      "[recurrent]\nfull_attention_every = 0\nstate_bytes = 8\nlayer_parameters = 64\n";
  const auto spec = parse(base + "\"ME*\"\n" + tables);
  if (!spec) FAIL(spec.error().text());
  CHECK(spec->has_recurrent_mixer(0));
  CHECK_FALSE(spec->has_ffn(0));
  CHECK(spec->is_moe_layer(1));
  CHECK_FALSE(spec->has_attention(1));
  CHECK(spec->has_kv(2));
  check_refused(base + "\"ME\"\n" + tables, "pattern");
  check_refused(base + "\"MEX\"\n" + tables, "pattern");
  check_refused(base + "\"ME*\"\n", "pattern");
  check_refused(base + "\"M-*\"\n" + tables, "ffn");
}

TEST_CASE("Layers that share an earlier cache attend without keeping one", "[model]") {
  ModelSpec m = fixtures::llama_3_8b();
  m.shared_kv_layers = 2;
  CHECK(m.has_kv(29));
  CHECK_FALSE(m.has_kv(30));
  CHECK(m.has_attention(30));
  CHECK(m.attended_tokens(30, 77) == 77);
}

TEST_CASE("A file that is not there is an error, not an exception", "[model]") {
  CHECK_FALSE(load_model_spec("/nowhere/none.toml").ok());
}

}  // namespace rigcast
