#pragma once
// Block formats of tensors, as ggml and servers of safetensors store them. Block sizes: ggml's
// public block definitions (ggml-org/llama.cpp, ggml/src/ggml-common.h); type ids:
// ggml/include/ggml.h.

#include <array>
#include <cstdint>
#include <string_view>

namespace rigcast {

enum class QuantFormat : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kIQ1_S,
  kIQ1_M,
  kIQ2_XXS,
  kIQ2_XS,
  kIQ2_S,
  kIQ3_XXS,
  kIQ3_S,
  kTQ1_0,
  kTQ2_0,
  kNVFP4,
  // Those below are known by size only: rigcast's engine has no code for them. Servers read them
  // from safetensors, and no GGUF file has them. Scales of whole channels or of
  // blocks of 128 x 128 are left out: 0.03 bits of a weight at most.
  kFP8,   // 8 bits with an exponent, E4M3
  kINT8,  // W8A8 of compressed-tensors
  kINT4,  // AWQ, GPTQ and W4A16: groups of 128 share a scale of 16 bits and a zero point of 4
};
inline constexpr int kQuantFormatCount = 29;
/// The first of them, which the engine computes with.
inline constexpr int kComputedFormatCount = 26;

inline constexpr std::uint32_t kNotInGguf = ~0u;

struct QuantFormatInfo {
  std::string_view name;         // as ggml prints it, "Q4_K"
  std::uint32_t block_elements;  // weights in one block
  std::uint32_t block_bytes;
  std::uint32_t gguf_type;  // the type id in a GGUF file; kNotInGguf: there is none

  constexpr double bits_per_weight() const { return 8.0 * block_bytes / block_elements; }
};

inline constexpr std::array<QuantFormatInfo, kQuantFormatCount> kQuantFormats = {{
    {"F32", 1, 4, 0},
    {"F16", 1, 2, 1},
    {"BF16", 1, 2, 30},
    {"Q4_0", 32, 18, 2},
    {"Q4_1", 32, 20, 3},
    {"Q5_0", 32, 22, 6},
    {"Q5_1", 32, 24, 7},
    {"Q8_0", 32, 34, 8},
    {"Q2_K", 256, 84, 10},
    {"Q3_K", 256, 110, 11},
    {"Q4_K", 256, 144, 12},
    {"Q5_K", 256, 176, 13},
    {"Q6_K", 256, 210, 14},
    {"IQ4_NL", 32, 18, 20},
    {"IQ4_XS", 256, 136, 23},
    {"MXFP4", 32, 17, 39},
    {"IQ1_S", 256, 50, 19},
    {"IQ1_M", 256, 56, 29},
    {"IQ2_XXS", 256, 66, 16},
    {"IQ2_XS", 256, 74, 17},
    {"IQ2_S", 256, 82, 22},
    {"IQ3_XXS", 256, 98, 18},
    {"IQ3_S", 256, 110, 21},
    {"TQ1_0", 256, 54, 34},
    {"TQ2_0", 256, 66, 35},
    {"NVFP4", 64, 36, 40},
    // known by size only
    {"FP8", 1, 1, kNotInGguf},
    {"INT8", 1, 1, kNotInGguf},
    {"INT4", 128, 67, kNotInGguf},
}};

constexpr const QuantFormatInfo& info(QuantFormat f) { return kQuantFormats[std::size_t(f)]; }

constexpr bool is_computed(QuantFormat f) { return int(f) < kComputedFormatCount; }

constexpr bool is_in_gguf(QuantFormat f) { return info(f).gguf_type != kNotInGguf; }

static_assert(is_computed(QuantFormat::kNVFP4) && !is_computed(QuantFormat::kFP8));
static_assert(info(QuantFormat::kQ4_K).bits_per_weight() == 4.5);
static_assert(info(QuantFormat::kQ6_K).bits_per_weight() == 6.5625);
static_assert(info(QuantFormat::kQ8_0).bits_per_weight() == 8.5);

/// Bytes of `rows` rows of `row_elements` weights. row_elements must be a multiple of the block.
std::uint64_t tensor_bytes(QuantFormat f, std::uint64_t row_elements, std::uint64_t rows);

}  // namespace rigcast
