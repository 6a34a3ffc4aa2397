// Bits a weight as pull requests of ik_llama.cpp's state them.

#include "core/model/foreign_formats.hpp"

#include <string>

#include "tests/catch.hpp"

using namespace rigcast;

TEST_CASE("Formats of ik_llama.cpp's take the bits that their author states", "[quant]") {
  const auto bits = [](const char* name) { return bits_of_block_format(name).value_or(0); };
  CHECK(bits("IQ2_KS") == 2.1875);
  CHECK(bits("IQ2_K") == 2.375);
  CHECK(bits("IQ2_KL") == 2.6875);
  CHECK(bits("IQ3_KS") == 3.1875);
  CHECK(bits("IQ3_K") == 3.4375);
  CHECK(bits("IQ4_KSS") == 4.0);
  CHECK(bits("IQ4_KS") == 4.25);
  CHECK(bits("IQ4_K") == 4.5);
  CHECK(bits("IQ5_KS") == 5.25);
  CHECK(bits("IQ5_K") == 5.5);
  CHECK(bits("IQ6_K") == 6.625);
  CHECK(bits("IQ1_KT") == 1.75);
  CHECK(bits("IQ2_KT") == 2.125);
  CHECK(bits("IQ3_KT") == 3.125);
  CHECK(bits("IQ4_KT") == 4.0);
  CHECK(bits("IQ1_S_R4") == 1.5);  // of blocks of 32, unlike IQ1_S
  CHECK(bits("IQ1_S") == 1.5625);
  CHECK(bits("Q6_0") == 6.5);
}

TEST_CASE("Interleaved rows are as large as others", "[quant]") {
  for (const char* rows : {"_R4", "_R8", "_R16"})
    CHECK(bits_of_block_format(std::string("IQ4_KS") + rows) == 4.25);
  CHECK(bits_of_block_format("q4_k_r4") == 4.5);
  CHECK(bits_of_block_format("BF16_R16") == 16.0);
  CHECK_FALSE(bits_of_block_format("IQ4_KS_R3"));
  CHECK_FALSE(bits_of_block_format("IQ9_K"));
  CHECK_FALSE(bits_of_block_format(""));
}
