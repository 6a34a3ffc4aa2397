// Rates at which the GPU multiplies weights with batches of tokens.
#include <algorithm>

#include "engine/cuda/cublas/cublas.cuh"
#include "probe/gpu/device_time.cuh"
#include "probe/gpu/gpu_parts.hpp"
#include "probe/gpu/random_bits.cuh"

namespace rigcast::probe {
namespace {

constexpr int kMostTokens = 4096;
constexpr double kTakeSeconds = 300e-6;  // long enough that launch and wait do not count
constexpr int kMostCalls = 64;
constexpr double kPointSeconds = 0.02;
constexpr int kAmpere = 8;  // the first architecture with bf16

struct Kind {
  const char* name;
  engine::ProductType type;
  BitPattern bits;
};
constexpr Kind kKinds[] = {
    {"f16", {CUDA_R_16F, CUBLAS_COMPUTE_32F, CUDA_R_16F, 2, 2}, kHalves},
    {"bf16", {CUDA_R_16BF, CUBLAS_COMPUTE_32F, CUDA_R_16BF, 2, 2}, kBfloats},
    {"int8", {CUDA_R_8I, CUBLAS_COMPUTE_32I, CUDA_R_32I, 1, 4}, {}},
};

// Matrices of an 8B model: attention output, FFN up and FFN down.
struct Weights {
  int rows, columns;
  std::size_t count() const { return std::size_t(rows) * std::size_t(columns); }
};
constexpr Weights kWeights[] = {{4096, 4096}, {14336, 4096}, {4096, 14336}};
constexpr int kWidest = 14336;

class Bench {
 public:
  explicit Bench(const cudaDeviceProp& gpu)
      : cublas_(stream_),
        weights_(std::max(4 * std::size_t(gpu.l2CacheSize), 2 * std::size_t(kWidest) * 4096)),
        batch_(2 * std::size_t(kWidest) * kMostTokens),
        result_(4 * std::size_t(kWidest) * kMostTokens) {}

  void use(const Kind& kind) {
    kind_ = kind;
    fill_random(weights_, kind.bits, stream_);
    fill_random(batch_, kind.bits, stream_);
  }
  // n is 0 if the library does not support the product here.
  Takes rate(const Weights& weights, int tokens) {
    const engine::ProductShape shape{weights.rows, weights.columns, tokens};
    if (!call(shape, weights.count(), 1)) return {};  // the first call selects and loads a kernel
    const double once = device_seconds(stream_, [&] { call(shape, weights.count(), 1); });
    const int calls = std::clamp(int(kTakeSeconds / std::max(once, 1e-7)), 1, kMostCalls);
    const auto rates = several(kPointSeconds, [&] {
      const double all = device_seconds(stream_, [&] { call(shape, weights.count(), calls); });
      return shape.operations() * calls / all;
    });
    return takes_of(rates);
  }

 private:
  // Each call reads weights that the previous one has not left in the cache.
  bool call(const engine::ProductShape& shape, std::size_t count, int calls) {
    const std::size_t each = count * kind_.type.bytes_in;
    const std::size_t places = std::max<std::size_t>(1, weights_.bytes() / each);
    bool done = true;
    for (int i = 0; i < calls && done; ++i)
      done = cublas_.multiply(
          kind_.type, shape,
          {weights_.as<std::byte>() + next_++ % places * each, batch_.as(), result_.as()});
    return done;
  }

  engine::Stream stream_;
  engine::Cublas cublas_;
  engine::DeviceBuffer weights_, batch_, result_;
  Kind kind_ = kKinds[0];
  std::size_t next_ = 0;
};

ProductCurve curve_of(Bench& bench, const Kind& kind, const Weights& weights) {
  ProductCurve curve{kind.name, weights.rows, weights.columns, {}};
  for (int tokens = 1; tokens <= kMostTokens; tokens *= 2)
    if (const Takes rate = bench.rate(weights, tokens); rate.n > 0)
      curve.points.push_back({tokens, rate});
  return curve;
}

}  // namespace

std::vector<ProductCurve> measure_products() {
  int device = 0;
  RIGCAST_CUDA_CALL(cudaGetDevice(&device));
  cudaDeviceProp gpu{};
  RIGCAST_CUDA_CALL(cudaGetDeviceProperties(&gpu, device));
  Bench bench(gpu);
  std::vector<ProductCurve> curves;
  for (const Kind& kind : kKinds) {
    if (kind.type.in == CUDA_R_16BF && gpu.major < kAmpere) continue;
    bench.use(kind);
    for (const Weights& weights : kWeights)
      if (auto curve = curve_of(bench, kind, weights); !curve.points.empty())
        curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace rigcast::probe
