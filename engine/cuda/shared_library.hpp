#pragma once
// A library that the program starts without, and uses where it is.

#include <initializer_list>

namespace rigcast::engine {

/// Stays loaded until the process ends: the driver may hold on to its code.
class SharedLibrary {
 public:
  /// The first of these that can be loaded; none of them: is_open() is false.
  explicit SharedLibrary(std::initializer_list<const char*> names);

  bool is_open() const { return library_ != nullptr; }
  /// Null if the library lacks it.
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* symbol(const char* name) const;

  void* library_ = nullptr;
};

}  // namespace rigcast::engine
