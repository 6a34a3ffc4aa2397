// Files of 2 MB that are designed to take long: each is read, or refused, in seconds.

#include "tests/hostile.hpp"

#include <string>
#include <utility>
#include <vector>

#include "engine/gguf/model/read_spec.hpp"
#include "engine/tokenizer/file_vocabulary.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;
using rigcast::fixtures::check_quick;
using rigcast::fixtures::kHostileBytes;

namespace {

std::uint32_t id(ValueType type) { return std::uint32_t(type); }

std::string many_entries() {
  Raw raw;
  const std::size_t count = kHostileBytes / 20;
  raw.begin(0, count);
  for (std::size_t i = 0; i < count; ++i)
    raw.text(std::to_string(i)).u32(id(ValueType::kU8)).raw("x");
  return raw.bytes;
}

std::string many_tensors() {
  Raw raw;
  const std::size_t count = kHostileBytes / 80;
  raw.begin(count, 0);
  for (std::size_t i = 0; i < count; ++i) raw.tensor(std::to_string(i), {1}, 0, i * 32);
  raw.pad();
  return raw.zeros(count * 32).bytes;
}

// Arrays of arrays of arrays, none of which holds anything.
std::string empty_arrays(int deep) {
  Raw raw;
  raw.begin(0, 1).text("a").u32(id(ValueType::kArray));
  for (int i = 0; i < deep; ++i) raw.u32(id(ValueType::kArray)).u64(1);
  const std::size_t count = kHostileBytes / 12;
  raw.u32(id(ValueType::kArray)).u64(count);
  for (std::size_t i = 0; i < count; ++i) raw.u32(id(ValueType::kU8)).u64(0);
  return raw.bytes;
}

// A model whose metadata state the largest allowed number of layers.
std::string many_layers() {
  ModelSpec model = tiny("llama");
  model.layers = 1;
  GgufHeader header = header_of(model, "F32");
  std::string bytes = with_zeros(header);
  const std::string key = "llama.block_count";
  const std::uint32_t layers = 1'000'000;
  bytes.replace(bytes.find(key) + key.size() + 4, 4, reinterpret_cast<const char*>(&layers), 4);
  return bytes;
}

GgufHeader vocabulary(const char* kind, const std::vector<std::string>& tokens) {
  GgufHeader header;
  header.set("tokenizer.ggml.model", kind);
  header.set("tokenizer.ggml.tokens", tokens);
  if (std::string(kind) == "llama")
    header.set("tokenizer.ggml.scores", std::vector<float>(tokens.size(), 0.0f));
  return header;
}

std::vector<std::string> numbered(std::size_t count) {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(std::to_string(i));
  return out;
}

// a, aa, aaa, ...: every piece of a text of them is the beginning of many.
std::vector<std::string> prefixes(std::size_t longest) {
  std::vector<std::string> out;
  for (std::size_t n = 1; n <= longest; ++n) out.emplace_back(n, 'a');
  return out;
}

std::string merges_of_prefixes() {
  GgufHeader header = vocabulary("gpt2", prefixes(1900));
  std::vector<std::string> merges;
  for (std::size_t n = 1; n < 1000; ++n) merges.push_back(std::string(n, 'a') + " a");
  header.set("tokenizer.ggml.merges", merges);
  return header.encode();
}

std::string user_defined_prefixes() {
  const auto tokens = prefixes(1900);
  GgufHeader header = vocabulary("llama", tokens);
  header.set("tokenizer.ggml.token_type", std::vector<std::int32_t>(tokens.size(), 4));
  return header.encode();
}

}  // namespace

TEST_CASE("A file of 2 MB takes seconds, whatever is in it", "[gguf][hostile]") {
  const std::pair<const char*, std::string> files[] = {
      {"many entries", many_entries()},
      {"many tensors", many_tensors()},
      {"empty arrays", empty_arrays(0)},
      {"empty arrays, deep", empty_arrays(6)},
      {"arrays too deep", empty_arrays(60)},
      {"many layers", many_layers()},
      {"many tokens", vocabulary("llama", numbered(kHostileBytes / 20)).encode()},
      {"many tokens of byte pairs", vocabulary("gpt2", numbered(kHostileBytes / 20)).encode()},
      {"merges of prefixes", merges_of_prefixes()},
      {"user-defined prefixes", user_defined_prefixes()},
  };
  const std::string text(20'000, 'a');
  for (const auto& [what, bytes] : files) {
    INFO(what);
    CHECK(bytes.size() < 2 * kHostileBytes);
    check_quick([&, &bytes = bytes] {
      const auto file = file_of(bytes);
      CHECK((file.ok() || !file.error().message.empty()));
      if (!file) return;
      for (const MetadataEntry& entry : file->metadata().entries())
        CHECK(value_text(entry.value).size() < 2 * kHostileBytes);
      const auto spec = read_spec(*file);
      CHECK_FALSE((spec.ok() && spec->layers != 1));
      const auto tokenizer = file_tokenizer(*file);
      if (!tokenizer || !*tokenizer) return;
      CHECK((*tokenizer)->encode(text).size() <= 3 * text.size() + 2);
    });
  }
}
