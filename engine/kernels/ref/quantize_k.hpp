#pragma once
// Quantizers of K-quants: blocks of 256 weights, whose groups have quantized scales. `block` must
// be zeroed before.

#include <cstdint>

namespace rigcast::engine::ref {

void quantize_q2_k(const float* x, std::uint8_t* block);
void quantize_q3_k(const float* x, std::uint8_t* block);
void quantize_q4_k(const float* x, std::uint8_t* block);
void quantize_q5_k(const float* x, std::uint8_t* block);
void quantize_q6_k(const float* x, std::uint8_t* block);
void quantize_iq4_xs(const float* x, std::uint8_t* block);

}  // namespace rigcast::engine::ref
