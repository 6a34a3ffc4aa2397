#pragma once
// The struct-of-arrays layout of each weight format in GPU memory: the fields of a block that the
// lanes of a warp load 4, 8 or 16 bytes at a time are in separate arrays (codes, high, fields,
// scales).

#include <cstddef>
#include <cstdint>

#include "engine/cuda/cuda_stream.cuh"
#include "engine/kernels/cuda/weights/matrix.cuh"

namespace rigcast::engine::cuda {

// Of 32 neighbouring weights, a "unit":
// - codes, [row][unit]: 16 bytes of nibbles, weight i in the low one of byte i, weight 16 + i in
//   the high one; 32 bytes for Q8_0. Q4_K, Q5_K and Q6_K are put in this order as well. Q2_K and
//   Q3_K: 8 bytes, two words of 16 weights each, the two bits of weight i in byte i % 4.
// - high, Q5_* and Q3_K: [four rows][unit][row of four], 32 bits; Q6_K: [row][unit], two words of
//   16 weights each. The bits of weight i are in byte i % 4, so that a shift and a mask put the
//   bits of four weights above the others.
// - fields: Q4_K and Q5_K: [row][256 weights], 16 bytes: d, dmin, 8 times 6 bits of scale and 6 of
//   min; IQ4_XS: [row][256 weights], 8 bytes: d, 8 times 2 high bits of scale, 8 times 4 low bits;
//   Q6_K, Q2_K, Q3_K: [four rows][unit][row of four], of both halves: an int8 each; 4 bits of scale
//   and 4 of min each; 4 low bits of scale each.
// - scales, [four rows][unit][row of four]: d in F16 and, where the format has it, m; of Q6_K and
//   Q2_K one for 256 weights; of MXFP4 one byte, the exponent. Q3_K: [four rows][256 weights], 24
//   bytes: of each row 16 times 2 high bits of scale, then of each row d.
// F32, F16 and BF16 stay as they are in a file. So do the blocks of IQ1, IQ2, IQ3, TQ1_0, TQ2_0 and
// NVFP4, in codes, [row][block], but for d in F16, which is in scales, [four rows][block][row of
// four].

/// Byte offsets of a matrix's arrays, each aligned to 256 bytes, and of its end.
struct SoaOffsets {
  std::size_t codes = 0, high = 0, fields = 0, scales = 0;
  std::size_t end = 0;
};
SoaOffsets soa_offsets(QuantFormat format, std::int64_t columns, std::int64_t rows);

/// The bytes of a matrix, a multiple of 256: as many per weight as in the file, with rows rounded
/// up to four where an array interleaves four rows.
std::size_t soa_bytes(QuantFormat format, std::int64_t columns, std::int64_t rows);

/// Some rows of a matrix.
struct RowRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Writes rows [first, first + count) of a matrix of `rows` rows, whose GGUF blocks are at `blocks`
/// on the device (the first row of the range first, any alignment). Other rows are left alone, so a
/// matrix may arrive in pieces. `columns`: a multiple of 32 and of the block.
void repack(QuantFormat format, std::int64_t columns, std::int64_t rows, RowRange range,
            const std::byte* blocks, std::byte* soa, const Stream& stream);

/// The arrays as kernels read them; null where the format has no such part.
struct SoaView {
  const std::uint8_t* codes = nullptr;
  const std::uint8_t* high = nullptr;
  const std::uint8_t* fields = nullptr;
  const std::uint8_t* scales = nullptr;
};
SoaView view_of(const DeviceMatrix& matrix);

}  // namespace rigcast::engine::cuda
