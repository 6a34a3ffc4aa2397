// Speed of decode's matrix-vector products relative to a plain read of memory, on the current GPU.
// Matrices rotate over several times the cache; each figure is the best of several replays.

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "bench/gpu_read.cuh"
#include "bench/gpu_seconds.cuh"
#include "engine/cuda/cuda_buffer.cuh"
#include "engine/kernels/cuda/activations/quantize_activations.cuh"
#include "engine/kernels/cuda/matvec/chosen_experts.cuh"
#include "engine/kernels/cuda/matvec/experts_down.cuh"
#include "engine/kernels/cuda/matvec/gate_up.cuh"
#include "engine/kernels/cuda/matvec/matvec.cuh"
#include "engine/kernels/cuda/matvec/router.cuh"
#include "engine/kernels/cuda/weights/dequantize.cuh"

using namespace rigcast;
using namespace rigcast::engine;

namespace {

constexpr std::size_t kPool = std::size_t(3) << 30;  // bytes of weights that launches rotate over
constexpr int kMaxCopies = 64;

struct Bench {
  Stream stream;
  DeviceBuffer pool{kPool};
  DeviceBuffer x{std::size_t(1) << 20}, out{std::size_t(4) << 20}, zeros{std::size_t(1) << 20};
  double read_gb_s = 0;

  Bench() {
    // Any bytes are suitable: speed does not depend on values.
    RIGCAST_CUDA_CALL(cudaMemset(pool.as(), 0x11, pool.bytes()));
    RIGCAST_CUDA_CALL(cudaMemset(x.as(), 0, x.bytes()));
    RIGCAST_CUDA_CALL(cudaMemset(zeros.as(), 0, zeros.bytes()));
  }

  cuda::Inputs inputs() const {
    auto* bytes = x.as<std::byte>();
    const auto at = [&](std::size_t from) { return static_cast<void*>(bytes + from); };
    return {{static_cast<std::int8_t*>(at(0)), static_cast<float*>(at(1 << 17)),
             static_cast<float*>(at(1 << 18))},
            static_cast<const float*>(at(1 << 19))};
  }
  cuda::DeviceMatrix matrix(QuantFormat f, std::int64_t columns, std::int64_t rows,
                            std::size_t at) const {
    return {pool.as<std::byte>() + at, f, columns, rows};
  }

