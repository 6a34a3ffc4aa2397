#pragma once
// Quantizers of IQ1, IQ2 and IQ3, of the ternary formats and of NVFP4. `block` must be zeroed
// before. Every group's scale is the one that brings its largest magnitude to the grid's largest
// level, and every point the nearest: what makes these formats worth their bits, an importance of
// every weight, is not known here.

#include <cstdint>

namespace rigcast::engine::ref {

void quantize_iq1_s(const float* x, std::uint8_t* block);
void quantize_iq1_m(const float* x, std::uint8_t* block);
void quantize_iq2_xxs(const float* x, std::uint8_t* block);
void quantize_iq2_xs(const float* x, std::uint8_t* block);
void quantize_iq2_s(const float* x, std::uint8_t* block);
void quantize_iq3_xxs(const float* x, std::uint8_t* block);
void quantize_iq3_s(const float* x, std::uint8_t* block);
void quantize_tq1_0(const float* x, std::uint8_t* block);
void quantize_tq2_0(const float* x, std::uint8_t* block);
void quantize_nvfp4(const float* x, std::uint8_t* block);

}  // namespace rigcast::engine::ref
