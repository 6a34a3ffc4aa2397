// Small files of many kinds: the fuzzer's seeds, kept in tests/data/gguf.

#include <cstdlib>

#include "engine/gguf/model/read_model.hpp"
#include "engine/gguf/model/read_spec.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"
#include "tests/paths.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

const std::filesystem::path kFolder = std::filesystem::path(test::source_dir()) / "tests/data/gguf";

struct Seed {
  std::string name;
  std::string bytes;
};

// As small as an architecture gets.
ModelSpec smallest(const char* architecture) {
  ModelSpec m = tiny(architecture);
  m.layers = 1;
  m.hidden = 8;
  m.heads = 2;
  m.kv_heads = 1;
  m.head_dim = 4;
  m.vocabulary = 3;
  if (m.moe) {
    m.moe->experts = 2;
    m.moe->experts_used = 1;
    m.moe->expert_ffn = 4;
  } else {
    m.ffn = 4;
  }
  return m;
}

Seed of_model(const char* architecture) {
  GgufHeader header = header_of(smallest(architecture), "F16");
  header.set("tokenizer.ggml.tokens", std::vector<std::string>{"<s>", "a", "b"});
  header.set("tokenizer.ggml.scores", std::vector<float>{0.0f, -1.0f, -2.0f});
  header.set(std::string(architecture) + ".rope.freq_base", 1e6f);
  return {std::string("model-") + architecture, with_zeros(header)};
}

Seed of_every_value() {
  GgufHeader header(64);
  header.set("a.u8", std::uint8_t(1));
  header.set("a.i8", std::int8_t(-1));
  header.set("a.u16", std::uint16_t(2));
  header.set("a.i16", std::int16_t(-2));
  header.set("a.u32", std::uint32_t(3));
  header.set("a.i32", std::int32_t(-3));
  header.set("a.f32", 0.5f);
  header.set("a.bool", true);
  header.set("a.string", "text");
  header.set("a.u64", std::uint64_t(4));
  header.set("a.i64", std::int64_t(-4));
  header.set("a.f64", 0.25);
  header.set("a.nested", std::vector<std::vector<std::vector<std::string>>>{{{"x"}, {}}, {}});
  header.add_tensor("q", QuantFormat::kQ4_K, {256, 1});
  header.add_tensor("v", QuantFormat::kF32, {1, 2, 1, 2});
  return {"every-value", with_zeros(header)};
}

Seed of_window() {
  ModelSpec m = smallest("gemma2");
  m.layers = 2;
  m.norms_per_layer = 4;
  m.tied_embeddings = true;
  m.window = SlidingWindow{};
  m.window->tokens = 16;
  m.window->full_every = 2;
  return {"window", with_zeros(header_of(m, "F32"))};
}

Seed of_latent_attention() {
  ModelSpec m = smallest("deepseek2");
  m.mla = LatentAttention{0, 4, 2, 2, 4};
  return {"latent", with_zeros(header_of(m, "F32"))};
}

Seed of_version_2() {
  Seed seed = of_model("llama");
  seed.bytes[4] = 2;
  seed.name = "version-2";
  return seed;
}

std::vector<Seed> seeds() {
  std::vector<Seed> out = {of_every_value(), of_window(), of_latent_attention(), of_version_2()};
  for (const char* architecture : {"llama", "qwen2", "qwen3", "qwen3moe"})
    out.push_back(of_model(architecture));
  return out;
}

}  // namespace

TEST_CASE("The seeds of the fuzzer are what this file makes", "[gguf]") {
  const bool write = std::getenv("RIGCAST_WRITE_SEEDS") != nullptr;
  std::size_t bytes = 0;
  for (const Seed& seed : seeds()) {
    const std::filesystem::path path = kFolder / (seed.name + ".gguf");
    if (write) std::ofstream(path, std::ios::binary) << seed.bytes;
    INFO(path.string() << ": RIGCAST_WRITE_SEEDS=1 writes it");
    CHECK(test::read(path) == seed.bytes);
    bytes += seed.bytes.size();
    const auto file = GgufFile::open(path);
    REQUIRE(file.ok());
    if (seed.name.starts_with("model-")) CHECK(load_model(*file).ok());
    if (seed.name != "every-value") CHECK(read_spec(*file).ok());
  }
  CHECK(bytes < 50'000);
}

}  // namespace rigcast::engine
