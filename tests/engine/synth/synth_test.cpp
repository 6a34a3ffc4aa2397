#include "engine/synth/synth.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/half.hpp"
#include "engine/synth/counter_rng.hpp"
#include "engine/synth/narrow_float.hpp"
#include "tests/catch.hpp"

namespace rigcast::engine {
namespace {

using enum QuantFormat;

Tensor matrix(QuantFormat f, std::uint64_t columns, std::uint64_t rows) {
  Tensor t;
  t.name = "blk.0.ffn_up.weight";
  t.role = TensorRole::kFfnUp;
  t.layer = 0;
  t.shape = {columns, rows, 1};
  t.dimensions = 2;
  t.format = f;
  t.bytes = tensor_bytes(f, columns, rows);
  return t;
}

Tensor vector(TensorRole role, QuantFormat f = kF32) {
  Tensor t = matrix(f, 4096, 1);
  t.role = role;
  t.dimensions = 1;
  return t;
}

std::vector<std::byte> bytes_of(const Tensor& t, std::uint64_t seed = 1) {
  std::vector<std::byte> bytes(t.bytes);
  synthesize(t, seed, 0, bytes);
  return bytes;
}

std::vector<float> weights_of(const Tensor& t, std::uint64_t seed = 1) {
  std::vector<float> w(t.elements());
  ref::dequantize(t.format, bytes_of(t, seed).data(), w);
  return w;
}

struct Moments {
  double mean = 0;
  double deviation = 0;
};

Moments moments(const std::vector<float>& w) {
  Moments m;
  for (const float v : w) m.mean += double(v) / double(w.size());
  for (const float v : w) m.deviation += std::pow(double(v) - m.mean, 2) / double(w.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

std::vector<QuantFormat> all_formats() {
  std::vector<QuantFormat> all;
  for (int i = 0; i < kComputedFormatCount; ++i) all.push_back(QuantFormat(i));
  return all;
}

}  // namespace

TEST_CASE("Words of the generator are fixed for good", "[synth]") {
  // Files made once must be what any later version expects.
  CHECK(hash_name("") == 0xCBF29CE484222325u);
  CHECK(hash_name("a") == 0xAF63DC4C8601EC8Cu);                 // published test vector of FNV-1a
  CHECK(mix_bits(0x9E3779B97F4A7C15u) == 0xE220A8397B1DCDAFu);  // SplitMix64's first word of seed 0
  constexpr std::uint64_t kKey = stream_key(1, "token_embd.weight");
  CHECK(kKey == 0xBFC8636E01A25E42u);
  CHECK(random_word(kKey, 0) == 0xB64C1EEACADFED09u);
  CHECK(random_word(kKey, 1u << 31) == 0x36CB655B4BC3067Bu);
}

TEST_CASE("Bytes of every format are fixed for good", "[synth]") {
  // Hashes of what this version made first: a kernel on a GPU, another compiler and every later
  // version make the same.
  const std::array<std::uint64_t, kComputedFormatCount> expected = {
      0xA1CFFC6E54CD4665u, 0x5C7E9FCB38328DF5u, 0x1530CB93A290198Fu, 0x9A3E4D98801719EEu,
      0xA9CB4F4F26F24E1Bu, 0xA6AB4F4F0EE22804u, 0xCEDBBAD4FCCE86ABu, 0xB878D8F3E3EEFB0Cu,
      0x03179BCA045A2F7Bu, 0xB618C8DB459FE1E7u, 0x9A7EE0853A675589u, 0x5F96B5D5F770BA0Eu,
      0x7CE9FF4E9E61A2DFu, 0x92E91826709E3DC2u, 0x15B45AE40EEE7506u, 0xA02163168D144958u,
      0x9016E5137E5EFE47u, 0x32A835904DFEAF86u, 0xB9F07FE531528A2Fu, 0x7084412DA6790B4Bu,
      0x79B2A57E47BD7A83u, 0x354F541E5EF3C411u, 0xDF787411F3C7AF56u, 0x8DECED82984AE883u,
      0x76E991CD9ED9561Fu, 0x9E5DB021F8AB4DB1u};
  for (const QuantFormat f : all_formats()) {
    INFO(info(f).name);
    const std::vector<std::byte> bytes = bytes_of(matrix(f, 3072, 8));
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    CHECK(hash_name(text) == expected[std::size_t(f)]);
  }
}

TEST_CASE("Words of neighbouring indexes, names and seeds share no bits", "[synth]") {
  // A fair coin thrown 64 * 4096 times: the standard deviation of the share of heads is 0.001.
  const auto flips = [](auto word_of) {
    double share = 0;
    for (std::uint64_t i = 0; i < 4096; ++i) {
      std::uint64_t different = word_of(i) ^ word_of(i + 1);
      for (; different != 0; different &= different - 1) share += 1.0 / (64 * 4096);
    }
    return share;
  };
  const std::uint64_t key = stream_key(3, "output.weight");
  const auto by_index = [&](std::uint64_t i) { return random_word(key, i); };
  const auto by_name = [](std::uint64_t i) {
    return random_word(stream_key(3, "blk." + std::to_string(i) + ".attn_q.weight"), 0);
  };
  const auto by_seed = [](std::uint64_t i) { return random_word(stream_key(i, "a"), 9); };
  CHECK(std::abs(flips(by_index) - 0.5) < 0.005);
  CHECK(std::abs(flips(by_name) - 0.5) < 0.005);
  CHECK(std::abs(flips(by_seed) - 0.5) < 0.005);
}

TEST_CASE("Chunks of a tensor are the tensor, however it is cut", "[synth]") {
  std::mt19937 random(1);
  for (const QuantFormat f : all_formats()) {
    INFO(info(f).name);
    const Tensor t = matrix(f, 256, 300);
    const std::vector<std::byte> whole = bytes_of(t);
    const std::size_t block = info(f).block_bytes;
    std::vector<std::byte> pieces(whole.size());
    for (std::size_t done = 0; done < whole.size();) {
      const std::size_t blocks = 1 + random() % 200;
      const std::size_t n = std::min(blocks * block, whole.size() - done);
      synthesize(t, 1, done / block, std::span(pieces).subspan(done, n));
      done += n;
    }
    CHECK(pieces == whole);
  }
}

TEST_CASE("Another seed or name gives other weights", "[synth]") {
  const Tensor t = matrix(kQ4_K, 256, 16);
  Tensor renamed = t;
  renamed.name = "blk.1.ffn_up.weight";
  CHECK(bytes_of(t) == bytes_of(t));
  CHECK(bytes_of(t) != bytes_of(t, 2));
  CHECK(bytes_of(t) != bytes_of(renamed));
}

TEST_CASE("Weights have mean 0 and the standard deviation of their row's width", "[synth]") {
  for (const QuantFormat f : all_formats()) {
    for (const std::uint64_t columns : {256u, 4096u, 14336u, 53248u}) {
      INFO(info(f).name << " rows of " << columns);
      const Tensor t = matrix(f, columns, (1u << 22) / columns);
      const std::vector<float> w = weights_of(t);
      const Moments m = moments(w);
      const double wanted = 1 / std::sqrt(double(columns));
      // Scales are rounded to within 1 %; 2^17 blocks of 32 with one scale each vary by less than
      // 0.3 %, of 256 by 0.3 %.
      CHECK(m.deviation == Approx(wanted).epsilon(0.013));
      CHECK(std::abs(m.mean) < 0.005 * wanted);
      CHECK(std::ranges::all_of(w, [](float v) { return std::isfinite(v); }));
      CHECK(std::abs(*std::ranges::max_element(w)) < 12 * wanted);
    }
  }
}

TEST_CASE("Every row of a matrix has weights of its own", "[synth]") {
  const Tensor t = matrix(kQ8_0, 64, 1000);
  const std::vector<std::byte> bytes = bytes_of(t);
  std::set<std::string> rows;
  for (std::size_t i = 0; i < 1000; ++i)
    rows.emplace(reinterpret_cast<const char*>(bytes.data()) + 68 * i, 68);
  CHECK(rows.size() == 1000);
}

TEST_CASE("Codes of every format are all used", "[synth]") {
  // Of one block format: how many different weights a block's width allows is more than its bits.
  for (const QuantFormat f : {kQ4_0, kQ5_0, kQ8_0, kIQ4_NL}) {
    INFO(info(f).name);
    const std::vector<float> w = weights_of(matrix(f, 256, 1024));
    const std::set<float> magnitudes(w.begin(), w.end());
    const std::size_t codes = f == kQ8_0 ? 256 : f == kQ5_0 ? 32 : 16;
    CHECK(magnitudes.size() >= codes);
  }
}

TEST_CASE("Norms are near 1, biases small, rope factors 1", "[synth]") {
  for (const QuantFormat f : {kF32, kF16, kBF16}) {
    INFO(info(f).name);
    const auto norm = weights_of(vector(TensorRole::kNorm, f));
    const auto bias = weights_of(vector(TensorRole::kBias, f));
    const auto rope = weights_of(vector(TensorRole::kRope, f));
    const auto [low, high] = std::ranges::minmax(norm);
    CHECK((low >= 0.875f && low < 0.88f));
    CHECK((high <= 1.125f && high > 1.12f));
    // Uniform: the reach over sqrt(3).
    CHECK(moments(norm).mean == Approx(1).margin(0.005));
    CHECK(moments(norm).deviation == Approx(0.125 / std::sqrt(3.0)).epsilon(0.03));
    CHECK(std::abs(moments(bias).mean) < 0.002);
    CHECK(moments(bias).deviation == Approx(0.03125 / std::sqrt(3.0)).epsilon(0.03));
    CHECK(std::ranges::count(rope, 1.0f) == 4096);
  }
}

TEST_CASE("Numbers are narrowed as the reference narrows them", "[synth]") {
  std::mt19937 random(5);
  std::uniform_real_distribution<float> exponent(-30, 3);
  int wrong = 0;
  for (int i = 0; i < 200000; ++i) {
    const float value = std::exp2(exponent(random)) * (i % 2 == 0 ? 1.0f : -1.0f);
    wrong += small_to_fp16(value) != ref::float_to_half(value);
    wrong += finite_to_bfloat(value) != ref::float_to_bfloat(value);
  }
  CHECK(wrong == 0);
  CHECK(small_to_fp16(0) == 0);
}

}  // namespace rigcast::engine
