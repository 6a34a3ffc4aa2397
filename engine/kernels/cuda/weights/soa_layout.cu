#include "engine/kernels/cuda/weights/soa_layout.cuh"

#include <stdexcept>

#include "engine/cuda/launch.cuh"
#include "engine/kernels/cuda/weights/whole_blocks.cuh"

namespace rigcast::engine::cuda {
namespace {

// Bytes of 32 weights in each array; of formats whose blocks stay whole, `codes` are of a block.
// `high` and the arrays after it interleave four rows, except
// where a row's part is a multiple of 16 bytes by itself.
struct UnitBytes {
  int codes = 0, high = 0, fields = 0, scales = 0;
  bool high_by_row = false, fields_by_row = false;
  int scale_units = 1;  // units that share their part of `scales`
  int code_units = 1;   // and of `codes`
};

UnitBytes unit_bytes(QuantFormat format) {
  using enum QuantFormat;
  if (stays_whole(format)) {
    const int units = int(info(format).block_elements) / 32;
    return {.codes = body_bytes(format),
            .scales = scale_at(format) < 0 ? 0 : 2,
            .scale_units = units,
            .code_units = units};
  }
  switch (format) {
    case kQ4_0:
    case kIQ4_NL: return {.codes = 16, .scales = 2};
    case kMXFP4: return {.codes = 16, .scales = 1};
    case kIQ4_XS: return {.codes = 16, .fields = 1, .fields_by_row = true};
    case kQ4_1: return {.codes = 16, .scales = 4};
    case kQ5_0: return {.codes = 16, .high = 4, .scales = 2};
    case kQ5_1: return {.codes = 16, .high = 4, .scales = 4};
    case kQ8_0: return {.codes = 32, .scales = 2};
    case kQ4_K: return {.codes = 16, .fields = 2, .fields_by_row = true};
    case kQ5_K: return {.codes = 16, .high = 4, .fields = 2, .fields_by_row = true};
    case kQ6_K:
      return {
          .codes = 16, .high = 8, .fields = 2, .scales = 2, .high_by_row = true, .scale_units = 8};
    case kQ2_K: return {.codes = 8, .fields = 2, .scales = 4, .scale_units = 8};
    case kQ3_K: return {.codes = 8, .high = 4, .fields = 1, .scales = 6, .scale_units = 8};
    default: return {};
  }
}

std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// The addresses to which a kernel writes.
struct Target {
  std::uint8_t* codes;
  std::uint8_t* high;
  std::uint8_t* fields;
  std::uint8_t* scales;
};

// One unit of the file, and its position in the layout.
struct Place {
  const std::uint8_t* block;
  int s;                 // the unit's index in its block
  std::int64_t by_row;   // index of the unit over all rows
  std::int64_t by_four;  // index of the unit in arrays that interleave four rows
};

__device__ void put8(std::uint8_t* to, std::uint32_t value) { *to = std::uint8_t(value); }
__device__ void put16(std::uint8_t* to, std::uint32_t value) {
  *reinterpret_cast<std::uint16_t*>(to) = std::uint16_t(value);
}
__device__ void put32(std::uint8_t* to, std::uint32_t value) {
  *reinterpret_cast<std::uint32_t*>(to) = value;
}

// Code i of a unit, up to 8 bits, from the file's block.
template <QuantFormat F>
__device__ std::uint32_t code_at(const std::uint8_t* b, int s, int i) {
  using enum QuantFormat;
  if constexpr (F == kQ4_K || F == kQ5_K) {
    const std::uint8_t* codes = b + (F == kQ4_K ? 16 : 48) + 32 * (s / 2);
    const std::uint32_t low = codes[i] >> (4 * (s % 2)) & 15;
    return F == kQ4_K ? low : low | (b[16 + i] >> s & 1) << 4;
  } else if constexpr (F == kQ6_K) {
    const int half = s / 4, quarter = s % 4;
    const std::uint32_t low = b[64 * half + 32 * (quarter % 2) + i] >> (4 * (quarter / 2)) & 15;
    return low | (b[128 + 32 * half + i] >> (2 * quarter) & 3) << 4;
  } else if constexpr (F == kQ2_K || F == kQ3_K) {
    const std::uint32_t low = b[(F == kQ2_K ? 16 : 32) + 32 * (s / 4) + i] >> (2 * (s % 4)) & 3;
    return F == kQ2_K ? low : low | (b[i] >> s & 1) << 2;
  } else if constexpr (F == kIQ4_XS) {
    return b[8 + 16 * s + i % 16] >> (4 * (i / 16)) & 15;
  } else {
    constexpr int kAt = BlockOf<F>::kBytes - 16;
    const std::uint32_t low = i < 16 ? b[kAt + i] & 15 : b[kAt + i - 16] >> 4;
    if constexpr (F == kQ4_0 || F == kQ4_1 || kCodebookWeights<F>) return low;
    return low | (u32_at(b + kAt - 4) >> i & 1) << 4;
  }
}

template <QuantFormat F>
__device__ void put_codes(const Place& p, const Target& to) {
  constexpr bool kSix = F == QuantFormat::kQ6_K;
  std::uint32_t low[4] = {}, high[2] = {};
  for (int i = 0; i < 32; ++i) {
    const std::uint32_t code = code_at<F>(p.block, p.s, i);
    low[i % 16 / 4] |= (code & 15) << (8 * (i % 4) + 4 * (i / 16));
    if (kSix)
      high[i / 16] |= (code >> 4) << (8 * (i % 4) + 2 * (i % 16 / 4));
    else
      high[0] |= (code >> 4) << (8 * (i % 4) + i / 4);
  }
  for (int k = 0; k < 4; ++k) put32(to.codes + p.by_row * 16 + 4 * k, low[k]);
  if (kSix) {
    put32(to.high + p.by_row * 8, high[0]);
    put32(to.high + p.by_row * 8 + 4, high[1]);
  } else if (to.high) {
    put32(to.high + p.by_four * 4, high[0]);
  }
}

template <QuantFormat F>
__device__ void put_low_codes(const Place& p, const Target& to) {
  std::uint32_t low[2] = {}, high = 0;
  for (int i = 0; i < 32; ++i) {
    const std::uint32_t code = code_at<F>(p.block, p.s, i);
    low[i / 16] |= (code & 3) << (8 * (i % 4) + 2 * (i % 16 / 4));
    high |= (code >> 2) << (8 * (i % 4) + i / 4);
  }
  for (int half = 0; half < 2; ++half) put32(to.codes + p.by_row * 8 + 4 * half, low[half]);
  if (to.high) put32(to.high + p.by_four * 4, high);
}

// Scale i of the 16 of a Q3_K block: its low and its high bits.
__device__ std::uint32_t q3_k_low(const std::uint8_t* b, int i) {
  return i < 8 ? b[96 + i] & 15 : b[96 + i - 8] >> 4;
}
__device__ std::uint32_t q3_k_high(const std::uint8_t* b, int i) {
  return b[96 + 8 + i % 4] >> (2 * (i / 4)) & 3;
}

// Writes the head of a Q4_K or Q5_K block; called by the thread of its first unit.
__device__ void put_head(const Place& p, const Target& to) {
  const std::uint8_t* b = p.block + 4;
  std::uint32_t words[3] = {};
  for (int s = 0; s < 8; ++s) {
    const std::uint32_t scale = s < 4 ? b[s] & 63 : (b[s + 4] & 15) | (b[s - 4] >> 6) << 4;
    const std::uint32_t min = s < 4 ? b[s + 4] & 63 : b[s + 4] >> 4 | (b[s] >> 6) << 4;
    const std::uint64_t bits = std::uint64_t(scale | min << 6) << (12 * s % 32);
    words[12 * s / 32] |= std::uint32_t(bits);
    if (12 * s / 32 < 2) words[12 * s / 32 + 1] |= std::uint32_t(bits >> 32);
  }
  std::uint8_t* head = to.fields + p.by_row / 8 * 16;
  put32(head, u32_at(p.block));
  for (int k = 0; k < 3; ++k) put32(head + 4 + 4 * k, words[k]);
}

// The threads of a block's units share its words.
template <QuantFormat F>
__device__ void put_body(const Place& p, const Target& to) {
  using Body = BodyOf<F>;
  std::uint8_t* const body = to.codes + p.by_row / Body::kUnits * Body::kBytes;
  for (int k = p.s; k < Body::kWords; k += Body::kUnits)
    put32(body + 4 * k, u32_at(p.block + Body::kFirst + 4 * k));
}

template <QuantFormat F>
__device__ void put_unit(const Place& p, const Target& to) {
  using enum QuantFormat;
  if constexpr (kWholeBlocks<F>) {
    put_body<F>(p, to);
  } else if constexpr (F == kQ8_0) {
    for (int k = 0; k < 8; ++k)
      put32(to.codes + p.by_row * 32 + 4 * k, u32_at(p.block + 2 + 4 * k));
    put16(to.scales + p.by_four * 2, u16_at(p.block));
  } else if constexpr (F == kQ2_K || F == kQ3_K) {
    put_low_codes<F>(p, to);
    if constexpr (F == kQ2_K)
      put16(to.fields + p.by_four * 2, u16_at(p.block + 2 * p.s));
    else
      put8(to.fields + p.by_four, q3_k_low(p.block, 2 * p.s) | q3_k_low(p.block, 2 * p.s + 1) << 4);
  } else {
    put_codes<F>(p, to);
    if constexpr (F == kQ4_0 || F == kQ5_0 || F == kIQ4_NL)
      put16(to.scales + p.by_four * 2, u16_at(p.block));
    if constexpr (F == kMXFP4) put8(to.scales + p.by_four, p.block[0]);
    if constexpr (F == kIQ4_XS)
      if (p.s == 0)
        for (int k = 0; k < 2; ++k) put32(to.fields + p.by_row + 4 * k, u32_at(p.block + 4 * k));
    if constexpr (F == kQ4_1 || F == kQ5_1) put32(to.scales + p.by_four * 4, u32_at(p.block));
    if constexpr (F == kQ4_K || F == kQ5_K)
      if (p.s == 0) put_head(p, to);
    if constexpr (F == kQ6_K) put16(to.fields + p.by_four * 2, u16_at(p.block + 192 + 2 * p.s));
  }
}

// Writes the `scales` of 256 weights; called by the thread of the block's first unit. `four`: index
// over groups of four rows.
template <QuantFormat F>
__device__ void put_block(const std::uint8_t* b, std::int64_t four, int row, std::uint8_t* scales) {
  using enum QuantFormat;
  if constexpr (F == kQ6_K) put16(scales + (four * 4 + row) * 2, u16_at(b + 208));
  if constexpr (F == kQ2_K) put32(scales + (four * 4 + row) * 4, u32_at(b + 80));
  if constexpr (kWholeBlocks<F>)
    if constexpr (BodyOf<F>::kHasScale)
      put16(scales + (four * 4 + row) * 2, u16_at(b + BodyOf<F>::kScaleAt));
  if constexpr (F == kQ3_K) {
    std::uint32_t high = 0;
    for (int i = 0; i < 16; ++i) high |= q3_k_high(b, i) << (2 * i);
    put32(scales + four * 24 + 4 * row, high);
    put16(scales + four * 24 + 16 + 2 * row, u16_at(b + 108));
  }
}

struct Geometry {
  std::int64_t units;  // units of a row
  RowRange range;
};

template <QuantFormat F>
__global__ void repack_units(const std::uint8_t* blocks, Target to, Geometry g) {
  constexpr int kUnits = BlockOf<F>::kWeights / 32;
  const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= g.units * g.range.count) return;
  const std::int64_t row = g.range.first + i / g.units, unit = i % g.units;
  const Place place{blocks + i / kUnits * BlockOf<F>::kBytes, int(i % kUnits), row * g.units + unit,
                    (row / 4 * g.units + unit) * 4 + row % 4};
  put_unit<F>(place, to);
  if (kUnits == 8 && place.s == 0)
    put_block<F>(place.block, row / 4 * (g.units / 8) + unit / 8, int(row % 4), to.scales);
}

template <QuantFormat F>
void repack_as(const std::byte* blocks, const Target& to, const Geometry& g, const Stream& stream) {
  constexpr unsigned kThreads = 128;
  const Shape shape{dim3(unsigned((g.units * g.range.count + kThreads - 1) / kThreads)),
                    dim3(kThreads)};
  launch(stream, shape, Start::kAfter, repack_units<F>,
         reinterpret_cast<const std::uint8_t*>(blocks), to, g);
}

}  // namespace

