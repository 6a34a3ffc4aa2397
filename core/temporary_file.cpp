#include "core/temporary_file.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace rigcast {
namespace {

// Whoever takes a name out of its place has it to himself: its owner, or a signal handler.
constinit std::array<std::atomic<char*>, 64> names;  // what there is beyond that, its owner removes

char* listed(const std::string& path) {
  char* name = ::strdup(path.c_str());
  for (auto& place : names) {
    char* free = nullptr;
    if (name && place.compare_exchange_strong(free, name)) return name;
  }
  std::free(name);
  return nullptr;
}

void unlist(char* name) {
  for (auto& place : names)
    if (char* own = name; name && place.compare_exchange_strong(own, nullptr)) std::free(name);
}

}  // namespace

TemporaryFile::TemporaryFile(const std::filesystem::path& path)
    : path_(path.string()), listed_(listed(path_)) {}

TemporaryFile& TemporaryFile::operator=(TemporaryFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(listed_, other.listed_);
  return *this;
}

void TemporaryFile::remove() noexcept {
  if (!path_.empty()) ::unlink(path_.c_str());
  keep();
}

void TemporaryFile::keep() noexcept {
  unlist(std::exchange(listed_, nullptr));
  path_.clear();
}

void remove_temporary_files() noexcept {
  for (auto& place : names)
    if (char* const name = place.exchange(nullptr)) ::unlink(name);
}

}  // namespace rigcast
