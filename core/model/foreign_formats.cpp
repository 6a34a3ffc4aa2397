#include "core/model/foreign_formats.hpp"

#include <algorithm>
#include <cctype>
#include <string>

#include "core/model/quant_format.hpp"

namespace rigcast {
namespace {

struct BlockFormat {
  std::string_view name;
  int weights;  // in a block
  int bytes;
};

// Source: block layouts in ikawrakow/ik_llama.cpp, ggml/src/ggml-common.h, and the bits a weight
// that its pull requests 8 (IQ2_K to IQ5_K), 14 (IQ6_K), 83 and 89 (IQ4_KS, IQ4_KSS), 85 (IQ2_KS),
// 106 (Q6_0), 113 and 616 (_KT), 185 and 187 (IQ1_S_R4, IQ1_M_R4), 208 (Q8_KV), 422 (IQ5_KS), 566
// (IQ3_KS) and 602 (IQ2_KL) state.
constexpr BlockFormat kBlocks[] = {
    {"IQ1_KT", 256, 56},   {"IQ2_KT", 256, 68},  {"IQ3_KT", 256, 100}, {"IQ4_KT", 256, 128},
    {"IQ2_KS", 256, 70},   {"IQ3_KS", 256, 102}, {"IQ4_KS", 256, 136}, {"IQ5_KS", 256, 168},
    {"IQ4_KSS", 256, 128}, {"IQ2_KL", 256, 86},  {"IQ2_K", 256, 76},   {"IQ3_K", 256, 110},
    {"IQ4_K", 256, 144},   {"IQ5_K", 256, 176},  {"IQ6_K", 256, 212},  {"Q6_0", 32, 26},
    {"Q8_KV", 1, 1},       {"Q8_K", 256, 258},   {"IQ1_S_R4", 32, 6},  {"IQ1_M_R4", 32, 7},
};

std::string upper(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return char(std::toupper(c)); });
  return out;
}

std::optional<double> bits_of(std::string_view name) {
  for (const BlockFormat& f : kBlocks)
    if (f.name == name) return 8.0 * f.bytes / f.weights;
  for (const QuantFormatInfo& f : kQuantFormats)
    if (f.name == name) return f.bits_per_weight();
  return std::nullopt;
}

}  // namespace

std::optional<double> bits_of_block_format(std::string_view name) {
  std::string wanted = upper(name);
  if (const auto bits = bits_of(wanted)) return bits;
  for (const std::string_view rows : {"_R4", "_R8", "_R16"})
    if (wanted.ends_with(rows)) return bits_of(wanted.substr(0, wanted.size() - rows.size()));
  return std::nullopt;
}

}  // namespace rigcast
