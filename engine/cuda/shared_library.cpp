#include "engine/cuda/shared_library.hpp"

#include <dlfcn.h>

namespace rigcast::engine {

SharedLibrary::SharedLibrary(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (!library_) library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void* SharedLibrary::symbol(const char* name) const {
  return library_ ? ::dlsym(library_, name) : nullptr;
}

}  // namespace rigcast::engine
