#include "engine/runtime/npy.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <system_error>

namespace rigcast::engine {

NpyWriter::NpyWriter(const std::filesystem::path& target)
    : target_(target),
      temporary_(target.string() + fmt::format(".{}.part", ::getpid())),
      out_(temporary_, std::ios::binary | std::ios::trunc) {}

NpyWriter::~NpyWriter() {
  if (!out_.is_open()) return;
  out_.close();
  std::error_code ignored;
  std::filesystem::remove(temporary_, ignored);
}

Result<NpyWriter> NpyWriter::create(const std::filesystem::path& target, std::size_t rows,
                                    std::size_t columns) {
  NpyWriter writer(target);
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  // Magic, version and length take 10 bytes; data begin at a multiple of 64, after a line's end.
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  const std::uint16_t length = std::uint16_t(header.size());
  writer.out_ << "\x93NUMPY" << '\x01' << '\x00' << char(length & 255) << char(length >> 8)
              << header;
  if (auto error = writer.failed()) return *error;
  return writer;
}

std::optional<Error> NpyWriter::failed() const {
  if (out_) return std::nullopt;
  return Error{ErrorKind::kMachine, "cannot be written", {}, SourceRef{target_.string()}};
}

std::optional<Error> NpyWriter::write(std::span<const float> values) {
  out_.write(reinterpret_cast<const char*>(values.data()), std::streamsize(values.size_bytes()));
  return failed();
}

std::optional<Error> NpyWriter::finish() {
  out_.flush();
  if (auto error = failed()) return error;
  out_.close();
  std::error_code code;
  std::filesystem::rename(temporary_, target_, code);
  if (!code) return std::nullopt;
  return Error{ErrorKind::kMachine, code.message(), {}, SourceRef{target_.string()}};
}

}  // namespace rigcast::engine
