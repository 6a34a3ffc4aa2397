#pragma once
// Weight matrices of random blocks, in the file's layout and on the GPU.

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "engine/kernels/cuda/weights/soa_layout.cuh"
#include "engine/kernels/ref/dequantize.hpp"
#include "engine/kernels/ref/half.hpp"
#include "tests/cuda/device_data.cuh"

namespace rigcast::fixtures {

inline constexpr QuantFormat kAllFormats[] = {
    QuantFormat::kF32,   QuantFormat::kF16,     QuantFormat::kBF16,    QuantFormat::kQ4_0,
    QuantFormat::kQ4_1,  QuantFormat::kQ5_0,    QuantFormat::kQ5_1,    QuantFormat::kQ8_0,
    QuantFormat::kQ2_K,  QuantFormat::kQ3_K,    QuantFormat::kQ4_K,    QuantFormat::kQ5_K,
    QuantFormat::kQ6_K,  QuantFormat::kIQ4_NL,  QuantFormat::kIQ4_XS,  QuantFormat::kMXFP4,
    QuantFormat::kIQ1_S, QuantFormat::kIQ1_M,   QuantFormat::kIQ2_XXS, QuantFormat::kIQ2_XS,
    QuantFormat::kIQ2_S, QuantFormat::kIQ3_XXS, QuantFormat::kIQ3_S,   QuantFormat::kTQ1_0,
    QuantFormat::kTQ2_0, QuantFormat::kNVFP4};

/// The layout of a block besides its codes: offsets of FP16 fields, and the bytes [codes,
/// codes_end) of codes.
struct BlockParts {
  std::vector<std::size_t> fp16;
  std::size_t codes = 0, codes_end = 0;
};
inline BlockParts parts_of(QuantFormat format) {
  switch (format) {
    case QuantFormat::kQ4_0:
    case QuantFormat::kIQ4_NL: return {{0}, 2, 18};
    case QuantFormat::kQ4_1: return {{0, 2}, 4, 20};
    case QuantFormat::kQ5_0: return {{0}, 2, 22};
    case QuantFormat::kQ5_1: return {{0, 2}, 4, 24};
    case QuantFormat::kQ8_0: return {{0}, 2, 34};
    case QuantFormat::kQ2_K: return {{80, 82}, 16, 80};
    case QuantFormat::kQ3_K: return {{108}, 0, 96};
    case QuantFormat::kQ4_K: return {{0, 2}, 16, 144};
    case QuantFormat::kQ5_K: return {{0, 2}, 16, 176};
    case QuantFormat::kQ6_K: return {{208}, 0, 192};
    case QuantFormat::kIQ4_XS: return {{0}, 8, 136};
    case QuantFormat::kIQ1_S:
    case QuantFormat::kIQ2_XXS:
    case QuantFormat::kIQ2_XS:
    case QuantFormat::kIQ2_S:
    case QuantFormat::kIQ3_XXS:
    case QuantFormat::kIQ3_S: return {{0}, 0, 0};  // kernels add no term besides the codes'
    case QuantFormat::kTQ1_0: return {{52}, 0, 0};
    case QuantFormat::kTQ2_0: return {{64}, 0, 0};
    default: return {{}, 0, 0};
  }
}

inline std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<std::byte> out(count);
  for (std::byte& b : out) b = std::byte(bits() & 0xFF);
  return out;
}

/// One matrix. Every bit is random, but floats and the floats in blocks are finite.
struct Weights {
  QuantFormat format;
  std::int64_t columns, rows;
  std::vector<std::byte> blocks;

