#include "validation/runs/pressure/kernel_files.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace rigcast::validation {

namespace fs = std::filesystem;

Error failed_at(const fs::path& at, const std::string& what, std::string hint) {
  return {ErrorKind::kMachine, fmt::format("{}: {}", what, std::strerror(errno)), std::move(hint),
          SourceRef{at.string()}};
}

bool write_text(const fs::path& file, const std::string& text) {
  const int fd = ::open(file.c_str(), O_WRONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool done = ::write(fd, text.data(), text.size()) == ssize_t(text.size());
  const int kept = errno;
  ::close(fd);
  errno = kept;
  return done;
}

std::vector<fs::path> left_behind(const fs::path& folder, std::string_view prefix) {
  std::vector<fs::path> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const std::string number = name.substr(prefix.size());
    const bool is_number =
        !number.empty() && number.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && !fs::exists("/proc/" + number, none)) found.push_back(entry.path());
  }
  return found;
}

}  // namespace rigcast::validation
