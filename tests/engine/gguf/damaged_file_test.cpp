// A file cut off or changed at any byte is read or refused, never followed out of its bounds.

#include <array>

#include "engine/gguf/model/read_model.hpp"
#include "engine/gguf/model/read_spec.hpp"
#include "engine/gguf/model/read_table.hpp"
#include "tests/engine/gguf/gguf_fixture.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

// Small, and with everything that a header can hold.
std::string whole_file() {
  ModelSpec spec = tiny("qwen2");
  spec.layers = 1;
  spec.vocabulary = 3;
  spec.hidden = 8;
  spec.heads = 2;
  spec.kv_heads = 1;
  spec.head_dim = 4;
  spec.ffn = 4;
  GgufHeader header;
  set_metadata(spec, header);
  header.set("tokenizer.ggml.tokens", std::vector<std::string>{"a", "b"});
  header.set("x.nested", std::vector<std::vector<float>>{{1.0f}, {}});
  header.set("qwen2.rope.freq_base", 1e6f);
  add_tensors(table_of(spec, "F16"), header);
  return with_zeros(header);
}

// Everything that is done with a file; whether it got to the end.
bool is_understood(const std::string& bytes) {
  const auto file = file_of(bytes);
  if (!file) {
    CHECK_FALSE(file.error().message.empty());
    CHECK(file.error().where.has_value());
    return false;
  }
  for (const MetadataEntry& entry : file->metadata().entries()) value_text(entry.value);
  const auto spec = read_spec(*file);
  if (!spec) return false;
  const auto table = read_tensor_table(*file, *spec);
  if (table) quant_name(*file, *spec, *table);
  return load_model(*file).ok();
}

}  // namespace

TEST_CASE("A file cut off at any byte is refused", "[gguf][fuzz]") {
  const std::string whole = whole_file();
  REQUIRE(is_understood(whole));
  const auto part = part_of(whole);
  REQUIRE(part.ok());
  const TensorInfo& last = part->tensors.back();
  const std::size_t needed = std::size_t(last.offset + last.bytes);
  for (std::size_t n = 0; n < whole.size(); ++n) {
    // In a buffer of its own, so that a read past its end is seen by sanitizers.
    const std::string cut(whole.data(), n);
    CHECK(is_understood(cut) == (n >= needed));
  }
}

TEST_CASE("A file with any byte changed is read or refused", "[gguf][fuzz]") {
  const std::string whole = whole_file();
  const auto part = part_of(whole);
  REQUIRE(part.ok());
  int understood = 0;
  int refused = 0;
  for (std::size_t i = 0; i < part->data_begin; ++i) {
    for (const int value :
         {0, 1, 2, 9, 0x7F, 0x80, 0xFF, int(whole[i]) ^ 1, int(whole[i]) ^ 0x80}) {
      std::string changed = whole;
      changed[i] = char(value);
      ++(is_understood(changed) ? understood : refused);
    }
  }
  CHECK(understood > 100);
  CHECK(refused > 1000);
}

TEST_CASE("A file with any eight bytes as a large number is read or refused", "[gguf][fuzz]") {
  const std::string whole = whole_file();
  const auto part = part_of(whole);
  REQUIRE(part.ok());
  int refused = 0;
  for (std::size_t i = 0; i + 8 <= part->data_begin; ++i) {
    for (const std::uint64_t number :
         {std::uint64_t{1} << 31, std::uint64_t{1} << 62, ~std::uint64_t{0}, ~std::uint64_t{31},
          std::uint64_t(whole.size())}) {
      std::string changed = whole;
      std::memcpy(changed.data() + i, &number, sizeof number);
      refused += !is_understood(changed);
    }
  }
  CHECK(refused > 1000);
}

}  // namespace rigcast::engine