  void print(const std::string& name, double us, double bytes) const {
    fmt::print("{:<34} {:>9.2f} us {:>8.0f} GB/s {:>6.1f} %\n", name, us, bytes / us / 1e3,
               100 * bytes / us / 1e3 / read_gb_s);
  }
};

int copies(std::size_t bytes) { return int(std::clamp<std::size_t>(kPool / bytes, 1, kMaxCopies)); }

void bench_matvec(Bench& b, QuantFormat f, std::int64_t columns, std::int64_t rows,
                  const char* what) {
  const std::size_t bytes = cuda::soa_bytes(f, columns, rows);
  const int n = copies(bytes);
  const double us = bench::best_microseconds(b.stream, n, [&](int i) {
    const cuda::MatvecJob job{b.matrix(f, columns, rows, bytes * std::size_t(i)),
                              b.out.as<float>()};
    cuda::matvec(std::span(&job, 1), b.inputs(), b.stream, cuda::Start::kEarly);
  });
  b.print(fmt::format("{:<7}{:<9}{}x{}", info(f).name, what, columns, rows), us, double(bytes));
}

void bench_qkv(Bench& b, QuantFormat f, QuantFormat v) {
  const std::size_t q_bytes = cuda::soa_bytes(f, 4096, 4096);
  const std::size_t k_bytes = cuda::soa_bytes(f, 4096, 1024);
  const std::size_t bytes = q_bytes + k_bytes + cuda::soa_bytes(v, 4096, 1024);
  const int n = copies(bytes);
  const double us = bench::best_microseconds(b.stream, n, [&](int i) {
    const std::size_t at = bytes * std::size_t(i);
    float* out = b.out.as<float>();
    const cuda::MatvecJob jobs[] = {{b.matrix(f, 4096, 4096, at), out},
                                    {b.matrix(f, 4096, 1024, at + q_bytes), out + 4096},
                                    {b.matrix(v, 4096, 1024, at + q_bytes + k_bytes), out + 5120}};
    cuda::matvec(jobs, b.inputs(), b.stream, cuda::Start::kEarly);
  });
  b.print(fmt::format("{:<7}qkv, v {}", info(f).name, info(v).name), us, double(bytes));
}

void bench_gate_up(Bench& b, QuantFormat f, std::int64_t columns, std::int64_t rows) {
  const std::size_t bytes = cuda::soa_bytes(f, columns, rows);
  const int n = copies(2 * bytes);
  auto* out = b.out.as<std::byte>();
  const cuda::Outputs outputs{
      {reinterpret_cast<std::int8_t*>(out), reinterpret_cast<float*>(out + (1 << 17)),
       reinterpret_cast<float*>(out + (1 << 18))},
      nullptr};
  const double us = bench::best_microseconds(b.stream, n, [&](int i) {
    const std::size_t at = 2 * bytes * std::size_t(i);
    cuda::gate_up(b.matrix(f, columns, rows, at), b.matrix(f, columns, rows, at + bytes),
                  b.inputs(), outputs, b.stream, cuda::Start::kEarly);
  });
  b.print(fmt::format("{:<7}gate+up  {}x{}", info(f).name, columns, rows), us, 2.0 * double(bytes));
}

// A layer of an 8B model without the attention kernel: norm, QKV, quantization, output, norm, gate
// and up, down.
void bench_layer(Bench& b, QuantFormat f, QuantFormat of_v_and_down) {
  const auto bytes_of = [](QuantFormat g, std::int64_t columns, std::int64_t rows) {
    return cuda::soa_bytes(g, columns, rows);
  };
  const QuantFormat v = of_v_and_down;
  const std::size_t sizes[] = {bytes_of(f, 4096, 4096),  bytes_of(f, 4096, 1024),
                               bytes_of(v, 4096, 1024),  bytes_of(f, 4096, 4096),
                               bytes_of(f, 4096, 14336), bytes_of(f, 4096, 14336),
                               bytes_of(v, 14336, 4096)};
  std::size_t bytes = 0;
  for (const std::size_t size : sizes) bytes += size;
  const int n = std::min(copies(bytes), 16);
  auto* hidden = b.out.as<float>();
  auto* qkv = hidden + 65536;
  const float* weight = b.zeros.as<float>();
  const cuda::QuantizedActivations x = b.inputs().quantized;
  auto* more = b.out.as<std::byte>() + (1 << 20);
  const cuda::QuantizedActivations inner{reinterpret_cast<std::int8_t*>(more),
                                         reinterpret_cast<float*>(more + (1 << 17)),
                                         reinterpret_cast<float*>(more + (1 << 18))};
  const auto early = cuda::Start::kEarly;
  const double us = bench::best_microseconds(b.stream, n, [&](int i) {
    std::size_t at = bytes * std::size_t(i);
    int next = 0;
    const auto take = [&](QuantFormat g, std::int64_t columns, std::int64_t rows) {
      const cuda::DeviceMatrix m = b.matrix(g, columns, rows, at);
      at += sizes[next++];
      return m;
    };
    cuda::norm_and_quantize({hidden, 4096, 1}, {weight, 1e-5f}, x, nullptr, b.stream, early);
    const cuda::MatvecJob jobs[] = {{take(f, 4096, 4096), qkv},
                                    {take(f, 4096, 1024), qkv + 4096},
                                    {take(v, 4096, 1024), qkv + 5120}};
    cuda::matvec(jobs, {x}, b.stream, early);
    cuda::quantize_tokens({qkv, 4096, 1}, x, b.stream, early);
    const cuda::MatvecJob o{take(f, 4096, 4096), hidden, nullptr, hidden};
    cuda::matvec(std::span(&o, 1), {x}, b.stream, early);
    cuda::norm_and_quantize({hidden, 4096, 1}, {weight, 1e-5f}, x, nullptr, b.stream, early);
    const cuda::DeviceMatrix gate = take(f, 4096, 14336), up = take(f, 4096, 14336);
    cuda::gate_up(gate, up, {x}, {inner}, b.stream, early);
    const cuda::MatvecJob down{take(v, 14336, 4096), hidden, nullptr, hidden};
    cuda::matvec(std::span(&down, 1), {inner}, b.stream, early);
  });
  b.print(fmt::format("{:<7}layer, v and down {}", info(f).name, info(v).name), us, double(bytes));
}

// `biased`: with clamped SwiGLU and biases, as gpt-oss has them.
void bench_experts(Bench& b, QuantFormat f, std::int64_t columns, std::int64_t rows, int used,
                   bool biased = false) {
  const std::size_t bytes = cuda::soa_bytes(f, columns, rows);
  const std::size_t set = bytes * 2 * std::size_t(used);
  const int n = copies(set);
  std::vector<int> numbers;
  for (int i = 0; i < used; ++i) numbers.push_back(i);
  const DeviceBuffer ids(numbers.size() * 4), weights(numbers.size() * 4);
  RIGCAST_CUDA_CALL(
      cudaMemcpy(ids.as(), numbers.data(), numbers.size() * 4, cudaMemcpyHostToDevice));
  RIGCAST_CUDA_CALL(cudaMemset(weights.as(), 0, weights.bytes()));
  const cuda::ChosenExperts chosen{ids.as<int>(), weights.as<float>(), used};
  auto* out = b.out.as<float>();
  const float* const bias = biased ? b.zeros.as<float>() : nullptr;
  const auto function = biased ? cuda::GateFunction::kClampedSwiglu : cuda::GateFunction::kSilu;
  double us = bench::best_microseconds(b.stream, n, [&](int i) {
    const std::size_t at = set * std::size_t(i);
    cuda::experts_gate_up({b.matrix(f, columns, rows, at), bytes, bias},
                          {b.matrix(f, columns, rows, at + set / 2), bytes, bias}, chosen,
                          b.inputs(), {{}, out}, b.stream, cuda::Start::kEarly, function);
  });
  b.print(fmt::format("{:<7}{} x gate+up {}x{}", info(f).name, used, columns, rows), us,
          double(set));
  const std::size_t down = cuda::soa_bytes(f, rows, columns);
  us = bench::best_microseconds(b.stream, n, [&](int i) {
    cuda::experts_down({b.matrix(f, rows, columns, set * std::size_t(i)), down, bias}, chosen,
                       b.inputs(), {nullptr, out}, b.stream, cuda::Start::kEarly);
  });
  b.print(fmt::format("{:<7}{} x down {}x{}", info(f).name, used, rows, columns), us,
          double(down) * used);
}

// The products of a model's layer, one by one, which differ in row length and number of rows.
struct LayerShape {
  const char* model;
  std::int64_t hidden, attention, kv, ffn;
};
void bench_shape(Bench& b, QuantFormat f, const LayerShape& m) {
  const std::string name = m.model;
  bench_matvec(b, f, m.hidden, m.attention + 2 * m.kv, (name + " qkv ").c_str());
  bench_matvec(b, f, m.attention, m.hidden, (name + " o ").c_str());
  bench_gate_up(b, f, m.hidden, m.ffn);
  bench_matvec(b, f, m.ffn, m.hidden, (name + " down ").c_str());
}

// The FFN's products of one token in every supported format: bytes per second relative to Q4_K.
// Returns the number of formats that miss the bar.
int bench_formats(Bench& b) {
  constexpr double kBar = 0.6;
  constexpr std::int64_t kColumns = 4096, kRows = 14336;
  const auto gb_s = [&](QuantFormat f) {
    const std::size_t bytes = cuda::soa_bytes(f, kColumns, kRows);
    const double us = bench::best_microseconds(b.stream, copies(bytes), [&](int i) {
      const cuda::MatvecJob job{b.matrix(f, kColumns, kRows, bytes * std::size_t(i)),
                                b.out.as<float>()};
      cuda::matvec(std::span(&job, 1), b.inputs(), b.stream, cuda::Start::kEarly);
    });
    return double(bytes) / us / 1e3;
  };
  const double q4_k = gb_s(QuantFormat::kQ4_K);
  fmt::print("{:<8}{:>8} {:>10} {:>11}   {}x{}, bar {}\n", "", "GB/s", "of Q4_K", "of a read",
             kColumns, kRows, kBar);
  int missed = 0;
  for (int i = 0; i < kComputedFormatCount; ++i) {
    const QuantFormat f = QuantFormat(i);
    const double own = gb_s(f);
    // Weights of few bits are unpacked at a rate of weights: nearly as many as of Q4_K.
    const double fewer =
        0.9 * info(f).bits_per_weight() / info(QuantFormat::kQ4_K).bits_per_weight();
    const bool low = own < std::min(kBar, fewer) * q4_k;
    missed += low;
    fmt::print("{:<8}{:>8.0f} {:>10.2f} {:>11.2f}{}\n", info(f).name, own, own / q4_k,
               own / b.read_gb_s, low ? "   MISSED" : "");
  }
  return missed;
}

void bench_dequantize(Bench& b, QuantFormat f) {
  constexpr std::int64_t kColumns = 4096, kRows = 14336;
  const std::size_t bytes = cuda::soa_bytes(f, kColumns, kRows);
  const int n = std::min(copies(bytes), 16);
  const DeviceBuffer out(std::size_t(kColumns * kRows) * 2);
  const double us = bench::best_microseconds(b.stream, n, [&](int i) {
    cuda::dequantize(b.matrix(f, kColumns, kRows, bytes * std::size_t(i)), {0, kRows},
                     cuda::FloatType::kF16, out.as(), b.stream);
  });
  // Bytes read and written.
  b.print(fmt::format("{:<7}to F16    4096x14336", info(f).name), us,
          double(bytes) + 2.0 * double(kColumns * kRows));
}

void bench_route(Bench& b, std::int64_t columns, std::int64_t experts, int used) {
  const DeviceBuffer small(1 << 16);
  RIGCAST_CUDA_CALL(cudaMemset(small.as(), 0, small.bytes()));
  auto* words = small.as<float>();
  const double us = bench::best_microseconds(b.stream, 64, [&](int i) {
    const cuda::DeviceMatrix w =
        b.matrix(QuantFormat::kF32, columns, experts, std::size_t(i) << 20);
    cuda::route({w, {}, words, small.as<unsigned>() + 8192}, b.inputs().floats,
                {small.as<int>() + 4096, words + 6144, used}, b.stream, cuda::Start::kEarly);
  });
  fmt::print("route, {} experts of {}, {} used {:>9.2f} us\n", experts, columns, used, us);
}

// The products of a token of gpt-oss 20B: rows of 2,880 are no multiple of 256.
void bench_gpt_oss(Bench& b) {
  using enum QuantFormat;
  for (const QuantFormat f : {kQ8_0, kBF16}) {
    bench_matvec(b, f, 2880, 5120, "qkv ");
    bench_matvec(b, f, 4096, 2880, "o ");
    bench_matvec(b, f, 2880, 201088, "head ");
  }
  bench_experts(b, kMXFP4, 2880, 2880, 4);
  bench_experts(b, kMXFP4, 2880, 2880, 4, true);
  bench_route(b, 2880, 32, 4);
}

void bench_small(Bench& b) {
  auto* out = b.out.as<std::byte>();
  const cuda::QuantizedActivations quantized{reinterpret_cast<std::int8_t*>(out),
                                             reinterpret_cast<float*>(out + (1 << 17)),
                                             reinterpret_cast<float*>(out + (1 << 18))};
  for (const int columns : {4096, 14336}) {
    const double us = bench::best_microseconds(b.stream, 64, [&](int) {
      cuda::norm_and_quantize({b.inputs().floats, columns, 1}, {b.zeros.as<float>(), 1e-5f},
                              quantized, nullptr, b.stream, cuda::Start::kEarly);
    });
    fmt::print("norm and round, {:<6} columns      {:>9.2f} us\n", columns, us);
  }
  bench_route(b, 2048, 128, 8);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string only = argc > 1 ? argv[1] : "";
  const auto wanted = [&](QuantFormat f) { return only.empty() || only == info(f).name; };
  try {
    Bench b;
    b.read_gb_s = bench::plain_read_gb_s(b.stream, b.pool.as<std::byte>(), b.pool.bytes());
    fmt::print("plain read {:.0f} GB/s; the last column is the share of it\n", b.read_gb_s);
    using enum QuantFormat;
    if (only == "formats") return bench_formats(b) > 0 ? 1 : 0;
    if (only == "gpt-oss") {
      bench_gpt_oss(b);
      return 0;
    }
    if (only == "shapes") {
      constexpr LayerShape kShapes[] = {
          {"1B", 2048, 2048, 512, 8192},          {"Qwen2.5 3B", 2048, 2048, 256, 11008},
          {"Qwen3 4B", 2560, 4096, 1024, 9728},   {"3B", 3072, 3072, 1024, 8192},
          {"Qwen2.5 7B", 3584, 3584, 512, 18944}, {"8B", 4096, 4096, 1024, 14336},
          {"14B", 5120, 5120, 1024, 13824},       {"32B", 5120, 5120, 1024, 27648}};
      for (const QuantFormat f : {kQ4_K, kQ6_K, kQ8_0, kF16})
        for (const LayerShape& m : kShapes) bench_shape(b, f, m);
      bench_experts(b, kQ4_K, 2048, 768, 8);
      bench_experts(b, kQ8_0, 2048, 768, 8);
      bench_small(b);
      return 0;
    }
    for (const QuantFormat f : {kF16, kBF16, kF32, kQ8_0, kQ6_K, kQ5_K, kQ4_K, kQ4_0, kQ4_1, kQ5_0,
                                kQ5_1, kQ2_K, kQ3_K, kIQ4_NL, kIQ4_XS, kMXFP4}) {
      if (!wanted(f)) continue;
      bench_matvec(b, f, 4096, 4096, "q");
      bench_matvec(b, f, 4096, 1024, "k");
      bench_qkv(b, f, f);
      if (f == kQ4_K) bench_qkv(b, f, kQ6_K);
      if (f != kF16 && f != kBF16 && f != kF32) bench_layer(b, f, f);
      if (f == kQ4_K) bench_layer(b, f, kQ6_K);
      bench_gate_up(b, f, 4096, 14336);
      bench_matvec(b, f, 14336, 4096, "down");
      bench_matvec(b, f, 4096, 128256, "head");
    }
    if (only.empty()) {
      bench_experts(b, kQ4_K, 2048, 768, 8);
      bench_experts(b, kQ4_K, 4096, 14336, 2);
      for (const QuantFormat f : {kF16, kQ8_0, kQ6_K, kQ5_K, kQ4_K, kQ4_0}) bench_dequantize(b, f);
      bench_small(b);
    }
  } catch (const CudaFailure& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
