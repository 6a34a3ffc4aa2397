// Products of a batch of tokens with quantized weights, compared with weights that are dequantized
// to FP16 and multiplied by cuBLAS.
//   bench_gpu_small_batch_gemm [cuts|shapes|tokens|formats|tiles]     cuts: every split of the
//   work, too; shapes: of other models; tokens: cuBLAS alone; tiles: Hopper's; formats: all of them
//   relative to Q4_K, exit code 1 if one has less than half of its rate

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu_seconds.cuh"
#include "engine/cuda/cublas/matmul.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/kernels/cuda/batch/small_batch_gemm.cuh"
#include "engine/kernels/cuda/hopper/tiled_gemm.cuh"
#include "engine/kernels/cuda/weights/dequantize.cuh"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr std::size_t kPool = std::size_t(1) << 30;  // bytes of weights that launches rotate over
constexpr int kMaxTokens = 4096, kMaxColumns = 27648, kMaxRows = 28672;

struct Product {
  QuantFormat format;
  std::int64_t columns, rows;
  std::size_t bytes() const { return cuda::soa_bytes(format, columns, rows); }
};

class Bench {
 public:
  Bench() {
    // Any bytes are suitable: speed does not depend on values.
    for (const DeviceBuffer* b : {&pool_, &out_, &fp16_, &x_})
      RIGCAST_CUDA_CALL(cudaMemset(b->as(), 0x11, b->bytes()));
    RIGCAST_CUDA_CALL(cudaDeviceSynchronize());
  }

  double as_they_lie(const Product& p, int tokens, const cuda::SmallBatchSplit& cut) {
    return bench::best_microseconds(stream_, copies(p), [&](int i) {
      const cuda::SmallBatchJob job{matrix(p, i), out_.as<float>()};
      cuda::small_batch_gemm({&job, 1}, {x_.as<__half>(), tokens}, {p.rows}, stream_, cut);
    });
  }
  // cuBLAS with weights that are already in FP16.
  double product(const Product& p, int tokens) {
    return bench::best_microseconds(stream_, 6, [&](int i) {
      matmul_.multiply(
          {int(p.rows), int(p.columns), tokens},
          {pool_.as<std::byte>() + std::size_t(i) * (std::size_t(160) << 20), x_.as<__half>(),
           cuda::ValueType::kF16, out_.as(), cuda::ValueType::kF32, false});
    });
  }
  // Jobs with the same columns in one launch, as queries, keys and values are.
  double tiled(const std::vector<Product>& jobs, int tokens) {
    std::size_t bytes = 0;
    for (const Product& p : jobs) bytes += p.bytes();
    return bench::best_microseconds(
        stream_, int(std::min<std::size_t>(kPool / bytes, 24)), [&](int i) {
          std::vector<cuda::SmallBatchJob> launch;
          auto* from = pool_.as<std::byte>() + std::size_t(i) * bytes;
          std::int64_t rows = 0;
          for (const Product& p : jobs) {
            launch.push_back({{from, p.format, p.columns, p.rows}, out_.as<float>() + rows});
            from += p.bytes();
            rows += p.rows;
          }
          cuda::tiled_gemm(launch, {x_.as<__half>(), tokens}, {rows}, stream_);
        });
  }
  double tiled_gate_up(const Product& p, int tokens) {
    return bench::best_microseconds(stream_, copies(p) / 2, [&](int i) {
      cuda::tiled_gate_up(matrix(p, 2 * i), matrix(p, 2 * i + 1), {x_.as<__half>(), tokens},
                          fp16_.as<__half>(), stream_);
    });
  }
  double fp16(const Product& p, int tokens) {
    return bench::best_microseconds(stream_, copies(p), [&](int i) {
      cuda::dequantize(matrix(p, i), {0, p.rows}, cuda::FloatType::kF16, fp16_.as(), stream_);
      matmul_.multiply(
          {int(p.rows), int(p.columns), tokens},
          {fp16_.as(), x_.as(), cuda::ValueType::kF16, out_.as(), cuda::ValueType::kF32, false});
    });
  }

 private:
  int copies(const Product& p) const { return int(std::min<std::size_t>(kPool / p.bytes(), 12)); }
  cuda::DeviceMatrix matrix(const Product& p, int i) const {
    return {pool_.as<std::byte>() + std::size_t(i) * p.bytes(), p.format, p.columns, p.rows};
  }

  Stream stream_;
  cuda::Vram vram_{0, std::nullopt};
  cuda::Matmul matmul_{vram_, stream_};
  DeviceBuffer pool_{kPool};
  DeviceBuffer out_{std::size_t(kMaxTokens) * kMaxRows * 4};
  DeviceBuffer fp16_{std::size_t(kMaxColumns) * 8192 * 2};
  DeviceBuffer x_{std::size_t(kMaxTokens) * kMaxColumns * 2};
};

void print(const Product& p, int tokens, double us, const std::string& rest) {
  const double products = 2.0 * double(p.columns) * double(p.rows) * tokens;
  fmt::print("{:<5} {:>5} x {:<5} {:>4} tokens {:>8.1f} us {:>6.0f} GB/s {:>5.0f} TOP/s  {}\n",
             info(p.format).name, p.columns, p.rows, tokens, us, double(p.bytes()) / us / 1e3,
             products / us / 1e6, rest);
}

