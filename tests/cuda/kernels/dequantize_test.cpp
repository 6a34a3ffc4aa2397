#include "engine/kernels/cuda/weights/dequantize.cuh"

#include <bit>
#include <cmath>

#include "engine/kernels/ref/half.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/kernels/weights.cuh"

using namespace rigcast;
using engine::Stream;
namespace cuda = engine::cuda;
namespace ref = engine::ref;
using fixtures::OnDevice;
using fixtures::Weights;

namespace {

// Bit for bit; any NaN is as good as another.
template <class T, class IsNan>
std::size_t differing(const std::vector<T>& a, const std::vector<T>& b, IsNan is_nan) {
  std::size_t count = a.size() == b.size() ? 0 : a.size() + b.size();
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    if (std::memcmp(&a[i], &b[i], sizeof(T)) != 0 && !(is_nan(a[i]) && is_nan(b[i]))) ++count;
  return count;
}

std::vector<float> reference(const Weights& w, cuda::RowRange range) {
  std::vector<float> all;
  for (std::int64_t i = range.first; i < range.first + range.count; ++i) {
    const std::vector<float> row = w.row(i);
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

// The floats in blocks are random as well: infinities, NaNs, subnormals, negative scales.
Weights wild(QuantFormat f, std::int64_t columns, std::int64_t rows) {
  Weights w(f, columns, rows);
  w.blocks = fixtures::random_bytes(w.blocks.size(), 77);
  return w;
}

bool nan_float(float v) { return std::isnan(v); }
bool nan_half(std::uint16_t v) { return (v & 0x7FFF) > 0x7C00; }
bool nan_bfloat(std::uint16_t v) { return (v & 0x7FFF) > 0x7F80; }

void check_rows(const Weights& w, cuda::RowRange range) {
  INFO(fixtures::named(w.format, w.columns, w.rows));
  const Stream stream;
  const fixtures::PlanesOnDevice soa(w);
  const std::vector<float> expected = reference(w, range);
  const OnDevice<float> floats(expected.size());
  const OnDevice<std::uint16_t> fp16(expected.size()), bfloats(expected.size());
  cuda::dequantize(soa.matrix(), range, cuda::FloatType::kF32, floats.get(), stream);
  cuda::dequantize(soa.matrix(), range, cuda::FloatType::kF16, fp16.get(), stream);
  cuda::dequantize(soa.matrix(), range, cuda::FloatType::kBF16, bfloats.get(), stream);
  std::vector<std::uint16_t> as_fp16, as_bfloats;
  for (const float v : expected) {
    as_fp16.push_back(ref::float_to_half(v));
    as_bfloats.push_back(ref::float_to_bfloat(v));
  }
  CHECK(differing(floats.read(), expected, nan_float) == 0);
  CHECK(differing(fp16.read(), as_fp16, nan_half) == 0);
  CHECK(differing(bfloats.read(), as_bfloats, nan_bfloat) == 0);
}

}  // namespace

TEST_CASE("Weights on the GPU are those of the scalar reference, bit for bit",
          "[cuda][gpu][formats]") {
  for (const QuantFormat f : fixtures::kAllFormats) {
    if (info(f).block_elements <= 32) {
      check_rows(wild(f, 32, 1), {0, 1});
      check_rows(wild(f, 96, 31), {3, 28});
      check_rows(wild(f, 288, 33), {0, 33});
    }
    check_rows(wild(f, 256, 3), {1, 1});
    check_rows(wild(f, 4096, 257), {0, 257});
    check_rows(wild(f, 14336, 5), {2, 3});
  }
}

TEST_CASE("Rows of an embedding by id", "[cuda][gpu][formats]") {
  const Stream stream;
  const std::vector<int> ids = {30, 0, 7, 7, 16};
  for (const QuantFormat f : fixtures::kAllFormats) {
    const Weights w(f, 768, 31);
    const fixtures::PlanesOnDevice soa(w);
    const OnDevice<int> ids_there(ids);
    const OnDevice<float> out(ids.size() * 768);
    cuda::gather_rows(soa.matrix(), ids_there.get(), int(ids.size()), out.get(), stream);
    std::vector<float> expected;
    for (const int id : ids) {
      const std::vector<float> row = w.row(id);
      expected.insert(expected.end(), row.begin(), row.end());
    }
    INFO(info(f).name);
    CHECK(differing(out.read(), expected, nan_float) == 0);
  }
}
