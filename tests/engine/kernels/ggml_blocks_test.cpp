// Decoders of IQ1, IQ2, IQ3, TQ and NVFP4 against ggml's: answers that scripts/ggml_blocks.py kept,
// and the library itself where there is one.
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/grids.hpp"
#include "tests/catch.hpp"
#include "tests/peers/llama_cpp.hpp"

namespace rigcast::engine::ref {
namespace {

using enum QuantFormat;
using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kRandomBlocks = 64;

struct Answer {
  QuantFormat format;
  std::uint64_t hash;
  float ends[8];
};

const Answer kAnswers[] = {
#include "tests/engine/kernels/ggml_answers.inc"
};

std::vector<float> decode(QuantFormat f, const Bytes& bytes) {
  std::vector<float> out(bytes.size() / info(f).block_bytes * info(f).block_elements);
  dequantize(f, reinterpret_cast<const std::byte*>(bytes.data()), out);
  return out;
}

// The script's random bytes.
Bytes random_blocks(QuantFormat f) {
  std::uint64_t state = info(f).gguf_type;
  Bytes bytes(kRandomBlocks * info(f).block_bytes);
  for (std::uint8_t& b : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    b = std::uint8_t(state >> 56);
  }
  return bytes;
}

std::uint32_t bits_of(float w) {
  return std::isnan(w) ? 0x7fc00000u : std::bit_cast<std::uint32_t>(w);
}

std::uint64_t hash_of(const std::vector<float>& weights) {
  std::uint64_t h = 0xcbf29ce484222325u;
  for (const float w : weights)
    for (int shift = 0; shift < 32; shift += 8)
      h = (h ^ (bits_of(w) >> shift & 255)) * 0x100000001b3u;
  return h;
}

// The offset of a block's FP16 scale of its own; its size if there is none.
std::size_t scale_at(QuantFormat f) {
  switch (f) {
    case kTQ1_0: return 52;
    case kTQ2_0: return 64;
    case kIQ1_M:
    case kNVFP4: return info(f).block_bytes;
    default: return 0;
  }
}

template <class Word, std::size_t kPoints>
void check_points(const Grid<Word, kPoints>& grid, const std::set<int>& levels) {
  std::set<Word> points;
  for (const Word point : grid.at) {
    points.insert(point);
    for (std::size_t k = 0; k < sizeof point; ++k)
      CHECK(levels.contains(int(point >> (8 * k) & 255)));
  }
  CHECK(points.size() == kPoints);
}

}  // namespace

TEST_CASE("Blocks decode to what ggml decodes them to", "[dequantize][formats]") {
  for (const Answer& a : kAnswers) {
    INFO(info(a.format).name);
    CHECK(hash_of(decode(a.format, random_blocks(a.format))) == a.hash);
    Bytes block(info(a.format).block_bytes);
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = std::uint8_t(37 * i + 11);
    if (const std::size_t at = scale_at(a.format); at < block.size())
      block[at] = 0, block[at + 1] = 0x3c;
    const std::vector<float> w = decode(a.format, block);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK(w[i] == a.ends[i]);
      CHECK(w[w.size() - 4 + i] == a.ends[4 + i]);
    }
  }
}

TEST_CASE("Every point of a grid occurs once and has the grid's levels", "[dequantize][formats]") {
  check_points(kIq2XxsGrid, {8, 25, 43});
  check_points(kIq2XsGrid, {8, 25, 43});
  check_points(kIq2SGrid, {8, 25, 43});
  check_points(kIq3XxsGrid, {4, 12, 20, 28, 36, 44, 52, 62});
  check_points(kIq3SGrid, {1, 3, 5, 7, 9, 11, 13, 15});
  check_points(kIq1Grid, {0, 8, 16});
}

TEST_CASE("Any block decodes to the bits of ggml's library", "[dequantize][formats]") {
  RIGCAST_NEEDS_LLAMA_CPP();
  void* const library =
      dlopen((*test::llama_cpp_folder() + "/libggml-base.so").c_str(), RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library);
  std::mt19937_64 random(11);
  for (const Answer& a : kAnswers) {
    const QuantFormatInfo& f = info(a.format);
    INFO(f.name);
    std::string symbol = "dequantize_row_" + std::string(f.name);
    std::ranges::transform(symbol, symbol.begin(), [](unsigned char c) { return std::tolower(c); });
    const auto theirs = reinterpret_cast<void (*)(const void*, float*, std::int64_t)>(
        dlsym(library, symbol.c_str()));
    REQUIRE(theirs);
    // Random ones, and bytes that are all alike: every index, sign and scale of every value.
    Bytes blocks((256 + 4000) * f.block_bytes);
    for (std::size_t i = 0; i < blocks.size(); ++i)
      blocks[i] = std::uint8_t(i < 256 * f.block_bytes ? i / f.block_bytes : random());
    const std::vector<float> ours = decode(a.format, blocks);
    std::vector<float> expected(ours.size());
    theirs(blocks.data(), expected.data(), std::int64_t(expected.size()));
    std::size_t different = 0;
    for (std::size_t i = 0; i < ours.size(); ++i)
      different += bits_of(ours[i]) != bits_of(expected[i]);
    CHECK(different == 0);
  }
  dlclose(library);
}

}  // namespace rigcast::engine::ref
