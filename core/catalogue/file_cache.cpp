#include "core/catalogue/file_cache.hpp"

namespace rigcast {

FileStamp::FileStamp(std::filesystem::path path) : file(std::move(path)) {
  std::error_code missing;
  const auto time = std::filesystem::last_write_time(file, missing);
  if (missing) return;
  written = time;
  size = std::filesystem::file_size(file, missing);
}

}  // namespace rigcast
