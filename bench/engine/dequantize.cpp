#include "bench/engine/dequantize.hpp"

#include "engine/kernels/cpu/int8/targets.hpp"
#include "engine/kernels/ref/dequantize.hpp"

#if defined(__x86_64__)
#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")

namespace rigcast::bench {
namespace {

float half_at(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, sizeof bits);
  return _cvtsh_ss(bits);
}

#include "engine/kernels/cpu/int8/unpack.inc"

template <class Format>
void row(const std::byte* block, std::int64_t columns, float* RIGCAST_RESTRICT out) {
  for (std::int64_t done = 0; done < columns; done += Format::kBlock, block += Format::kBytes) {
    std::uint8_t u[Format::kBlock];
    float a[Format::kBlock / Format::kScaleBlock], b[Format::kBlock / Format::kScaleBlock];
    Format::unpack(block, u, a, b);
    for (int s = 0; s < Format::kBlock / Format::kScaleBlock; ++s)
      for (int i = 0; i < Format::kScaleBlock; ++i, ++out)
        *out = a[s] * float(u[s * Format::kScaleBlock + i]) + b[s];
  }
}

}  // namespace

void dequantize_rows(const engine::Matrix& m, std::int64_t first, std::int64_t last, float* out) {
  for (std::int64_t i = first; i < last; ++i, out += m.columns)
    m.format == QuantFormat::kQ4_K ? row<Q4_K>(m.row(i), m.columns, out)
                                   : row<Q6_K>(m.row(i), m.columns, out);
}

}  // namespace rigcast::bench
#pragma GCC pop_options
#else
namespace rigcast::bench {

void dequantize_rows(const engine::Matrix& m, std::int64_t first, std::int64_t last, float* out) {
  engine::ref::dequantize(m.format, m.row(first), {out, std::size_t((last - first) * m.columns)});
}

}  // namespace rigcast::bench
#endif
