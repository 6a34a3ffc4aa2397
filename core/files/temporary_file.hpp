#pragma once
// Files that nobody is to find later, also where an interrupt ends the program.

#include <filesystem>
#include <string>

namespace rigcast {

/// A name whose file is removed with this; remove_temporary_files() does it, too. Never of a file
/// that someone else made.
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
