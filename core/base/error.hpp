#pragma once
// Three kinds of failure, three mechanisms:
//   a programmer's error   -> RIGCAST_ASSERT, on in every build
//   bad input              -> Result<T>, with what, where and a hint
//   the machine failed     -> an exception derived from MachineError
// Nothing in core prints or exits.

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace rigcast {

/// A place in a file, or a command line option when line is 0. Lines and columns count from 1.
struct SourceRef {
  std::string file;
  int line = 0;
  int column = 0;

  std::string text() const;
};

enum class ErrorKind {
  kBadInput,    // exit code 2: what was asked for makes no sense
  kDoesNotFit,  // exit code 1: the answer is no
  kMachine,     // exit code 3: a file, a device or a library failed
};

struct Error {
  ErrorKind kind = ErrorKind::kBadInput;
  std::string message;
  std::string hint{};
  std::optional<SourceRef> where{};
  std::string key{};  // of the scenario or file, "kv.policy"; empty: it is about no single key

  /// "file:line:column: message", and the hint indented on the next line if there is one.
  std::string text() const;
};

inline Error bad_input(std::string message, std::string hint = {},
                       std::optional<SourceRef> where = {}) {
  return {ErrorKind::kBadInput, std::move(message), std::move(hint), std::move(where)};
}

/// A value or the reason why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return std::get<0>(state_); }
  const T& value() const& { return std::get<0>(state_); }
  T&& value() && { return std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

/// A file, a disk, a device or a library did not do its part.
class MachineError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The request needs more memory than there is: the answer is no, and nothing is broken.
class ShortOfMemory : public MachineError {
 public:
  using MachineError::MachineError;
};

namespace detail {
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line);
}

}  // namespace rigcast

#define RIGCAST_ASSERT(condition) \
  ((condition) ? void() : ::rigcast::detail::assertion_failed(#condition, __FILE__, __LINE__))
