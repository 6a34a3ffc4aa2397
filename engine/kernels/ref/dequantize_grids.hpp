#pragma once
// Decoders of one block each: IQ1, IQ2 and IQ3, whose indices stand for points of grids, the
// ternary TQ1_0 and TQ2_0, and NVFP4. Any bytes are a block: an index has as many bits as its grid
// has points.

#include <cstdint>

namespace rigcast::engine::ref {

/// E4M3 without a sign, NVFP4's scale: `bits` are 0 to 255, of which the highest does not count.
/// The pattern that stands for no number, 0x7F, is 0, as ggml has it.
float unsigned_e4m3(int bits);

void iq1_s(const std::uint8_t* block, float* w);
void iq1_m(const std::uint8_t* block, float* w);
void iq2_xxs(const std::uint8_t* block, float* w);
void iq2_xs(const std::uint8_t* block, float* w);
void iq2_s(const std::uint8_t* block, float* w);
void iq3_xxs(const std::uint8_t* block, float* w);
void iq3_s(const std::uint8_t* block, float* w);
void tq1_0(const std::uint8_t* block, float* w);
void tq2_0(const std::uint8_t* block, float* w);
void nvfp4(const std::uint8_t* block, float* w);

}  // namespace rigcast::engine::ref