SoaOffsets soa_offsets(QuantFormat format, std::int64_t columns, std::int64_t rows) {
  const UnitBytes b = unit_bytes(format);
  if (b.codes == 0) {
    const std::size_t end =
        aligned(tensor_bytes(format, std::uint64_t(columns), std::uint64_t(rows)));
    return {0, end, end, end, end};
  }
  const std::size_t units = std::size_t(columns / 32), by_row = units * std::size_t(rows);
  const std::size_t by_four = units * std::size_t((rows + 3) / 4 * 4);
  SoaOffsets at;
  at.high = aligned(by_row / std::size_t(b.code_units) * std::size_t(b.codes));
  at.fields = at.high + aligned((b.high_by_row ? by_row : by_four) * std::size_t(b.high));
  at.scales = at.fields + aligned((b.fields_by_row ? by_row : by_four) * std::size_t(b.fields));
  at.end = at.scales + aligned(by_four / std::size_t(b.scale_units) * std::size_t(b.scales));
  return at;
}

std::size_t soa_bytes(QuantFormat format, std::int64_t columns, std::int64_t rows) {
  return soa_offsets(format, columns, rows).end;
}

SoaView view_of(const DeviceMatrix& m) {
  const SoaOffsets at = soa_offsets(m.format, m.columns, m.rows);
  const auto* first = reinterpret_cast<const std::uint8_t*>(m.soa);
  const auto part = [&](std::size_t from, std::size_t to) {
    return to > from ? first + from : nullptr;
  };
  return {first, part(at.high, at.fields), part(at.fields, at.scales), part(at.scales, at.end)};
}

