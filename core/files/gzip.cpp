#include "core/files/gzip.hpp"

#include <zlib.h>

#include <memory>
#include <new>

#include "core/files/input_file.hpp"

namespace rigcast {
namespace {

constexpr int kGzip = 15 + 16;  // the largest window, with a gzip header
constexpr int kMemory = 9;

Error unreadable(const std::filesystem::path& file, const char* why) {
  return bad_input(why, {}, SourceRef{file.string()});
}

struct Close {
  void operator()(gzFile_s* file) const { ::gzclose(file); }
};

}  // namespace

Result<std::string> read_gzip(const std::filesystem::path& file, std::size_t max_bytes) {
  if (auto error = check_regular_file(file)) return *error;
  const std::unique_ptr<gzFile_s, Close> in(::gzopen(file.c_str(), "rb"));
  if (!in) return unreadable(file, "cannot be read");
  std::string text;
  char piece[65536];
  int n = 0;
  while ((n = ::gzread(in.get(), piece, sizeof piece)) > 0) {
    text.append(piece, std::size_t(n));
    if (text.size() > max_bytes) return unreadable(file, "holds more than is kept of runs");
  }
  int error = Z_OK;
  ::gzerror(in.get(), &error);
  if (error == Z_BUF_ERROR) return unreadable(file, "is cut short");
  if (n < 0 || error != Z_OK) return unreadable(file, "is damaged, or cannot be read");
  return text;
}

std::string gzip(std::string_view text) {
  z_stream stream{};
  if (::deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) !=
      Z_OK)
    throw std::bad_alloc();
  std::string out(::deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = uInt(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = uInt(out.size());
  ::deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  ::deflateEnd(&stream);
  return out;
}

}  // namespace rigcast
