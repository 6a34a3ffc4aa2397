#include "engine/gguf/tensor_type.hpp"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace rigcast::engine {
namespace {

constexpr TensorType listed(std::uint32_t id, std::string_view name, std::uint32_t elements,
                            std::uint32_t bytes) {
  return {id, name, elements, bytes, std::nullopt};
}

constexpr std::array kListedOnly = {
    listed(9, "Q8_1", 32, 36), listed(15, "Q8_K", 256, 292), listed(24, "I8", 1, 1),
    listed(25, "I16", 1, 2),   listed(26, "I32", 1, 4),      listed(27, "I64", 1, 8),
    listed(28, "F64", 1, 8),   listed(41, "Q1_0", 128, 18),  listed(42, "Q2_0", 64, 18),
};

constexpr std::array<std::pair<std::uint32_t, std::string_view>, 8> kRemoved = {{
    {4, "Q4_2"},
    {5, "Q4_3"},
    {31, "Q4_0_4_4"},
    {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"},
    {36, "IQ4_NL_4_4"},
    {37, "IQ4_NL_4_8"},
    {38, "IQ4_NL_8_8"},
}};

std::vector<TensorType> all_types() {
  std::vector<TensorType> all(kListedOnly.begin(), kListedOnly.end());
  for (std::size_t i = 0; i < kQuantFormats.size(); ++i) {
    const QuantFormatInfo& f = kQuantFormats[i];
    if (!is_in_gguf(QuantFormat(i))) continue;
    all.push_back({f.gguf_type, f.name, f.block_elements, f.block_bytes, QuantFormat(i)});
  }
  std::ranges::sort(all, {}, &TensorType::id);
  return all;
}

}  // namespace

const TensorType* find_tensor_type(std::uint32_t id) {
  static const std::vector<TensorType> all = all_types();
  const auto at = std::ranges::lower_bound(all, id, {}, &TensorType::id);
  return at != all.end() && at->id == id ? &*at : nullptr;
}

std::string_view removed_tensor_type(std::uint32_t id) {
  const auto at =
      std::ranges::find(kRemoved, id, &std::pair<std::uint32_t, std::string_view>::first);
  return at == kRemoved.end() ? std::string_view{} : at->second;
}

}  // namespace rigcast::engine