  Weights(QuantFormat f, std::int64_t columns_, std::int64_t rows_, unsigned seed = 1)
      : format(f),
        columns(columns_),
        rows(rows_),
        blocks(random_bytes(tensor_bytes(f, std::uint64_t(columns_), std::uint64_t(rows_)), seed)) {
    std::mt19937 bits(seed + 1);
    std::normal_distribution<float> normal(0.0f, 0.01f);
    const std::size_t size = info(f).block_bytes;
    for (std::size_t at = 0; at < blocks.size(); at += size) {
      const float value = normal(bits);
      if (f == QuantFormat::kF32) std::memcpy(&blocks[at], &value, 4);
      if (f == QuantFormat::kF16) put16(at, engine::ref::float_to_half(value));
      if (f == QuantFormat::kBF16) put16(at, engine::ref::float_to_bfloat(value));
      if (f == QuantFormat::kMXFP4) blocks[at] = std::byte(118 + bits() % 8);
      if (f == QuantFormat::kNVFP4)  // E4M3 from 2^-6 on
        for (std::size_t i = 0; i < 4; ++i) blocks[at + i] = std::byte(8 + bits() % 8);
      if (f == QuantFormat::kIQ1_M) put_scattered(at + 48, engine::ref::float_to_half(value));
      for (const std::size_t half : parts_of(f).fp16)
        put16(at + half, engine::ref::float_to_half(normal(bits)));
    }
  }

  std::size_t row_bytes() const { return tensor_bytes(format, std::uint64_t(columns), 1); }
  std::vector<float> row(std::int64_t i) const {
    std::vector<float> out(static_cast<std::size_t>(columns));
    engine::ref::dequantize(format, &blocks[std::size_t(i) * row_bytes()], out);
    return out;
  }
  /// The values of code 0, which kernels add to those of codes as terms of their own.
  std::vector<float> row_of_zeros(std::int64_t i) const {
    std::vector<float> out(static_cast<std::size_t>(columns));
    const BlockParts parts = parts_of(format);
    if (parts.codes_end == 0) return out;
    const auto first = blocks.begin() + std::ptrdiff_t(std::size_t(i) * row_bytes());
    std::vector<std::byte> zeros(first, first + std::ptrdiff_t(row_bytes()));
    for (std::size_t at = 0; at < zeros.size(); at += info(format).block_bytes)
      std::fill(&zeros[at + parts.codes], &zeros[at] + parts.codes_end, std::byte(0));
    engine::ref::dequantize(format, zeros.data(), out);
    return out;
  }

 private:
  void put16(std::size_t at, std::uint16_t value) { std::memcpy(&blocks[at], &value, 2); }
  // Four bits on top of each of four words.
  void put_scattered(std::size_t at, std::uint16_t value) {
    for (std::size_t k = 0; k < 4; ++k) {
      std::byte& high = blocks[at + 2 * k + 1];
      high = (high & std::byte(15)) | std::byte((value >> (4 * k) & 15) << 4);
    }
  }
};

/// Matrices of one shape one after the other, repacked.
class PlanesOnDevice {
 public:
  explicit PlanesOnDevice(std::span<const Weights> from)
      : stride_(engine::cuda::soa_bytes(from[0].format, from[0].columns, from[0].rows)),
        soa_(stride_ * from.size()),
        first_{soa_.get(), from[0].format, from[0].columns, from[0].rows} {
    const engine::Stream stream;
    for (std::size_t i = 0; i < from.size(); ++i) {
      const OnDevice<std::byte> blocks(from[i].blocks);
      engine::cuda::repack(first_.format, first_.columns, first_.rows, {0, first_.rows},
                           blocks.get(), soa_.get() + i * stride_, stream);
      stream.wait();
    }
  }
  explicit PlanesOnDevice(const Weights& one) : PlanesOnDevice(std::span(&one, 1)) {}

  const engine::cuda::DeviceMatrix& matrix() const { return first_; }
  std::size_t stride() const { return stride_; }

 private:
  std::size_t stride_;
  OnDevice<std::byte> soa_;
  engine::cuda::DeviceMatrix first_;
};

inline std::string named(QuantFormat format, std::int64_t columns, std::int64_t rows) {
  return std::string(info(format).name) + ", " + std::to_string(columns) + " columns, " +
         std::to_string(rows) + " rows";
}

}  // namespace rigcast::fixtures
