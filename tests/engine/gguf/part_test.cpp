// Valid and invalid headers.

#include <limits>

#include "tests/engine/gguf/gguf_fixture.hpp"

namespace rigcast::engine {
namespace {

using namespace fixtures;

constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kQ4_0 = 2;

// One tensor of 64 weights at an offset, and `data` bytes of data.
std::string one_tensor(std::uint64_t offset, std::size_t data,
                       const std::vector<std::uint64_t>& shape = {32, 2},
                       std::uint32_t type = kF32) {
  return Raw().begin(1, 0).tensor("a", shape, type, offset).pad().zeros(data).bytes;
}

// Two tensors of 32 weights in F32: 128 bytes each.
std::string two_tensors(const char* a, std::uint64_t at_a, const char* b, std::uint64_t at_b) {
  return Raw()
      .begin(2, 0)
      .tensor(a, {32}, kF32, at_a)
      .tensor(b, {32}, kF32, at_b)
      .pad()
      .zeros(512)
      .bytes;
}

std::string with_alignment(Raw value) {
  return Raw().begin(0, 1).text("general.alignment").raw(value.bytes).pad().bytes;
}

void check_refused(const std::string& bytes, const std::vector<std::string>& parts) {
  const std::string error = error_of(part_of(bytes));
  INFO(error);
  CHECK(error.rfind("x.gguf: ", 0) == 0);
  for (const std::string& part : parts) CHECK(contains(error, part));
}

}  // namespace

TEST_CASE("A tensor is where the header says, with its shape and bytes", "[gguf]") {
  Raw raw;
  raw.begin(2, 0);
  raw.tensor("blk.0.attn_q.weight", {64, 3}, kQ4_0, 32).tensor("b", {2, 2, 2, 2}, kF32, 160);
  const std::string bytes = raw.pad().zeros(160 + 64).bytes;
  const auto part = part_of(bytes);
  REQUIRE(part.ok());
  CHECK(part->version == 3);
  CHECK(part->alignment == 32);
  REQUIRE(part->tensors.size() == 2);
  const TensorInfo& t = part->tensors[0];
  CHECK(t.name == "blk.0.attn_q.weight");
  CHECK(t.type->format == QuantFormat::kQ4_0);
  CHECK(t.dimensions == 2);
  CHECK(t.shape == std::array<std::uint64_t, 4>{64, 3, 1, 1});
  CHECK(t.elements() == 192);
  CHECK(t.bytes == 6 * 18);
  CHECK(t.offset == part->data_begin + 32);
  CHECK(t.data == bytes_of(bytes).data() + t.offset);
  CHECK(part->tensors[1].elements() == 16);
  CHECK(part->data_begin % 32 == 0);
}

TEST_CASE("A file of version 2 is read alike", "[gguf]") {
  std::string bytes = with_zeros(header_of(tiny("llama"), "F32"));
  bytes[4] = 2;
  const auto part = part_of(bytes);
  REQUIRE(part.ok());
  CHECK(part->version == 2);
  CHECK(part->tensors.size() == 21);
}

TEST_CASE("A file of nothing is a file", "[gguf]") {
  const std::string bytes = Raw().begin(0, 0).bytes;
  const auto part = part_of(bytes);
  REQUIRE(part.ok());
  CHECK(part->tensors.empty());
}

TEST_CASE("Data are aligned to any power of two", "[gguf]") {
  for (const std::uint32_t alignment : {1u, 2u, 64u, 4096u}) {
    GgufHeader header(alignment);
    header.add_tensor("a", QuantFormat::kQ4_0, {32, 3});
    header.add_tensor("b", QuantFormat::kF32, {5});
    const std::string bytes = with_zeros(header);
    const auto part = part_of(bytes);
    INFO(error_of(part));
    REQUIRE(part.ok());
    CHECK(part->alignment == alignment);
    CHECK(part->tensors[0].offset % alignment == 0);
    CHECK(part->tensors[1].offset % alignment == 0);
  }
  check_refused(with_alignment(Raw().u32(4).u32(0)), {"general.alignment is 0", "power of two"});
  check_refused(with_alignment(Raw().u32(4).u32(48)), {"general.alignment is 48"});
  check_refused(with_alignment(Raw().u32(8).text("32")), {"general.alignment is \"32\""});
  check_refused(with_alignment(Raw().u32(11).u64(~0ull)), {"general.alignment is -1"});
  check_refused(with_alignment(Raw().u32(10).u64(1ull << 40)), {"general.alignment"});
}

TEST_CASE("What is no GGUF file is told apart", "[gguf]") {
  check_refused("", {"the file is empty"});
  check_refused("GGU", {"not a GGUF file"});
  check_refused("PK\x03\x04 a zip", {"not a GGUF file"});
  check_refused("ggjt....", {"before GGUF", "convert it again"});
  check_refused("version https://git-lfs.github.com/spec/v1\noid sha256:0\n", {"Git LFS"});
  check_refused("GGUF", {"ends within its version, at byte 4"});
  check_refused(Raw().raw("GGUF").u32(0x03000000).zeros(16).bytes, {"big-endian"});
  check_refused(Raw().raw("GGUF").u32(0x02000000).zeros(16).bytes, {"big-endian"});
  check_refused(Raw().begin(0, 0, 1).bytes, {"GGUF version 1", "versions 2 and 3"});
  check_refused(Raw().begin(0, 0, 4).bytes, {"GGUF version 4, at byte 4"});
  check_refused(Raw().begin(0, 0, 0).bytes, {"GGUF version 0"});
}

TEST_CASE("Counts that the file cannot hold are refused", "[gguf]") {
  for (const std::uint64_t n :
       {std::uint64_t{3}, std::uint64_t{1} << 40, std::numeric_limits<std::uint64_t>::max()}) {
    check_refused(Raw().begin(n, 0).zeros(64).bytes, {"tensors in a file of 88 bytes", "byte 8"});
    check_refused(Raw().begin(0, 5 * n).zeros(64).bytes, {"at byte"});
  }
}

TEST_CASE("Keys and values that make no sense are refused with their key", "[gguf]") {
  check_refused(Raw().begin(0, 1).text("").u32(0).zeros(64).bytes, {"a key of 0 bytes"});
  check_refused(Raw().begin(0, 1).u64(1ull << 40).zeros(64).bytes, {"a key of 1099511627776"});
  check_refused(Raw().begin(0, 1).text("a.b").u32(13).zeros(64).bytes,
                {"\"a.b\": no value has the type 13, at byte 35"});
  check_refused(Raw().begin(0, 1).text("a.b").u32(8).u64(500).zeros(64).bytes,
                {"\"a.b\": a string of 500 bytes, and the file has 64 more"});
  check_refused(Raw().begin(0, 1).text("a.b").u32(9).u32(4).u64(17).zeros(64).bytes,
                {"\"a.b\": an array of 17 u32 numbers"});
  check_refused(Raw().begin(0, 2).text("a").u32(7).put('\1').text("a").u32(7).put('\1').bytes,
                {"the key \"a\" is there twice, at byte 38"});
}

TEST_CASE("Shapes that make no sense are refused with their tensor", "[gguf]") {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 62;
  check_refused(one_tensor(0, 256, {}), {"tensor \"a\" has 0 dimensions"});
  check_refused(one_tensor(0, 256, {1, 1, 1, 1, 1}), {"tensor \"a\" has 5 dimensions"});
  check_refused(one_tensor(0, 256, {32, 0}), {"tensor \"a\" has a width of 0"});
  check_refused(one_tensor(0, 256, {kHuge, 4}), {"more than 2^63 weights"});
  check_refused(one_tensor(0, 256, {kHuge, 1}), {"more than 2^64 bytes"});
  check_refused(one_tensor(0, 256, {1ull << 32, 1ull << 32, 1ull << 32, 1ull << 32}),
                {"more than 2^63 weights"});
  check_refused(one_tensor(0, 256, {~0ull}), {"more than 2^63 weights"});
  check_refused(one_tensor(0, 256, {33, 2}, kQ4_0),
                {"rows of 33 weights, no multiple of the 32 of a block of Q4_0"});
  check_refused(one_tensor(0, 256, {128, 2}, 12), {"rows of 128 weights", "block of Q4_K"});
}

TEST_CASE("Types are known, listed, removed or unknown", "[gguf]") {
  const std::string listed = one_tensor(0, 256, {128, 1}, 41);
  const auto part = part_of(listed);
  REQUIRE(part.ok());
  CHECK(part->tensors[0].type->name == "Q1_0");
  CHECK_FALSE(part->tensors[0].type->format);
  CHECK(part->tensors[0].bytes == 18);
  check_refused(one_tensor(0, 256, {32, 2}, 4), {"tensor \"a\"", "Q4_2", "no longer in use"});
  check_refused(one_tensor(0, 256, {32, 2}, 31), {"Q4_0_4_4"});
  check_refused(one_tensor(0, 256, {32, 2}, 77), {"tensor \"a\" has the unknown type 77"});
  for (std::size_t i = 0; i < kQuantFormats.size(); ++i) {
    if (!is_in_gguf(QuantFormat(i))) continue;
    const TensorType* type = find_tensor_type(kQuantFormats[i].gguf_type);
    REQUIRE(type != nullptr);
    CHECK(type->format == QuantFormat(i));
    CHECK(type->name == kQuantFormats[i].name);
  }
  CHECK(find_tensor_type(kNotInGguf) == nullptr);
}

TEST_CASE("Data lie aligned, inside the file and apart, in any order", "[gguf]") {
  CHECK(part_of(one_tensor(0, 256)).ok());
  CHECK(part_of(one_tensor(32, 288)).ok());
  check_refused(one_tensor(0, 255), {"takes 256 bytes from 0 of the data on", "holds 255 bytes"});
  check_refused(one_tensor(32, 256), {"takes 256 bytes from 32"});
  check_refused(one_tensor(1ull << 40, 256), {"tensor \"a\" takes"});
  check_refused(one_tensor(~0ull << 5, 256), {"tensor \"a\" takes"});
  check_refused(one_tensor(16, 512), {"begins at 16", "no multiple of the alignment 32"});
  CHECK(part_of(two_tensors("a", 0, "b", 128)).ok());
  CHECK(part_of(two_tensors("a", 128, "b", 0)).ok());
  CHECK(part_of(two_tensors("a", 0, "b", 384)).ok());
  check_refused(two_tensors("a", 0, "b", 96), {"\"a\" and \"b\" overlap"});
  check_refused(two_tensors("a", 64, "b", 64), {"overlap"});
  check_refused(two_tensors("a", 0, "a", 128), {"the tensor \"a\" is there twice"});
}

TEST_CASE("Names of tensors have 1 to 63 bytes, and are shown clean", "[gguf]") {
  const auto named = [](const std::string& name) {
    return Raw().begin(1, 0).tensor(name, {8}, kF32, 0).pad().zeros(32).bytes;
  };
  CHECK(part_of(named(std::string(63, 'n'))).ok());
  check_refused(named(std::string(64, 'n')), {"the name of a tensor of 64 bytes"});
  check_refused(named(""), {"the name of a tensor of 0 bytes"});
  const std::string odd = Raw().begin(1, 0).tensor("\x1b[2J\xff", {0}, kF32, 0).zeros(99).bytes;
  check_refused(odd, {"tensor \" [2J?\" has a width of 0"});
}

}  // namespace rigcast::engine
