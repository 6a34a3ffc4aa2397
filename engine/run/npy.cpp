#include "engine/run/npy.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>

namespace rigcast::engine {

Result<NpyWriter> NpyWriter::create(const std::filesystem::path& target, std::size_t rows,
                                    std::size_t columns) {
  auto out = OutputFile::create(target);
  if (!out) return out.error();
  NpyWriter writer(*std::move(out));
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  // Magic, version and length take 10 bytes; data begin at a multiple of 64, after a line's end.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  const std::uint16_t length = std::uint16_t(header.size());
  const std::string begin = {'\x93',           'N', 'U', 'M', 'P', 'Y', 1, 0, char(length & 255),
                             char(length >> 8)};
  const std::string all = begin + header;
  if (auto error = writer.out_.write(std::as_bytes(std::span(all)))) return *error;
  return writer;
}

std::optional<Error> NpyWriter::write(std::span<const float> values) {
  return out_.write(std::as_bytes(values));
}

}  // namespace rigcast::engine
