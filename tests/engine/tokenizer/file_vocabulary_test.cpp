// What a file says of its vocabulary: any types, any numbers.

#include "engine/tokenizer/file_vocabulary.hpp"

#include <limits>
#include <string>
#include <vector>

#include "tests/engine/gguf/gguf_fixture.hpp"

using namespace rigcast;
using namespace rigcast::engine;
using namespace rigcast::engine::fixtures;

namespace {

template <class Types>
std::string refusal_of(const Types& types) {
  GgufHeader header;
  header.set("tokenizer.ggml.model", "llama");
  header.set("tokenizer.ggml.tokens", std::vector<std::string>{"<unk>", "a", "b"});
  header.set("tokenizer.ggml.scores", std::vector<float>{0, -1, -2});
  header.set("tokenizer.ggml.token_type", types);
  const std::string bytes = header.encode();
  const auto file = file_of(bytes);
  REQUIRE(file.ok());
  return error_of(file_tokenizer(*file));
}

}  // namespace

// Undefined for numbers that no int holds: run it under sanitizers too.
TEST_CASE("Types of tokens are whole numbers from 1 to 6", "[tokenizer]") {
  CHECK(refusal_of(std::vector<std::int32_t>{2, 1, 1}).empty());
  CHECK(refusal_of(std::vector<std::int64_t>{2, 1, 1}).empty());
  CHECK(contains(refusal_of(std::vector<std::int32_t>{2, 1, 7}), "types are 1 to 6"));
  CHECK(contains(refusal_of(std::vector<std::int64_t>{2, 1, 1 + (1ll << 32)}), "types are 1 to 6"));
  for (const double type : {std::numeric_limits<double>::quiet_NaN(), 1e300, 1.0})
    CHECK(contains(refusal_of(std::vector<double>{2, 1, type}), "whole numbers"));
}
