#include "core/files/temporary_file.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace rigcast {
namespace {

// Whoever takes a name out of its place has it to himself: its owner, or a signal handler. That may
// free nothing, and leaves the names of files that it has removed to their owners.
using Names = std::array<std::atomic<char*>, 64>;  // what there is beyond that, its owner removes
constinit Names names, removed;

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
  if (!name) return;
  for (Names* list : {&names, &removed})
    for (auto& place : *list)
      if (char* own = name; place.compare_exchange_strong(own, nullptr)) return std::free(name);
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
  for (std::size_t i = 0; i < names.size(); ++i) {
    char* const name = names[i].exchange(nullptr);
    if (!name) continue;
    ::unlink(name);
    removed[i] = name;
  }
}

}  // namespace rigcast
