#pragma once
// A cache of parsed files, each valid until a file it was read from changes.

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.hpp"

namespace rigcast {

/// Tells one state of a file from another. A file that is not there has a stamp, too.
struct FileStamp {
  std::filesystem::path file;
  std::filesystem::file_time_type written{};
  std::uintmax_t size = 0;

  explicit FileStamp(std::filesystem::path path);
  bool operator==(const FileStamp&) const = default;
};

/// Values by the file that they were read from. Errors are not kept. Safe for several threads.
template <class T>
class FileCache {
 public:
  /// Returns the cached result of `read(file)`, or reads again if the file has changed.
  /// `sources(value)` lists the other files from which the value was read.
  template <class Read, class Sources>
  Result<T> get(const std::filesystem::path& file, Read read, Sources sources) {
    const std::lock_guard lock(mutex_);
    const auto kept = values_.find(file);
    if (kept != values_.end() && is_current(kept->second.stamps)) return kept->second.value;
    FileStamp stamp(file);  // before reading: a later change is noticed
    Result<T> value = read(file);
    if (!value) return value;
    std::vector<FileStamp> stamps{std::move(stamp)};
    for (const std::filesystem::path& source : sources(*value)) stamps.emplace_back(source);
    values_.insert_or_assign(file, CachedEntry{std::move(stamps), *value});
    return value;
  }
  template <class Read>
  Result<T> get(const std::filesystem::path& file, Read read) {
    return get(file, read, [](const T&) { return std::vector<std::filesystem::path>{}; });
  }

 private:
  struct CachedEntry {
    std::vector<FileStamp> stamps;
    T value;
  };
  static bool is_current(const std::vector<FileStamp>& stamps) {
    for (const FileStamp& stamp : stamps)
      if (FileStamp(stamp.file) != stamp) return false;
    return true;
  }

  std::mutex mutex_;
  std::map<std::filesystem::path, CachedEntry> values_;
};

}  // namespace rigcast