void repack(QuantFormat format, std::int64_t columns, std::int64_t rows, RowRange range,
            const std::byte* blocks, std::byte* soa, const Stream& stream) {
  if (range.count == 0) return;
  if (unit_bytes(format).codes == 0) {
    const auto bytes = [&](std::int64_t n) {
      return tensor_bytes(format, std::uint64_t(columns), std::uint64_t(n));
    };
    RIGCAST_CUDA_CALL(cudaMemcpyAsync(soa + bytes(range.first), blocks, bytes(range.count),
                                      cudaMemcpyDeviceToDevice, stream.get()));
    return;
  }
  const SoaView v = view_of({soa, format, columns, rows});
  const auto writable = [](const std::uint8_t* p) { return const_cast<std::uint8_t*>(p); };
  const Target to{writable(v.codes), writable(v.high), writable(v.fields), writable(v.scales)};
  const Geometry g{columns / 32, range};
  using enum QuantFormat;
  switch (format) {
    case kQ4_0: return repack_as<kQ4_0>(blocks, to, g, stream);
    case kQ4_1: return repack_as<kQ4_1>(blocks, to, g, stream);
    case kQ5_0: return repack_as<kQ5_0>(blocks, to, g, stream);
    case kQ5_1: return repack_as<kQ5_1>(blocks, to, g, stream);
    case kQ8_0: return repack_as<kQ8_0>(blocks, to, g, stream);
    case kQ4_K: return repack_as<kQ4_K>(blocks, to, g, stream);
    case kQ5_K: return repack_as<kQ5_K>(blocks, to, g, stream);
    case kQ6_K: return repack_as<kQ6_K>(blocks, to, g, stream);
    case kQ2_K: return repack_as<kQ2_K>(blocks, to, g, stream);
    case kQ3_K: return repack_as<kQ3_K>(blocks, to, g, stream);
    case kIQ4_NL: return repack_as<kIQ4_NL>(blocks, to, g, stream);
    case kIQ4_XS: return repack_as<kIQ4_XS>(blocks, to, g, stream);
    case kMXFP4: return repack_as<kMXFP4>(blocks, to, g, stream);
    case kIQ1_S: return repack_as<kIQ1_S>(blocks, to, g, stream);
    case kIQ1_M: return repack_as<kIQ1_M>(blocks, to, g, stream);
    case kIQ2_XXS: return repack_as<kIQ2_XXS>(blocks, to, g, stream);
    case kIQ2_XS: return repack_as<kIQ2_XS>(blocks, to, g, stream);
    case kIQ2_S: return repack_as<kIQ2_S>(blocks, to, g, stream);
    case kIQ3_XXS: return repack_as<kIQ3_XXS>(blocks, to, g, stream);
    case kIQ3_S: return repack_as<kIQ3_S>(blocks, to, g, stream);
    case kTQ1_0: return repack_as<kTQ1_0>(blocks, to, g, stream);
    case kTQ2_0: return repack_as<kTQ2_0>(blocks, to, g, stream);
    case kNVFP4: return repack_as<kNVFP4>(blocks, to, g, stream);
    default: throw std::invalid_argument("repack: no such layout for this format");
  }
}

}  // namespace rigcast::engine::cuda
