#pragma once
// Files that are removed when their owner is destroyed, and when an interrupt ends the program.

#include <filesystem>
#include <string>

namespace rigcast {

/// Owns a path, whose file is removed in the destructor or by remove_temporary_files(). It never
/// removes a file that another program created.
class TemporaryFile {
 public:
  TemporaryFile() = default;  // of nothing
  explicit TemporaryFile(const std::filesystem::path& path);
  ~TemporaryFile() { remove(); }
  TemporaryFile(TemporaryFile&& other) noexcept { *this = std::move(other); }
  TemporaryFile& operator=(TemporaryFile&& other) noexcept;

  const std::string& path() const { return path_; }
  void remove() noexcept;
  /// Keeps the file, which has another name by now.
  void keep() noexcept;

 private:
  std::string path_;        // empty: of nothing (any more)
  char* listed_ = nullptr;  // the same, as signal handlers see it
};

/// Removes all temporary files of the process before it ends. For signal handlers.
void remove_temporary_files() noexcept;

}  // namespace rigcast
