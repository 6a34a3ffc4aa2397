#include "core/model/quant_format.hpp"

#include "core/base/error.hpp"

namespace rigcast {

std::uint64_t tensor_bytes(QuantFormat f, std::uint64_t row_elements, std::uint64_t rows) {
  const QuantFormatInfo& format = info(f);
  RIGCAST_ASSERT(row_elements % format.block_elements == 0);
  return row_elements / format.block_elements * format.block_bytes * rows;
}

}  // namespace rigcast
