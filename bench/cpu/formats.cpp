// Speed of one thread with weights of every format, relative to Q4_K: one row of activations times
// a matrix that exceeds all caches, as for a decoded token; one that the core's own cache holds,
// which tells what of the time is computation; and a batch of 512 tokens. Processor time,
// alternating runs, medians; exits with 1 if a bar is missed.

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>
#include <vector>

#include "core/base/quantile.hpp"
#include "engine/backends/cpu/step/products.hpp"
#include "engine/kernels/cpu/floats.hpp"
#include "engine/kernels/cpu/int8/int8.hpp"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr std::int64_t kColumns = 4096, kTokens = 512, kBatchRows = 256;
constexpr std::size_t kBytes = std::size_t(256) << 20;   // bytes of a matrix that a token reads
constexpr std::size_t kCached = std::size_t(256) << 10;  // and of one in the core's cache
constexpr int kTurns = 5, kPasses = 256;
constexpr double kDecodeBar = 0.6, kPromptBar = 0.5;  // relative to Q4_K
constexpr double kUnpackedBar = 0.05;  // formats that are unpacked first: by weights, in the cache

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

// Random bits, except for exponents: all bytes below 0x40 are finite scales, and speed hardly
// depends on codes.
std::vector<std::byte> weights() {
  std::vector<std::byte> bytes(kBytes);
  std::mt19937 bits(1);
  for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const std::uint32_t word = std::uint32_t(bits()) & 0x3f3f3f3fu;
    std::memcpy(bytes.data() + i, &word, sizeof word);
  }
  return bytes;
}

struct Rates {
  double gb_s = 0;     // rate for one row of activations
  double cached = 0;   // weights a second of one that is in the cache, times 1e-9
  double gflop_s = 0;  // rate for the batch
};

class Bench {
 public:
  Bench() : row_(std::size_t(kColumns)), y_(std::size_t(kTokens * kBatchRows)) {
    std::mt19937 bits(2);
    std::normal_distribution<float> normal;
    for (float& v : row_) v = normal(bits);
    one_.resize(kColumns, 1, true, true);
    one_.set_row(0, row_);
    many_.resize(kColumns, kTokens, true, true);
    for (std::int64_t t = 0; t < kTokens; ++t) many_.set_row(t, row_);
  }

  Rates measure(QuantFormat format) {
    // Exponents are like those of files: products with the smallest would be subnormal, and slow.
    if (format == QuantFormat::kMXFP4)
      for (std::size_t at = 0; at < bytes_.size(); at += 17)
        bytes_[at] = std::byte{0x78} | (bytes_[at] & std::byte{7});
    const std::int64_t row_bytes = Matrix{nullptr, format, kColumns, 1}.row_bytes();
    const std::int64_t rows = std::int64_t(kBytes) / row_bytes;
    const Matrix all{bytes_.data(), format, kColumns, rows};
    if (out_.size() < std::size_t(rows)) out_.resize(std::size_t(rows));
    double begin = processor_seconds();
    multiply_rows(all, one_, 0, rows, out_.data(), rows, scratch_);
    const double decode = processor_seconds() - begin;
    const std::int64_t few = std::int64_t(kCached) / row_bytes;
    const Matrix held{bytes_.data(), format, kColumns, few};
    begin = processor_seconds();
    for (int pass = 0; pass < kPasses; ++pass)
      multiply_rows(held, one_, 0, few, out_.data(), few, scratch_);
    const double cached = processor_seconds() - begin;
    const Matrix some{bytes_.data(), format, kColumns, kBatchRows};
    begin = processor_seconds();
    multiply_rows(some, many_, 0, kBatchRows, y_.data(), kBatchRows, scratch_);
    const double prompt = processor_seconds() - begin;
    return {double(rows * row_bytes) / decode / 1e9,
            double(few * kColumns) * kPasses / cached / 1e9,
            2.0 * double(kColumns * kBatchRows * kTokens) / prompt / 1e9};
  }

 private:
  std::vector<std::byte> bytes_ = weights();
  std::vector<float> row_, y_, out_;
  Input one_, many_;
  ProductScratch scratch_;
};

}  // namespace

int main() {
  Bench bench;
  std::vector<double> decode[kComputedFormatCount], cached[kComputedFormatCount],
      prompt[kComputedFormatCount];
  for (int turn = 0; turn <= kTurns; ++turn)
    for (int i = 0; i < kComputedFormatCount; ++i) {
      const Rates r = bench.measure(QuantFormat(i));
      if (turn == 0) continue;  // the first round touches memory and buffers
      decode[i].push_back(r.gb_s);
      cached[i].push_back(r.cached);
      prompt[i].push_back(r.gflop_s);
    }
  const auto q4_k = std::size_t(QuantFormat::kQ4_K);
  const double of_decode = median(decode[q4_k]), of_cached = median(cached[q4_k]),
               of_prompt = median(prompt[q4_k]);
  fmt::print("{}, one thread, processor time, medians of {}\n", cpu::int8_kernels().name, kTurns);
  fmt::print("{:<8}{:>8} {:>8} {:>15} {:>8} {:>10} {:>8}\n", "", "GB/s", "of Q4_K", "cached, 1e9/s",
             "of Q4_K", "GFLOP/s", "of Q4_K");
  int missed = 0;
  for (int i = 0; i < kComputedFormatCount; ++i) {
    const QuantFormat f = QuantFormat(i);
    const double d = median(decode[i]) / of_decode, p = median(prompt[i]) / of_prompt;
    const double c = median(cached[i]);
    const bool unpacked = f >= QuantFormat::kIQ1_S && f <= QuantFormat::kNVFP4;
    const bool slow = unpacked ? c < kUnpackedBar * of_cached : d < kDecodeBar;
    const bool low = slow || (cpu::has_int8_kernel(f) && p < kPromptBar);
    missed += low;
    fmt::print("{:<8}{:>8.1f} {:>8.2f} {:>15.1f} {:>8.2f} {:>10.0f} {:>8.2f}{}\n", info(f).name,
               d * of_decode, d, c, c / of_cached, p * of_prompt, p, low ? "   MISSED" : "");
  }
  fmt::print(
      "bars: {} of Q4_K's bytes a second, {} of its prompts; from IQ1_S on {} of its weights "
      "in the cache\n",
      kDecodeBar, kPromptBar, kUnpackedBar);
  return missed > 0 ? 1 : 0;
}
