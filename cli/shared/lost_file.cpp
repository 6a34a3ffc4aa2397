#include "cli/shared/lost_file.hpp"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstring>

#include "cli/shared/output.hpp"
#include "core/files/temporary_file.hpp"
#include "engine/gguf/mapping.hpp"

namespace rigcast::cli {
namespace {

// Signal handlers may call little more than write(). What a terminal would obey becomes blanks.
void say(const char* text) {
  char clean[512];
  std::size_t n = 0;
  for (; n < sizeof clean && text[n]; ++n)
    clean[n] = static_cast<unsigned char>(text[n]) < 0x20 ? ' ' : text[n];
  static_cast<void>(!::write(STDERR_FILENO, clean, n));
}

// Several threads read past a file's new end at once: the first one says so and ends the program,
// the others wait for that.
void wait_unless_first() {
  static std::atomic_flag told = ATOMIC_FLAG_INIT;
  while (told.test_and_set()) ::pause();
}

void end_program(int signal, siginfo_t* info, void*) {
  wait_unless_first();
  const char* const file = info->si_code > 0 ? engine::mapped_file(info->si_addr) : nullptr;
  remove_temporary_files();
  if (!file) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);  // it comes when this handler has returned
    return;
  }
  say("rigcast: ");
  say(file);
  say(": it was made shorter while it was read, or its disk fails");
  static_cast<void>(!::write(STDERR_FILENO, "\n", 1));
  ::_exit(kMachineFailed);
}

}  // namespace

void tell_of_lost_files() {
  struct sigaction action {};
  action.sa_sigaction = end_program;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace rigcast::cli
