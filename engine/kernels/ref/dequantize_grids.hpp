#pragma once
// Decoders of one block each: IQ1, IQ2 and IQ3, whose indices stand for points of grids, the
// ternary TQ1_0 and TQ2_0, and NVFP4. Any bytes are a block: an index has as many bits as its grid
// has points.

#include <cstdint>

namespace rigcast::engine::ref {

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
