#pragma once
// A process of its own beside a run, as other programs of the machine are: its memory and what it
// reads are not this process's.

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/base/error.hpp"
#include "core/base/units.hpp"

namespace rigcast::validation {

/// Works from start() until the object's end, or this process's.
class OtherProgram {
 public:
  using Work = std::function<void(std::atomic<std::uint64_t>& bytes)>;

  /// `prepare` runs at once, `work` from start() on, and adds to `bytes` what it has read. Both run
  /// in a copy of this process, in which system calls and no memory of the heap are safe to use;
  /// what this process writes until start() it writes twice, so begin before memory is large.
  /// Errors: kMachine.
  static Result<std::unique_ptr<OtherProgram>> begin(const std::function<bool()>& prepare,
                                                     const Work& work);
  ~OtherProgram();
  OtherProgram(const OtherProgram&) = delete;
  OtherProgram& operator=(const OtherProgram&) = delete;

  void start();
  /// What it has read since it was started.
  BytesPerSecond rate() const;

 private:
  struct Shared {
    std::atomic<bool> ready{false}, go{false};
    std::atomic<std::uint64_t> bytes{0};
  };
  OtherProgram() = default;
  void run(const std::function<bool()>& prepare, const Work& work);
  bool wait_until_ready();

  Shared* shared_ = nullptr;  // memory of both processes
  ::pid_t child_ = -1;
  std::chrono::steady_clock::time_point started_;
};

}  // namespace rigcast::validation
