#include "core/model/quant_format.hpp"

#include <set>
#include <string>

#include "tests/catch.hpp"

namespace rigcast {

TEST_CASE("Blocks have the bits per weight that ggml states", "[quant]") {
  const auto bits = [](QuantFormat f) { return info(f).bits_per_weight(); };
  CHECK(bits(QuantFormat::kIQ1_S) == 1.5625);
  CHECK(bits(QuantFormat::kIQ1_M) == 1.75);
  CHECK(bits(QuantFormat::kIQ2_XXS) == 2.0625);
  CHECK(bits(QuantFormat::kIQ2_XS) == 2.3125);
  CHECK(bits(QuantFormat::kIQ2_S) == 2.5625);
  CHECK(bits(QuantFormat::kIQ3_XXS) == 3.0625);
  CHECK(bits(QuantFormat::kIQ3_S) == 3.4375);
  CHECK(bits(QuantFormat::kTQ1_0) == 1.6875);
  CHECK(bits(QuantFormat::kTQ2_0) == 2.0625);
  CHECK(bits(QuantFormat::kNVFP4) == 4.5);
  CHECK(bits(QuantFormat::kQ2_K) == 2.625);
  CHECK(bits(QuantFormat::kQ3_K) == 3.4375);
  CHECK(bits(QuantFormat::kIQ4_XS) == 4.25);
  CHECK(bits(QuantFormat::kMXFP4) == 4.25);
  CHECK(bits(QuantFormat::kQ4_0) == 4.5);
  CHECK(bits(QuantFormat::kIQ4_NL) == 4.5);
  CHECK(bits(QuantFormat::kQ4_1) == 5.0);
  CHECK(bits(QuantFormat::kQ5_0) == 5.5);
  CHECK(bits(QuantFormat::kQ5_K) == 5.5);
  CHECK(bits(QuantFormat::kQ5_1) == 6.0);
  CHECK(bits(QuantFormat::kBF16) == 16.0);
}

TEST_CASE("No two block formats share a GGUF type id", "[quant]") {
  std::set<std::uint32_t> ids;
  std::size_t in_gguf = 0;
  for (int f = 0; f < kQuantFormatCount; ++f) {
    if (!is_in_gguf(QuantFormat(f))) continue;
    ids.insert(info(QuantFormat(f)).gguf_type);
    ++in_gguf;
  }
  CHECK(ids.size() == in_gguf);
  CHECK_FALSE(is_in_gguf(QuantFormat::kFP8));
}

TEST_CASE("A tensor's bytes are its rows' blocks", "[quant]") {
  CHECK(tensor_bytes(QuantFormat::kQ4_K, 4096, 14336) == 4096ull / 256 * 144 * 14336);
  CHECK(tensor_bytes(QuantFormat::kQ8_0, 32, 1) == 34);
  CHECK(tensor_bytes(QuantFormat::kF32, 7, 3) == 84);
  CHECK(tensor_bytes(QuantFormat::kQ6_K, 256, 0) == 0);
}

}  // namespace rigcast
