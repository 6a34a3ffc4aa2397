#include "core/model/quant_format.hpp"

#include <algorithm>
#include <cctype>

#include "core/base/error.hpp"

namespace rigcast {

std::optional<QuantFormat> quant_format_from(std::string_view name) {
  const auto same = [](char a, char b) {
    return std::toupper(static_cast<unsigned char>(a)) ==
           std::toupper(static_cast<unsigned char>(b));
  };
  for (std::size_t i = 0; i < kQuantFormats.size(); ++i)
    if (std::ranges::equal(kQuantFormats[i].name, name, same)) return QuantFormat(i);
  return std::nullopt;
}

std::uint64_t tensor_bytes(QuantFormat f, std::uint64_t row_elements, std::uint64_t rows) {
  const QuantFormatInfo& format = info(f);
  RIGCAST_ASSERT(row_elements % format.block_elements == 0);
  return row_elements / format.block_elements * format.block_bytes * rows;
}

}  // namespace rigcast
