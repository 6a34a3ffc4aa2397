#pragma once
// A library that is loaded at run time if it is installed.

#include <initializer_list>

namespace rigcast::engine {

/// Stays loaded until the process ends: the driver may hold on to its code.
class SharedLibrary {
 public:
  /// Loads the first of these names that can be loaded; if none can, is_open() is false.
  explicit SharedLibrary(std::initializer_list<const char*> names);

  bool is_open() const { return library_ != nullptr; }
  /// The function, or null if the library lacks it.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  void* library_ = nullptr;
};

}  // namespace rigcast::engine