// Small batches with quantized weights, if their format is supported, and a large batch with
// weights in FP16.
bool bench_formats(Bench& bench) {
  using enum QuantFormat;
  bool all_fast = true;
  for (const int tokens : {4, 16, 64, 512}) {
    const auto rate_of = [&](QuantFormat f) {
      const Product p{f, 4096, 14336};
      const bool lie = tokens <= 64 && cuda::supports_small_batch_gemm(f);
      return 1 / (lie ? bench.as_they_lie(p, tokens, {}) : bench.fp16(p, tokens));
    };
    const double bar = 0.5, q4_k = rate_of(kQ4_K);
    for (const QuantFormat f : {kQ4_K, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ8_0, kQ2_K, kQ3_K, kQ5_K,
                                kQ6_K, kIQ4_NL, kIQ4_XS, kMXFP4}) {
      const double rate = rate_of(f), ratio = rate / q4_k;
      print({f, 4096, 14336}, tokens, 1 / rate,
            fmt::format("{:.2f} of Q4_K's rate{}", ratio, ratio < bar ? ", below 0.5" : ""));
      all_fast &= ratio >= bar;
    }
  }
  return all_fast;
}

// Products of a layer of Llama 3.1 8B on Hopper's tensor cores, up to the largest tiled batch.
void bench_tiles(Bench& bench) {
  using enum QuantFormat;
  for (const int tokens : {8, 16, 32, 64, 96, 128, 192, 256, 384, 448, 512, 768, 1024}) {
    const auto row = [&](const char* name, const Product& p, double us) {
      print(p, tokens, us,
            tokens < 64 ? name
                        : fmt::format("{}, written out {:.1f} us", name, bench.fp16(p, tokens)));
    };
    const Product q{kQ4_K, 4096, 4096}, k{kQ4_K, 4096, 1024}, v{kQ6_K, 4096, 1024};
    row("q, k, v", {kQ4_K, 4096, 6144}, bench.tiled({q, k, v}, tokens));
    row("output", q, bench.tiled({q}, tokens));
    row("gate, up", {kQ4_K, 4096, 28672}, bench.tiled_gate_up({kQ4_K, 4096, 14336}, tokens));
    for (const QuantFormat f : {kQ4_K, kQ6_K})
      row("down", {f, 14336, 4096}, bench.tiled({{f, 14336, 4096}}, tokens));
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const bool cuts = argc > 1 && std::string(argv[1]) == "cuts";
  using enum QuantFormat;
  Bench bench;
  if (argc > 1 && std::string(argv[1]) == "tiles") {
    if (cuda::has_tiled_gemm()) return bench_tiles(bench), 0;
    fmt::print(stderr, "tiles: only GPUs of compute capability 9.0 have them\n");
    return 1;
  }
  if (argc > 1 && std::string(argv[1]) == "formats") return bench_formats(bench) ? 0 : 1;
  if (argc > 1 && std::string(argv[1]) == "tokens") {
    for (const auto& [columns, rows] :
         {std::pair{4096, 14336}, {14336, 4096}, {4096, 4096}, {5120, 13824}, {13824, 5120}})
      for (int tokens = 16; tokens <= kMaxTokens; tokens += tokens < 256 ? 16 : 32)
        for (const int odd : {0, 5}) {
          const Product p{kF16, columns, rows};
          print(p, tokens - odd, bench.product(p, tokens - odd), "");
        }
    return 0;
  }
  if (argc > 1 && std::string(argv[1]) == "shapes") {
    for (const auto& [columns, rows] : {std::pair{2048, 8192},
                                        {8192, 2048},
                                        {3072, 8192},
                                        {8192, 3072},
                                        {4096, 14336},
                                        {14336, 4096},
                                        {5120, 13824},
                                        {13824, 5120},
                                        {5120, 27648},
                                        {27648, 5120}})
      for (const int tokens : {16, 32, 64, 128, 256, 512}) {
        const Product p{kQ4_K, columns, rows};
        print(p, tokens, bench.as_they_lie(p, tokens, {}),
              fmt::format("halves {:.1f} us", bench.fp16(p, tokens)));
      }
    return 0;
  }
  for (const QuantFormat f : {kQ4_K, kQ6_K, kQ8_0})
    for (const auto& [columns, rows] : {std::pair{4096, 4096}, {4096, 14336}, {14336, 4096}})
      for (const int tokens : {4, 8, 16, 32, 64, 128, 192, 256, 512}) {
        const Product p{f, columns, rows};
        const double fp16 = bench.fp16(p, tokens);
        const double us = bench.as_they_lie(p, tokens, {});
        print(p, tokens, us, fmt::format("halves {:.1f} us, {:.2f} times", fp16, fp16 / us));
        if (!cuts || (tokens != 16 && tokens != 64 && tokens != 256)) continue;
        for (const int part : {16, 32, 64})
          for (const int warps : {1, 2, 4, 8})
            print(p, tokens, bench.as_they_lie(p, tokens, {part, warps}),
                  fmt::format("  {} tokens, {} warps of rows", part, warps));
      }
} catch (const CudaFailure& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
