// Metadata: round trips of every type, and their text.

#include <limits>

#include "tests/engine/gguf/gguf_fixture.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

// A value as a file says it: `bytes` behind its type.
Result<Value> value_of(ValueType type, const std::string& bytes) {
  Cursor cursor(bytes_of(bytes));
  return read_value(cursor, type);
}

}  // namespace

TEST_CASE("Metadata of every type come back as they were written", "[gguf]") {
  GgufHeader header;
  header.set("a.u8", std::uint8_t(200));
  header.set("a.i8", std::int8_t(-100));
  header.set("a.u16", std::uint16_t(60'000));
  header.set("a.i16", std::int16_t(-30'000));
  header.set("a.u32", std::uint32_t(4'000'000'000));
  header.set("a.i32", std::int32_t(-2'000'000'000));
  header.set("a.f32", 0.1f);
  header.set("a.bool", true);
  header.set("a.string", "text with a \" and \xE2\x82\xAC");
  header.set("a.u64", std::numeric_limits<std::uint64_t>::max());
  header.set("a.i64", std::numeric_limits<std::int64_t>::min());
  header.set("a.f64", 0.1);
  header.set("a.strings", std::vector<std::string>{"<s>", "", "b"});
  header.set("a.floats", std::vector<float>{0.5f, -1.0f});
  header.set("a.integers", std::vector<std::int32_t>{1, -2, 3});
  header.set("a.flags", std::vector<bool>{true, false});
  header.set("a.none", std::vector<std::uint16_t>{});
  header.set("a.nested", std::vector<std::vector<std::uint8_t>>{{1, 2}, {}, {3}});

  const std::string bytes = header.encode();
  const auto part = part_of(bytes);
  REQUIRE(part.ok());
  const Metadata& m = part->metadata;
  CHECK(m.entries().size() == 18);
  CHECK(m.find("a.u8")->integer() == 200);
  CHECK(m.find("a.i8")->integer() == -100);
  CHECK(m.find("a.u16")->integer() == 60'000);
  CHECK(m.find("a.i16")->integer() == -30'000);
  CHECK(m.find("a.u32")->integer() == 4'000'000'000);
  CHECK(m.find("a.i32")->integer() == -2'000'000'000);
  CHECK(m.find("a.f32")->number() == double(0.1f));
  CHECK(m.find("a.bool")->flag() == true);
  CHECK(m.find("a.string")->text() == "text with a \" and \xE2\x82\xAC");
  CHECK_FALSE(m.find("a.u64")->integer());
  CHECK(m.find("a.u64")->number() == 18446744073709551616.0);
  CHECK(m.find("a.i64")->integer() == std::numeric_limits<std::int64_t>::min());
  CHECK(m.find("a.f64")->number() == 0.1);
  CHECK(m.find("a.strings")->texts() == std::vector<std::string_view>{"<s>", "", "b"});
  CHECK(m.find("a.floats")->numbers() == std::vector<double>{0.5, -1.0});
  CHECK(m.find("a.integers")->integers() == std::vector<std::int64_t>{1, -2, 3});
  CHECK(m.find("a.none")->count() == 0);
  std::vector<bool> flags;
  m.find("a.flags")->each([&](const Value& v) { flags.push_back(*v.flag()); });
  CHECK(flags == std::vector<bool>{true, false});
  std::vector<std::vector<std::int64_t>> nested;
  m.find("a.nested")->each([&](const Value& v) { nested.push_back(*v.integers()); });
  CHECK(nested == std::vector<std::vector<std::int64_t>>{{1, 2}, {}, {3}});
  CHECK(m.find("a") == nullptr);
  CHECK(m.find("a.u9") == nullptr);
}

TEST_CASE("A value is asked for as what it is", "[gguf]") {
  const std::string four = Raw().u32(7).bytes;
  const auto whole = value_of(ValueType::kU32, four);
  REQUIRE(whole.ok());
  CHECK_FALSE(whole->text());
  CHECK_FALSE(whole->flag());
  CHECK_FALSE(whole->texts());
  CHECK_FALSE(whole->integers());
  const std::string word = Raw().text("seven").bytes;
  const auto text = value_of(ValueType::kString, word);
  REQUIRE(text.ok());
  CHECK_FALSE(text->integer());
  CHECK_FALSE(text->number());
  CHECK_FALSE(text->numbers());
}

TEST_CASE("Values are shown on one line", "[gguf]") {
  const auto shown = [](ValueType type, const std::string& bytes) {
    const auto value = value_of(type, bytes);
    REQUIRE(value.ok());
    return value_text(*value);
  };
  CHECK(shown(ValueType::kU32, Raw().u32(8192).bytes) == "8192");
  CHECK(shown(ValueType::kF32, Raw().put(1e-5f).bytes) == "1e-05");
  CHECK(shown(ValueType::kF64, Raw().put(0.5).bytes) == "0.5");
  CHECK(shown(ValueType::kBool, Raw().put(std::uint8_t(0)).bytes) == "false");
  CHECK(shown(ValueType::kString, Raw().text("a\n\x1b[31mb\xff").bytes) == "\"a [31mb?\"");
  CHECK(shown(ValueType::kString, Raw().text(std::string(500, 'x')).bytes).size() < 100);
  std::string euros;
  for (int i = 0; i < 40; ++i) euros += "\xE2\x82\xAC";
  CHECK_FALSE(contains(shown(ValueType::kString, Raw().text(euros).bytes), "?"));
  CHECK(shown(ValueType::kArray, Raw().u32(8).u64(2).text("a").text("b").bytes) == "[2 strings]");
  CHECK(shown(ValueType::kArray, Raw().u32(8).u64(1).text("a").bytes) == "[1 string]");
  CHECK(shown(ValueType::kArray, Raw().u32(6).u64(1).put(1.0f).bytes) == "[1 f32 number]");
}

TEST_CASE("Lengths that the bytes do not hold are refused before anything is made of them",
          "[gguf]") {
  constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t n : {std::uint64_t{9}, std::uint64_t{1} << 32, kMax / 2, kMax}) {
    CHECK_FALSE(value_of(ValueType::kString, Raw().u64(n).zeros(8).bytes).ok());
    for (std::uint32_t type = 0; type < kValueTypeCount; ++type)
      CHECK_FALSE(value_of(ValueType::kArray, Raw().u32(type).u64(n).zeros(8).bytes).ok());
  }
  CHECK_FALSE(value_of(ValueType::kArray, Raw().u32(13).u64(0).bytes).ok());
  CHECK_FALSE(value_of(ValueType::kU64, Raw().u32(0).bytes).ok());
}

TEST_CASE("Arrays nest so deep and no deeper", "[gguf]") {
  const auto nested = [](int arrays) {
    Raw raw;
    for (int i = 1; i < arrays; ++i) raw.u32(9).u64(1);
    return raw.u32(0).u64(0).bytes;
  };
  CHECK(value_of(ValueType::kArray, nested(1)).ok());
  CHECK(value_of(ValueType::kArray, nested(kMaxArrayDepth)).ok());
  const auto deeper = value_of(ValueType::kArray, nested(kMaxArrayDepth + 1));
  CHECK(contains(error_of(deeper), "more than 8 deep"));
  CHECK_FALSE(value_of(ValueType::kArray, nested(100'000)).ok());
}

}  // namespace rigcast::engine
